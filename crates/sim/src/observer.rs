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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two passes are twice the run; the second goes on where the first ended.
    #[test]
    fn progress_of_two_passes_is_one() {
        struct Told(Vec<(u64, Option<u64>)>, bool);
        impl Observer for Told {
            fn on_progress(&mut self, progress: Progress) {
                self.0.push((progress.done, progress.total));
            }
            fn is_cancelled(&self) -> bool {
                self.1
            }
            fn wants_maps(&self) -> bool {
                !self.1
            }
        }
        for answer in [false, true] {
            let mut told = Told(Vec::new(), answer);
            let mut pass = TwoPassProgress { observer: &mut told, before: 700, done: 0 };
            pass.on_progress(Progress { done: 20, total: Some(1_000) });
            pass.on_progress(Progress { done: 30, total: None });
            assert_eq!((pass.before, pass.done), (700, 30));
            assert_eq!((pass.is_cancelled(), pass.wants_maps()), (answer, !answer));
            assert_eq!(told.0, [(720, Some(2_000)), (730, None)]);
        }
    }

    #[test]
    fn observers_by_default_let_runs_end_and_want_maps() {
        assert!(Silent.wants_maps() && !Silent.is_cancelled());
        let mut told = 0;
        let mut closure = |progress: Progress| told += progress.done;
        closure.on_progress(Progress { done: 3, total: None });
        assert!(closure.wants_maps() && !closure.is_cancelled());
        let mut figures = FiguresOnly(|progress: Progress| told += 10 * progress.done);
        figures.on_progress(Progress { done: 3, total: None });
        assert!(!figures.wants_maps() && !figures.is_cancelled());
        assert_eq!(told, 33);
    }
}
