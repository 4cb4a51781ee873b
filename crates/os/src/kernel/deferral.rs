//! Searches that found nothing are not made again too soon.

/// After the n-th fruitless search in a row, 2ⁿ − 1 are left out, at most 63 (Linux:
/// `defer_compaction`, COMPACT_MAX_DEFER_SHIFT).
const MOST_DEFERRED_SHIFT: u32 = 6;

/// When to search again for what was not found: ever more rarely.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deferral {
    /// Searches in vain since the last that found something, at most [`MOST_DEFERRED_SHIFT`].
    failures: u32,
    /// Searches still to be left out.
    deferred: u32,
}

impl Deferral {
    /// Whether to search now; one that is left out is counted.
    pub fn is_due(&mut self) -> bool {
        let due = self.deferred == 0;
        self.deferred = self.deferred.saturating_sub(1);
        due
    }

    /// Nothing was found.
    pub fn failed(&mut self) {
        self.failures = (self.failures + 1).min(MOST_DEFERRED_SHIFT);
        self.deferred = (1 << self.failures) - 1;
    }

    /// Something was found, or there is reason to hope.
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
        let mut left_out = Vec::new();
        for _ in 0..8 {
            left_out.push((0..).take_while(|_| !deferral.is_due()).count());
            deferral.failed();
        }
        assert_eq!(left_out, [0, 1, 3, 7, 15, 31, 63, 63]);
        deferral.reset();
        assert!(deferral.is_due() && deferral.is_due());
    }
}
