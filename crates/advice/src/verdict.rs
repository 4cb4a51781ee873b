//! Verdict on large pages for a program, from timed runs.

use crate::ModelError;

/// Least relative change of the speed that is worth an effort.
pub const WORTH_EFFORT: f64 = 0.01;
/// Relative gain that sampling must leave out before a small gain counts as known to be small.
const MAY_BE: f64 = 0.05;
/// Least additional memory, as a share of the program's, that counts as a cost.
const LEAST_COST: f64 = 0.02;

/// A predicted speed-up with the range of the real one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedRange {
    /// Predicted speed-up: cycles before ÷ cycles after.
    pub mean: f64,
    /// Half the width of its 95 % interval from sampling; 0 if unknown.
    pub sampling: f64,
    /// Ends of the range with the error of the prediction.
    pub range: (f64, f64),
}

impl SpeedRange {
    /// Makes a range from predictions of one speed-up under several assumptions, such as the pages of a host
    /// that cannot be seen: pairs of mean and half width. The mean is that of all, and the range holds all
    /// of them. `None` without predictions.
    pub fn of(predictions: &[(f64, f64)], error: &ModelError) -> Option<Self> {
        let ranges = predictions.iter().map(|&(mean, half)| error.range(mean, half));
        let range = ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        let number = predictions.len() as f64;
        let sum = |part: fn(&(f64, f64)) -> f64| predictions.iter().map(part).sum::<f64>();
        Some(Self {
            mean: sum(|(mean, _)| *mean) / number,
            sampling: sum(|(_, half)| *half) / number,
            range,
        })
    }

    /// True if the speed-up is worth an effort and more than its error.
    fn is_gain(&self) -> bool {
        self.mean - 1.0 >= WORTH_EFFORT && self.range.0 > 1.0
    }
}

/// Facts that a verdict is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Speed as recommended over the speed as it is now.
    pub gain: SpeedRange,
    /// Speed with translation that costs nothing over the speed as it is now; `None` if it was not timed.
    pub free: Option<SpeedRange>,
    /// Speed as it is now over the speed with 4KB pages.
    pub gained: SpeedRange,
    /// Large pages that the program has as it is now, at their peak.
    pub large_pages_now: u64,
    /// Memory beyond that with 4KB pages that the program has now, in bytes.
    pub additional_bytes_now: u64,
    /// Memory of the program with 4KB pages, in bytes.
    pub resident_bytes: u64,
}

/// Answer to the question whether a program should use large pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Large pages make the program faster by more than the error of the prediction.
    Worth,
    /// The program has large pages where they gain anything.
    AlreadyOn,
    /// Large pages that the program has now gain nothing and cost memory.
    CostsMemory,
    /// The predicted gain is worth an effort, but the error of the prediction is larger, or less of the gain comes
    /// from translation; or it is small, and parts of the program differ so much that it may be 5 %.
    Unclear,
    /// The gain is too small.
    NotWorth,
}

impl Verdict {
    /// Judges the outcome of timed runs.
    pub fn of(outcome: &Outcome) -> Self {
        let Outcome { gain, gained, .. } = outcome;
        // What goes beyond free translation comes from where data lie in memory, which is by chance.
        let by_translation = outcome.free.filter(|free| free.mean < gain.mean);
        if by_translation.unwrap_or(*gain).is_gain() {
            return Self::Worth;
        }
        if outcome.large_pages_now > 0 {
            let cost = outcome.additional_bytes_now as f64;
            if gained.is_gain() {
                return Self::AlreadyOn;
            }
            if gained.mean - 1.0 < WORTH_EFFORT
                && cost >= LEAST_COST * outcome.resident_bytes as f64
            {
                return Self::CostsMemory;
            }
        }
        if gain.mean - 1.0 >= WORTH_EFFORT || gain.mean + gain.sampling - 1.0 >= MAY_BE {
            Self::Unclear
        } else {
            Self::NotWorth
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(mean: f64, low: f64, high: f64) -> SpeedRange {
        SpeedRange { mean, sampling: 0.0, range: (low, high) }
    }

    fn verdict(gain: SpeedRange, gained: SpeedRange, large_pages_now: u64, cost: u64) -> Verdict {
        Verdict::of(&Outcome {
            gain,
            free: None,
            gained,
            large_pages_now,
            additional_bytes_now: cost,
            resident_bytes: 1000,
        })
    }

    #[test]
    fn each_verdict_has_its_case() {
        let (none, much) = (speed(1.0, 0.98, 1.02), speed(1.21, 1.13, 1.29));
        let unsure = speed(1.03, 0.99, 1.05);
        assert_eq!(verdict(much, none, 0, 0), Verdict::Worth);
        assert_eq!(verdict(none, none, 0, 0), Verdict::NotWorth);
        assert_eq!(verdict(unsure, none, 0, 0), Verdict::Unclear);
        assert_eq!(verdict(none, much, 10, 500), Verdict::AlreadyOn);
        assert_eq!(verdict(none, none, 10, 20), Verdict::CostsMemory);
        assert_eq!(verdict(none, none, 10, 19), Verdict::NotWorth);
        assert_eq!(verdict(none, none, 0, 500), Verdict::NotWorth, "not by large pages");
        assert_eq!(verdict(much, much, 10, 500), Verdict::Worth, "more can be had");
    }

    #[test]
    fn what_may_be_large_by_sampling_is_not_clear() {
        let none = speed(1.0, 0.98, 1.02);
        let sampled = |mean, sampling| SpeedRange { mean, sampling, range: (0.5, 1.5) };
        assert_eq!(verdict(sampled(1.008, 0.043), none, 0, 0), Verdict::Unclear);
        assert_eq!(verdict(sampled(1.008, 0.041), none, 0, 0), Verdict::NotWorth);
        assert_eq!(verdict(sampled(0.90, 0.09), none, 0, 0), Verdict::NotWorth, "slower");
    }

    /// A gain beyond that of free translation does not count.
    #[test]
    fn free_translation_bounds_what_is_worth_it() {
        let (none, much) = (speed(1.0, 0.98, 1.02), speed(1.21, 1.13, 1.29));
        let with = |free| {
            Verdict::of(&Outcome {
                gain: much,
                free: Some(free),
                gained: none,
                large_pages_now: 0,
                additional_bytes_now: 0,
                resident_bytes: 1000,
            })
        };
        assert_eq!(with(speed(1.003, 1.001, 1.006)), Verdict::Unclear);
        assert_eq!(with(speed(1.05, 0.99, 1.06)), Verdict::Unclear);
        assert_eq!(with(speed(1.05, 1.02, 1.06)), Verdict::Worth);
        assert_eq!(with(speed(1.30, 0.99, 1.50)), Verdict::Worth, "more than large pages gain");
    }

    #[test]
    fn the_range_holds_all_assumptions() {
        let error = ModelError {
            factor: (0.5, 2.0),
            difference: (-0.01, 0.01),
            pairs: 1,
            sources: Vec::new(),
        };
        let range = SpeedRange::of(&[(1.1, 0.0), (1.3, 0.02)], &error).unwrap();
        let is_near = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        assert!(is_near(range.mean, 1.2) && is_near(range.sampling, 0.01), "{range:?}");
        assert!(is_near(range.range.0, 1.05) && is_near(range.range.1, 1.64), "{range:?}");
        assert_eq!(SpeedRange::of(&[], &error), None);
    }
}
