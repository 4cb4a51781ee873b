//! Records of experiments: curves over an axis, and verdicts on a paper's claims. `docs/experiments.md`
//! describes the lines of the file.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::lenient::{known_or_default, or_default, some_whole};
use crate::{JointRecord, RecordsError, json_line, read_json};

/// Contents of a results file of experiments.
#[derive(Clone, Debug, Default)]
pub struct ExperimentResults {
    /// Experiments, in the order of the file.
    pub experiments: Vec<ExperimentRecord>,
    /// Joint readings of each paper; empty without `--unstated joint`.
    pub joint: Vec<JointRecord>,
}

/// Results of one experiment: its points and claims. In a results file, each point and each claim is a line
/// of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExperimentRecord {
    /// Name of the experiment.
    pub experiment: String,
    /// Path of the experiment file that the user named; `None` for an experiment that comes with the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Title of the experiment on pages and in tables.
    pub title: String,
    /// Section, figure or table of the paper that the experiment reproduces.
    #[serde(default, deserialize_with = "or_default")]
    pub source: String,
    /// Remarks on the experiment, shown below its title.
    #[serde(default, deserialize_with = "or_default")]
    pub notes: Vec<String>,
    /// Label of the axis over which the experiment's curves are drawn.
    #[serde(default, deserialize_with = "or_default")]
    pub axis_label: String,
    /// Kind of the axis: shares, numbers or named places.
    #[serde(default)]
    pub axis_form: AxisForm,
    /// Names and labels of the places (such as workloads) of an axis of named places; empty if the axis is
    /// numeric.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub places: Vec<(String, String)>,
    /// Curves of the experiment, in the order of the experiment file.
    pub curves: Vec<CurveRecord>,
    /// Charts of the experiment, in the order of the experiment file.
    #[serde(default, deserialize_with = "or_default")]
    pub charts: Vec<ChartRecord>,
    /// Number of simulations for each point, with consecutive seeds.
    pub seeds: Option<u64>,
    /// Seed of the first simulation of each point.
    pub seed: Option<u64>,
    /// True if `--quick` reduced the precision of the simulations.
    #[serde(default, deserialize_with = "or_default")]
    pub quick: bool,
    /// Programs that the paper uses, each with the workload that replaces it here.
    #[serde(default, deserialize_with = "or_default")]
    pub stand_ins: Vec<(String, String)>,
    /// Warm-up as the experiment file states it; `None` if the file states none.
    pub warmup: Option<String>,
    /// Contents of the experiment file with its parameters filled in. The JSON keys are in the order of the
    /// file.
    #[serde(default, deserialize_with = "raw")]
    pub config: Box<RawValue>,
    /// Version of the program that wrote the record.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
    /// Claims of the paper in the order of the file.
    #[serde(skip)]
    pub claims: Vec<ClaimRecord>,
}

/// A curve of an experiment, with its points.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CurveRecord {
    /// Name by which charts and claims refer to the curve.
    pub name: String,
    /// Label of the curve in legends and tables.
    pub label: String,
    /// Notation in which reports print the curve's values.
    #[serde(default = "Show::number")]
    pub show: Show,
    /// Points of the curve in the order of the axis.
    #[serde(skip)]
    pub points: Vec<PointRecord>,
}

/// Kind of the axis of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisForm {
    /// Numeric axis with shares from 0 to 1.
    Share,
    /// Numeric axis with numbers of any range.
    #[default]
    Number,
    /// Axis of named places, such as workloads.
    Places,
}

/// Notation in which reports print a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Show {
    /// Percentage: 0.25 is printed as 25 %.
    #[default]
    Percent,
    /// Change in percent: 1.25 is printed as +25 %.
    Gain,
    /// Ratio: 1.25 is printed as 1.25×.
    Ratio,
    /// Plain number: 1.25 is printed as 1.25.
    Number,
}

impl Show {
    /// Returns [`Show::Number`], the default for records without a notation.
    fn number() -> Self {
        Self::Number
    }
}

/// A chart that shows some of an experiment's curves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChartRecord {
    /// Title above the chart.
    pub title: String,
    /// Form of the chart; lines if this version does not know the form.
    #[serde(deserialize_with = "known_or_default")]
    pub form: ChartForm,
    /// Label of the vertical axis (the values).
    #[serde(default, deserialize_with = "or_default")]
    pub value_label: String,
    /// Names of the curves in the chart, in the order of the legend.
    pub curves: Vec<String>,
}

