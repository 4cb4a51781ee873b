//! Ways to measure: each has a name that experiment files use, settings, and figures with names.

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

use perforate_config::{Key, suggestion};
pub use settings::{Settings, check_key, hash_of_file};

/// Figures of one measurement by name, units in the names; shares are 0–1. A figure that does not
/// exist for this subject is left out.
pub type Measurement = BTreeMap<String, f64>;

/// A way to measure.
///
/// The same settings, subjects and seed give the same figures, whatever was measured before.
pub trait Kind: Sync {
    /// Name that experiment files use.
    fn name(&self) -> &'static str;

    /// Measured quantity, in one line.
    fn summary(&self) -> &'static str;

    /// Name of the subjects in error messages: schemes, designs.
    fn subjects(&self) -> &'static str;

    /// All settings it knows.
    fn settings(&self) -> Vec<Key>;

    /// Checks settings and subject without a measurement.
    ///
    /// # Errors
    /// The setting or subject that is wrong, and what would be right.
    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String>;

    /// What its figures depend on besides settings, subject and seed: contents of files that the
    /// settings name.
    ///
    /// # Errors
    /// A file that cannot be read.
    fn inputs(&self, settings: &Settings) -> Result<Vec<String>, String> {
        settings.inputs(&self.settings())
    }

    /// How long one subject takes, in any unit that all settings share; progress goes by it.
    fn cost(&self, _settings: &Settings) -> f64 {
        1e6
    }

    /// Measures several subjects under the same settings with the same seed: one measurement for
    /// each, in order, and the same as if it were measured alone. `progress` hears now and then
    /// which part, 0–1, is done.
    ///
    /// # Errors
    /// What went wrong, in a line.
    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String>;
}

/// A measurement of each subject; what `measure` says of its progress is a part of the whole's.
fn each(
    subjects: &[String],
    progress: &mut dyn FnMut(f64),
    mut measure: impl FnMut(&str, &mut dyn FnMut(f64)) -> Result<Measurement, String>,
) -> Result<Vec<Measurement>, String> {
    let mut measurements = Vec::with_capacity(subjects.len());
    for subject in subjects {
        let done = measurements.len() as f64;
        let mut part = |part: f64| progress((done + part) / subjects.len() as f64);
        measurements.push(measure(subject, &mut part)?);
        part(1.0);
    }
    Ok(measurements)
}

/// All kinds of measurement, in the order of lists.
pub const ALL: &[&dyn Kind] = &[
    &simulation::Simulation,
    &capacity::Contiguity,
    &capacity::Validity,
    &capacity::Share,
    &capacity::Storage,
    &pairing::Pairing,
    &bloat::Bloat,
    &same_page_merging::SamePageMerging,
    &escape_filter::EscapeFilterOverhead,
    &fork_sharing::ForkSharing,
    &request::LargePageRequest,
    &vm_page_sharing::VmPageSharing,
];

/// The kind of this name.
///
/// # Errors
/// There is none.
pub fn find(name: &str) -> Result<&'static dyn Kind, String> {
    ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|kind| kind.name()).collect();
        format!("kind {name:?} is unknown; {}", suggestion(name, &known))
    })
}
