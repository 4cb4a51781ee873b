//! Page sharing between virtual machines (D §IX.E, D-C8; P §III.A, P-C4).
//!
//! Two guests' kernels over one host's kernel, whose scanner merges pages of equal content across
//! the machines. Neither paper says what the pages held: contents are a choice of ours, and with
//! them what can be saved; what becomes of large pages and TLB misses follows from the model.

mod expected;
mod study;
#[cfg(test)]
mod tests;

use perforate_os::ContentDistribution;
use perforate_sim::Machine;
use perforate_trace::{ReadersOptions, WorkloadSpec};

use super::case_study::{
    CHECK, MACHINE_KEYS, inputs, is_checked, machine, workload, workload_setting,
};
use super::{Kind, Measurement, Setting, Settings};
use study::{Figures, composition};

/// Pages of 64M: segments are not made for less.
const LEAST_PAGES: u64 = 64 << 20 >> 12;
const GUEST: &str = "thp";
const CONTENTS: &str = "zero=2%,duplicate=16%,regions=40%,run=16";
/// Parameters of the readers that are others than for themselves; the heap is that of P §III.A.
const DEFAULTS: &[(&str, &str)] =
    &[("heap", "2580M"), ("processes", "1"), ("touch", "true"), ("reads", "1M"), ("warmup", "1M")];

const SETTINGS: &[Setting] = &[
    workload_setting("readers."),
    Setting {
        key: "contents",
        meaning: "what pages of both machines hold, as --contents; without distinct= the pool is \
                  half as large as the pages that draw from it: a content has two takers on average",
        default: Some(CONTENTS),
    },
    Setting { key: "guest", meaning: "scheme of both guests", default: Some(GUEST) },
    Setting {
        key: "machine",
        meaning: "a machine's name or file",
        default: Some(Machine::DEFAULT),
    },
    MACHINE_KEYS,
    CHECK,
];

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

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        Setup::read(settings)?.check_host(subject)
    }

    fn inputs(&self, settings: &Settings) -> Result<Vec<String>, String> {
        inputs(settings, Machine::DEFAULT, &[])
    }

    fn cost(&self, settings: &Settings) -> f64 {
        // Two patterns, before and after, each with a warm-up; pages are written and scanned.
        Setup::read(settings).map_or(0.0, |setup| {
            setup.readers.reads as f64 * 8.0 + setup.readers.pages as f64 * 10.0
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
        let mut measurements = Vec::with_capacity(subjects.len());
        for host in subjects {
            let figures = study::run(&setup, host, seed);
            let figures = figures.map_err(|error| format!("{host}: {error}"))?;
            measurements.push(named(&figures));
            progress(measurements.len() as f64 / subjects.len() as f64);
        }
        Ok(measurements)
    }
}

/// The settings, read: what all runs have in common.
struct Setup {
    machine: Machine,
    /// Scheme of both guests.
    guest: String,
    /// The program of each machine.
    workload: WorkloadSpec,
    readers: ReadersOptions,
    contents: ContentDistribution,
    check: bool,
}

impl Setup {
    fn read(settings: &Settings) -> Result<Self, String> {
        let workload = workload(settings, "readers", DEFAULTS)?;
        let readers = ReadersOptions::of(&workload);
        if readers.processes != 1 || readers.pages < LEAST_PAGES {
            return Err("each machine runs one reader with a heap of 64M or more".into());
        }
        Ok(Self {
            machine: machine(settings, Machine::DEFAULT)?,
            guest: settings.text("guest").unwrap_or(GUEST).into(),
            workload,
            readers,
            contents: contents(settings.text("contents").unwrap_or(CONTENTS), readers.pages)?,
            check: is_checked(settings)?,
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
        if guest.shadow_directories || guest.gap_tolerance.is_some() || guest.has_segments() {
            let name = guest.name;
            return Err(format!("guest {name:?} has tables of its own kind; take 4k or thp"));
        }
        Ok(())
    }
}

/// What pages hold, for heaps of so many pages in each machine.
fn contents(text: &str, heap_pages: u64) -> Result<ContentDistribution, String> {
    let read = |text: &str| text.parse::<ContentDistribution>().map_err(|error| error.to_string());
    if !text.contains("duplicate=") || text.contains("distinct=") {
        return read(text);
    }
    let contents = read(&format!("{text},distinct=1"))?;
    let pages = (2 * heap_pages) as f64;
    let distinct = (pages * contents.duplicate / 2.0) as u64;
    Ok(ContentDistribution { distinct: distinct.max(1), ..contents })
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
