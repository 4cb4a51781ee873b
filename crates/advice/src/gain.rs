//! Gain curves: misses saved against memory spent.

use serde::Serialize;

use crate::PageOrder;

/// Page size for one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Index of the piece.
    pub piece: usize,
    /// Page size of its memory.
    pub order: PageOrder,
}

/// State after the first so many choices of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GainPoint {
    /// Number of choices that are in effect.
    pub choices: usize,
    /// Page walks that are left, first touches of pages not counted.
    pub walks: u64,
    /// Resident memory beyond that with 4KB pages, in bytes.
    pub additional_bytes: u64,
}

/// Choices in order of walks saved for each byte of additional memory, and the walks that are left after
/// the first 0, 1, 2, … of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GainCurve {
    /// Choices, the best first.
    pub choices: Vec<Choice>,
    /// One point more than there are choices, unless several choices were simulated at once.
    pub points: Vec<GainPoint>,
}