/// Form of an experiment's chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartForm {
    /// Lines over an axis of numbers.
    #[default]
    Lines,
    /// Bars side by side.
    Bars,
    /// Bars on top of each other.
    Stacked,
}

/// One point of a curve: a position on the axis and a value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointRecord {
    /// Name of the experiment that the point belongs to.
    #[serde(default)]
    pub experiment: String,
    /// Name of the curve that the point belongs to.
    #[serde(default)]
    pub curve: String,
    /// Position of the point on a numeric axis; `None` on an axis of named places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Name of the point's place on an axis of named places; `None` on a numeric axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// True if charts and tables show the point. False for an additional position that was only simulated
    /// because a claim needs its value.
    #[serde(default = "yes")]
    pub on_axis: bool,
    /// Median of the value over the runs of the point; `None` if no run has the value.
    pub value: Option<f64>,
    /// Lower end of the confidence interval around the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the confidence interval around the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Confidence, 0–1, that the true median is between `low` and `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Number of runs of the point that have the value.
    #[serde(default, deserialize_with = "some_whole")]
    pub runs: Option<u64>,
    /// Monte Carlo estimate of a value that has a closed form; `None` if the curve has no such estimate.
    #[serde(flatten)]
    pub drawn: Option<DrawnRecord>,
}

/// Monte Carlo estimate of a value that has a closed form.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnRecord {
    /// Mean of the random draws.
    pub drawn: f64,
    /// Half the width of the 95 % confidence interval around the mean.
    pub drawn_half_width_95: Option<f64>,
    /// Number of random draws of which the mean was taken.
    pub draws: Option<f64>,
    /// True if the value of the closed form agrees with the random draws.
    pub agrees: Option<bool>,
}

impl PointRecord {
    /// Returns the value of the point if it is a finite number, otherwise `None`.
    pub fn known(&self) -> Option<f64> {
        self.value.filter(|value| value.is_finite())
    }

    /// Returns the interval around the median as (lower end, upper end); `None` unless both ends are known
    /// and differ.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let (low, high) = (self.low?, self.high?);
        (low.is_finite() && high.is_finite() && low < high).then_some((low, high))
    }
}

fn yes() -> bool {
    true
}

/// A claim of a paper, with the value from our simulation and the verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// Name of the experiment that tests the claim.
    #[serde(default)]
    pub experiment: String,
    /// Short identifier of the claim, such as `P-C7`.
    pub id: String,
    /// Statement of the claim in words.
    pub statement: String,
    /// Section, figure or table of the paper that makes the claim.
    #[serde(default, deserialize_with = "or_default")]
    pub source: String,
    /// Kind of evidence that the claim provides; `None` if this version does not know the kind.
    #[serde(default, deserialize_with = "known_or_default")]
    pub kind: Option<ClaimKind>,
    /// Name of the curve that the claim is about.
    #[serde(default, deserialize_with = "or_default")]
    pub curve: String,
    /// Position on a numeric axis to which the claim applies; `None` if it is not about one position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Name of the place to which the claim applies, on an axis of named places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Name of the average over places that the claim is about, such as a median, or `every` if the claim
    /// must hold at each of several places; `None` for other claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Names of the places that `over` covers; empty for all places of the axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub places: Vec<String>,
    /// Notation in which reports print the claim's numbers.
    #[serde(default = "Show::number")]
    pub show: Show,
    /// Number that the paper states, or the lower end of its range.
    pub paper: Option<f64>,
    /// Upper end of the range that the paper states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper_high: Option<f64>,
    /// Relation that our value should have to the paper's: `=`, `≤`, `≥` or `range`.
    #[serde(default, deserialize_with = "or_default")]
    pub relation: String,
    /// Value from our simulation. For several places, the value that misses the claim by most.
    pub ours: Option<f64>,
    /// Lower end of the confidence interval around our value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours_low: Option<f64>,
    /// Upper end of the confidence interval around our value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours_high: Option<f64>,
    /// Smallest of our values, if the claim covers several places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours_least: Option<f64>,
    /// Greatest of our values, if the claim covers several places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours_greatest: Option<f64>,
    /// Greatest absolute difference from the paper's number, in the unit of the curve, that counts as
    /// reproduced.
    #[serde(default)]
    pub tolerance: Option<f64>,
    /// Verdict of the comparison of our value with the paper's.
    pub verdict: Verdict,
    /// Remark for readers of the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Explanation why our value deviates from the paper's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// Name of the experiment that tests the explanation of a deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tested_by: Option<String>,
    /// Range of our value over plausible values of parameters that the paper does not state; `None` if it was
    /// not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unstated: Option<UnstatedRange>,
}

