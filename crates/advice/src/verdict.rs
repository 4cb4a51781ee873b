//! Verdict on large pages for a program, from timed runs.

use perforate_records::{AdviceVerdict, SpeedRecord, WORTH_EFFORT};

use crate::ModelError;

/// Relative gain that sampling must leave out before a small gain counts as known to be small.
const MAY_BE: f64 = 0.05;
/// Least additional memory, as a share of the program's, that counts as a cost.
const LEAST_COST: f64 = 0.02;

/// Combines predictions of one speed-up under several assumptions, such as the pages of a host that cannot be
/// seen: pairs of mean and half width. The speed is the mean of all predictions, and the range holds all of
/// them. `None` without predictions.
pub fn speed_of(predictions: &[(f64, f64)], error: &ModelError) -> Option<SpeedRecord> {
    let ranges = predictions.iter().map(|&(mean, half)| error.range(mean, half));
    let (low, high) = ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
    let number = predictions.len() as f64;
    let sum = |part: fn(&(f64, f64)) -> f64| predictions.iter().map(part).sum::<f64>();
    Some(SpeedRecord {
        speed: sum(|(mean, _)| *mean) / number,
        sampling_half_width: sum(|(_, half)| *half) / number,
        low,
        high,
    })
}

/// True if the speed-up is worth an effort and more than its error.
fn is_gain(speed: &SpeedRecord) -> bool {
    speed.speed - 1.0 >= WORTH_EFFORT && speed.low > 1.0
}

/// Facts that a verdict is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Speed as recommended over the speed as it is now.
    pub gain: SpeedRecord,
    /// Speed with translation that costs nothing over the speed as it is now; `None` if it was not timed.
    pub free: Option<SpeedRecord>,
    /// Share of the page walks with 4KB pages that are the first access to a page, 0–1.
    pub first_touch_share: f64,
    /// Speed as it is now over the speed with 4KB pages.
    pub gained: SpeedRecord,
    /// Large pages that the program has as it is now, at their peak.
    pub large_pages_now: u64,
    /// Memory beyond that with 4KB pages that the program has now, in bytes.
    pub additional_bytes_now: u64,
    /// Memory of the program with 4KB pages, in bytes.
    pub resident_bytes: u64,
}

