//! Progress reports of long measurements.

use perforate_sim::Progress;

/// Receiver of progress from a measurement with several stages.
pub trait Reporter {
    /// Called when a stage begins. Its progress is counted in `unit`.
    fn stage(&mut self, name: &str, unit: &'static str);

    /// Called with the progress of the current stage.
    fn progress(&mut self, progress: Progress);
}
