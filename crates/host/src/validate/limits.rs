//! Thresholds of verdicts and notes.

/// Largest error of a predicted effect of 2MB pages (speed-up minus 1), as a share of the measured effect, at
/// which the prediction agrees with the measurement.
pub const EFFECT_TOLERANCE: f64 = 0.25;
/// Largest excess of the longer over the shorter of predicted and measured time, as a share, at which the
/// predicted time agrees.
pub const TIME_TOLERANCE: f64 = 0.25;
/// Largest distance from 1 at which the ratio of the times with 4KB and with 2MB pages counts as no effect.
pub(super) const NO_EFFECT: f64 = 0.02;
/// Largest distance of the minimum or maximum measured effect from the median, as a share of the median, at
/// which a prediction can count as agreeing; beyond, the verdict is "too noisy".
pub(super) const MAX_NOISE: f64 = 0.50;
/// Largest difference between the relative errors of two assumptions about the host's page tables that count
/// as equally good.
pub(super) const INDISTINGUISHABLE: f64 = 0.05;

/// Share of a benchmark's memory that is in 2MB pages, or of its aligned groups of four 4KB pages that lie in
/// consecutive frames, below which a note is added to the outcome.
pub(super) const MOSTLY: f64 = 0.95;
/// Share of a program's memory in 2MB pages below which a note is added to the outcome.
pub(super) const PROGRAM_LARGE_SHARE: f64 = 0.5;
/// Ratio of measured to predicted time of a pointer chase above which a note is added to the outcome.
pub(super) const SLOW_CHASE: f64 = 2.0;
/// Ratio of elapsed to processor time above which a note says that the processor was shared.
pub(super) const SHARED_PROCESSOR: f64 = 1.1;
/// User time in seconds below which a program is too short for the kernel's clock.
pub(super) const SHORT_PROGRAM_SECONDS: f64 = 0.1;
