//! Claims of a paper as data, and the verdict of our results on each claim.

use perforate_records::{ClaimKind, Show, Verdict};
use serde::{Deserialize, Serialize};

use super::Place;
use super::axis::rounded;

/// Kinds of claims, as files name them.
const KINDS: &str =
    "closed-form, by-construction, input, sign, threshold, number, restated or test";

/// Property of a curve that a claim is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// Value at one place of the axis.
    At(Place),
    /// Last place up to which all values are at least this threshold.
    FallsTo(f64),
    /// Smallest lead of the curve over the named curve.
    LeadOver(String),
    /// Average over the named places; over all places if the list is empty.
    Over(Average, Vec<String>),
    /// Each value at the named places; at all places if the list is empty.
    Every(Vec<String>),
}

/// Reduction of several values to a single number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// Arithmetic mean.
    Mean,
    /// The n-th root of the product of n values.
    GeometricMean,
    /// Middle value of the sorted values.
    Median,
    /// Minimum of the values.
    Least,
    /// Maximum of the values.
    Greatest,
}

impl Average {
    /// Name in experiment files (kebab-case).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::GeometricMean => "geometric-mean",
            Self::Median => "median",
            Self::Least => "least",
            Self::Greatest => "greatest",
        }
    }
}

/// Value or bound that the paper states for a measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expectation {
    /// Exactly this number, within the tolerance.
    Value(f64),
    /// Upper bound, inclusive.
    AtMost(f64),
    /// Lower bound, inclusive.
    AtLeast(f64),
    /// Interval from the first to the second number, inclusive.
    Range(f64, f64),
}

impl Expectation {
    /// Distance of a number from the expectation, on the wrong side.
    pub fn distance(self, ours: f64) -> f64 {
        match self {
            Self::Value(value) => (ours - value).abs(),
            Self::AtMost(most) => ours - most,
            Self::AtLeast(least) => least - ours,
            Self::Range(low, high) => (low - ours).max(ours - high),
        }
    }

    /// True if a number from `least` to `greatest` can be the expected one.
    pub fn is_met_between(self, least: f64, greatest: f64) -> bool {
        match self {
            Self::Value(value) => (least..=greatest).contains(&value),
            Self::AtMost(most) => least <= most,
            Self::AtLeast(at_least) => greatest >= at_least,
            Self::Range(low, high) => least <= high && greatest >= low,
        }
    }
}

/// A claim of a paper about one curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ClaimFile", into = "ClaimFile")]
pub struct Claim {
    /// Short name, shown in lists of claims.
    pub id: String,
    /// The claim in words.
    pub statement: String,
    /// Section or figure of the paper that makes the claim.
    pub source: String,
    /// Strength of the claim.
    pub kind: ClaimKind,
    /// Name of the curve that the claim is about.
    pub curve: String,
    /// Property of the curve.
    pub measure: Measure,
    /// Value or bound of that property in the paper.
    pub expectation: Expectation,
    /// Greatest deviation that still counts as reproduced.
    pub tolerance: f64,
    /// Reference value: our value and the paper's on the same side of it count as the same direction.
    pub direction_from: Option<f64>,
    /// Note for readers.
    pub note: Option<String>,
    /// Explanation of a difference from the paper.
    pub explanation: Option<String>,
    /// Test of the explanation: an experiment, or `--unstated`. An untested explanation is a guess.
    pub tested_by: Option<String>,
    /// True if the short runs of `--quick` are too cold to judge the claim.
    pub full_runs_only: bool,
}

/// A claim as files write it: one of the measures, one of the expectations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimFile {
    id: String,
    statement: String,
    source: String,
    kind: Option<ClaimKind>,
    curve: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<At>,
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
    #[serde(default)]
    tolerance: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction_from: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tested_by: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    full_runs_only: bool,
}

/// A place as files write it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum At {
    Number(f64),
    Name(String),
}

impl ClaimFile {
    fn measure(&self) -> Result<Measure, &'static str> {
        let at = |at: &At| match at {
            At::Number(number) => Measure::At(Place::Number(rounded(*number))),
            At::Name(name) => Measure::At(Place::Name(name.clone())),
        };
        let places = || self.places.clone();
        let found = [
            self.at.as_ref().map(at),
            self.falls_to.map(Measure::FallsTo),
            self.lead_over.clone().map(Measure::LeadOver),
            self.average.map(|average| Measure::Over(average, places())),
            self.every.then(|| Measure::Every(places())),
        ];
        let mut found = found.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(Measure::At(_) | Measure::FallsTo(_) | Measure::LeadOver(_)), None)
                if !self.places.is_empty() =>
            {
                Err("places belong to average and every")
            }
            (Some(measure), None) => Ok(measure),
            _ => Err("expected one of at, falls_to, lead_over, average, every"),
        }
    }

    fn expectation(&self) -> Result<Expectation, &'static str> {
        let found = [
            self.value.map(Expectation::Value),
            self.at_most.map(Expectation::AtMost),
            self.at_least.map(Expectation::AtLeast),
            self.range.map(|(low, high)| Expectation::Range(low, high)),
        ];
        let mut found = found.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(Expectation::Range(low, high)), None) if low > high => {
                Err("range begins beyond its end")
            }
            (Some(expectation), None) => Ok(expectation),
            _ => Err("expected one of value, at_most, at_least, range"),
        }
    }
}

