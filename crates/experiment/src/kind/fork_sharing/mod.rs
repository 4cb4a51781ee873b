//! What sharing does to large pages (P Fig. 1, §III, §VI): a server with a big heap forks, as redis
//! does to save; then the server writes, or its child, or the child changes permissions; the child
//! ends; khugepaged mends what it can.
//!
//! The paper draws the situation and gives no numbers for it, so closed forms are figures as well.
//! Choices of ours: the heap is mapped in full before the fork, the rest of memory is free and
//! nothing else runs; changes hit any page of the heap evenly, some pages twice, and each is an
//! operation of its own, so that its shootdowns are not joined with those of others; both processes
//! run on one core and read any page evenly, in turns; reads and changes take no time of their own;
//! khugepaged has all the time it wants, after the child's end only, with Linux's limits.

mod expected;
mod study;
#[cfg(test)]
mod tests;

use perforate_config::{Changes, Count, Key, Share, Size, keys};
use perforate_os::{Perforated, PerforationOptions};
use perforate_sim::{Machine, Scheme, SimError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{REGION_PAGES, heap_regions, places_hit};
use super::settings::wrong;
use super::{Kind, Measurement, Settings, each};
use study::{Case, Figures, Moment, Phase, Reads, Setup};

const HEAP_BYTES: (u64, u64) = (2 << 20, 64 << 30);

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ForkSettings {
    /// Heap of the server, whole 2MB pages from 2M to 64G.
    heap: Size,
    /// Changes as a share of the heap's 4KB pages, more than 0%, each to any page of it.
    written: Share,
    /// a: the parent writes, b: the child writes, c: the memory is mapped shared and the child makes
    /// sub-pages read-only.
    case: Case,
    /// Reads counted of each process, half as many before them warm the TLBs up.
    reads: Count<1, 1_000_000_000>,
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
            heap: Size(1 << 30),
            written: Share::percent(1),
            case: Case::ParentWrites,
            reads: Count::new(100_000),
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
        Choice::read(settings).map(|_| ())
    }

    fn cost(&self, settings: &Settings) -> f64 {
        // Six rounds of reads with their warm-ups; a change takes the kernel longer than a read.
        Choice::read(settings)
            .map_or(0.0, |choice| choice.reads as f64 * 6.0 + choice.changes() as f64 * 20.0)
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let choice = Choice::read(settings)?;
        let setup = choice.setup();
        let expected = choice.expected();
        each(subjects, progress, |subject, _| {
            let figures = Scheme::find(subject)
                .map_err(SimError::from)
                .and_then(|scheme| study::run(&setup, scheme, seed));
            let figures = figures.map_err(|error| format!("{subject}: {error}"))?;
            let mut measurement = named(&figures);
            measurement.extend(expected.clone());
            Ok(measurement)
        })
    }
}

/// The settings, read.
struct Choice {
    machine: Machine,
    case: Case,
    regions: u64,
    written: f64,
    reads: u64,
    perforation: Option<Changes<PerforationOptions>>,
    check: bool,
}

impl Choice {
    fn read(settings: &Settings) -> Result<Self, String> {
        let own: ForkSettings = settings.read()?;
        let policy = own.perforation.as_ref().map(|changes| Perforated::new(*changes.values()));
        policy.transpose().map_err(|error| wrong(error.under("perforation")))?;
        if own.written == Share::NONE {
            return Err("setting written: is more than 0%".into());
        }
        Ok(Self {
            machine: settings.machine(&own.machine)?,
            case: own.case,
            regions: heap_regions(own.heap, HEAP_BYTES)?,
            written: own.written.value(),
            reads: own.reads.get(),
            perforation: own.perforation,
            check: own.check,
        })
    }

    /// Changes in all; at least one.
    fn changes(&self) -> u64 {
        let pages = (self.regions * REGION_PAGES) as f64;
        ((pages * self.written).round() as u64).max(1)
    }

    fn setup(&self) -> Setup<'_> {
        Setup {
            machine: &self.machine,
            case: self.case,
            regions: self.regions,
            changes: self.changes(),
            reads: self.reads,
            perforation: self.perforation.as_ref(),
            check: self.check,
        }
    }

    /// Closed forms.
    fn expected(&self) -> Measurement {
        let (regions, changes) = (self.regions, self.changes());
        let entries = self.machine.tlb.l2.entries as u64;
        let split = places_hit(regions as f64, changes as f64);
        let walks = |split| expected::walks_per_1000(regions, split, entries);
        [
            // Also the frames copied by each scheme, and the holes of perforated pages.
            ("pages_changed_expected", places_hit((regions * REGION_PAGES) as f64, changes as f64)),
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

/// The figures by name.
fn named(figures: &Figures) -> Measurement {
    let mut named = Measurement::new();
    named.insert("pages_changed".into(), figures.pages_changed as f64);
    named.insert("regions_changed".into(), figures.regions_changed as f64);
    for (phase, figures) in [
        ("fork", &figures.fork),
        ("changes", &figures.changes),
        ("exit", &figures.exit),
        ("khugepaged", &figures.khugepaged),
    ] {
        name_phase(&mut named, phase, figures);
    }
    for (moment, figures) in
        [("shared", &figures.shared), ("alone", &figures.alone), ("mended", &figures.mended)]
    {
        name_moment(&mut named, moment, figures);
    }
    for (reader, reads) in [
        ("shared_parent", &figures.parent),
        ("shared_child", &figures.child),
        ("alone_parent", &figures.parent_alone),
        ("mended_parent", &figures.parent_mended),
    ] {
        name_reads(&mut named, reader, reads);
    }
    named
}

fn name_phase(named: &mut Measurement, phase: &str, Phase { work, cycles }: &Phase) {
    for (what, count) in [
        ("entries_added_and_protected", work.pages_mapped + work.pages_protected),
        ("table_frames_cleared", work.frames_zeroed_tables),
        ("frames_copied", work.frames_copied),
        ("frames_migrated", work.frames_migrated),
        ("frames_scanned", work.frames_scanned),
        ("large_pages_split", work.large_pages_split),
        ("subpages_punched", work.subpages_punched),
        ("subpages_patched", work.subpages_patched),
        ("shootdown_batches", work.shootdown_batches),
        ("entries_invalidated", work.entries_invalidated),
        ("tlb_flushes", work.spaces_flushed),
        ("os_cycles", *cycles),
    ] {
        named.insert(format!("{phase}_{what}"), count as f64);
    }
}

fn name_moment(named: &mut Measurement, moment: &str, figures: &Moment) {
    for (what, count) in [
        ("large_pages", figures.large_pages),
        ("perforated_pages", figures.perforated_pages),
        ("base_pages", figures.base_pages),
        ("holes", figures.holes),
        ("page_table_bytes", figures.table_bytes),
        ("beyond_heap_bytes", figures.beyond_heap_bytes),
    ] {
        named.insert(format!("{moment}_{what}"), count as f64);
    }
}

fn name_reads(named: &mut Measurement, reader: &str, reads: &Reads) {
    named.insert(format!("{reader}_l2_misses_per_1000_reads"), reads.misses_per_1000);
    named.insert(format!("{reader}_walks_per_1000_reads"), reads.walks_per_1000);
}
