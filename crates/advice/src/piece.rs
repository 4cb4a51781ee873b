//! Pieces: the parts of areas that advice distinguishes.

use std::ops::Range;

use serde::Serialize;

use crate::AreaId;

/// Part of an area, between two multiples of 2MB or the ends of the area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// Area to which the piece belongs.
    pub area: AreaId,
    /// Addresses in bytes, multiples of 4096.
    pub bytes: Range<u64>,
}

/// Use that a program makes of one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PieceUse {
    /// Number of accesses.
    pub accesses: u64,
    /// Numbers of aligned blocks of 2ⁿ × 4KB that were touched or populated, by order n from 0 to 18.
    pub touched_blocks: Vec<u64>,
    /// Number of 4KB pages that were written after a fork while shared with the other process: each is a copy.
    pub pages_copied: u64,
}
