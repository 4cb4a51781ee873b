//! Claims of a paper, as experiment files state them, and their comparison with our results.

use perforate_records::{ClaimKind, Show, Verdict};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Place;
use super::axis::rounded;

/// Names of the kinds of claims in experiment files, for an error message.
const KINDS: &str =
    "closed-form, by-construction, input, sign, threshold, number, restated or test";

/// Property of a curve about which a claim of a paper makes a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// Value of the curve at one place of the axis.
    At(Place),
    /// Last place up to which all values of the curve are at least this threshold.
    FallsTo(f64),
    /// Smallest value, over all places, of the curve minus the named curve.
    LeadOver(String),
    /// Average of the curve over the named places; over all places if the list is empty.
    Over(Average, Vec<String>),
    /// Each value of the curve at the named places; at all places if the list is empty.
    Every(Vec<String>),
}

impl Measure {
    /// Returns the places that the measure names; empty if it is about the whole curve.
    pub fn places(&self) -> Vec<Place> {
        match self {
            Self::At(place) => vec![place.clone()],
            Self::Over(_, names) | Self::Every(names) => {
                names.iter().cloned().map(Place::Name).collect()
            }
            Self::FallsTo(_) | Self::LeadOver(_) => Vec::new(),
        }
    }
}

/// Reduction of a curve's values at several places to a single number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// Arithmetic mean of the values.
    Mean,
    /// The n-th root of the product of n values.
    GeometricMean,
    /// Middle value of the sorted values.
    Median,
    /// Smallest of the values.
    Least,
    /// Greatest of the values.
    Greatest,
}

/// Value or bound that the paper states for a property of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expectation {
    /// This number, from which the value may deviate by the tolerance.
    Value(f64),
    /// Upper bound of the value, inclusive.
    AtMost(f64),
    /// Lower bound of the value, inclusive.
    AtLeast(f64),
    /// Range of the value from the first to the second number, inclusive.
    Range(f64, f64),
}

impl Expectation {
    /// Returns the distance of the measured value `ours` from the expectation; 0 or less if the value meets
    /// it.
    pub fn distance(self, ours: f64) -> f64 {
        match self {
            Self::Value(value) => (ours - value).abs(),
            Self::AtMost(most) => ours - most,
            Self::AtLeast(least) => least - ours,
            Self::Range(low, high) => (low - ours).max(ours - high),
        }
    }

    /// True if some value from `least` to `greatest` meets the expectation.
    pub fn is_met_between(self, least: f64, greatest: f64) -> bool {
        match self {
            Self::Value(value) => (least..=greatest).contains(&value),
            Self::AtMost(most) => least <= most,
            Self::AtLeast(at_least) => greatest >= at_least,
            Self::Range(low, high) => least <= high && greatest >= low,
        }
    }
}

/// A claim of a paper about one property of a curve, with the value or bound that the paper states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Claim {
    /// Short identifier of the claim, such as `P-C7`.
    pub id: String,
    /// Statement of the claim in words.
    pub statement: String,
    /// Section or figure of the paper that makes the claim.
    pub source: String,
    /// Kind of evidence that the claim provides; every valid claim has one.
    pub kind: Option<ClaimKind>,
    /// Name of the curve that the claim is about.
    pub curve: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none")]
    falls_to: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lead_over: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    average: Option<Average>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    every: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<(f64, f64)>,
    /// Greatest deviation from the paper's number that still counts as reproduced.
    #[serde(default)]
    pub tolerance: f64,
    /// Reference value for the direction: our value and the paper's have the same direction if they
    /// are on the same side of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction_from: Option<f64>,
    /// Note on the claim, which reports show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Explanation why our value deviates from the paper's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// Test of the explanation: the name of an experiment, or `--unstated` (the claim is measured again with
    /// other values of what the paper leaves open). An explanation without a test is a guess.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tested_by: Option<String>,
    /// True if the short runs of `--quick` warm up too little to judge the claim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full_runs_only: bool,
}

impl Serialize for Claim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// Deserializes a claim; rejects a claim that has none or several of the alternative keys.
impl<'de> Deserialize<'de> for Claim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let claim = Self::deserialize(deserializer)?;
        match claim.check() {
            Ok(()) => Ok(claim),
            Err(problem) => Err(D::Error::custom(format!("claim {:?}: {problem}", claim.id))),
        }
    }
}

impl Claim {
    fn check(&self) -> Result<(), String> {
        let (measures, expectations) = (self.measures().count(), self.expectations().count());
        let has_places = self.average.is_some() || self.every;
        let is_number = self.value.is_some() || self.range.is_some();
        let problem = match self.kind {
            _ if measures == 1 && !has_places && !self.places.is_empty() => {
                "places belong to average and every"
            }
            _ if measures != 1 => "expected one of at, falls_to, lead_over, average, every",
            _ if expectations != 1 => "expected one of value, at_most, at_least, range",
            _ if self.range.is_some_and(|(low, high)| low > high) => "range begins beyond its end",
            None => return Err(format!("kind is {KINDS}")),
            Some(ClaimKind::Number) if !is_number => "numbers have a value or a range",
            Some(ClaimKind::Sign | ClaimKind::Threshold) if is_number => {
                "signs and thresholds have at_most or at_least"
            }
            _ if self.tested_by.is_some() && self.explanation.is_none() => {
                "tested_by belongs to an explanation"
            }
            _ if !(self.tolerance.is_finite() && self.tolerance >= 0.0) => {
                "tolerance is not 0 or more"
            }
            _ => return Ok(()),
        };
        Err(problem.into())
    }

