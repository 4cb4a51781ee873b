//! Experiment files: settings, axis, curves, charts, and the claims of a paper.

mod axis;
mod bundled;
mod chart;
mod check;
mod claim;
mod curve;
mod expand;
mod texts;

use std::collections::BTreeMap;
use std::path::Path;

use perforate_config::suggestion;
use perforate_sim::{Plausible, one_line};
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::kind::{Kind, Settings};
use crate::template::Values;
use texts::{quoted, texts};

pub use axis::{Axis, Place};
pub use chart::Chart;
pub use claim::{Average, Claim, Expectation, Measure};
pub use curve::{Curve, State};

/// An experiment as its file describes it, after parameter expansion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name of the experiment: the paper's folder, then the figure.
    pub name: String,
    /// Path of the experiment file; `None` for an experiment that comes with the program.
    #[serde(skip)]
    pub file: Option<String>,
    /// Title of the experiment in reports.
    pub title: String,
    /// Paper and figure that the experiment reproduces.
    pub source: String,
    /// Notes that a reader needs to judge the results.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Programs of the paper, each with the workload that replaces the program here.
    #[serde(default)]
    pub stand_ins: Vec<(String, String)>,
    /// Name of the kind of measurement (a [`Kind`]).
    #[serde(default = "simulation")]
    pub kind: String,
    /// Number of runs of each point, with consecutive seeds.
    #[serde(default = "one")]
    pub seeds: u64,
    /// Seed of the first run of each point.
    #[serde(default = "one")]
    pub seed: u64,
    /// Settings that all states of the experiment share.
    #[serde(default, deserialize_with = "texts")]
    pub settings: Texts,
    /// Values that replace those of the file under `--quick`, for a shorter and coarser run.
    #[serde(default)]
    pub quick: Quick,
    /// Placeholders for inputs that only the user has, such as a folder of traces, with their
    /// defaults. [`Experiment::with_inputs`] sets them.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub inputs: Texts,
    /// Placeholders for choices that the paper leaves open, with the values that we chose. `--unstated`
    /// varies them as `plausible` lists.
    #[serde(default)]
    pub choices: Texts,
    /// Choices that the paper leaves open, each with plausible alternative values.
    #[serde(default)]
    pub plausible: Vec<Plausible>,
    /// Parameters with their values. States, definitions, curves and charts that name a parameter are
    /// repeated for each of its values.
    #[serde(default)]
    pub parameters: BTreeMap<String, Vec<Text>>,
    /// Axis with the points of measurement; by default a single place.
    #[serde(default)]
    pub axis: Axis,
    /// States of the experiment: named settings that override `settings`.
    #[serde(default, rename = "state")]
    pub states: Vec<State>,
    /// Named formulas that curves can use, by name.
    #[serde(default)]
    pub definitions: BTreeMap<String, String>,
    /// Curves that are computed and shown.
    #[serde(default, rename = "curve")]
    pub curves: Vec<Curve>,
    /// Charts of the curves; by default one chart with all curves.
    #[serde(default, rename = "chart")]
    pub charts: Vec<Chart>,
    /// Claims of the paper, which are compared with the results.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

fn simulation() -> String {
    "simulation".into()
}

fn one() -> u64 {
    1
}

/// A string, number or boolean of an experiment file, converted to text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", into = "String")]
pub struct Text(pub String);

impl TryFrom<toml::Value> for Text {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        match value {
            toml::Value::String(text) => Ok(Self(text)),
            toml::Value::Integer(number) => Ok(Self(number.to_string())),
            toml::Value::Float(number) => Ok(Self(number.to_string())),
            toml::Value::Boolean(truth) => Ok(Self(truth.to_string())),
            other => Err(format!("expected a text or a number, not {}", other.type_str())),
        }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

/// Texts of an experiment file by key.
pub type Texts = BTreeMap<String, Text>;

/// Values that replace those of the experiment file under `--quick`, for a coarser run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quick {
    /// Number of runs of each point; `None` keeps the file's.
    pub seeds: Option<u64>,
    /// Distance between neighbouring points of the axis; `None` keeps the file's.
    pub step: Option<f64>,
    /// Settings that override those that all states share.
    #[serde(flatten, deserialize_with = "texts")]
    pub settings: Texts,
}

