//! Thresholds of verdicts and remarks. They stand here and nowhere else.

/// A prediction this close to the measured median agrees.
pub const TOLERANCE: f64 = 0.10;
/// A ratio this close to 1 is no effect.
pub(super) const NO_EFFECT: f64 = 0.05;
/// Measurements that spread over more than this share of their median are too noisy.
pub(super) const MAX_SPREAD: f64 = 0.50;
/// Assumptions whose typical errors differ by no more than this cannot be distinguished.
pub(super) const INDISTINGUISHABLE: f64 = 0.02;

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
