//! Advice on large pages, verified: a program measured as it is and with the advice, and a prediction
//! judged by that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Interval;

/// Smallest gain (ratio of times minus 1) that is worth having: 2 %.
pub const LEAST_GAIN: f64 = 0.02;

/// Kind of time whose ratio is measured or predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Processor time in user and kernel mode, which other programs disturb least.
    #[default]
    Processor,
    /// Processor time in user mode.
    User,
    /// Elapsed time, which includes waiting for other programs.
    Wall,
}

/// Ratio of the time of a program as it is to the time with advice, with an interval. Above 1, advice gains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GainRatio {
    /// Estimate of the ratio.
    pub ratio: f64,
    /// Lower end of the interval. Equal to `ratio` if the ratio is exact.
    pub low: f64,
    /// Upper end of the interval. Equal to `ratio` if the ratio is exact.
    pub high: f64,
}

impl GainRatio {
    /// Geometric mean of ratios, with the 95 % confidence interval of the mean of their logarithms. One
    /// ratio has no interval: its ends are 0 and infinity. `None` without ratios.
    pub fn of_pairs(ratios: &[f64]) -> Option<Self> {
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let mean = Interval::of_values(&logarithms)?;
        let half = mean.half_width_95.unwrap_or(f64::INFINITY);
        let [ratio, low, high] = [mean.mean, mean.mean - half, mean.mean + half].map(f64::exp);
        Some(Self { ratio, low, high })
    }

    /// Judges if a gain is worth having.
    pub fn worth(&self) -> Worth {
        let Self { ratio, low, high } = *self;
        if ratio >= 1.0 + LEAST_GAIN && low > 1.0 {
            Worth::Gain
        } else if ratio <= 1.0 - LEAST_GAIN && high < 1.0 {
            Worth::Loss
        } else if low >= 1.0 - 2.0 * LEAST_GAIN && high <= 1.0 + 2.0 * LEAST_GAIN {
            Worth::Nothing
        } else {
            Worth::Unclear
        }
    }
}

/// Judgement of a ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Worth {
    /// The program gains [`LEAST_GAIN`] or more, and the interval excludes a loss.
    Gain,
    /// The program loses [`LEAST_GAIN`] or more, and the interval excludes a gain.
    Loss,
    /// The interval excludes gains and losses of twice [`LEAST_GAIN`].
    Nothing,
    /// The interval is too wide for a judgement.
    Unclear,
}

impl Worth {
    /// True if the advice should be followed.
    pub fn is_worth_it(self) -> bool {
        self == Self::Gain
    }
}

/// Judgement of a prediction by a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Both say that the advice is worth following, or both say that it is not.
    Right,
    /// One says that the advice is worth following, and the other that it is not.
    Wrong,
    /// The interval of one or both is too wide to say.
    WithinError,
}

impl Judgement {
    /// Judges a predicted ratio by the measured one.
    pub fn of(measured: &GainRatio, predicted: &GainRatio) -> Self {
        match (measured.worth(), predicted.worth()) {
            (Worth::Unclear, _) | (_, Worth::Unclear) => Self::WithinError,
            (one, other) if one.is_worth_it() == other.is_worth_it() => Self::Right,
            _ => Self::Wrong,
        }
    }
}

/// Resident memory of an area, and its part in large pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AreaPages {
    /// Resident memory of the area in bytes.
    pub resident_bytes: u64,
    /// Memory of the area in page-table entries of 2MB, in bytes.
    pub large_bytes: u64,
}

impl AreaPages {
    /// Share of the resident memory in large pages, 0–1; 0 if nothing is resident.
    pub fn large_share(&self) -> f64 {
        if self.resident_bytes == 0 {
            return 0.0;
        }
        self.large_bytes as f64 / self.resident_bytes as f64
    }
}

/// One measured run of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifiedRun {
    /// True for a run with the advice.
    pub is_advised: bool,
    /// Elapsed time in seconds.
    pub wall_seconds: f64,
    /// Processor time in user mode in seconds, of the program and its ended children.
    pub user_seconds: f64,
    /// Processor time in kernel mode in seconds, of the program and its ended children.
    pub system_seconds: f64,
    /// Page faults of the program and its ended children.
    pub page_faults: u64,
    /// Largest resident memory in bytes of the program or of one of its ended children; absent if it is less than that
    /// of the process which started it, as Linux cannot say then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_resident_bytes: Option<u64>,
    /// Counts of hardware events in user mode by name; empty where there are no counters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// Pages of each area of [`Verification::areas`], in the sample with the most resident memory.
    pub areas: Vec<AreaPages>,
}

