//! Seeded pseudo-random numbers.

/// The SplitMix64 generator (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014):
/// one addition and a mixing function per number, the same on every machine. Every seed is suitable.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Creates a generator from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a generator whose numbers depend on all three arguments: the seed of a run, the number of a purpose,
    /// and the number of an item (such as a 2MB region) within the purpose.
    pub fn keyed(seed: u64, purpose: u64, item: u64) -> Self {
        let mut random = Self(seed);
        for part in [purpose, item] {
            random.0 = random.next() ^ part.wrapping_mul(Self::STEP);
        }
        random
    }

    /// Returns the next 64 random bits.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an endless stream ends with no None")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a uniformly distributed number below `bound`; the bias is at most `bound` ÷ 2⁶⁴.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        scaled(self.next(), bound)
    }

    /// Returns a uniformly distributed number from 0 up to, but excluding, 1.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a uniformly distributed number below `bound`; the bias is at most `bound` ÷ 2⁵³.
    #[inline]
    pub fn evenly(&mut self, bound: u64) -> u64 {
        (self.fraction() * bound as f64) as u64
    }
}

/// Maps a 64-bit number evenly to the numbers below `bound`.
#[inline]
pub fn scaled(number: u64, bound: u64) -> u64 {
    ((u128::from(number) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of the reference implementation by S. Vigna.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let numbers: [u64; 5] = std::array::from_fn(|_| random.next());
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn numbers_below_a_bound_are_evenly_distributed() {
        let mut random = Random::new(5);
        let numbers: [fn(&mut Random, u64) -> u64; 2] = [Random::below, Random::evenly];
        for number in numbers {
            let mut counts = [0; 10];
            (0..10_000).for_each(|_| counts[number(&mut random, 10) as usize] += 1);
            assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        }
        let keys = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)];
        let mut first = keys.map(|(seed, one, two)| Random::keyed(seed, one, two).next()).to_vec();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 4);
    }
}
