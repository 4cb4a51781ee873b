//! Progress of long measurements.

use perforate_sim::Progress;

/// Receives the progress of a measurement that has several stages.
pub trait Reporter {
    /// A new stage begins. Its progress is counted in `unit`.
    fn stage(&mut self, name: &str, unit: &'static str);

    /// Progress of the current stage.
    fn progress(&mut self, progress: Progress);
}
