//! Deterministic random numbers: a small counter-based generator, so that a number depends only on its seed.

/// Random-number generator SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    /// Creates a stream of random numbers that depends on all three arguments: seed of the run, number of the
    /// purpose, and number of the item (such as a 2MB region) within the purpose.
    pub fn new(seed: u64, purpose: u64, item: u64) -> Self {
        let mut random = Self(seed);
        for part in [purpose, item] {
            random.0 = random.next() ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        random
    }

    /// Returns the next 64 random bits.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an endless stream ends with no None")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a uniform number less than `bound`. The bias is below 2⁻⁵⁰ for the bounds used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
