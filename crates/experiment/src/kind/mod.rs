//! Kinds of measurement: each has a name that experiment files use, settings, and figures with names.

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
pub use settings::{Settings, check_key};

/// Figures of one measurement by name, units in the names; shares are 0–1. A figure that does not
/// exist for the subject is left out.
pub type Measurement = BTreeMap<String, f64>;

/// A measurement with its settings read, before it is made of some subjects.
///
/// The same settings, subjects and seed give the same figures, whatever was measured before.
trait Study: Sized {
    /// Name that experiment files use.
    const NAME: &'static str;
    /// Settings, as a table of an experiment file.
    type Settings: DeserializeOwned + JsonSchema;

    /// Keys of all settings.
    fn settings() -> Vec<Key> {
        keys::<Self::Settings>()
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// The setting that is wrong, and what would be right.
    fn read(settings: &Settings) -> Result<Self, String>;

    /// Checks a subject without measuring it.
    ///
    /// # Errors
    /// The reason why the subject is wrong, and what would be right.
    fn check(&self, subject: &str) -> Result<(), String>;

    /// Everything that the figures of a subject depend on, except the build of the program.
    ///
    /// # Errors
    /// A file that cannot be read, or a wrong subject.
    fn identity(&self, settings: &Settings, subject: &str, seed: u64) -> Result<Value, String> {
        self.check(subject)?;
        Ok(json!([Self::NAME, settings, settings.inputs(&Self::settings())?, subject, seed]))
    }

    /// Cost of one subject, in a unit that all kinds share; progress is measured in it.
    fn cost(&self) -> f64 {
        1e6
    }

    /// Measures one subject. A study implements either this method or [`Self::measure_all`].
    ///
    /// # Errors
    /// Reason of the failure, in one line.
    fn measure(&self, subject: &str, seed: u64) -> Result<Measurement, String> {
        Ok(self.measure_all(&[subject.to_owned()], seed, &mut |_| ())?.remove(0))
    }

    /// Measures several subjects with the same seed, each as if it were measured alone. `progress` is
    /// called with the finished share, 0–1.
    ///
    /// # Errors
    /// As [`Self::measure`].
    fn measure_all(
        &self,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        each(subjects, progress, |subject, _| self.measure(subject, seed))
    }
}

/// A measurement of each subject.
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

/// A kind of measurement.
pub struct Kind {
    /// Name that experiment files use.
    pub name: &'static str,
    /// Keys of all settings.
    pub settings: fn() -> Vec<Key>,
    /// Validates settings and a subject, and returns everything that the figures depend on.
    pub identity: fn(&Settings, &str, u64) -> Result<Value, String>,
    /// Cost of one subject, in a unit that all kinds share.
    pub cost: fn(&Settings) -> f64,
    /// Measures several subjects under the same settings with the same seed, in order.
    pub measure: Measure,
}

/// Settings, subjects, seed, and a function that is called with the finished share, 0–1.
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

    /// The kind of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &str) -> Result<&'static Self, String> {
        ALL.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
            format!("kind {name:?} is unknown; {}", suggestion(name, &known))
        })
    }
}

/// All kinds of measurement, in the order of lists.
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

    /// Settings of these texts by key.
    pub fn settings(texts: &[(&str, &str)]) -> Settings {
        Settings(texts.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect())
    }

    /// Validates settings and a subject.
    pub fn check<S: Study>(texts: &[(&str, &str)], subject: &str) -> Result<(), String> {
        S::read(&settings(texts))?.check(subject)
    }

    /// Figures of one subject.
    pub fn measure<S: Study>(settings: &Settings, subject: &str, seed: u64) -> Measurement {
        S::read(settings).unwrap().measure(subject, seed).unwrap()
    }
}
