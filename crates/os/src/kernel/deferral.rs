//! Deferral of repeated searches that found nothing.

/// Limit of the exponent: after n failed searches in a row, 2ⁿ − 1 searches are skipped, at most 63
/// (Linux: `defer_compaction`, COMPACT_MAX_DEFER_SHIFT).
const MOST_DEFERRED_SHIFT: u32 = 6;

/// Exponential backoff of searches for a suitable 2MB block: after each failed search, more are skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deferral {
    /// Failed searches in a row, at most [`MOST_DEFERRED_SHIFT`].
    failures: u32,
    /// Number of searches still to skip.
    deferred: u32,
}

impl Deferral {
    /// Returns true if the search should run now; otherwise counts it as skipped.
    pub fn is_due(&mut self) -> bool {
        let due = self.deferred == 0;
        self.deferred = self.deferred.saturating_sub(1);
        due
    }

    /// Records that a search found no suitable block.
    pub fn failed(&mut self) {
        self.failures = (self.failures + 1).min(MOST_DEFERRED_SHIFT);
        self.deferred = (1 << self.failures) - 1;
    }

    /// Ends the backoff: a search succeeded, or may succeed again.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fruitless_searches_become_rare() {
        let mut deferral = Deferral::default();
        let mut skipped = Vec::new();
        for _ in 0..8 {
            skipped.push((0..).take_while(|_| !deferral.is_due()).count());
            deferral.failed();
        }
        assert_eq!(skipped, [0, 1, 3, 7, 15, 31, 63, 63]);
        deferral.reset();
        assert!(deferral.is_due() && deferral.is_due());
    }
}