impl VerifiedRun {
    /// Time of the run in seconds.
    pub fn seconds(&self, clock: Clock) -> f64 {
        match clock {
            Clock::Processor => self.user_seconds + self.system_seconds,
            Clock::User => self.user_seconds,
            Clock::Wall => self.wall_seconds,
        }
    }
}

/// Area of a program's memory in a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifiedArea {
    /// Name of the area, such as `heap` or `mapping:3:0-1G`.
    pub name: String,
    /// True if the advice asks for large pages in the area.
    pub is_advised: bool,
}

/// Result of running a program as it is and with advice on large pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Command line of the program, shortened.
    pub program: String,
    /// Setting `transparent_hugepage/enabled` of the system: `always`, `madvise` or `never`.
    pub setting: String,
    /// Measured runs in the order in which they were made: as it is, advised, advised, as it is, and the
    /// next round in the opposite order.
    pub runs: Vec<VerifiedRun>,
    /// Areas of the program's memory: those of the advice, then the rest by kind.
    pub areas: Vec<VerifiedArea>,
    /// Kind of time that the prediction is for, and that is judged.
    pub clock: Clock,
    /// Measured ratio of that time, as it is ÷ advised, over pairs of successive runs.
    pub measured: GainRatio,
    /// Predicted ratio; `None` if nothing was predicted.
    pub predicted: Option<GainRatio>,
    /// Reason why the runs say nothing about the advice, such as that it gave the program no large page; `None`
    /// if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmeasured: Option<String>,
    /// Judgement of the prediction; `None` without a prediction, and if the runs say nothing about the advice.
    pub judgement: Option<Judgement>,
    /// |measured − predicted| ÷ |measured effect|, where effects are ratios minus 1. `None` without a
    /// judgement, and if the measured effect is smaller than [`LEAST_GAIN`].
    pub effect_error: Option<f64>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Verification {
    /// Measured ratio of a kind of time, as it is ÷ advised, over pairs of successive runs. `None` if there
    /// is no pair, or a time is 0.
    pub fn ratio(runs: &[VerifiedRun], clock: Clock) -> Option<GainRatio> {
        let ratios = runs.as_chunks::<2>().0.iter().map(|pair| {
            let seconds = |is_advised| {
                let run = pair.iter().find(|run| run.is_advised == is_advised);
                run.map(|run| run.seconds(clock)).filter(|seconds| *seconds > 0.0)
            };
            Some(seconds(false)? / seconds(true)?)
        });
        GainRatio::of_pairs(&ratios.collect::<Option<Vec<f64>>>()?)
    }

    /// Error of a predicted effect as a share of the measured effect; `None` if none was measured: it is smaller than
    /// [`LEAST_GAIN`], or its interval includes no effect.
    pub fn error_of_effect(measured: &GainRatio, predicted: &GainRatio) -> Option<f64> {
        let effect = (measured.ratio - 1.0).abs();
        let error = (measured.ratio - predicted.ratio).abs() / effect;
        matches!(measured.worth(), Worth::Gain | Worth::Loss).then_some(error)
    }

    /// Median of a value over the runs with or without the advice; `None` without runs, or if the value of some run is
    /// not known.
    pub fn median(
        &self,
        is_advised: bool,
        value: impl Fn(&VerifiedRun) -> Option<f64>,
    ) -> Option<f64> {
        let runs = self.runs.iter().filter(|run| run.is_advised == is_advised);
        let mut values: Vec<f64> = runs.map(value).collect::<Option<_>>()?;
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        Some(f64::midpoint(values[last / 2], values[values.len() / 2]))
    }

    /// Pages of the area with this index: medians over the runs with or without the advice.
    pub fn pages(&self, is_advised: bool, area: usize) -> AreaPages {
        let median = |bytes: fn(&AreaPages) -> u64| {
            let of =
                |run: &VerifiedRun| run.areas.get(area).map_or(0.0, |pages| bytes(pages) as f64);
            self.median(is_advised, |run| Some(of(run))).unwrap_or(0.0) as u64
        };
        AreaPages {
            resident_bytes: median(|pages| pages.resident_bytes),
            large_bytes: median(|pages| pages.large_bytes),
        }
    }

    /// Largest value over the runs with or without the advice, and the smallest, as a share of the median:
    /// how far the runs spread.
    pub fn spread(&self, is_advised: bool, clock: Clock) -> Option<f64> {
        let runs = self.runs.iter().filter(|run| run.is_advised == is_advised);
        let seconds: Vec<f64> = runs.map(|run| run.seconds(clock)).collect();
        let (least, most) =
            seconds.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
                (least.min(*value), most.max(*value))
            });
        Some((most - least) / self.median(is_advised, |run| Some(run.seconds(clock)))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(ratio: f64, low: f64, high: f64) -> GainRatio {
        GainRatio { ratio, low, high }
    }

    #[test]
    fn worth_depends_on_the_interval() {
        assert_eq!(gain(1.10, 1.04, 1.16).worth(), Worth::Gain);
        assert_eq!(gain(1.10, 0.98, 1.24).worth(), Worth::Unclear, "may be a loss");
        assert_eq!(gain(1.01, 1.005, 1.015).worth(), Worth::Nothing, "too small");
        assert_eq!(gain(1.00, 0.80, 1.25).worth(), Worth::Unclear);
        assert_eq!(gain(0.90, 0.85, 0.95).worth(), Worth::Loss);
        assert_eq!(gain(1.30, 0.0, f64::INFINITY).worth(), Worth::Unclear, "one pair only");
    }

    /// Ratios and ends of intervals just on both sides of 2 %, of 4 % and of no effect.
    #[test]
    fn gains_below_2_percent_and_intervals_within_4_percent_are_nothing() {
        for (ratio, low, high, worth) in [
            (1.021, 1.001, 1.050, Worth::Gain),
            (1.019, 1.001, 1.039, Worth::Nothing),
            (1.021, 1.000, 1.039, Worth::Nothing),
            (1.021, 1.000, 1.041, Worth::Unclear),
            (0.979, 0.950, 0.999, Worth::Loss),
            (0.981, 0.961, 0.999, Worth::Nothing),
            (0.979, 0.961, 1.000, Worth::Nothing),
            (0.979, 0.959, 1.000, Worth::Unclear),
            (1.000, 0.961, 1.039, Worth::Nothing),
        ] {
            assert_eq!(gain(ratio, low, high).worth(), worth, "{ratio} {low} {high}");
        }
    }

    #[test]
    fn losses_and_nothing_are_both_reasons_not_to_follow_advice() {
        let [good, bad, none] = [gain(1.2, 1.1, 1.3), gain(0.8, 0.7, 0.9), gain(1.0, 0.99, 1.01)];
        let unclear = gain(1.2, 0.9, 1.5);
        assert_eq!(Judgement::of(&good, &good), Judgement::Right);
        assert_eq!(Judgement::of(&bad, &none), Judgement::Right);
        assert_eq!(Judgement::of(&good, &none), Judgement::Wrong);
        assert_eq!(Judgement::of(&none, &good), Judgement::Wrong);
        assert_eq!(Judgement::of(&unclear, &good), Judgement::WithinError);
        assert_eq!(Judgement::of(&good, &unclear), Judgement::WithinError);
    }

    #[test]
    fn errors_are_shares_of_the_effect() {
        let error = |measured: f64, predicted: f64| {
            let exact = |ratio| gain(ratio, ratio, ratio);
            Verification::error_of_effect(&exact(measured), &exact(predicted))
        };
        assert!((error(1.2, 1.25).unwrap() - 0.25).abs() < 1e-12);
        assert!((error(0.9, 1.0).unwrap() - 1.0).abs() < 1e-12, "a model without effects");
        assert_eq!((error(1.019, 1.0), error(0.981, 1.0)), (None, None), "effects below 2 %");
        assert!(error(1.021, 1.0).is_some() && error(0.979, 1.0).is_some());
        let noisy = gain(0.979, 0.771, 1.244);
        assert_eq!(Verification::error_of_effect(&noisy, &gain(1.09, 1.0, 1.2)), None);
    }

    /// Five runs: three as it is in 2, 6 and 3 seconds, two with the advice in 1 and 4 seconds.
    #[test]
    fn medians_and_spreads_are_of_the_runs_of_one_kind() {
        let run = |is_advised, seconds: f64| VerifiedRun {
            is_advised,
            wall_seconds: 10.0 * seconds,
            user_seconds: 0.75 * seconds,
            system_seconds: 0.25 * seconds,
            areas: vec![AreaPages {
                resident_bytes: 100 * seconds as u64,
                large_bytes: 10 * seconds as u64,
            }],
            ..VerifiedRun::default()
        };
        let exact = gain(1.0, 1.0, 1.0);
        let mut found = Verification {
            program: String::new(),
            setting: String::new(),
            runs: vec![
                run(false, 2.0),
                run(true, 4.0),
                run(true, 1.0),
                run(false, 6.0),
                run(false, 3.0),
            ],
            areas: Vec::new(),
            clock: Clock::Wall,
            measured: exact,
            predicted: None,
            unmeasured: None,
            judgement: None,
            effect_error: None,
            notes: Vec::new(),
        };
        let median = |clock| {
            [false, true].map(|kind| found.median(kind, |run| Some(run.seconds(clock))).unwrap())
        };
        assert_eq!(median(Clock::Processor), [3.0, 2.5]);
        assert_eq!(median(Clock::User), [2.25, 1.875]);
        assert_eq!(median(Clock::Wall), [30.0, 25.0]);
        assert_eq!(found.spread(false, Clock::Wall), Some(4.0 / 3.0), "(60 - 20) / 30");
        assert_eq!(found.spread(true, Clock::Processor), Some(1.2), "(4 - 1) / 2.5");
        let pages = found.pages(true, 0);
        assert_eq!((pages.resident_bytes, pages.large_bytes), (250, 25));
        assert_eq!(pages.large_share(), 0.1);
        assert_eq!(found.pages(false, 1), AreaPages::default(), "an area that no run has");
        assert_eq!(AreaPages::default().large_share(), 0.0);
        found.runs.retain(|run| run.is_advised);
        assert_eq!(found.spread(false, Clock::Wall), None);
        assert_eq!(found.pages(false, 0), AreaPages::default());
    }

    /// Pairs (2.0, 1.0), (0.5, 1.0): ratios 2 and 1/2, whose geometric mean is 1. The logarithms ±ln 2 have
    /// the variance 2 ln² 2 and the standard error ln 2; with one degree of freedom, half the width is
    /// 12.7062 ln 2.
    #[test]
    fn pairs_are_in_any_order() {
        let run = |is_advised, user_seconds| VerifiedRun {
            is_advised,
            user_seconds,
            wall_seconds: 1.0,
            ..VerifiedRun::default()
        };
        let runs = [run(false, 2.0), run(true, 1.0), run(true, 1.0), run(false, 0.5)];
        let found = Verification::ratio(&runs, Clock::User).unwrap();
        assert!((found.ratio - 1.0).abs() < 1e-12);
        assert!((found.high.ln() - 12.7062 * 2f64.ln()).abs() < 1e-9);
        assert!((found.low.ln() + found.high.ln()).abs() < 1e-9);
        let wall = Verification::ratio(&runs, Clock::Wall).unwrap();
        assert_eq!(wall, gain(1.0, 1.0, 1.0));
        assert_eq!(Verification::ratio(&runs[..1], Clock::User), None);
        let one = Verification::ratio(&runs[..2], Clock::User).unwrap();
        assert_eq!((one.low, one.high), (0.0, f64::INFINITY));
        assert!((one.ratio - 2.0).abs() < 1e-12, "as it is ÷ advised");
        let other = Verification::ratio(&runs[2..], Clock::User).unwrap();
        assert!((other.ratio - 0.5).abs() < 1e-12);
        let alike = [run(false, 2.0), run(false, 1.0)];
        assert_eq!(Verification::ratio(&alike, Clock::User), None, "no run with the advice");
        let instant = [run(false, 0.0), run(true, 0.0)];
        assert_eq!(Verification::ratio(&instant, Clock::User), None, "below the clock's step");
    }

    /// The ends of the ranges by which ratios are judged belong to them, but for no effect itself.
    #[test]
    fn a_ratio_at_a_limit_is_judged() {
        let least = LEAST_GAIN;
        for (ratio, low, high, worth) in [
            (1.0 + least, 1.000_001, 1.1, Worth::Gain),
            (1.0 + least, 1.0, 1.1, Worth::Unclear),
            (1.0 - least, 0.9, 0.999_999, Worth::Loss),
            (1.0 - least, 0.9, 1.0, Worth::Unclear),
            (1.0, 1.0 - 2.0 * least, 1.0 + 2.0 * least, Worth::Nothing),
        ] {
            assert_eq!(gain(ratio, low, high).worth(), worth, "{ratio} {low} {high}");
        }
        let exact = |ratio| gain(ratio, ratio, ratio);
        assert_eq!(Verification::error_of_effect(&exact(1.25), &exact(1.25)), Some(0.0));
        assert_eq!(
            [Worth::Gain, Worth::Loss, Worth::Nothing, Worth::Unclear].map(Worth::is_worth_it),
            [true, false, false, false]
        );
        assert_eq!((Clock::default(), GainRatio::of_pairs(&[])), (Clock::Processor, None));
    }

    #[test]
    fn words_of_a_verification_are_those_of_its_record() {
        use crate::word;
        let clocks = [Clock::Processor, Clock::User, Clock::Wall].map(word);
        assert_eq!(clocks, ["processor", "user", "wall"]);
        let judged = [Judgement::Right, Judgement::Wrong, Judgement::WithinError].map(word);
        assert_eq!(judged, ["right", "wrong", "within_error"]);
        let record = serde_json::to_value(Verification::default()).unwrap();
        assert!(record.get("unmeasured").is_none() && record["predicted"].is_null(), "{record}");
        let run = serde_json::to_value(VerifiedRun::default()).unwrap();
        assert!(run.get("counters").is_none(), "{run}");
    }
}
