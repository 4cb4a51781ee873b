//! Thresholds of verdicts and remarks. They stand here and nowhere else.

/// A predicted effect agrees if it differs from the measured one by at most this share of it.
pub const EFFECT_TOLERANCE: f64 = 0.25;
/// A predicted time agrees if the larger of the two times is at most this much longer than the other.
pub const TIME_TOLERANCE: f64 = 0.25;
/// A ratio this close to 1 is no effect.
pub(super) const NO_EFFECT: f64 = 0.02;
/// Measured effects that spread to either side by more than this share of their median confirm nothing.
pub(super) const MAX_NOISE: f64 = 0.50;
/// Assumptions whose errors, as shares of the measured effects, differ by no more than this cannot be
/// distinguished.
pub(super) const INDISTINGUISHABLE: f64 = 0.05;

/// Below this share of a benchmark's memory in 2MB pages, or of its groups of consecutive frames, a
/// remark says so.
pub(super) const MOSTLY: f64 = 0.95;
/// Below this share of a program's memory in 2MB pages, a remark says so.
pub(super) const PROGRAM_LARGE_SHARE: f64 = 0.5;
/// A chase that takes this many times as long as predicted gets a remark.
pub(super) const SLOW_CHASE: f64 = 2.0;
/// Above this ratio of elapsed to processor time, a remark says that the processor was shared.
pub(super) const SHARED_PROCESSOR: f64 = 1.1;
/// Programs with less user time than this are too short for the kernel's clock.
pub(super) const SHORT_PROGRAM_SECONDS: f64 = 0.1;