    fn measures(&self) -> impl Iterator<Item = Measure> {
        let places = || self.places.clone();
        let found = [
            self.at.clone().map(Measure::At),
            self.falls_to.map(Measure::FallsTo),
            self.lead_over.clone().map(Measure::LeadOver),
            self.average.map(|average| Measure::Over(average, places())),
            self.every.then(|| Measure::Every(places())),
        ];
        found.into_iter().flatten()
    }

    fn expectations(&self) -> impl Iterator<Item = Expectation> {
        let found = [
            self.value.map(Expectation::Value),
            self.at_most.map(Expectation::AtMost),
            self.at_least.map(Expectation::AtLeast),
            self.range.map(|(low, high)| Expectation::Range(low, high)),
        ];
        found.into_iter().flatten()
    }

    /// Returns the property of the curve that the claim is about.
    pub fn measure(&self) -> Measure {
        self.measures().next().expect("claims are checked when they are read")
    }

    /// Returns the paper's value or bound for the property.
    pub fn expectation(&self) -> Expectation {
        self.expectations().next().expect("claims are checked when they are read")
    }

    /// True if the claim needs the curve of this name, as its subject or for comparison (`lead_over`).
    pub fn needs(&self, curve: &str) -> bool {
        self.curve == curve || self.lead_over.as_deref() == Some(curve)
    }

    /// Returns a place that must be measured for the claim: the place that it is about, or the place where
    /// the paper's curve falls below the threshold, because ours probably does so near it. `None` for claims
    /// on several places.
    pub fn point(&self) -> Option<Place> {
        let crossing = self.value.filter(|_| self.falls_to.is_some());
        self.at.clone().or(crossing.map(|x| Place::Number(rounded(x))))
    }

    /// Returns the reference value for [`Verdict::SameDirection`]: `direction_from`, or 1 for a ratio that is
    /// shown as a gain (1.25 as +25 %), otherwise `None`.
    pub fn direction(&self, show: Show) -> Option<f64> {
        self.direction_from.or((show == Show::Gain).then_some(1.0))
    }

    /// Returns the worst verdict over all measured values in `ours`; a missing value counts as not
    /// reproduced.
    pub fn judge(&self, ours: &[Option<f64>], show: Show) -> Verdict {
        let judge = |ours: &Option<f64>| self.judge_one(*ours, show);
        ours.iter().map(judge).max().unwrap_or(Verdict::NotReproduced)
    }