/// Command-line options that override values of an experiment file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExperimentOptions {
    /// True to replace the file's values by those of its `[quick]` table.
    pub quick: bool,
    /// Number of runs of each point, instead of the file's `seeds`.
    pub seeds: Option<u64>,
    /// Seed of the first run, instead of the file's `seed`.
    pub seed: Option<u64>,
    /// Number of random draws for each point, for kinds of measurement that sample.
    pub samples: Option<u64>,
}

impl Experiment {
    /// Maximum number of runs of each point.
    pub const MOST_SEEDS: u64 = 1000;

    /// Returns all experiments that come with the program.
    ///
    /// # Panics
    /// If a bundled file is invalid, which a test excludes.
    pub fn bundled() -> Vec<Self> {
        bundled::FILES.iter().map(|(name, text)| Self::read_bundled(name, text)).collect()
    }

    /// Parses the text of a bundled file without validation; a test validates the bundled files.
    fn read_bundled(name: &str, text: &str) -> Self {
        Self::read(name, text).expect("bundled experiments are right")
    }

    /// Loads the bundled experiment of this name, or the experiment file at this path.
    ///
    /// # Errors
    /// An unknown experiment, an unreadable file, or an invalid one.
    pub fn load(name: &str) -> Result<Self, ExperimentError> {
        if let Some((name, text)) = bundled::FILES.iter().find(|(bundled, _)| *bundled == name) {
            return Ok(Self::read_bundled(name, text));
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Err(ExperimentError::Unknown { name: name.into(), suggestion: near(name) });
        }
        let text = perforate_config::read_text(path)
            .map_err(|source| ExperimentError::File { path: path.into(), source })?;
        Ok(Self { file: Some(name.into()), ..Self::parse(name, &text)? })
    }

