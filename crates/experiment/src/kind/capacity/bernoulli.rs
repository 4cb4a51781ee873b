//! Random 64-bit words whose bits are independently set with a given probability.

use perforate_types::Random;

/// Generator of independent random bits that are set with the same probability, 64 bits at a time.
///
/// A bit is set if a random number is below the probability. The 64 numbers are generated digit by digit, in
/// binary, until each differs from the probability. This takes about eight random words instead of 64.
#[derive(Clone, Copy, Debug)]
pub struct Bernoulli {
    /// Binary digits of the probability after the binary point; `None` for a probability of 1.
    digits: Option<u64>,
}

impl Bernoulli {
    /// Creates a generator for bits with this probability, exact to 2⁻⁵³.
    pub fn new(probability: f64) -> Self {
        let digits = (probability < 1.0).then_some((probability.max(0.0) * 2_f64.powi(64)) as u64);
        Self { digits }
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn word(self, random: &mut Random) -> u64 {
        let Some(mut digits) = self.digits else { return u64::MAX };
        let (mut below, mut equal) = (0, u64::MAX);
        // Numbers that are equal to all remaining nonzero digits are not below the probability.
        while equal != 0 && digits != 0 {
            let drawn = random.next();
            if digits >> 63 != 0 {
                below |= equal & !drawn;
                equal &= drawn;
            } else {
                equal &= !drawn;
            }
            digits <<= 1;
        }
        below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_bits() {
        let mut random = Random::keyed(1, 2, 3);
        assert_eq!(Bernoulli::new(0.0).word(&mut random), 0);
        assert_eq!(Bernoulli::new(1.0).word(&mut random), u64::MAX);
    }

    /// Probability ½ has a single binary digit, so the word is the complement of one random word.
    #[test]
    fn a_half_is_one_draw() {
        let expected = !Random::keyed(7, 0, 0).next();
        assert_eq!(Bernoulli::new(0.5).word(&mut Random::keyed(7, 0, 0)), expected);
    }

    /// Probability 0.11₂: a number is below it if its first digit is 0, or if its first two digits are 10.
    #[test]
    fn two_digits_by_hand() {
        let mut random = Random::keyed(7, 0, 0);
        let (first, second) = (random.next(), random.next());
        let drawn = Bernoulli::new(0.75).word(&mut Random::keyed(7, 0, 0));
        assert_eq!(drawn, !first | (first & !second));
    }

    /// Frequencies of single bits and of adjacent pairs are within five standard deviations.
    #[test]
    fn bits_have_their_probability_and_are_independent() {
        const WORDS: u64 = 20_000;
        for probability in [0.001, 0.055, 1.0 / 3.0, 0.6, 0.987_654_321] {
            let bits = Bernoulli::new(probability);
            let mut random = Random::keyed(11, 0, 0);
            let (mut ones, mut pairs) = (0, 0);
            for _ in 0..WORDS {
                let word = bits.word(&mut random);
                ones += u64::from(word.count_ones());
                pairs += u64::from((word & word.rotate_left(1)).count_ones());
            }
            let total = (WORDS * 64) as f64;
            let near = |count: u64, expected: f64| {
                let deviation = (expected * (1.0 - expected) / total).sqrt();
                // Overlapping pairs are correlated, which increases the deviation by up to √3.
                (count as f64 / total - expected).abs() < 5.0 * 3_f64.sqrt() * deviation
            };
            assert!(near(ones, probability) && near(pairs, probability * probability));
        }
    }

    /// Draws end as soon as every bit is decided: after about log₂ 64 + 1⅓ draws, and at once for certain bits.
    #[test]
    fn a_word_takes_as_many_draws_as_its_bits_need() {
        let draws = |probability: f64, words: usize| {
            let (mut random, mut again) = (Random::keyed(3, 0, 0), Random::keyed(3, 0, 0));
            for _ in 0..words {
                Bernoulli::new(probability).word(&mut random);
            }
            let next = random.next();
            (0..).find(|_| again.next() == next).unwrap()
        };
        assert_eq!((draws(0.0, 10), draws(1.0, 10), draws(0.25, 10)), (0, 0, 20));
        assert!((6_800..7_900).contains(&draws(1.0 / 3.0, 1000)));
    }
}
