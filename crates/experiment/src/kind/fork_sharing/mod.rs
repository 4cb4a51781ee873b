//! Effects of sharing on large pages (P Fig. 1, §III, §VI): a server with a big heap forks, as redis
//! does to save; then the server writes, or its child, or the child changes permissions; the child
//! ends; khugepaged mends what it can.
//!
//! The paper draws the situation and gives no numbers for it, so closed forms are figures as well.
//! The program is the workload `fork`. Choices of ours besides its own: the rest of memory is free
//! and nothing else runs; each change is an operation of its own, so that its shootdowns are not
//! joined with those of others; reads and changes take no time of their own; khugepaged has all the
//! time it wants, after the child's end only, with Linux's limits.

mod expected;
mod run;
#[cfg(test)]
mod tests;

use perforate_config::Changes;
use perforate_schemes::perforated::{Perforated, PerforationOptions};
use perforate_sim::Machine;
use perforate_workloads::ForkOptions;
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{REGION_PAGES, named, places_hit, scheme};
use super::settings::wrong;
use super::{Measurement, Settings, Study};

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForkSettings {
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

/// Work, memory and walks of a server with a big heap that forks, after which sub-pages are changed.
/// Subjects are schemes.
pub struct ForkSharing {
    machine: Machine,
    fork: ForkOptions,
    perforation: Option<Changes<PerforationOptions>>,
    check: bool,
}

impl Study for ForkSharing {
    const NAME: &'static str = "fork-sharing";
    type Settings = ForkSettings;

    fn read(settings: &Settings) -> Result<Self, String> {
        let ForkSettings { fork, perforation, machine, check } = settings.read()?;
        let policy = perforation.as_ref().map(|changes| Perforated::new(*changes.values()));
        policy.transpose().map_err(|error| wrong(error.under("perforation")))?;
        Ok(Self { machine: settings.machine(&machine)?, fork, perforation, check })
    }

    fn check(&self, subject: &str) -> Result<(), String> {
        scheme(subject).map(|_| ())
    }

    fn cost(&self) -> f64 {
        // Six rounds of reads with their warm-ups; a change takes the kernel longer than a read.
        self.fork.reads.get() as f64 * 6.0 + self.fork.changes() as f64 * 20.0
    }

    fn measure(&self, subject: &str, seed: u64) -> Result<Measurement, String> {
        let measured = run::run(self, scheme(subject)?, seed);
        let mut figures = measured.map_err(|error| error.to_string())?;
        figures.extend(self.expected());
        Ok(figures)
    }
}

impl ForkSharing {
    /// Expected values in closed form.
    fn expected(&self) -> Measurement {
        let (regions, changes) = (self.fork.regions(), self.fork.changes());
        let entries = self.machine.tlb.l2.entries as u64;
        let split = places_hit(regions as f64, changes as f64);
        let walks = |split| expected::walks_per_1000(regions, split, entries);
        named([
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
        ])
    }
}
