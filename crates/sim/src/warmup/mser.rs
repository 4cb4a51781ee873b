//! The marginal standard error rule for the end of a transient, MSER-5: White, An effective
//! truncation heuristic for bias reduction in simulation output, Simulation 69(6), 1997.

/// Number of consecutive slices of the run whose counts are added to one batch.
pub(crate) const BATCH: usize = 5;
/// Smallest number of batches that must remain after the first ones are dropped, because fewer
/// could agree by chance.
const LEFT: usize = 5;

/// Returns the number of batches to drop at the beginning. This cut minimises the sum of squared
/// deviations of the remaining batches from their mean, divided by the square of their number. Of
/// equally good cuts, the smallest is returned. All sums are integers, so rounding does not affect
/// the result.
pub(crate) fn cut(batches: &[u64]) -> usize {
    let (mut sum, mut squares) = (0u128, 0u128);
    let mut best = (f64::INFINITY, 0);
    for (cut, &batch) in batches.iter().enumerate().rev() {
        sum += u128::from(batch);
        squares += u128::from(batch) * u128::from(batch);
        let left = batches.len() - cut;
        if left < LEFT {
            continue;
        }
        let deviations = left as u128 * squares - sum * sum;
        let statistic = deviations as f64 / (left as f64).powi(3);
        if statistic <= best.0 {
            best = (statistic, cut);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_by_hand() {
        let batches = [8, 6, 3, 3, 3, 3, 3, 3];
        // Cut 0: mean 4, squares 16 + 4 + 6 = 26, ÷ 64 = 0.406. Cut 1: mean 24/7, squares 7.714,
        // ÷ 49 = 0.157. Cut 2: 0.
        assert_eq!(cut(&batches), 2);
        // A batch that is off in the middle is no transient: cut 0: mean 3.5, squares 2 × … = 14,
        // ÷ 64 = 0.219; cut 3 would leave 5 with one off: squares 12.8 ÷ 25 = 0.512.
        assert_eq!(cut(&[3, 3, 3, 7, 3, 3, 3, 3]), 0);
        assert_eq!(cut(&[9; 40]), 0, "nothing to leave out");
        assert_eq!(cut(&[]), 0);
    }

    #[test]
    fn the_last_few_are_not_trusted_alone() {
        // Cut 6 would leave two that are alike; cut 3 leaves 5.
        assert!(cut(&[1, 5, 2, 6, 1, 5, 4, 4]) <= 3);
    }
}
