//! What sharing does to large pages (P Fig. 1, §III, §VI): a server with a big heap forks, as redis
//! does to save; then the server writes, or its child, or the child changes permissions; the child
//! ends; khugepaged mends what it can.
//!
//! The paper draws the situation and gives no numbers for it, so closed forms are figures as well.
//! The program is the workload `fork`. Choices of ours besides its own: the rest of memory is free
//! and nothing else runs; each change is an operation of its own, so that its shootdowns are not
//! joined with those of others; reads and changes take no time of their own; khugepaged has all the
//! time it wants, after the child's end only, with Linux's limits.

mod expected;
mod study;
#[cfg(test)]
mod tests;

use perforate_config::{Changes, Key, keys};
use perforate_schemes::perforated::{Perforated, PerforationOptions};
use perforate_sim::{Machine, Scheme, SimError};
use perforate_workloads::ForkOptions;
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{REGION_PAGES, places_hit};
use super::settings::wrong;
use super::{Kind, Measurement, Settings, each};

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ForkSettings {
    /// Options of the workload fork.
    fork: ForkOptions,
    /// Options of the policy for perforated pages.
    perforation: Option<Changes<PerforationOptions>>,
    /// A machine's name or file.
    machine: String,
    /// Compare every translation with the oracle.
    check: bool,
}

impl Default for ForkSettings {
    fn default() -> Self {
        Self {
            fork: ForkOptions::default(),
            perforation: None,
            machine: Machine::DEFAULT.into(),
            check: false,
        }
    }
}

/// The kind of this folder.
pub struct ForkSharing;

impl Kind for ForkSharing {
    fn name(&self) -> &'static str {
        "fork-sharing"
    }

    fn summary(&self) -> &'static str {
        "a server with a big heap forks and sub-pages are changed: work, memory, walks"
    }

    fn subjects(&self) -> &'static str {
        "schemes"
    }

    fn settings(&self) -> Vec<Key> {
        keys::<ForkSettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        Scheme::find(subject).map_err(|error| error.to_string())?;
        Setup::read(settings).map(|_| ())
    }

    fn cost(&self, settings: &Settings) -> f64 {
        // Six rounds of reads with their warm-ups; a change takes the kernel longer than a read.
        Setup::read(settings).map_or(0.0, |setup| {
            setup.fork.reads.get() as f64 * 6.0 + setup.fork.changes() as f64 * 20.0
        })
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let setup = Setup::read(settings)?;
        let expected = setup.expected();
        each(subjects, progress, |subject, _| {
            let figures = Scheme::find(subject)
                .map_err(SimError::from)
                .and_then(|scheme| study::run(&setup, scheme, seed));
            let mut figures = figures.map_err(|error| format!("{subject}: {error}"))?;
            figures.extend(expected.clone());
            Ok(figures)
        })
    }
}

/// Settings of the study, as read from an experiment file.
struct Setup {
    machine: Machine,
    fork: ForkOptions,
    perforation: Option<Changes<PerforationOptions>>,
    check: bool,
}

impl Setup {
    fn read(settings: &Settings) -> Result<Self, String> {
        let own: ForkSettings = settings.read()?;
        let policy = own.perforation.as_ref().map(|changes| Perforated::new(*changes.values()));
        policy.transpose().map_err(|error| wrong(error.under("perforation")))?;
        Ok(Self {
            machine: settings.machine(&own.machine)?,
            fork: own.fork,
            perforation: own.perforation,
            check: own.check,
        })
    }

    /// Expected values in closed form.
    fn expected(&self) -> Measurement {
        let (regions, changes) = (self.fork.regions(), self.fork.changes());
        let entries = self.machine.tlb.l2.entries as u64;
        let split = places_hit(regions as f64, changes as f64);
        let walks = |split| expected::walks_per_1000(regions, split, entries);
        [
            // Also the frames copied by each scheme, and the holes of perforated pages.
            ("pages_changed_expected", places_hit(self.fork.pages() as f64, changes as f64)),
            // Also the 2MB pages that are split where there are no holes.
            ("regions_changed_expected", split),
            (
                "regions_over_quarter_changed_expected",
                expected::regions_above(regions, changes, REGION_PAGES / 4),
            ),
            ("all_split_walks_per_1000_reads_expected", walks(regions as f64)),
            ("changed_split_walks_per_1000_reads_expected", walks(split)),
        ]
        .map(|(name, value)| (name.into(), value))
        .into()
    }
}
