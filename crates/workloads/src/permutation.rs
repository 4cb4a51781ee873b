//! Seeded permutations.

use perforate_types::Random;

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
}
