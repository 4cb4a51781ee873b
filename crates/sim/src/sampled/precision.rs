//! Early end of runs with sampled timing, when the requested precision is reached.

use perforate_config::Share;
use perforate_records::Interval;

use crate::sampled::TimedWindows;
use crate::stretches::PartCounts;

/// Precision at which a run ends, and the interval between checks.
pub(crate) struct PrecisionRule {
    precision: Share,
    /// Number of instructions between two checks.
    pub(crate) period: u64,
}

impl PrecisionRule {
    pub(crate) fn new(windows: TimedWindows, precision: Share) -> Self {
        Self { precision, period: windows.period }
    }

    /// True if the results of all schemes have reached the precision.
    pub(crate) fn is_met(&self, schemes: &[Vec<PartCounts>]) -> bool {
        let windows = schemes.iter().map(Vec::len).min().unwrap_or(0);
        let is_enough = |width: f64| width <= self.precision.value();
        windows >= TimedWindows::LEAST && widest(schemes).is_some_and(is_enough)
    }
}

/// Returns half the width of the widest 95 % confidence interval, as a share of the mean. The
/// intervals are those of each scheme's cycles per instruction, and of its speed relative to the
/// first scheme, from pairs of equal windows. `None` if there are too few windows.
pub(crate) fn widest<T: AsRef<[PartCounts]>>(schemes: &[T]) -> Option<f64> {
    let of = |scheme: &T, part: fn(&PartCounts) -> u64| -> Vec<u64> {
        scheme.as_ref().iter().map(part).collect()
    };
    let cycles: Vec<Vec<u64>> = schemes.iter().map(|it| of(it, |tally| tally.cycles)).collect();
    let mut widest = 0.0f64;
    for (scheme, own) in schemes.iter().zip(&cycles) {
        let instructions = of(scheme, |tally| tally.instructions);
        for base in [&instructions, &cycles[0]] {
            let Interval { mean, half_width_95 } = Interval::of_quotient(own, base)?;
            widest = widest.max(half_width_95? / mean);
        }
    }
    Some(widest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(cycles: &[u64]) -> Vec<PartCounts> {
        let window = |&cycles| PartCounts { instructions: 100, cycles, ..PartCounts::default() };
        cycles.iter().map(window).collect()
    }

    /// Cycles vary by ±10 % around 200. Their standard deviation is 20.34 in 30 windows, the standard
    /// error 3.71, the half-width 7.6 or 3.8 % (29 degrees of freedom: 2.045).
    #[test]
    fn enough_is_known_of_cycles_and_of_ratios() {
        let varying: Vec<u64> = (0..30).map(|number| 180 + 40 * (number % 2)).collect();
        let one = windows(&varying);
        let found = widest(&[&one]).unwrap();
        assert!((found - 0.0380).abs() < 0.0001, "{found}");
        let rule =
            |hundredths| PrecisionRule { precision: Share::percent(hundredths), period: 1000 };
        assert!(
            rule(4).is_met(std::slice::from_ref(&one))
                && !rule(3).is_met(std::slice::from_ref(&one))
        );
        assert!(!rule(4).is_met(&[one[..28].to_vec()]), "too few windows");
        // The second scheme varies as much in the opposite direction, so no ratio is known to 4 %.
        let contrary: Vec<u64> = (1..31).map(|number| 180 + 40 * (number % 2)).collect();
        assert!(!rule(4).is_met(&[one.clone(), windows(&contrary)]));
        let twice: Vec<u64> = varying.iter().map(|cycles| 2 * cycles).collect();
        assert!(rule(4).is_met(&[one, windows(&twice)]), "the ratio is exact");
        assert_eq!(widest(&[windows(&[7])]), None);
    }
}
