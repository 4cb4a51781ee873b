//! What a paper claims, as data, and whether our curves bear it out.

use serde::{Deserialize, Serialize};

use super::axis::{Axis, rounded};
use super::curve::Curve;

/// How firmly a paper's number is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// The same number, to the digits that are printed.
    Exact,
    /// A number that other programs or machines would change.
    Close,
    /// A bound or an order, not a number.
    Trend,
}

/// What of the curves a claim is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// The value at this place on the axis.
    At(f64),
    /// The place up to which all values are this or more.
    FallsTo(f64),
    /// The least by which the curve lies above another.
    LeadOver(String),
}

/// What the paper says of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expectation {
    /// This number.
    Value(f64),
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

/// Whether a claim is borne out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within the tolerance.
    Reproduced,
    /// Not within it, but on the paper's side of `direction_from`.
    SameDirection,
    /// Neither.
    NotReproduced,
}

/// A claim of a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ClaimFile", into = "ClaimFile")]
pub struct Claim {
    /// Short name, as the lists of claims have it.
    pub id: String,
    /// What is claimed, in words.
    pub statement: String,
    /// Where.
    pub source: String,
    /// How firmly.
    pub kind: ClaimKind,
    /// The curve it is about.
    pub curve: String,
    /// What of the curve.
    pub measure: Measure,
    /// What it should be.
    pub expectation: Expectation,
    /// How far off counts as reproduced.
    pub tolerance: f64,
    /// The value that ours and the paper's should lie on one side of, if nothing else.
    pub direction_from: Option<f64>,
    /// A remark for readers.
    pub note: Option<String>,
}

/// A claim as files write it: one of the measures, one of the expectations.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimFile {
    id: String,
    statement: String,
    source: String,
    kind: ClaimKind,
    curve: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    falls_to: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lead_over: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(default)]
    tolerance: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction_from: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl TryFrom<ClaimFile> for Claim {
    type Error = String;

    fn try_from(file: ClaimFile) -> Result<Self, String> {
        let wrong = |problem: &str| format!("claim {:?}: {problem}", file.id);
        let measure = match (file.at, file.falls_to, file.lead_over) {
            (Some(x), None, None) => Measure::At(x),
            (None, Some(y), None) => Measure::FallsTo(y),
            (None, None, Some(other)) => Measure::LeadOver(other),
            _ => return Err(wrong("expected one of at, falls_to, lead_over")),
        };
        let expectation = match (file.value, file.at_most, file.at_least) {
            (Some(value), None, None) => Expectation::Value(value),
            (None, Some(most), None) => Expectation::AtMost(most),
            (None, None, Some(least)) => Expectation::AtLeast(least),
            _ => return Err(wrong("expected one of value, at_most, at_least")),
        };
        if matches!(expectation, Expectation::Value(_)) == (file.kind == ClaimKind::Trend) {
            return Err(wrong("exact and close claims have a value, trends at_most or at_least"));
        }
        if !(file.tolerance.is_finite() && file.tolerance >= 0.0) {
            return Err(wrong("tolerance is not 0 or more"));
        }
        Ok(Self {
            id: file.id,
            statement: file.statement,
            source: file.source,
            kind: file.kind,
            curve: file.curve,
            measure,
            expectation,
            tolerance: file.tolerance,
            direction_from: file.direction_from,
            note: file.note,
        })
    }
}

impl From<Claim> for ClaimFile {
    fn from(claim: Claim) -> Self {
        let (at, falls_to, lead_over) = match claim.measure {
            Measure::At(x) => (Some(x), None, None),
            Measure::FallsTo(y) => (None, Some(y), None),
            Measure::LeadOver(other) => (None, None, Some(other)),
        };
        let (value, at_most, at_least) = match claim.expectation {
            Expectation::Value(value) => (Some(value), None, None),
            Expectation::AtMost(most) => (None, Some(most), None),
            Expectation::AtLeast(least) => (None, None, Some(least)),
        };
        Self {
            id: claim.id,
            statement: claim.statement,
            source: claim.source,
            kind: claim.kind,
            curve: claim.curve,
            at,
            falls_to,
            lead_over,
            value,
            at_most,
            at_least,
            tolerance: claim.tolerance,
            direction_from: claim.direction_from,
            note: claim.note,
        }
    }
}

impl Claim {
    pub(super) fn check(&self, curves: &[&str]) -> Result<(), String> {
        let texts = [&self.id, &self.statement, &self.source].into_iter().chain(&self.note);
        if texts.flat_map(|text| text.chars()).any(char::is_control) {
            return Err(format!("claim {:?}: texts must be plain and in one line", self.id));
        }
        let other = match &self.measure {
            Measure::LeadOver(other) => Some(other),
            Measure::At(_) | Measure::FallsTo(_) => None,
        };
        for name in other.into_iter().chain([&self.curve]) {
            if !curves.contains(&name.as_str()) {
                let known = curves.join(", ");
                return Err(format!("claim {:?}: no curve {name:?}; there are {known}", self.id));
            }
        }
        match self.measure {
            Measure::At(x) if !(0.0..=1.0).contains(&x) => {
                Err(format!("claim {:?}: at is {x}, not a share from 0 to 1", self.id))
            }
            _ => Ok(()),
        }
    }