/// Kind of evidence that a claim provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    /// Claim of a formula. Our value is computed by the same formula, or is a simulated count of events that
    /// the formula predicts.
    ClosedForm,
    /// Claim of a property of the mechanism as described, which no simulation could contradict.
    ByConstruction,
    /// Claim of a published number that is an input of our workload.
    Input,
    /// Claim of the sign of a difference, or of the presence of an effect.
    Sign,
    /// Claim of a bound that the simulated number may or may not keep.
    Threshold,
    /// Claim of a number that the simulated number may or may not match.
    Number,
    /// Number or threshold of another claim, under conditions less like the paper's: with other programs, or
    /// by simulated timing instead of a formula.
    Restated,
    /// A test of another claim's explanation, found in no paper. The experiment changes the suspected cause,
    /// and the value should change accordingly.
    Test,
}

impl ClaimKind {
    /// True if simulation can contradict claims of this kind: numbers and thresholds.
    pub fn is_tested(self) -> bool {
        matches!(self, Self::Number | Self::Threshold)
    }
}

/// Returns the prefix of a claim's id, which identifies the paper: `P` for `P-C7`. Empty for an id without
/// prefix.
pub fn paper_of(id: &str) -> &str {
    id.split_once(['-', ' ']).map_or("", |(prefix, _)| prefix)
}

/// Verdict on a claim: agreement of our value with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Our value deviates from the paper's by at most the tolerance.
    Reproduced,
    /// Our value is outside the tolerance, but deviates in the same direction as the paper's from the value
    /// that means no effect (such as a speedup of 1).
    SameDirection,
    /// Our value is outside the tolerance, and does not deviate in the paper's direction from the value that
    /// means no effect.
    NotReproduced,
}

impl ClaimRecord {
    /// True if simulation can contradict the claim: it is a number or a threshold.
    pub fn is_tested(&self) -> bool {
        self.kind.is_some_and(ClaimKind::is_tested)
    }

    /// True if the claim is about exactly this point of `curve`.
    pub fn is_at(&self, curve: &str, point: &PointRecord) -> bool {
        let is_place = match (&self.place, self.x) {
            (Some(place), _) => point.place.as_ref() == Some(place),
            (None, Some(x)) => point.x == Some(x),
            (None, None) => false,
        };
        is_place && self.curve == curve
    }

    /// True if the claim covers this place of the axis.
    pub fn is_over(&self, place: &str) -> bool {
        self.places.is_empty() || self.places.iter().any(|one| one == place)
    }
}

/// Range of a claim's value over plausible values of parameters that the paper does not state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnstatedRange {
    /// Value of the claim with all unstated parameters at their defaults and the first seed; `None` if
    /// unknown.
    pub default: Option<f64>,
    /// Smallest value of the claim over all variants of the machine (plausible values of unstated
    /// parameters).
    pub least: f64,
    /// Greatest value of the claim over all variants of the machine (plausible values of unstated
    /// parameters).
    pub greatest: f64,
    /// Number of simulated variants of the machine, including the one with all parameters at their defaults.
    pub variants: usize,
    /// Number of variants with which the claim is reproduced.
    #[serde(default)]
    pub reproduced: usize,
    /// Machines with which the claim holds: the one with default parameters, some variant, or none.
    pub reading: Reading,
    /// Effect of each unstated parameter alone on the claim's value, greatest effect first.
    pub parts: Vec<PartRange>,
}

/// Dependence of a claim's verdict on what the paper leaves open: the claim holds with the defaults, with
/// other allowed values only, or with none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The claim holds with all unstated parameters at their defaults.
    AtTheDefault,
    /// The claim holds for a variant of the machine, or would hold for a value between the smallest and the
    /// greatest value of the variants.
    InsideTheRange,
    /// The claim holds for no variant of the machine.
    InNone,
}

/// Effect of one parameter that the paper does not state on the value of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartRange {
    /// Name of the unstated parameter.
    pub name: String,
    /// Reason why the alternative values of the parameter are plausible.
    pub reason: String,
    /// Alternative values of the parameter, each with the resulting value of the claim.
    pub values: Vec<(String, Option<f64>)>,
}

