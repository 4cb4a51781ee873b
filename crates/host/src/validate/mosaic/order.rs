//! Order of runs, and ratios of their times.

use perforate_types::Random;

/// Order in which the layouts run in a round: a permutation of all layouts, and then the same
/// layouts in reverse. Steady drift of the machine then affects all layouts equally.
pub(super) fn order(round: u32, layouts: usize) -> Vec<usize> {
    let mut random = Random::keyed(u64::from(round) + 1, 0, 0);
    let mut order: Vec<usize> = (0..layouts).collect();
    for last in (1..layouts).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    let backwards: Vec<usize> = order.iter().rev().copied().collect();
    order.extend(backwards);
    order
}

/// Durations of a program's runs, by round and layout.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rounds {
    /// Seconds by round and layout, summed over the layout's two runs in the round.
    seconds: Vec<Vec<f64>>,
}

impl Rounds {
    /// Begins a round of runs with this number of layouts.
    pub fn begin(&mut self, layouts: usize) {
        self.seconds.push(vec![0.0; layouts]);
    }

    /// Adds a run with `layout` of `seconds` seconds to the current round.
    pub fn add(&mut self, layout: usize, seconds: f64) {
        if let Some(round) = self.seconds.last_mut() {
            round[layout] += seconds;
        }
    }

    /// Ratio of the time with the first layout to the time with this layout, for each round.
    pub fn ratios(&self, layout: usize) -> Vec<f64> {
        self.seconds.iter().map(|round| round[0] / round[layout]).collect()
    }

    /// Mean duration of a run with this layout in seconds, for each round.
    pub fn seconds(&self, layout: usize) -> Vec<f64> {
        self.seconds.iter().map(|round| round[layout] / 2.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_runs_twice_a_round_and_drift_cancels() {
        for round in 0..4 {
            let order = order(round, 5);
            assert_eq!(order.len(), 10);
            let mut rounds = Rounds::default();
            rounds.begin(5);
            // The simulated machine slows down by a tenth of a second per run.
            order.iter().enumerate().for_each(|(run, layout)| {
                rounds.add(*layout, 1.0 + 0.1 * run as f64);
            });
            for layout in 0..5 {
                assert_eq!(order.iter().filter(|other| **other == layout).count(), 2);
                assert!((rounds.ratios(layout)[0] - 1.0).abs() < 1e-12);
            }
        }
        assert_ne!(order(0, 8), order(1, 8));
        assert_eq!(order(3, 8), order(3, 8));
    }

    #[test]
    fn ratios_by_hand() {
        let mut rounds = Rounds::default();
        for [base, other] in [[2.0, 1.0], [3.0, 2.0]] {
            rounds.begin(2);
            for _ in 0..2 {
                rounds.add(0, base);
                rounds.add(1, other);
            }
        }
        assert_eq!(rounds.ratios(1), [2.0, 1.5]);
        assert_eq!(rounds.ratios(0), [1.0, 1.0]);
        assert_eq!(rounds.seconds(1), [1.0, 2.0]);
    }
}
