//! Effects of fork and copy-on-write on large pages (P Fig. 1, §III, §VI). A server with a big heap forks, as
//! Redis does to save its data. Then the server writes, or its child writes, or the child changes
//! permissions. The child exits, and khugepaged restores large pages as far as possible.
//!
//! The paper illustrates this without numbers, so our results are compared with closed forms. The program is
//! the workload `fork`. Further choices of ours: The rest of memory is free, and nothing else runs. Each
//! change is a separate operation, so shootdowns are not batched with those of other changes. Reads and
//! changes take no time themselves. khugepaged runs only after the child's exit, with Linux's limits, until
//! it finds nothing to do.

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

/// Kernel work, memory use and page walks of a server with a big heap that forks, after which the server or
/// its child changes some 4KB sub-pages. Subjects are schemes.
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

    fn cost(&self) -> f64 {
        // Six rounds of reads with their warm-ups. A change takes longer to simulate than a read.
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
    /// Returns the figures that have a closed form, with their expected values.
    fn expected(&self) -> Measurement {
        let (regions, changes) = (self.fork.regions(), self.fork.changes());
        let entries = self.machine.tlb.l2.entries as u64;
        let split = places_hit(regions as f64, changes as f64);
        let walks = |split| expected::walks_per_1000(regions, split, entries);
        named([
            // Also the expected number of frames that each scheme copies, and of holes in
            // perforated pages.
            ("pages_changed_expected", places_hit(self.fork.pages() as f64, changes as f64)),
            // Also the expected number of 2MB pages that are split by schemes without holes.
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