/// One line of a results file of experiments.
#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum ExperimentLine<'r> {
    /// The experiment itself, whose points and claims follow.
    Experiment(&'r ExperimentRecord),
    Point(&'r PointRecord),
    Claim(&'r ClaimRecord),
    /// Joint readings of a paper, after all experiments.
    Joint(&'r JointRecord),
}

impl ExperimentResults {
    /// Returns the lines of a results file: each experiment with its points and claims, then the joint
    /// readings.
    pub fn lines(&self) -> String {
        let experiments = self.experiments.iter().flat_map(|experiment| {
            let points = experiment.curves.iter().flat_map(|curve| &curve.points);
            std::iter::once(ExperimentLine::Experiment(experiment))
                .chain(points.map(ExperimentLine::Point))
                .chain(experiment.claims.iter().map(ExperimentLine::Claim))
        });
        let joint = self.joint.iter().map(ExperimentLine::Joint);
        experiments.chain(joint).map(|line| json_line(&line)).collect()
    }
}

/// Converts the contents of an experiment file to the JSON text that records store.
///
/// # Panics
/// If the contents cannot be written as JSON.
pub fn config_of(config: &impl Serialize) -> Box<RawValue> {
    to_raw_value(config).expect("files are plain data")
}

fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    Ok(config_of(&Value::deserialize(deserializer)?))
}

/// Reads a results file of experiments, one JSON object per line.
///
/// # Errors
/// If a line is not a record or belongs to no experiment before it, or if the text has no records.
pub fn read_experiments(text: &str) -> Result<ExperimentResults, RecordsError> {
    let mut found = ExperimentResults::default();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        read_line(line, &mut found)
            .map_err(|cause| RecordsError::Record { line: index + 1, cause })?;
    }
    if found.experiments.is_empty() { Err(RecordsError::Empty) } else { Ok(found) }
}

fn read_line(line: &str, found: &mut ExperimentResults) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Kind {
        record: String,
    }
    let value: Value = read_json(line).map_err(wrong)?;
    let Kind { record } = Kind::deserialize(&value).map_err(wrong)?;
    match record.as_str() {
        "experiment" => found.experiments.push(serde_json::from_value(value).map_err(wrong)?),
        "joint" => found.joint.push(serde_json::from_value(value).map_err(wrong)?),
        "point" => {
            let curves = &mut owner(&value, &mut found.experiments)?.curves;
            let point: PointRecord = serde_json::from_value(value).map_err(wrong)?;
            let curve = curves.iter_mut().find(|curve| curve.name == point.curve);
            let name = &point.curve;
            let curve = curve.ok_or_else(|| format!("the experiment has no curve {name:?}"))?;
            curve.points.push(point);
        }
        "claim" => {
            let claims = &mut owner(&value, &mut found.experiments)?.claims;
            claims.push(serde_json::from_value(value).map_err(wrong)?);
        }
        other => return Err(format!("no record is of kind {other:?}")),
    }
    Ok(())
}

/// Returns the experiment to which a point or claim belongs.
fn owner<'r>(
    line: &Value,
    found: &'r mut [ExperimentRecord],
) -> Result<&'r mut ExperimentRecord, String> {
    #[derive(Deserialize)]
    struct Owner {
        experiment: String,
    }
    let Owner { experiment } = Owner::deserialize(line).map_err(wrong)?;
    let owner = found.iter_mut().rfind(|one| one.experiment == experiment);
    owner.ok_or_else(|| format!("no experiment {experiment:?} before it"))
}