impl Outcome {
    /// Judges the outcome of timed runs.
    pub fn verdict(&self) -> AdviceVerdict {
        let Self { gain, gained, .. } = self;
        // What goes beyond free translation comes from where data lie in memory, which is by chance.
        let by_translation = self.free.filter(|free| free.speed < gain.speed);
        if is_gain(&by_translation.unwrap_or(*gain).of_long_run(self.first_touch_share)) {
            return AdviceVerdict::Worth;
        }
        if self.large_pages_now > 0 {
            let cost = self.additional_bytes_now as f64;
            if is_gain(gained) {
                return AdviceVerdict::AlreadyOn;
            }
            if gained.speed - 1.0 < WORTH_EFFORT && cost >= LEAST_COST * self.resident_bytes as f64
            {
                return AdviceVerdict::CostsMemory;
            }
        }
        if gain.speed - 1.0 >= WORTH_EFFORT || gain.speed + gain.sampling_half_width - 1.0 >= MAY_BE
        {
            AdviceVerdict::Unclear
        } else {
            AdviceVerdict::NotWorth
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(speed: f64, low: f64, high: f64) -> SpeedRecord {
        SpeedRecord { speed, sampling_half_width: 0.0, low, high }
    }

    /// An outcome of a program that has no large pages now.
    fn outcome(gain: SpeedRecord) -> Outcome {
        Outcome {
            gain,
            free: None,
            first_touch_share: 0.0,
            gained: speed(1.0, 0.98, 1.02),
            large_pages_now: 0,
            additional_bytes_now: 0,
            resident_bytes: 1000,
        }
    }

    fn verdict(
        gain: SpeedRecord,
        gained: SpeedRecord,
        large_pages_now: u64,
        cost: u64,
    ) -> AdviceVerdict {
        Outcome { gained, large_pages_now, additional_bytes_now: cost, ..outcome(gain) }.verdict()
    }

    #[test]
    fn each_verdict_has_its_case() {
        let (none, much) = (speed(1.0, 0.98, 1.02), speed(1.21, 1.13, 1.29));
        let unsure = speed(1.03, 0.99, 1.05);
        assert_eq!(verdict(much, none, 0, 0), AdviceVerdict::Worth);
        assert_eq!(verdict(none, none, 0, 0), AdviceVerdict::NotWorth);
        assert_eq!(verdict(unsure, none, 0, 0), AdviceVerdict::Unclear);
        assert_eq!(verdict(none, much, 10, 500), AdviceVerdict::AlreadyOn);
        assert_eq!(verdict(none, none, 10, 20), AdviceVerdict::CostsMemory);
        assert_eq!(verdict(none, none, 10, 19), AdviceVerdict::NotWorth);
        assert_eq!(verdict(none, none, 0, 500), AdviceVerdict::NotWorth, "not by large pages");
        assert_eq!(verdict(much, much, 10, 500), AdviceVerdict::Worth, "more can be had");
    }

    #[test]
    fn what_may_be_large_by_sampling_is_not_clear() {
        let none = speed(1.0, 0.98, 1.02);
        let sampled = |speed, sampling_half_width| SpeedRecord {
            speed,
            sampling_half_width,
            low: 0.5,
            high: 1.5,
        };
        assert_eq!(verdict(sampled(1.008, 0.043), none, 0, 0), AdviceVerdict::Unclear);
        assert_eq!(verdict(sampled(1.008, 0.041), none, 0, 0), AdviceVerdict::NotWorth);
        assert_eq!(verdict(sampled(0.90, 0.09), none, 0, 0), AdviceVerdict::NotWorth, "slower");
    }

    /// A gain beyond that of free translation does not count.
    #[test]
    fn free_translation_bounds_what_is_worth_it() {
        let much = speed(1.21, 1.13, 1.29);
        let with = |free| Outcome { free: Some(free), ..outcome(much) }.verdict();
        assert_eq!(with(speed(1.003, 1.001, 1.006)), AdviceVerdict::Unclear);
        assert_eq!(with(speed(1.05, 0.99, 1.06)), AdviceVerdict::Unclear);
        assert_eq!(with(speed(1.05, 1.02, 1.06)), AdviceVerdict::Worth);
        assert_eq!(
            with(speed(1.30, 0.99, 1.50)),
            AdviceVerdict::Worth,
            "more than large pages gain"
        );
    }

    /// A gain of 21 % counts if 1 % remains in a long run.
    #[test]
    fn first_accesses_alone_are_not_worth_it() {
        let much = speed(1.21, 1.13, 1.29);
        let with = |first_touch_share| Outcome { first_touch_share, ..outcome(much) }.verdict();
        assert_eq!(with(0.95), AdviceVerdict::Worth);
        assert_eq!(with(0.96), AdviceVerdict::Unclear);
        assert_eq!(with(1.0), AdviceVerdict::Unclear);
    }

    #[test]
    fn the_range_holds_all_assumptions() {
        let error = ModelError {
            factor: (0.5, 2.0),
            difference: (-0.01, 0.01),
            pairs: 1,
            sources: Vec::new(),
        };
        let range = speed_of(&[(1.1, 0.0), (1.3, 0.02)], &error).unwrap();
        let is_near = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        assert!(is_near(range.speed, 1.2) && is_near(range.sampling_half_width, 0.01), "{range:?}");
        assert!(is_near(range.low, 1.05) && is_near(range.high, 1.64), "{range:?}");
        assert_eq!(speed_of(&[], &error), None);
    }
}
