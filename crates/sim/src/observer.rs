//! The listener of a run.

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Instructions delivered so far.
    pub done: u64,
    /// Instructions in all, if known.
    pub total: Option<u64>,
}

/// Listener of a run: hears its progress and may cancel it. A closure hears the progress only.
pub trait Observer {
    /// Hears the progress, now and then.
    fn on_progress(&mut self, _: Progress) {}

    /// True once the run is no longer needed. It then ends within a few thousand instructions.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// True if results have maps of memory, which take longer to make than a short run.
    fn wants_maps(&self) -> bool {
        true
    }
}

impl<F: FnMut(Progress)> Observer for F {
    fn on_progress(&mut self, progress: Progress) {
        self(progress);
    }
}

/// Observer that hears the progress of a run without maps of memory.
pub struct FiguresOnly<F>(pub F);

impl<F: FnMut(Progress)> Observer for FiguresOnly<F> {
    fn on_progress(&mut self, progress: Progress) {
        (self.0)(progress);
    }

    fn wants_maps(&self) -> bool {
        false
    }
}

/// Observer that listens to nothing.
pub struct Silent;

impl Observer for Silent {}

/// The second of two runs of everything, or the first: progress is that of both.
pub(crate) struct OfTwoRuns<'a> {
    pub(crate) observer: &'a mut dyn Observer,
    /// Instructions of the first run; 0 during the first run.
    pub(crate) before: u64,
    /// Instructions delivered so far in this run.
    pub(crate) done: u64,
}

impl Observer for OfTwoRuns<'_> {
    fn on_progress(&mut self, Progress { done, total }: Progress) {
        self.done = done;
        let total = total.map(|total| total.saturating_mul(2));
        self.observer.on_progress(Progress { done: self.before + done, total });
    }

    fn is_cancelled(&self) -> bool {
        self.observer.is_cancelled()
    }

    fn wants_maps(&self) -> bool {
        self.observer.wants_maps()
    }
}