    /// Parses and validates the text of an experiment file; `name` is for error messages.
    ///
    /// # Errors
    /// Errors of [`Experiment::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self, ExperimentError> {
        let experiment = Self::read(name, text)?;
        experiment.check().map_err(|problem| wrong(name, problem))?;
        Ok(experiment)
    }

    /// Parses the syntax and structure of an experiment file, without validating the values.
    fn read(name: &str, text: &str) -> Result<Self, ExperimentError> {
        let text = &quoted(text);
        let file = toml::from_str(text).map_err(|error| wrong(name, one_line(&error, text)))?;
        expand::expand(file).map_err(|problem| wrong(name, problem))
    }

    /// Returns the experiment with the command-line options applied.
    pub fn with(mut self, options: &ExperimentOptions) -> Self {
        if options.quick {
            let quick = self.quick.clone();
            self.seeds = quick.seeds.unwrap_or(self.seeds);
            if let Some(step) = quick.step {
                self.axis.coarsen(step);
            }
            self.settings.extend(quick.settings);
            self.drop_claims_of_full_runs();
        }
        if let Some(samples) = options.samples.filter(|_| self.draws()) {
            self.settings.insert("samples".into(), Text(samples.to_string()));
        }
        self.seeds = options.seeds.unwrap_or(self.seeds);
        self.seed = options.seed.unwrap_or(self.seed);
        self
    }

    /// Removes claims that only full runs can judge, and curves that only these claims need.
    fn drop_claims_of_full_runs(&mut self) {
        let (dropped, kept): (Vec<Claim>, Vec<Claim>) =
            self.claims.drain(..).partition(|claim| claim.full_runs_only);
        self.claims = kept;
        if dropped.is_empty() {
            return;
        }
        let is_in = |claims: &[Claim], name: &String| claims.iter().any(|claim| claim.needs(name));
        let is_shown = |name: &String| self.charts.iter().any(|chart| chart.curves.contains(name));
        let claims = &self.claims;
        self.curves.retain(|curve| {
            let name = &curve.name;
            is_shown(name) || is_in(claims, name) || !is_in(&dropped, name)
        });
        let number = dropped.len();
        let them = if number == 1 { "claim needs" } else { "claims need" };
        self.notes.push(format!(
            "{number} {them} full runs, without --quick: here caches and TLBs are still filling."
        ));
    }

    /// Returns the experiment with these values for the placeholders in its `[inputs]`.
    ///
    /// # Errors
    /// An unknown placeholder, or a value with a control character.
    pub fn with_inputs(mut self, values: &[(String, String)]) -> Result<Self, ExperimentError> {
        for (name, value) in values {
            let known: Vec<&str> = self.inputs.keys().map(String::as_str).collect();
            let problem = if known.is_empty() {
                format!("it has no [inputs], so {name} cannot be set")
            } else if !known.contains(&name.as_str()) {
                format!("no input {name:?}; {}", suggestion(name, &known))
            } else if value.chars().any(char::is_control) {
                format!("input {name}: {value:?}: texts must be plain and in one line")
            } else {
                self.inputs.insert(name.clone(), Text(value.clone()));
                continue;
            };
            return Err(wrong(&self.name, problem));
        }
        Ok(self)
    }

    /// Returns the kind of measurement.
    ///
    /// # Errors
    /// An unknown kind.
    pub fn kind(&self) -> Result<&'static Kind, String> {
        Kind::find(&self.kind)
    }

    /// True if the kind of measurement uses random samples, and their number is configurable.
    fn draws(&self) -> bool {
        let knows = |kind: &Kind| (kind.settings)().iter().any(|known| known.name == "samples");
        self.kind().is_ok_and(knows)
    }

    /// Returns the values of all placeholders at a place of the axis.
    pub(crate) fn values(&self, place: &Place) -> Values {
        let choices = self.inputs.iter().chain(&self.choices);
        let values =
            choices.fold(Values::default(), |values, (name, text)| values.with(name, &text.0));
        self.axis.add_values(values, place)
    }

    /// Returns the settings of a state at a place of the axis, with placeholders replaced; without a state,
    /// the settings that all states share.
    ///
    /// # Errors
    /// An unknown state, or a placeholder without a value.
    pub fn settings(&self, state: Option<&str>, place: &Values) -> Result<Settings, String> {
        let mut texts: BTreeMap<&str, &str> =
            self.settings.iter().map(|(key, text)| (key.as_str(), text.0.as_str())).collect();
        if let Some(name) = state {
            let state = self.states.iter().find(|state| state.name == name);
            let state = state.ok_or_else(|| {
                let known: Vec<&str> =
                    self.states.iter().map(|state| state.name.as_str()).collect();
                format!(
                    "there is no state {name:?}; {}",
                    perforate_config::suggestion(name, &known)
                )
            })?;
            texts.extend(state.settings.iter().map(|(key, text)| (key.as_str(), text.0.as_str())));
        }
        let mut settings = Settings::default();
        // An empty text removes a setting that all states share.
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            settings.0.insert(key.into(), filled(place, text)?);
        }
        Ok(settings)
    }

    /// Returns the length of the warm-up as text for reports: the file's setting, or the default of simulated
    /// runs. `None` for other kinds of measurement without that setting.
    pub fn warmup(&self) -> Option<String> {
        let warmup = self.settings.get("warmup").map(|text| match text.0.contains('{') {
            true => "another for each place".into(),
            false => format!("{} instructions", text.0),
        });
        let runs = self.kind == "simulation";
        warmup.or_else(|| runs.then(|| "a fifth of each run".into()))
    }
}

/// Replaces all placeholders in a text by their values at a place.
///
/// # Errors
/// A placeholder without a value.
pub fn filled(place: &Values, text: &str) -> Result<String, String> {
    let text = place.fill(text);
    if let Some(name) = crate::template::placeholders(&text).next() {
        return Err(format!("{text:?}: placeholder {{{name}}} has no value"));
    }
    Ok(text)
}

/// Returns the second half of an error about an unknown experiment or group: the nearest known name, or the
/// names of all groups.
fn near(name: &str) -> String {
    let names = bundled::FILES.iter().map(|(name, _)| *name);
    let groups = names.clone().filter_map(|name| Some(name.split_once('/')?.0));
    let mut known: Vec<&str> = groups.collect();
    known.dedup();
    let groups = known.join(", ");
    known.extend(names);
    match perforate_config::nearest(name, &known) {
        Some(near) => format!("did you mean {near}?"),
        None if Path::new(name).is_file() => {
            "a file with an experiment is named *.toml (docs/experiments.md)".into()
        }
        None => format!("groups are {groups}; `perforate experiment list` has all experiments"),
    }
}

fn wrong(name: &str, problem: String) -> ExperimentError {
    ExperimentError::Wrong { name: name.into(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Validates the bundled files, which the program itself parses without validation.
    #[test]
    fn bundled_files_are_right() {
        for (name, text) in bundled::FILES {
            Experiment::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
