//! Workload that continuously frees memory and allocates new memory.

use std::ops::Range;

use perforate_types::Random;

use crate::Pattern;
use crate::patterns::WORD_BYTES;
use crate::source::PAGE_BYTES;

/// Pattern of the workload `churn`: random accesses to all data. After a number of accesses, a random piece
/// of the data is unmapped, mapped again, and filled by one write per page.
pub(super) struct Churn {
    words: u64,
    pieces: u64,
    piece_bytes: u64,
    accesses_between: u64,
    /// Number of random accesses until the next piece of the data is replaced.
    left: u64,
    /// Byte range of the new piece that is not filled yet.
    unfilled: Range<u64>,
    random: Random,
}

impl Churn {
    pub(super) fn new(size_bytes: u64, piece_bytes: u64, accesses_between: u64, seed: u64) -> Self {
        let piece_bytes = piece_bytes.min(size_bytes) / PAGE_BYTES * PAGE_BYTES;
        Self {
            words: size_bytes / WORD_BYTES,
            pieces: size_bytes / piece_bytes,
            piece_bytes,
            accesses_between,
            left: accesses_between,
            unfilled: 0..0,
            random: Random::new(seed),
        }
    }
}

impl Pattern for Churn {
    #[inline]
    fn next_offset(&mut self) -> u64 {
        if self.unfilled.is_empty() {
            self.left = self.left.saturating_sub(1);
            return self.random.below(self.words) * WORD_BYTES;
        }
        let offset = self.unfilled.start;
        self.unfilled.start += PAGE_BYTES;
        offset
    }

    const RENEWS: bool = true;

    fn renews(&mut self) -> Option<Range<u64>> {
        if self.left > 0 || !self.unfilled.is_empty() {
            return None;
        }
        self.left = self.accesses_between;
        let start = self.random.below(self.pieces) * self.piece_bytes;
        self.unfilled = start..start + self.piece_bytes;
        Some(self.unfilled.clone())
    }

    fn fills(&self) -> bool {
        !self.unfilled.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_filled_when_it_is_new() {
        let mut churn = Churn::new(10 * 4096, 9000, 3, 1);
        assert_eq!((churn.pieces, churn.piece_bytes), (5, 8192));
        for _ in 0..3 {
            assert!(churn.renews().is_none() && !churn.fills());
            assert!(churn.next_offset() < 10 * 4096);
        }
        let piece = churn.renews().unwrap();
        assert_eq!((piece.start % 8192, piece.end - piece.start), (0, 8192));
        for page in [0, 4096] {
            assert!(churn.fills() && churn.renews().is_none());
            assert_eq!(churn.next_offset(), piece.start + page);
        }
        assert!(!churn.fills() && churn.renews().is_none(), "three accesses first");
    }
}
