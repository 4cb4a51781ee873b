//! Seeded pseudo-random numbers and permutations.

/// The SplitMix64 generator (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014):
/// one addition and a mixing function per number. Every seed is suitable.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Makes a generator from a seed and two arbitrary constants. Generators with different seeds or
    /// constants give independent numbers.
    pub(super) fn keyed(seed: u64, purpose: u64, item: u64) -> Self {
        let mut random = Self(seed);
        for part in [purpose, item] {
            random.0 = random.next() ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        random
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Generates a uniformly distributed number below `bound`; the bias is at most `bound` ÷ 2⁶⁴.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }

    /// Generates a uniformly distributed number from 0 up to, but excluding, 1.
    #[inline]
    pub(super) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Generates a uniformly distributed number below `bound`; the bias is at most `bound` ÷ 2⁵³.
    #[inline]
    pub(super) fn evenly(&mut self, bound: u64) -> u64 {
        (self.fraction() * bound as f64) as u64
    }
}

/// Maps a 64-bit number evenly to the numbers below `bound`.
#[inline]
pub(super) fn scale(number: u64, bound: u64) -> u64 {
    ((u128::from(number) * u128::from(bound)) >> 64) as u64
}

/// A seeded permutation of the numbers below `count`, computed rather than stored.
///
/// It permutes the numbers below the next power of two, in rounds of invertible steps (multiplication
/// by an odd number, addition, xor with the high bits). It repeats this while the result is not below
/// `count` (cycle walking), less than twice on average.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); 3],
}

impl Permutation {
    pub(super) fn new(count: u64, random: &mut Random) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        Self {
            count,
            mask: if bits == 0 { 0 } else { u64::MAX >> (64 - bits) },
            shift: bits.div_ceil(2).max(1),
            rounds: std::array::from_fn(|_| (random.next() | 1, random.next())),
        }
    }

    #[inline]
    pub(super) fn apply(&self, number: u64) -> u64 {
        let mut number = number;
        loop {
            for (factor, addend) in self.rounds {
                number = number.wrapping_mul(factor).wrapping_add(addend) & self.mask;
                number ^= number >> self.shift;
            }
            if number < self.count {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_published_numbers() {
        // First outputs for seed 1234567 in the reference implementation's test vectors.
        let mut random = Random::new(1_234_567);
        let numbers = [random.next(), random.next(), random.next()];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn a_permutation_hits_every_number_once() {
        for count in [1, 2, 3, 7, 8, 1000, 4096, 4097] {
            let permutation = Permutation::new(count, &mut Random::new(count));
            let mut seen = vec![false; count as usize];
            for number in 0..count {
                let place = permutation.apply(number) as usize;
                assert!(!std::mem::replace(&mut seen[place], true), "{place} of {count} twice");
            }
        }
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
