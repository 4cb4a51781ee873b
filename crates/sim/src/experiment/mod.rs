//! Experiments: a table or figure of a paper, from a declarative file, with the paper's numbers
//! beside ours.
//!
//! A file names its subject (what is measured, and by which kind of analysis), an axis, and claims.
//! A subject makes [`Curve`]s over the axis; [`Claim`]s look at curves and know no subject. So a
//! new kind of experiment is a variant of [`Subject`] and nothing else.

mod axis;
mod claim;
mod curve;
mod record;
mod simulation;
mod subject;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::capacity::Sampling;
use crate::machine::one_line;
use crate::{Progress, SimError};

pub use axis::Axis;
pub use claim::{Claim, ClaimKind, Expectation, Measure, Verdict};
pub use curve::{Curve, Point};
pub use record::{Outcome, Record};
pub use simulation::{FaultyMemory, Value};
pub use subject::Subject;

/// The experiments that come with the program: name and text of the file.
const BUNDLED: &[(&str, &str)] = &[
    ("gtsm/fig3", include_str!("../../../../experiments/gtsm/fig3.toml")),
    ("gtsm/fig7", include_str!("../../../../experiments/gtsm/fig7.toml")),
    ("gtsm/fig14", include_str!("../../../../experiments/gtsm/fig14.toml")),
    ("gtsm/usable-memory", include_str!("../../../../experiments/gtsm/usable-memory.toml")),
    ("gtsm/faulty-coverage", include_str!("../../../../experiments/gtsm/faulty-coverage.toml")),
    ("gtsm/faulty-speed", include_str!("../../../../experiments/gtsm/faulty-speed.toml")),
];

/// An experiment as its file has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name: folder of the paper and figure.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Where it comes from.
    pub source: String,
    /// What a reader must know to judge the figures.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What is measured.
    pub subject: Subject,
    /// Where it is measured.
    pub axis: Axis,
    /// Random draws.
    pub sampling: SamplingFile,
    /// What the paper says.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// Random draws of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingFile {
    /// Slices or blocks drawn for each point, or runs of each scheme.
    pub samples: u64,
    /// Seed where none is asked for.
    pub seed: u64,
}

/// What may be asked for beside the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExperimentOptions {
    /// Other samples for each point.
    pub samples: Option<u64>,
    /// Another seed.
    pub seed: Option<u64>,
    /// At most [`ExperimentOptions::QUICK_SAMPLES`].
    pub quick: bool,
}

impl ExperimentOptions {
    /// Samples of a coarse run.
    pub const QUICK_SAMPLES: u64 = 100_000;
    /// Most samples: their sums are exact in 64 bits.
    pub const MOST_SAMPLES: u64 = 1_000_000_000_000;

    fn sampling(&self, file: SamplingFile, draws_runs: bool) -> Sampling {
        if draws_runs {
            let samples = if self.quick { 1 } else { file.samples };
            return Sampling { samples, seed: self.seed.unwrap_or(file.seed) };
        }
        let samples = self.samples.unwrap_or(file.samples);
        let most = if self.quick { Self::QUICK_SAMPLES } else { Self::MOST_SAMPLES };
        Sampling { samples: samples.min(most), seed: self.seed.unwrap_or(file.seed) }
    }
}

impl Experiment {
    /// All bundled experiments.
    ///
    /// # Panics
    /// If a bundled file is wrong, which a test excludes.
    pub fn bundled() -> Vec<Self> {
        let parse = |&(name, text)| Self::parse(name, text);
        BUNDLED.iter().map(|file| parse(file).expect("bundled experiments are right")).collect()
    }

    /// The bundled experiment of this name, or the experiment in the file at this path.
    ///
    /// # Errors
    /// No such experiment, an unreadable file, unknown keys, claims about curves there are not.
    pub fn load(name: &str) -> Result<Self, SimError> {
        if let Some((name, text)) = BUNDLED.iter().find(|(bundled, _)| *bundled == name) {
            return Self::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|extension| extension != "toml") {
            let known = BUNDLED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return Err(SimError::UnknownExperiment { name: name.into(), known });
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| SimError::ExperimentFile { path: path.into(), source })?;
        Self::parse(name, &text)
    }

    fn parse(name: &str, text: &str) -> Result<Self, SimError> {
        let wrong = |problem: String| SimError::Experiment { name: name.into(), problem };
        let experiment: Self =
            toml::from_str(text).map_err(|error| wrong(one_line(&error, text)))?;
        experiment.check().map_err(wrong)?;
        Ok(experiment)
    }

    fn check(&self) -> Result<(), String> {
        let texts = [&self.name, &self.title, &self.source].into_iter().chain(&self.notes);
        if texts.flat_map(|text| text.chars()).any(char::is_control) {
            return Err("name, title, source and notes must be plain text in one line".into());
        }
        let most = self.subject.most_samples();
        if !(1..=most).contains(&self.sampling.samples) {
            return Err(format!("sampling.samples is {}, not 1 to {most}", self.sampling.samples));
        }
        self.axis.check()?;
        let curves = self.subject.curves()?;
        for (index, (name, _)) in curves.iter().enumerate() {
            if curves[..index].iter().any(|(other, _)| other == name) {
                return Err(format!("subject: curve {name:?} is there twice"));
            }
        }
        let names: Vec<&str> = curves.iter().map(|(name, _)| name.as_str()).collect();
        self.claims.iter().try_for_each(|claim| claim.check(&names))
    }

    /// Points of the axis, and those that claims look at.
    fn points(&self) -> Vec<f64> {
        let mut points = self.axis.points();
        points.extend(self.claims.iter().filter_map(|claim| claim.point(&self.axis)));
        points.sort_by(f64::total_cmp);
        points.dedup();
        points
    }

    /// Measures all points and judges the claims.
    ///
    /// # Errors
    /// What the subject cannot be measured for.
    pub fn run(
        &self,
        options: &ExperimentOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Outcome, SimError> {
        let sampling = options.sampling(self.sampling, self.subject.draws_runs());
        let curves = self
            .subject
            .measure(&self.points(), sampling, progress)
            .map_err(|problem| SimError::Experiment { name: self.name.clone(), problem })?;
        Ok(Outcome::new(self, sampling, curves))
    }
}

#[cfg(test)]
mod tests;