impl TryFrom<ClaimFile> for Claim {
    type Error = String;

    fn try_from(file: ClaimFile) -> Result<Self, String> {
        let wrong = |problem: &str| format!("claim {:?}: {problem}", file.id);
        let measure = file.measure().map_err(wrong)?;
        let expectation = file.expectation().map_err(wrong)?;
        let kind = file.kind.ok_or_else(|| wrong(&format!("kind is {}", KINDS)))?;
        let is_number = matches!(expectation, Expectation::Value(_) | Expectation::Range(..));
        match kind {
            ClaimKind::Number if !is_number => {
                return Err(wrong("numbers have a value or a range"));
            }
            ClaimKind::Sign | ClaimKind::Threshold if is_number => {
                return Err(wrong("signs and thresholds have at_most or at_least"));
            }
            _ => {}
        }
        if file.tested_by.is_some() && file.explanation.is_none() {
            return Err(wrong("tested_by belongs to an explanation"));
        }
        if !(file.tolerance.is_finite() && file.tolerance >= 0.0) {
            return Err(wrong("tolerance is not 0 or more"));
        }
        Ok(Self {
            id: file.id,
            statement: file.statement,
            source: file.source,
            kind,
            curve: file.curve,
            measure,
            expectation,
            tolerance: file.tolerance,
            direction_from: file.direction_from,
            note: file.note,
            explanation: file.explanation,
            tested_by: file.tested_by,
            full_runs_only: file.full_runs_only,
        })
    }
}

impl From<Claim> for ClaimFile {
    fn from(claim: Claim) -> Self {
        let mut file = Self {
            id: claim.id,
            statement: claim.statement,
            source: claim.source,
            kind: Some(claim.kind),
            curve: claim.curve,
            tolerance: claim.tolerance,
            direction_from: claim.direction_from,
            note: claim.note,
            explanation: claim.explanation,
            tested_by: claim.tested_by,
            full_runs_only: claim.full_runs_only,
            ..Self::default()
        };
        match claim.measure {
            Measure::At(Place::Number(number)) => file.at = Some(At::Number(number)),
            Measure::At(Place::Name(name)) => file.at = Some(At::Name(name)),
            Measure::FallsTo(y) => file.falls_to = Some(y),
            Measure::LeadOver(other) => file.lead_over = Some(other),
            Measure::Over(average, places) => {
                (file.average, file.places) = (Some(average), places);
            }
            Measure::Every(places) => (file.every, file.places) = (true, places),
        }
        match claim.expectation {
            Expectation::Value(value) => file.value = Some(value),
            Expectation::AtMost(most) => file.at_most = Some(most),
            Expectation::AtLeast(least) => file.at_least = Some(least),
            Expectation::Range(low, high) => file.range = Some((low, high)),
        }
        file
    }
}

impl Claim {
    /// True if the claim is about the curve of this name, or compares another curve with it
    /// (`lead_over`).
    pub fn needs(&self, curve: &str) -> bool {
        self.curve == curve || matches!(&self.measure, Measure::LeadOver(other) if other == curve)
    }

    /// A place that must be measured for it: the one it is about, or the one where the paper has
    /// the crossing, so that ours is looked for close to it.
    pub fn point(&self) -> Option<Place> {
        match (&self.measure, self.expectation) {
            (Measure::At(place), _) => Some(place.clone()),
            (Measure::FallsTo(_), Expectation::Value(x)) => Some(Place::Number(rounded(x))),
            _ => None,
        }
    }

    /// Reference value for [`Verdict::SameDirection`]: `direction_from`, or 1 for a gain.
    pub fn direction(&self, show: Show) -> Option<f64> {
        self.direction_from.or((show == Show::Gain).then_some(1.0))
    }

    /// Worst verdict over all values. No value, or a missing value, is not reproduced.
    pub fn judge(&self, ours: &[Option<f64>], show: Show) -> Verdict {
        let judge = |ours: &Option<f64>| self.judge_one(*ours, show);
        ours.iter().map(judge).max().unwrap_or(Verdict::NotReproduced)
    }

    fn judge_one(&self, ours: Option<f64>, show: Show) -> Verdict {
        let Some(ours) = ours.filter(|ours| ours.is_finite()) else {
            return Verdict::NotReproduced;
        };
        let tolerance = self.tolerance;
        let (paper, holds) = match self.expectation {
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
        // A speed-up: more than 1 is the same direction, however much; 1 and less is not.
        let speedup = &format!("{number}\ndirection_from = 1.0");
        assert_eq!(judge(speedup, &[Some(1.2)]), Reproduced);
        assert_eq!(judge(speedup, &[Some(3.0)]), SameDirection);
        assert_eq!(judge(speedup, &[Some(1.0)]), NotReproduced);
        assert_eq!(judge(speedup, &[Some(0.9)]), NotReproduced);
        let gain = claim(number).unwrap();
        assert_eq!(gain.judge(&[Some(3.0)], Show::Gain), SameDirection);
        // No change has no direction.
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

    /// As a file has it and back.
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
}
