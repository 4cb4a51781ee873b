//! Results of experiments: curves over an axis, and a paper's claims with a verdict each.

mod page;
mod table;

use serde::Deserialize;
use serde_json::Value;

use crate::ReportError;

pub use page::experiments_html;
pub use table::experiments_table;

/// One experiment: its records in a results file, put together.
#[derive(Clone, Debug)]
pub struct ExperimentResult {
    header: Header,
    curves: Vec<Curve>,
    claims: Vec<Claim>,
}

/// How many claims have which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reproduced within the tolerance.
    pub reproduced: usize,
    /// In the same direction only.
    pub same_direction: usize,
    /// Not reproduced.
    pub not_reproduced: usize,
}

/// The first record of an experiment.
#[derive(Clone, Debug, Deserialize)]
struct Header {
    experiment: String,
    title: String,
    source: String,
    axis_label: String,
    value_label: String,
    curves: Vec<(String, String)>,
    #[serde(default)]
    samples: Option<f64>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    config: Value,
    #[serde(default)]
    version: String,
}

#[derive(Clone, Debug)]
struct Curve {
    name: String,
    label: String,
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Point {
    x: f64,
    #[serde(default)]
    on_axis: bool,
    closed_form: Option<f64>,
    sampled: Option<f64>,
    half_width_95: Option<f64>,
    agrees: Option<bool>,
}

impl Point {
    fn value(&self) -> Option<f64> {
        self.closed_form.or(self.sampled).filter(|value| value.is_finite())
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Claim {
    id: String,
    statement: String,
    source: String,
    paper: f64,
    relation: String,
    ours: Option<f64>,
    verdict: Verdict,
    #[serde(default)]
    note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Reproduced,
    SameDirection,
    NotReproduced,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::SameDirection => "same direction",
            Self::NotReproduced => "not reproduced",
        }
    }
}

impl Claim {
    fn paper_text(&self) -> String {
        match self.relation.as_str() {
            "=" => share(self.paper),
            relation => format!("{relation} {}", share(self.paper)),
        }
    }

    fn ours_text(&self) -> String {
        self.ours.map_or_else(|| crate::format::MISSING.into(), share)
    }
}

/// A share as a percentage with the digits that papers print, and one more.
fn share(value: f64) -> String {
    let percent = value * 100.0;
    match percent.abs() {
        0.0 => "0 %".into(),
        size if size < 0.005 => format!("{percent:.0e} %"),
        _ => format!("{percent:.2} %"),
    }
}

impl ExperimentResult {
    /// What it shows.
    pub fn title(&self) -> &str {
        &self.header.title
    }

    /// What its axis says, and where it begins and ends.
    fn axis(&self) -> (&str, Option<f64>, Option<f64>) {
        let points = self.curves.first().map_or(&[][..], |curve| &curve.points);
        let mut places = points.iter().filter(|point| point.on_axis).map(|point| point.x);
        let first = places.next();
        (&self.header.axis_label, first, places.next_back().or(first))
    }

    /// Whether its points are averages of runs, for which there are no closed forms.
    fn is_of_runs(&self) -> bool {
        let mut points = self.curves.iter().flat_map(|curve| &curve.points);
        points.all(|point| point.closed_form.is_none())
    }

    /// Verdicts on its claims.
    pub fn tally(&self) -> Tally {
        let count = |verdict| self.claims.iter().filter(|claim| claim.verdict == verdict).count();
        Tally {
            reproduced: count(Verdict::Reproduced),
            same_direction: count(Verdict::SameDirection),
            not_reproduced: count(Verdict::NotReproduced),
        }
    }

    /// Points where the closed form and the draws agree, and all points that have both.
    fn agreement(&self) -> (usize, usize) {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let both: Vec<bool> = points.filter_map(|point| point.agrees).collect();
        (both.iter().filter(|&&agrees| agrees).count(), both.len())
    }

    /// What closed forms and draws have to do with each other, in a sentence.
    fn agreement_text(&self) -> Option<String> {
        let (agreeing, all) = self.agreement();
        (all > 0).then(|| {
            format!(
                "Monte Carlo agrees with the closed form at {agreeing} of {all} points (within \
                 twice the 95 % interval)."
            )
        })
    }
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            reproduced: self.reproduced + other.reproduced,
            same_direction: self.same_direction + other.same_direction,
            not_reproduced: self.not_reproduced + other.not_reproduced,
        }
    }
}

/// Reads a results file of experiments, one JSON object per line.
///
/// # Errors
/// A line that is no record, or that belongs to no experiment before it; no line at all.
pub fn read_experiments(text: &str) -> Result<Vec<ExperimentResult>, ReportError> {
    let mut found: Vec<ExperimentResult> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        read_record(line, &mut found)
            .map_err(|cause| ReportError::Record { line: index + 1, cause })?;
    }
    if found.is_empty() { Err(ReportError::Empty) } else { Ok(found) }
}

fn read_record(line: &str, found: &mut Vec<ExperimentResult>) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Kind {
        record: String,
        experiment: String,
        curve: Option<String>,
    }
    let wrong = |error: serde_json::Error| error.to_string();
    let kind: Kind = serde_json::from_str(line).map_err(wrong)?;
    if kind.record == "experiment" {
        let header: Header = serde_json::from_str(line).map_err(wrong)?;
        let named = |(name, label): &(String, String)| Curve {
            name: name.clone(),
            label: label.clone(),
            points: Vec::new(),
        };
        let curves = header.curves.iter().map(named).collect();
        found.push(ExperimentResult { header, curves, claims: Vec::new() });
        return Ok(());
    }
    let owner = found.iter_mut().rfind(|result| result.header.experiment == kind.experiment);
    let owner = owner.ok_or_else(|| format!("no experiment {:?} before it", kind.experiment))?;
    match kind.record.as_str() {
        "point" => {
            let name = kind.curve.unwrap_or_default();
            let curve = owner.curves.iter_mut().find(|curve| curve.name == name);
            let curve = curve.ok_or_else(|| format!("the experiment has no curve {name:?}"))?;
            curve.points.push(serde_json::from_str(line).map_err(wrong)?);
        }
        "claim" => owner.claims.push(serde_json::from_str(line).map_err(wrong)?),
        other => return Err(format!("no record is of kind {other:?}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_a_digit_more_than_the_paper() {
        assert_eq!(share(0.933), "93.30 %");
        assert_eq!(share(0.0), "0 %");
        assert_eq!(share(-0.000_3), "-0.03 %");
        assert_eq!(share(2.6e-13), "3e-11 %");
    }

    #[test]
    fn mistakes_name_the_line() {
        let fails = |text: &str, expected: &str| {
            let message = read_experiments(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        };
        fails("", "no results");
        fails("{\"record\":\"point\",\"experiment\":\"x\"}", "line 1: no experiment \"x\" before");
        fails("\n[1]", "line 2: ");
    }
}