fn wrong(error: serde_json::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::word;

    const HEADER: &str = r#"{"record":"experiment","experiment":"x","title":"t","source":"","notes":[],"axis_label":"","axis_form":"share","curves":[{"name":"c","label":"C","show":"gain"}],"charts":[{"title":"T","form":"bars","value_label":"v","curves":["c"]}],"seeds":1,"seed":7,"quick":true,"stand_ins":[],"warmup":null,"config":{"name":"x","axis":{"to":1,"from":0}},"version":"1"}"#;

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
        let point: PointRecord = serde_json::from_str(r#"{"place":"gups","value":null}"#).unwrap();
        assert_eq!((point.known(), point.interval(), point.on_axis), (None, None, true));
        let point: PointRecord =
            serde_json::from_str(r#"{"x":1,"value":2.0,"low":2.0,"high":2.0}"#).unwrap();
        assert_eq!((point.known(), point.interval()), (Some(2.0), None));
        let interval = |low, high| PointRecord { low, high, ..point.clone() }.interval();
        assert_eq!(interval(Some(1.5), Some(2.0)), Some((1.5, 2.0)));
        assert_eq!(interval(Some(2.5), Some(2.0)), None);
        let [infinite, negative] = [f64::INFINITY, f64::NEG_INFINITY].map(Some);
        assert_eq!((interval(negative, Some(2.0)), interval(Some(1.0), infinite)), (None, None));
        let value = |value| PointRecord { value, ..point.clone() }.known();
        assert_eq!((value(infinite), value(Some(f64::NAN))), (None, None));
    }

    #[test]
    fn claims_are_about_a_point_of_one_curve_or_about_places() {
        let claim = |fields: &str| -> ClaimRecord {
            let text =
                format!(r#"{{"id":"P-C1","statement":"s","verdict":"reproduced",{fields}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let point: PointRecord =
            serde_json::from_str(r#"{"x":1,"place":"gups","value":2.0}"#).unwrap();
        for (fields, curve, is_at) in [
            (r#""curve":"c","x":1"#, "c", true),
            (r#""curve":"c","x":1"#, "d", false),
            (r#""curve":"c","x":2"#, "c", false),
            (r#""curve":"c","place":"gups""#, "c", true),
            (r#""curve":"c","place":"gups""#, "d", false),
            (r#""curve":"c","place":"mcf","x":1"#, "c", false),
            (r#""curve":"c""#, "c", false),
        ] {
            assert_eq!(claim(fields).is_at(curve, &point), is_at, "{fields} on {curve}");
        }
        let over = claim(r#""curve":"c","places":["gups","mcf"]"#);
        assert_eq!(["gups", "mcf", "xz"].map(|place| over.is_over(place)), [true, true, false]);
        assert!(claim(r#""curve":"c""#).is_over("xz"), "all places");
        let papers = ["P-C1", "G 4", "claim"].map(paper_of);
        assert_eq!(papers, ["P", "G", ""]);
    }

    #[test]
    fn points_and_claims_belong_to_the_last_experiment_of_their_name() {
        let other = HEADER.replace(r#""experiment":"x""#, r#""experiment":"y""#);
        let point = r#"{"record":"point","experiment":"x","curve":"c","x":0.5}"#;
        let claim = r#"{"record":"claim","experiment":"x","id":"P-C1","statement":"s","verdict":"reproduced"}"#;
        let text = [HEADER, point, &other, HEADER, point, point, &other, claim].join("\n");
        let read = read_experiments(&text).unwrap();
        let points: Vec<_> =
            read.experiments.iter().map(|one| one.curves[0].points.len()).collect();
        assert_eq!(points, [1, 0, 2, 0]);
        let claims: Vec<_> = read.experiments.iter().map(|one| one.claims.len()).collect();
        assert_eq!(claims, [0, 0, 1, 0]);
        let unknown = claim.replace(r#""experiment":"x""#, r#""experiment":"z""#);
        let error = read_experiments(&[HEADER, &unknown].join("\n")).unwrap_err().to_string();
        assert!(error.contains("line 2: no experiment \"z\" before"), "{error}");
    }

    /// Reading and writing gives the same bytes, except that the keys of `config` are sorted.
    #[test]
    fn reading_and_writing_are_one_schema() {
        let point = r#"{"record":"point","experiment":"x","curve":"c","x":0.5,"on_axis":true,"value":1.5,"low":1.0,"high":2.0,"confidence":0.75,"runs":3,"drawn":1.5,"drawn_half_width_95":null,"draws":8.0,"agrees":null}"#;
        let claim = r#"{"record":"claim","experiment":"x","id":"P-C1","statement":"s","source":"§1","kind":"by-construction","curve":"c","over":"every","places":["a"],"show":"gain","paper":1.5,"relation":"=","ours":null,"tolerance":0.05,"verdict":"same_direction","unstated":{"default":1.6,"least":1.25,"greatest":2.0,"variants":9,"reproduced":1,"reading":"inside_the_range","parts":[]}}"#;
        let joint = format!(
            r#"{{"record":"joint","paper":"P","quick":true,"choices":[{{"name":"n","reason":"r","values":["v"]}}],"readings":[{{}},{{"n":"v"}}],"claims":[{},"ours_in":[1.5,null],"holds_in":[true,false]}}]}}"#,
            &claim[..claim.len() - 1].replace(r#""record":"claim","#, "")
        );
        let text = format!("{HEADER}\n{point}\n{claim}\n{joint}\n");
        let read = read_experiments(&text).unwrap();
        let in_order = text.replace(
            r#"{"name":"x","axis":{"to":1,"from":0}}"#,
            r#"{"axis":{"from":0,"to":1},"name":"x"}"#,
        );
        assert_eq!(read.lines(), in_order);
        let claim = &read.experiments[0].claims[0];
        let (kind, verdict) = (claim.kind.unwrap(), claim.verdict);
        assert_eq!((&*word(kind), &*word(verdict)), ("by-construction", "same_direction"));
    }

    #[test]
    fn words_of_other_versions_are_read() {
        let text = HEADER.replace("\"bars\"", "\"radar\"");
        assert_eq!(
            read_experiments(&text).unwrap().experiments[0].charts[0].form,
            ChartForm::Lines
        );
        let claim = r#"{"id":"X","statement":"s","kind":"oracle","verdict":"reproduced"}"#;
        assert_eq!(serde_json::from_str::<ClaimRecord>(claim).unwrap().kind, None);
    }

    #[test]
    fn numbers_and_thresholds_are_tested() {
        let is_tested = |kind: &str| {
            let claim = json!({"id": "X", "statement": "s", "kind": kind, "verdict": "reproduced"});
            serde_json::from_value::<ClaimRecord>(claim).unwrap().is_tested()
        };
        let all = [
            "closed-form",
            "by-construction",
            "input",
            "sign",
            "threshold",
            "number",
            "restated",
            "test",
            "new",
        ];
        let tested: Vec<_> = all.into_iter().filter(|kind| is_tested(kind)).collect();
        assert_eq!(tested, ["threshold", "number"]);
    }

    /// Empty lines are passed over, and counted in the numbers of lines.
    #[test]
    fn lines_of_spaces_are_empty() {
        let text = format!("\n  \t\n{HEADER}\n \n");
        assert_eq!(read_experiments(&text).unwrap().experiments.len(), 1);
        let error = read_experiments(&format!("{text}{{}}")).unwrap_err().to_string();
        assert!(error.starts_with("line 5: "), "{error}");
        assert!(matches!(read_experiments(" \n"), Err(RecordsError::Empty)));
    }

    /// Values that a record may leave out, and kinds that simulation can contradict.
    #[test]
    fn records_have_defaults() {
        let text = r#"{"record":"experiment","experiment":"x","title":"t","curves":[{"name":"c","label":"C"}]}"#;
        let read = read_experiments(text).unwrap().experiments.remove(0);
        assert_eq!(
            (read.axis_form, read.curves[0].show, read.quick),
            (AxisForm::Number, Show::Number, false)
        );
        assert_eq!((read.seeds, read.seed, read.file, read.warmup), (None, None, None, None));
        let claim: ClaimRecord =
            serde_json::from_str(r#"{"id":"X","statement":"s","verdict":"reproduced"}"#).unwrap();
        assert_eq!(
            (claim.show, claim.relation.as_str(), claim.tolerance, claim.is_tested()),
            (Show::Number, "", None, false)
        );
        use ClaimKind::*;
        let kinds = [Number, Threshold, Restated, Sign, ClosedForm, ByConstruction, Input, Test];
        assert_eq!(
            kinds.map(ClaimKind::is_tested),
            [true, true, false, false, false, false, false, false]
        );
        let names = kinds.map(word).join(" ");
        assert_eq!(names, "number threshold restated sign closed-form by-construction input test");
        let names = [Show::Percent, Show::Gain, Show::Ratio, Show::Number].map(word).join(" ");
        assert_eq!(names, "percent gain ratio number");
        let names =
            [Reading::AtTheDefault, Reading::InsideTheRange, Reading::InNone].map(word).join(" ");
        assert_eq!(names, "at_the_default inside_the_range in_none");
        let names = [AxisForm::Share, AxisForm::Number, AxisForm::Places].map(word).join(" ");
        assert_eq!(names, "share number places");
        assert_eq!(["P-C1-2", "G C-4", "", "-C1"].map(paper_of), ["P", "G", "", ""]);
        let error =
            read_experiments(&text.replace("experiment\",\"experiment", "other\",\"experiment"))
                .unwrap_err();
        assert_eq!(error.to_string(), "line 1: no record is of kind \"other\"");
    }
}
