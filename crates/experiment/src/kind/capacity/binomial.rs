//! Binomial distribution for up to 64 trials: the B-blocks of a slice, or the 4KB frames of a region.

/// Distribution of the number of successes in independent trials.
#[derive(Clone, Copy, Debug)]
pub struct Binomial {
    trials: u32,
    probability: f64,
}

impl Binomial {
    /// Creates the distribution for `trials` trials with this probability of success.
    ///
    /// # Panics
    /// With more than 64 trials.
    pub fn new(trials: u32, probability: f64) -> Self {
        assert!(trials <= 64, "binomial coefficients of more trials are no exact numbers here");
        Self { trials, probability }
    }

    /// Returns the probability of exactly `successes` successes.
    pub fn exactly(self, successes: u32) -> f64 {
        if successes > self.trials {
            return 0.0;
        }
        // Each division has no remainder, because its result is a smaller binomial coefficient.
        let ways = (0..successes).fold(1_u128, |ways, index| {
            ways * u128::from(self.trials - index) / u128::from(index + 1)
        });
        let failures = (self.trials - successes) as i32;
        ways as f64
            * self.probability.powi(successes as i32)
            * (1.0 - self.probability).powi(failures)
    }

    /// Returns the probability of at least `successes` successes. Small terms are added first, for accuracy.
    pub fn at_least(self, successes: u32) -> f64 {
        let mut terms: Vec<f64> =
            (successes..=self.trials).map(|successes| self.exactly(successes)).collect();
        terms.sort_by(f64::total_cmp);
        terms.iter().sum::<f64>().min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_coins() {
        let coins = Binomial::new(3, 0.5);
        let exactly: Vec<f64> = (0..=4).map(|heads| coins.exactly(heads)).collect();
        assert_eq!(exactly, [0.125, 0.375, 0.375, 0.125, 0.0]);
        assert_eq!(coins.at_least(2), 0.5);
        assert_eq!(coins.at_least(0), 1.0);
    }

    #[test]
    fn certain_and_impossible() {
        assert_eq!(Binomial::new(64, 1.0).exactly(64), 1.0);
        assert_eq!(Binomial::new(64, 0.0).exactly(0), 1.0);
        assert_eq!(Binomial::new(64, 1.0).at_least(32), 1.0);
        assert_eq!(Binomial::new(64, 0.0).at_least(1), 0.0);
    }

    /// C(64, 32) = 1 832 624 140 942 590 534; the distribution is symmetric for probability ½.
    #[test]
    fn sixty_four_fair_trials() {
        let middle = Binomial::new(64, 0.5).exactly(32);
        assert!((middle - 1_832_624_140_942_590_534.0 / 2_f64.powi(64)).abs() < 1e-16);
        let half = (1.0 - middle) / 2.0;
        assert!((Binomial::new(64, 0.5).at_least(33) - half).abs() < 1e-14);
        let whole: f64 = (0..=64).map(|k| Binomial::new(64, 0.37).exactly(k)).sum();
        assert!((whole - 1.0).abs() < 1e-14);
    }
}
