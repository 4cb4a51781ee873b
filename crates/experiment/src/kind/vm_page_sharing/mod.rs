//! Page sharing between virtual machines (D §IX.E, D-C8; P §III.A, P-C4).
//!
//! Two guests' kernels over one host's kernel, whose scanner merges pages of equal content across
//! the machines. Neither paper says what the pages held: contents are a choice of ours, and with
//! them what can be saved; what becomes of large pages and TLB misses follows from the model.

mod expected;
mod study;
#[cfg(test)]
mod tests;

use perforate_config::{BoundedSize, Changes, Count, Key, Share, keys};
use perforate_os::ContentDistribution;
use perforate_schemes::segment;
use perforate_sim::Machine;
use perforate_workloads::ReadersOptions;
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{CONTENTS, HEAP_BYTES};
use super::settings::{changed, wrong};
use super::{Kind, Measurement, Settings, each};
use study::{Figures, composition};

/// Pages of 64M: segments are not made for less.
const LEAST_PAGES: u64 = 64 << 20 >> 12;
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SharingSettings {
    /// Options of the workload readers, a single one; where nothing is said heap is 2580M, as in
    /// P §III.A, touch is yes, and reads and warmup are 1M.
    readers: Option<Changes<ReadersOptions>>,
    /// Contents of the pages of both machines; without distinct= the pool is half as large as the pages
    /// that draw from it: a content has two takers on average.
    contents: ContentDistribution,
    /// Scheme of both guests.
    guest: String,
    /// A machine's name or file.
    machine: String,
    /// Compare every translation with the oracle.
    check: bool,
}

impl Default for SharingSettings {
    fn default() -> Self {
        Self {
            readers: None,
            contents: CONTENTS,
            guest: "thp".into(),
            machine: Machine::DEFAULT.into(),
            check: false,
        }
    }
}

/// The kind of this folder.
pub struct VmPageSharing;

impl Kind for VmPageSharing {
    fn name(&self) -> &'static str {
        "vm-page-sharing"
    }

    fn summary(&self) -> &'static str {
        "two virtual machines on a host that merges equal pages: savings, large pages, walks"
    }

    fn subjects(&self) -> &'static str {
        "schemes of the host"
    }

    fn settings(&self) -> Vec<Key> {
        keys::<SharingSettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        Setup::read(settings)?.check_host(subject)
    }

    fn cost(&self, settings: &Settings) -> f64 {
        // Two patterns, before and after, each with a warm-up; pages are written and scanned.
        Setup::read(settings).map_or(0.0, |setup| {
            setup.readers.reads.get() as f64 * 8.0 + setup.readers.pages() as f64 * 10.0
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
        each(subjects, progress, |host, _| {
            let figures = study::run(&setup, host, seed);
            figures.map(|figures| named(&figures)).map_err(|error| format!("{host}: {error}"))
        })
    }
}

/// The settings, read: what all runs have in common.
struct Setup {
    machine: Machine,
    /// Scheme of both guests.
    guest: String,
    /// The program of each machine.
    readers: ReadersOptions,
    contents: ContentDistribution,
    check: bool,
}

impl Setup {
    fn read(settings: &Settings) -> Result<Self, String> {
        let own: SharingSettings = settings.read()?;
        let readers = ReadersOptions {
            heap: BoundedSize::new(HEAP_BYTES),
            processes: Count::new(1),
            touch: true,
            reads: Count::new(1_000_000),
            warmup: Count::new(1_000_000),
            ..ReadersOptions::default()
        };
        let readers = changed(own.readers, readers, "readers")?;
        if readers.processes.get() != 1 || readers.pages() < LEAST_PAGES {
            return Err("each machine runs one reader with a heap of 64M or more".into());
        }
        Ok(Self {
            machine: settings.machine(&own.machine)?,
            guest: own.guest,
            readers,
            contents: contents(own.contents, readers.pages())?,
            check: own.check,
        })
    }

    /// Shadow tables merge nothing of their own, so that such a host says nothing here; the second
    /// machine has no hardware, so that guests have ordinary page tables.
    fn check_host(&self, host: &str) -> Result<(), String> {
        let pair = composition(&self.guest, host).map_err(|error| error.to_string())?;
        if pair.host.is_some_and(|scheme| scheme.shadow_paging) {
            return Err(format!("{host:?} keeps shadow tables; take a host with nested paging"));
        }
        let guest = pair.own;
        if guest.shadow_directories || guest.gap_tolerance.is_some() || segment::is_used_by(guest) {
            let name = guest.name;
            return Err(format!("guest {name:?} has tables of its own kind; take 4k or thp"));
        }
        Ok(())
    }
}

/// What pages hold, for heaps of so many pages in each machine.
fn contents(given: ContentDistribution, heap_pages: u64) -> Result<ContentDistribution, String> {
    let pages = (2 * heap_pages) as f64;
    let distinct = match given.duplicate {
        Share::NONE => given.distinct,
        _ if given.distinct > 0 => given.distinct,
        share => ((pages * share.value() / 2.0) as u64).max(1),
    };
    let contents = ContentDistribution { distinct, ..given };
    contents.check().map(|()| contents).map_err(|error| wrong(error.under("contents")))
}

/// The figures by name.
fn named(figures: &Figures) -> Measurement {
    let of_large = |count: f64| count / figures.large.max(1.0);
    [
        ("backed_pages", figures.pages),
        ("frames_saved", figures.saved),
        ("table_frames_added", figures.tables),
        ("frames_saved_share", figures.saved / figures.pages),
        ("frames_saved_net_share", (figures.saved - figures.tables) / figures.pages),
        // For pages outside segments.
        ("frames_saved_expected_share", figures.closed / figures.pages),
        ("host_large_pages", figures.large),
        ("large_pages_split_share", of_large(figures.split)),
        ("large_pages_punched_share", of_large(figures.punched)),
        ("uniform_before_walks_per_1000_reads", figures.uniform[0]),
        ("uniform_after_walks_per_1000_reads", figures.uniform[1]),
        ("skewed_before_walks_per_1000_reads", figures.skewed[0]),
        ("skewed_after_walks_per_1000_reads", figures.skewed[1]),
    ]
    .map(|(name, value)| (name.into(), value))
    .into()
}