    /// A place that must be measured for it: the one it is about, or the one where the paper has
    /// the crossing, so that ours is looked for close to it.
    pub(super) fn point(&self, axis: &Axis) -> Option<f64> {
        match (&self.measure, self.expectation) {
            (Measure::At(x), _) => Some(rounded(*x)),
            (Measure::FallsTo(_), Expectation::Value(x)) if axis.contains(x) => Some(rounded(x)),
            _ => None,
        }
    }

    /// Our number.
    pub fn ours(&self, curves: &[Curve]) -> Option<f64> {
        let named = |name: &str| curves.iter().find(|curve| curve.name == name);
        let curve = named(&self.curve)?;
        match &self.measure {
            Measure::At(x) => curve.at(rounded(*x)),
            Measure::FallsTo(y) => curve.falls_to(*y),
            Measure::LeadOver(other) => curve.least_lead(named(other)?),
        }
    }

    /// Whether our number bears the claim out; none does not.
    pub fn judge(&self, ours: Option<f64>) -> Verdict {
        let Some(ours) = ours.filter(|ours| ours.is_finite()) else {
            return Verdict::NotReproduced;
        };
        let (paper, holds) = match self.expectation {
            Expectation::Value(paper) => (paper, (ours - paper).abs() <= self.tolerance),
            Expectation::AtMost(most) => (most, ours <= most + self.tolerance),
            Expectation::AtLeast(least) => (least, ours >= least - self.tolerance),
        };
        let same_side = |from: f64| ours != from && (ours > from) == (paper > from);
        match self.direction_from {
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

    #[test]
    fn verdicts() {
        let number = "kind = \"close\"\nat = 0.5\nvalue = 1.2\ntolerance = 0.05";
        let plain = claim(number).unwrap();
        assert_eq!(plain.judge(Some(1.24)), Verdict::Reproduced);
        assert_eq!(plain.judge(Some(1.16)), Verdict::Reproduced);
        assert_eq!(plain.judge(Some(1.26)), Verdict::NotReproduced);
        assert_eq!(plain.judge(None), Verdict::NotReproduced);
        assert_eq!(plain.judge(Some(f64::NAN)), Verdict::NotReproduced);
        // A speed-up: more than 1 is the same direction, however much; 1 and less is not.
        let speedup = claim(&format!("{number}\ndirection_from = 1.0")).unwrap();
        assert_eq!(speedup.judge(Some(1.2)), Verdict::Reproduced);
        assert_eq!(speedup.judge(Some(3.0)), Verdict::SameDirection);
        assert_eq!(speedup.judge(Some(1.0)), Verdict::NotReproduced);
        assert_eq!(speedup.judge(Some(0.9)), Verdict::NotReproduced);
        let bound = claim("kind = \"trend\"\nfalls_to = 0.5\nat_most = 0.08").unwrap();
        assert_eq!(bound.judge(Some(0.08)), Verdict::Reproduced);
        assert_eq!(bound.judge(Some(0.081)), Verdict::NotReproduced);
        let bound = claim("kind = \"trend\"\nlead_over = \"b\"\nat_least = 0.0\ntolerance = 0.1");
        let bound = bound.unwrap();
        assert_eq!(bound.judge(Some(-0.1)), Verdict::Reproduced);
        assert_eq!(bound.judge(Some(-0.2)), Verdict::NotReproduced);
    }

    #[test]
    fn claims_that_say_too_much_or_too_little() {
        for (rest, problem) in [
            ("kind = \"exact\"\nvalue = 1.0", "claim \"X\": expected one of at, falls_to"),
            ("kind = \"exact\"\nat = 0.1\nfalls_to = 0.2\nvalue = 1.0", "one of at, falls_to"),
            ("kind = \"exact\"\nat = 0.1", "expected one of value, at_most, at_least"),
            ("kind = \"exact\"\nat = 0.1\nat_most = 1.0", "exact and close claims have a value"),
            ("kind = \"trend\"\nat = 0.1\nvalue = 1.0", "trends at_most or at_least"),
            ("kind = \"close\"\nat = 0.1\nvalue = 1.0\ntolerance = -1.0", "tolerance is not"),
            ("kind = \"vague\"\nat = 0.1\nvalue = 1.0", "unknown variant `vague`"),
            ("kind = \"close\"\nat = 0.1\nvalue = 1.0\nvalues = 2", "unknown field `values`"),
        ] {
            let message = claim(rest).unwrap_err();
            assert!(message.contains(problem), "{message}");
        }
    }

    /// As a file has it and back.
    #[test]
    fn claims_are_written_as_they_are_read() {
        let first = claim("kind = \"trend\"\nlead_over = \"b\"\nat_least = 0.5").unwrap();
        let text = toml::to_string(&first).unwrap();
        assert_eq!(toml::from_str::<Claim>(&text).unwrap(), first);
    }
}