    fn judge_one(&self, ours: Option<f64>, show: Show) -> Verdict {
        let Some(ours) = ours.filter(|ours| ours.is_finite()) else {
            return Verdict::NotReproduced;
        };
        let tolerance = self.tolerance;
        let (paper, holds) = match self.expectation() {
            Expectation::Value(paper) => (paper, (ours - paper).abs() <= tolerance),
            Expectation::AtMost(most) => (most, ours <= most + tolerance),
            Expectation::AtLeast(least) => (least, ours >= least - tolerance),
            Expectation::Range(low, high) => {
                let range = low - tolerance..=high + tolerance;
                (f64::midpoint(low, high), range.contains(&ours))
            }
        };
        let same_side =
            |from: f64| ours != from && paper != from && (ours > from) == (paper > from);
        match self.direction(show) {
            _ if holds => Verdict::Reproduced,
            Some(from) if same_side(from) => Verdict::SameDirection,
            _ => Verdict::NotReproduced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(rest: &str) -> Result<Claim, String> {
        let text = format!("id = \"X\"\nstatement = \"s\"\nsource = \"§1\"\ncurve = \"a\"\n{rest}");
        toml::from_str(&text).map_err(|error| error.message().to_owned())
    }

    fn judge(rest: &str, ours: &[Option<f64>]) -> Verdict {
        claim(rest).unwrap().judge(ours, Show::Percent)
    }

    #[test]
    fn verdicts() {
        use Verdict::{NotReproduced, Reproduced, SameDirection};
        let number = "kind = \"number\"\nat = 0.5\nvalue = 1.2\ntolerance = 0.05";
        assert_eq!(judge(number, &[Some(1.24)]), Reproduced);
        assert_eq!(judge(number, &[Some(1.16)]), Reproduced);
        assert_eq!(judge(number, &[Some(1.26)]), NotReproduced);
        assert_eq!(judge(number, &[None]), NotReproduced);
        assert_eq!(judge(number, &[]), NotReproduced);
        assert_eq!(judge(number, &[Some(f64::NAN)]), NotReproduced);
        // For a speedup, any value above 1 has the same direction; values up to 1 do not.
        let speedup = &format!("{number}\ndirection_from = 1.0");
        assert_eq!(judge(speedup, &[Some(1.2)]), Reproduced);
        assert_eq!(judge(speedup, &[Some(3.0)]), SameDirection);
        assert_eq!(judge(speedup, &[Some(1.0)]), NotReproduced);
        assert_eq!(judge(speedup, &[Some(0.9)]), NotReproduced);
        let gain = claim(number).unwrap();
        assert_eq!(gain.judge(&[Some(3.0)], Show::Gain), SameDirection);
        // A claim of no change has no direction.
        let none =
            "kind = \"number\"\nat = 0.5\nvalue = 1.0\ntolerance = 0.05\ndirection_from = 1.0";
        assert_eq!(judge(none, &[Some(0.8)]), NotReproduced);
        let bound = "kind = \"threshold\"\nfalls_to = 0.5\nat_most = 0.08";
        assert_eq!(judge(bound, &[Some(0.08)]), Reproduced);
        assert_eq!(judge(bound, &[Some(0.081)]), NotReproduced);
    }

    #[test]
    fn ranges_hold_for_all_places() {
        let range = "kind = \"number\"\nevery = true\nrange = [1.02, 1.12]\ntolerance = 0.01\n\
                     direction_from = 1.0";
        assert_eq!(judge(range, &[Some(1.01), Some(1.13)]), Verdict::Reproduced);
        assert_eq!(judge(range, &[Some(1.05), Some(1.2)]), Verdict::SameDirection);
        assert_eq!(judge(range, &[Some(1.05), Some(0.9)]), Verdict::NotReproduced);
        assert_eq!(judge(range, &[Some(1.05), None]), Verdict::NotReproduced);
    }

    #[test]
    fn claims_that_say_too_much_or_too_little() {
        for (rest, problem) in [
            ("kind = \"closed-form\"\nvalue = 1.0", "claim \"X\": expected one of at, falls_to"),
            (
                "kind = \"closed-form\"\nat = 0.1\nfalls_to = 0.2\nvalue = 1.0",
                "one of at, falls_to",
            ),
            ("kind = \"closed-form\"\nat = 0.1\nplaces = [\"a\"]\nvalue = 1.0", "places belong to"),
            ("kind = \"closed-form\"\nat = 0.1", "expected one of value, at_most, at_least, range"),
            ("kind = \"number\"\nat = 0.1\nat_most = 1.0", "numbers have a value or a range"),
            ("kind = \"sign\"\nat = 0.1\nvalue = 1.0", "signs and thresholds have at_most"),
            ("kind = \"number\"\nat = 0.1\nrange = [2.0, 1.0]", "begins beyond its end"),
            ("kind = \"number\"\nat = 0.1\nvalue = 1.0\ntolerance = -1.0", "tolerance is not"),
            ("kind = \"sign\"\nat = 0.1\nat_most = 1.0\ntested_by = \"x\"", "belongs to an expl"),
            ("kind = \"vague\"\nat = 0.1\nvalue = 1.0", "unknown variant `vague`"),
            ("at = 0.1\nvalue = 1.0", "kind is closed-form, by-construction"),
            ("kind = \"number\"\nat = 0.1\nvalue = 1.0\nvalues = 2", "unknown field `values`"),
        ] {
            let message = claim(rest).unwrap_err();
            assert!(message.contains(problem), "{message}");
        }
    }

    #[test]
    fn claims_are_written_as_they_are_read() {
        for rest in [
            "kind = \"threshold\"\nlead_over = \"b\"\nat_least = 0.5",
            "kind = \"number\"\nat = \"gups\"\nvalue = 0.5\nexplanation = \"e\"",
            "kind = \"number\"\naverage = \"geometric-mean\"\nplaces = [\"a\"]\nrange = [0.1, 0.2]",
        ] {
            let first = claim(rest).unwrap();
            let text = toml::to_string(&first).unwrap();
            assert_eq!(toml::from_str::<Claim>(&text).unwrap(), first);
        }
    }

    /// A range includes both ends.
    #[test]
    fn a_range_of_values_meets_what_one_of_its_values_meets() {
        let number = Expectation::Value(1.0);
        let (most, least) = (Expectation::AtMost(1.0), Expectation::AtLeast(1.0));
        let range = Expectation::Range(1.0, 2.0);
        for (expectation, ends, is_met) in [
            (number, (0.5, 1.0), true),
            (number, (1.0, 1.5), true),
            (number, (0.5, 0.9), false),
            (number, (1.1, 1.5), false),
            (most, (1.0, 1.5), true),
            (most, (1.1, 1.5), false),
            (least, (0.5, 1.0), true),
            (least, (0.5, 0.9), false),
            (range, (0.5, 1.0), true),
            (range, (2.0, 2.5), true),
            (range, (1.2, 1.3), true),
            (range, (0.5, 2.5), true),
            (range, (0.5, 0.9), false),
            (range, (2.1, 2.5), false),
        ] {
            assert_eq!(
                expectation.is_met_between(ends.0, ends.1),
                is_met,
                "{expectation:?} {ends:?}"
            );
        }
    }
}
