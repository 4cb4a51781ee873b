//! Records of experiments in a results file (`docs/experiments.md` describes them).

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::show::Show;
use super::{Curve, ExperimentResult};
use perforate_records::read_json;

use crate::ReportError;

/// The first record of an experiment.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Header {
    pub experiment: String,
    /// The file it was loaded from; none for one that comes with the program.
    pub file: Option<String>,
    pub title: String,
    #[serde(default, deserialize_with = "or_default")]
    pub source: String,
    #[serde(default, deserialize_with = "or_default")]
    pub notes: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub axis_label: String,
    #[serde(default)]
    pub axis_form: AxisForm,
    /// Names and labels, where the axis has places.
    #[serde(default, deserialize_with = "or_default")]
    pub places: Vec<(String, String)>,
    curves: Vec<CurveHeader>,
    #[serde(default, deserialize_with = "or_default")]
    pub charts: Vec<Chart>,
    /// Runs of a point; none where nothing is drawn.
    pub seeds: Option<u64>,
    pub seed: Option<u64>,
    #[serde(default, deserialize_with = "or_default")]
    pub quick: bool,
    /// The paper's program, and ours that stands for it.
    #[serde(default, deserialize_with = "or_default")]
    pub stand_ins: Vec<(String, String)>,
    pub warmup: Option<String>,
    #[serde(default)]
    pub config: Value,
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
}

#[derive(Clone, Debug, Deserialize)]
struct CurveHeader {
    name: String,
    label: String,
    #[serde(default)]
    show: Show,
}

/// What an axis counts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AxisForm {
    Share,
    #[default]
    Number,
    Places,
}

impl AxisForm {
    /// How values on the axis are written.
    pub fn show(self) -> Show {
        match self {
            Self::Share => Show::Percent,
            Self::Number | Self::Places => Show::Number,
        }
    }
}

/// A picture of some curves.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Chart {
    pub title: String,
    /// `lines`, `bars` or `stacked`.
    pub form: String,
    #[serde(default, deserialize_with = "or_default")]
    pub value_label: String,
    pub curves: Vec<String>,
}

/// One value of a curve.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Point {
    pub x: Option<f64>,
    pub place: Option<String>,
    /// Whether it is on the axis; others are there for claims.
    #[serde(default = "yes")]
    pub on_axis: bool,
    pub value: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Confidence with which low and high hold the true median.
    pub confidence: Option<f64>,
    pub runs: Option<f64>,
    pub drawn: Option<f64>,
    pub drawn_half_width_95: Option<f64>,
    pub draws: Option<f64>,
    pub agrees: Option<bool>,
}

impl Point {
    /// The value, if there is a finite one.
    pub fn known(&self) -> Option<f64> {
        self.value.filter(|value| value.is_finite())
    }

    /// The interval, if there is one with some width.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let (low, high) = (self.low?, self.high?);
        (low.is_finite() && high.is_finite() && low < high).then_some((low, high))
    }
}

fn yes() -> bool {
    true
}

/// The value, or none of it (an empty text, an empty list) where there is `null`.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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
    let kind: Kind = read_json(line).map_err(wrong)?;
    if kind.record == "experiment" {
        let header: Header = read_json(line).map_err(wrong)?;
        let curve = |curve: &CurveHeader| Curve {
            name: curve.name.clone(),
            label: curve.label.clone(),
            show: curve.show,
            points: Vec::new(),
        };
        let curves = header.curves.iter().map(curve).collect();
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
            curve.points.push(read_json(line).map_err(wrong)?);
        }
        "claim" => owner.claims.push(read_json(line).map_err(wrong)?),
        other => return Err(format!("no record is of kind {other:?}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_name_the_line() {
        let fails = |text: &str, expected: &str| {
            let message = read_experiments(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        };
        fails("", "no results");
        fails("{\"record\":\"point\",\"experiment\":\"x\"}", "line 1: no experiment \"x\" before");
        fails("\n[1]", "line 2: ");
        let header = r#"{"record":"experiment","experiment":"x","title":"t","curves":[]}"#;
        let point = r#"{"record":"point","experiment":"x","curve":"c"}"#;
        fails(&format!("{header}\n{point}"), "line 2: the experiment has no curve \"c\"");
    }

    #[test]
    fn what_a_point_does_not_say_is_not_known() {
        let point: Point = serde_json::from_str(r#"{"place":"gups","value":null}"#).unwrap();
        assert_eq!((point.known(), point.interval(), point.on_axis), (None, None, true));
        let point: Point =
            serde_json::from_str(r#"{"x":1,"value":2.0,"low":2.0,"high":2.0}"#).unwrap();
        assert_eq!((point.known(), point.interval()), (Some(2.0), None));
    }
}
