//! Kinds of measurement. Each has a name for experiment files, settings, and named figures.

mod bloat;
mod capacity;
mod case_study;
mod escape_filter;
mod fork_sharing;
mod pairing;
mod request;
mod same_page_merging;
mod settings;
mod simulation;
mod vm_page_sharing;

use std::collections::BTreeMap;

pub use capacity::Design;
use perforate_config::{Key, keys, suggestion};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use case_study::scheme;
pub use settings::{Settings, check_key};

/// Figures of one measurement by name, which includes the unit; shares are 0–1. Figures that do not apply to
/// the subject are left out.
pub type Measurement = BTreeMap<String, f64>;

/// A kind of measurement with the settings of one experiment; it can measure several subjects (such as
/// schemes).
///
/// Equal settings, subjects and seeds give equal figures, independent of earlier measurements.
trait Study: Sized {
    /// Name of the kind in experiment files.
    const NAME: &'static str;
    /// Settings of the kind, which are a table of an experiment file.
    type Settings: DeserializeOwned + JsonSchema;

    /// Returns the keys of all settings of the kind.
    fn settings() -> Vec<Key> {
        keys::<Self::Settings>()
    }

    /// Parses and validates the settings of an experiment.
    ///
    /// # Errors
    /// An invalid setting, with the valid values.
    fn read(settings: &Settings) -> Result<Self, String>;

    /// Validates a subject without measuring it. By default, subjects are names of schemes.
    ///
    /// # Errors
    /// An invalid subject, with the valid ones.
    fn check(&self, subject: &str) -> Result<(), String> {
        scheme(subject).map(|_| ())
    }

    /// Returns everything that the figures of a subject depend on, except the build of the program.
    ///
    /// # Errors
    /// An unreadable file, or an invalid subject.
    fn identity(&self, settings: &Settings, subject: &str, seed: u64) -> Result<Value, String> {
        self.check(subject)?;
        Ok(json!([Self::NAME, settings, settings.inputs(&Self::settings())?, subject, seed]))
    }

    /// Returns the estimated cost of measuring one subject, in a unit that all kinds share; used for
    /// progress.
    fn cost(&self) -> f64 {
        1e6
    }

    /// Measures one subject. A study implements either this method or [`Self::measure_all`].
    ///
    /// # Errors
    /// Reason for the failure, in one line.
    fn measure(&self, subject: &str, seed: u64) -> Result<Measurement, String> {
        Ok(self.measure_all(&[subject.to_owned()], seed, &mut |_| ())?.remove(0))
    }

    /// Measures several subjects with the same seed, each as if it were measured alone. `progress` is called
    /// with the completed share, 0–1.
    ///
    /// # Errors
    /// Errors of [`Self::measure`].
    fn measure_all(
        &self,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        each(subjects, progress, |subject, _| self.measure(subject, seed))
    }
}

/// Measures the subjects one after another, and reports the progress over all subjects.
fn each(
    subjects: &[String],
    progress: &mut dyn FnMut(f64),
    mut measure: impl FnMut(&str, &mut dyn FnMut(f64)) -> Result<Measurement, String>,
) -> Result<Vec<Measurement>, String> {
    let mut measurements = Vec::with_capacity(subjects.len());
    for subject in subjects {
        let done = measurements.len() as f64;
        let mut part = |part: f64| progress((done + part) / subjects.len() as f64);
        let measured = measure(subject, &mut part);
        measurements.push(measured.map_err(|error| format!("{subject}: {error}"))?);
        part(1.0);
    }
    Ok(measurements)
}

/// A kind of measurement as functions, most of which take the settings of an experiment.
pub struct Kind {
    /// Name of the kind in experiment files.
    pub name: &'static str,
    /// Returns the keys of all settings of the kind.
    pub settings: fn() -> Vec<Key>,
    /// Validates settings and a subject, and returns everything that the subject's figures depend on.
    pub identity: fn(&Settings, &str, u64) -> Result<Value, String>,
    /// Estimates the cost of measuring one subject, in a unit that all kinds share.
    pub cost: fn(&Settings) -> f64,
    /// Measures several subjects under the same settings with the same seed, in order.
    pub measure: Measure,
}

/// Function that measures subjects; the arguments are the settings, the subjects, the seed, and a callback
/// for the completed share (0–1).
type Measure =
    fn(&Settings, &[String], u64, &mut dyn FnMut(f64)) -> Result<Vec<Measurement>, String>;

impl Kind {
    const fn of<S: Study>() -> Self {
        Self {
            name: S::NAME,
            settings: S::settings,
            identity: |settings, subject, seed| {
                S::read(settings)?.identity(settings, subject, seed)
            },
            cost: |settings| S::read(settings).map_or(0.0, |study| study.cost()),
            measure: |settings, subjects, seed, progress| {
                S::read(settings)?.measure_all(subjects, seed, progress)
            },
        }
    }

    /// Returns the kind of measurement of this name.
    ///
    /// # Errors
    /// An unknown kind.
    pub fn find(name: &str) -> Result<&'static Self, String> {
        ALL.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
            format!("kind {name:?} is unknown; {}", suggestion(name, &known))
        })
    }
}

/// All kinds of measurement, in the order in which lists show them.
const ALL: &[Kind] = &[
    Kind::of::<simulation::Simulation>(),
    Kind::of::<capacity::Contiguity>(),
    Kind::of::<capacity::Validity>(),
    Kind::of::<capacity::UsableMemory>(),
    Kind::of::<capacity::Storage>(),
    Kind::of::<pairing::Pairing>(),
    Kind::of::<bloat::Bloat>(),
    Kind::of::<same_page_merging::SamePageMerging>(),
    Kind::of::<escape_filter::EscapeFilter>(),
    Kind::of::<fork_sharing::ForkSharing>(),
    Kind::of::<request::LargePageRequest>(),
    Kind::of::<vm_page_sharing::VmPageSharing>(),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates settings from pairs of key and text.
    pub fn settings(texts: &[(&str, &str)]) -> Settings {
        Settings(texts.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect())
    }

    /// Validates settings and a subject of the kind `S`.
    pub fn check<S: Study>(texts: &[(&str, &str)], subject: &str) -> Result<(), String> {
        S::read(&settings(texts))?.check(subject)
    }

    /// Returns the figures of one subject; panics on an error.
    pub fn measure<S: Study>(settings: &Settings, subject: &str, seed: u64) -> Measurement {
        S::read(settings).unwrap().measure(subject, seed).unwrap()
    }
}
