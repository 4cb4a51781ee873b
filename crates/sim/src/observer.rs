//! Observers of a run: progress and cancellation.

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Number of instructions that the simulations have received so far.
    pub done: u64,
    /// Total number of instructions; `None` if unknown.
    pub total: Option<u64>,
}

/// Observer of a run, which follows its progress and may cancel it. A closure receives the progress
/// only.
pub trait Observer {
    /// Receives the progress at intervals during the run.
    fn on_progress(&mut self, _: Progress) {}

    /// Returns true to cancel the run, which then ends within a few thousand instructions.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Returns true if results need maps of physical memory. Making the maps takes longer than a
    /// short run.
    fn wants_maps(&self) -> bool {
        true
    }
}

impl<F: FnMut(Progress)> Observer for F {
    fn on_progress(&mut self, progress: Progress) {
        self(progress);
    }
}

/// Observer with a closure for the progress, for runs without maps of physical memory.
pub struct FiguresOnly<F>(pub F);

impl<F: FnMut(Progress)> Observer for FiguresOnly<F> {
    fn on_progress(&mut self, progress: Progress) {
        (self.0)(progress);
    }

    fn wants_maps(&self) -> bool {
        false
    }
}

/// Observer that ignores the progress and never cancels.
pub struct Silent;

impl Observer for Silent {}

/// Observer of two passes over a workload. It reports the progress of both together.
pub(crate) struct TwoPassProgress<'a> {
    pub(crate) observer: &'a mut dyn Observer,
    /// Number of instructions of the first pass; 0 during the first pass.
    pub(crate) before: u64,
    /// Number of instructions delivered so far in this pass.
    pub(crate) done: u64,
}

impl Observer for TwoPassProgress<'_> {
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
