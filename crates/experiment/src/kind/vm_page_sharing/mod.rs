//! Page sharing between virtual machines (D §IX.E, D-C8; P §III.A, P-C4).
//!
//! Two guests' kernels over one host's kernel, whose scanner merges pages of equal content across
//! the machines. Neither paper says what the pages held: contents are a choice of ours, and with
//! them what can be saved; what becomes of large pages and TLB misses follows from the model.

mod expected;
mod study;
#[cfg(test)]
mod tests;

use perforate_config::{Count, Key, Share, Size, keys};
use perforate_os::ContentDistribution;
use perforate_sim::Machine;
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{CONTENTS, REGION_PAGES, heap_regions};
use super::settings::wrong;
use super::{Kind, Measurement, Settings, each};
use study::{Figures, Setup, composition};

const HEAP_BYTES: (u64, u64) = (64 << 20, 64 << 30);

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SharingSettings {
    /// Memory that the program of each machine uses, whole 2MB pages from 64M to 64G; the default is
    /// that of P §III.A.
    heap: Size,
    /// Contents of the pages of both machines; without distinct= the pool is half as large as the pages
    /// that draw from it: a content has two takers on average.
    contents: ContentDistribution,
    /// Scheme of both guests.
    guest: String,
    /// Reads counted of the first machine's program, as many before them warm up.
    reads: Count<1, 1_000_000_000>,
    /// A machine's name or file.
    machine: String,
    /// Compare every translation with the oracle.
    check: bool,
}

impl Default for SharingSettings {
    fn default() -> Self {
        Self {
            heap: Size(2580 << 20),
            contents: CONTENTS,
            guest: "thp".into(),
            reads: Count::new(1_000_000),
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
        Choice::read(settings)?.check_host(subject)
    }

    fn cost(&self, settings: &Settings) -> f64 {
        // Two patterns, before and after, each with a warm-up; pages are written and scanned.
        Choice::read(settings).map_or(0.0, |choice| {
            choice.reads as f64 * 8.0 + (choice.regions * REGION_PAGES) as f64 * 10.0
        })
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let choice = Choice::read(settings)?;
        each(subjects, progress, |host, _| {
            let figures = study::run(&choice.setup(), host, seed);
            figures.map(|figures| named(&figures)).map_err(|error| format!("{host}: {error}"))
        })
    }
}

/// The settings, read.
struct Choice {
    machine: Machine,
    guest: String,
    regions: u64,
    reads: u64,
    contents: ContentDistribution,
    check: bool,
}

impl Choice {
    fn read(settings: &Settings) -> Result<Self, String> {
        let own: SharingSettings = settings.read()?;
        let regions = heap_regions(own.heap, HEAP_BYTES)?;
        Ok(Self {
            machine: settings.machine(&own.machine)?,
            guest: own.guest,
            regions,
            reads: own.reads.get(),
            contents: contents(own.contents, regions)?,
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
        if guest.shadow_directories || guest.gap_tolerance.is_some() || guest.segments {
            let name = guest.name;
            return Err(format!("guest {name:?} has tables of its own kind; take 4k or thp"));
        }
        Ok(())
    }

    fn setup(&self) -> Setup<'_> {
        Setup {
            machine: &self.machine,
            guest: &self.guest,
            regions: self.regions,
            reads: self.reads,
            check: self.check,
            contents: self.contents,
        }
    }
}

/// What pages hold, for heaps of so many regions in each machine.
fn contents(given: ContentDistribution, regions: u64) -> Result<ContentDistribution, String> {
    let pages = (2 * regions * REGION_PAGES) as f64;
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
