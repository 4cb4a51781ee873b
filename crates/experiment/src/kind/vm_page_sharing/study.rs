//! Two virtual machines on one host: filled, then merged.

use perforate_os::{ContentDistribution, Hypervisor, Kernel, KernelConfig, KsmConfig, OsError};
use perforate_sim::{Composition, Machine, MemoryState, SimError, System, SystemOptions};
use perforate_types::{
    AccessKind, Counters, ProgramEvent, SpaceId, TableOperation, Truth, Update, VirtualAddress,
    VirtualPage,
};

use super::expected::saved_pages;
use crate::kind::case_study::{PAGE_BYTES, REGION_PAGES, Random, map_populated};

const HEAP_START: u64 = 0x7f00_0000_0000;
/// Guest memory besides the heap: tables, and what is left over. Whole large pages.
const GUEST_EXTRA_MB: u64 = 64;
/// The same of the host, for both machines.
const HOST_EXTRA_MB: u64 = 512;

/// What all runs have in common.
pub struct Setup<'a> {
    pub machine: &'a Machine,
    /// Scheme of both guests.
    pub guest: &'a str,
    /// 2MB regions that each machine's program uses.
    pub regions: u64,
    /// Reads counted; as many before them warm the TLBs up.
    pub reads: u64,
    pub check: bool,
    pub contents: ContentDistribution,
}

/// Figures of one host with one seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Pages of both machines that the host backs.
    pub pages: f64,
    /// Frames that became free, and tables that were needed for it.
    pub saved: f64,
    pub tables: f64,
    /// Frames that the closed form says for so many pages.
    pub closed: f64,
    /// The host's large pages before, and those split and punched.
    pub large: f64,
    pub split: f64,
    pub punched: f64,
    /// Walks per 1000 reads, before and after: reads of any page evenly, and skewed as 1/rank.
    pub uniform: [f64; 2],
    pub skewed: [f64; 2],
}

/// Which pages are read.
#[derive(Clone, Copy)]
enum Pattern {
    Uniform,
    Skewed,
}

impl Pattern {
    fn next(self, pages: u64, random: &mut Random) -> u64 {
        match self {
            Self::Uniform => random.below(pages),
            Self::Skewed => {
                let rank = (pages as f64).powf(random.fraction()) as u64 % pages;
                // A prime that does not divide the number of pages takes each rank elsewhere.
                rank * 2_654_435_761 % pages
            }
        }
    }
}

/// Runs both machines over a host of this scheme.
///
/// # Errors
/// Out of memory, or a disagreement with the oracle.
pub fn run(setup: &Setup<'_>, host: &str, seed: u64) -> Result<Figures, SimError> {
    let mut system = start(setup, host, seed)?;
    let misses = |system: &mut System| -> Result<[f64; 2], SimError> {
        Ok([
            walks_per_1000(setup, system, Pattern::Uniform, seed)?,
            walks_per_1000(setup, system, Pattern::Skewed, seed)?,
        ])
    };
    let before = host_counters(&system);
    let misses_before = misses(&mut system)?;
    merge(&mut system)?;
    let after = host_counters(&system);
    let misses_after = misses(&mut system)?;
    let get = |counters: &Counters, name: &str| counters.get(name).expect("a counter");
    let change = |name: &str| get(&after, name) - get(&before, name);
    let pages = host_kernel(&system).mapped_bytes() / PAGE_BYTES;
    let tables = change("page_table_bytes") / PAGE_BYTES as f64;
    Ok(Figures {
        pages: pages as f64,
        saved: change("free_bytes") / PAGE_BYTES as f64 + tables,
        tables,
        closed: saved_pages(&setup.contents, pages),
        large: get(&before, "large_pages"),
        // Where all memory is in segments, the scanner finds no page and counts nothing.
        split: after.get("ksm_large_pages_split").unwrap_or(0.0),
        punched: change("perforated_pages"),
        uniform: [misses_before[0], misses_after[0]],
        skewed: [misses_before[1], misses_after[1]],
    })
}

fn host_kernel(system: &System) -> &Kernel {
    system.hypervisor().expect("the system is virtualized").kernel()
}

fn host_counters(system: &System) -> Counters {
    let mut counters = Counters::default();
    host_kernel(system).counters(&mut counters);
    counters
}

/// Both machines with their heaps filled.
pub fn start(setup: &Setup<'_>, host: &str, seed: u64) -> Result<System, SimError> {
    let guest_mb = setup.regions * 2 + GUEST_EXTRA_MB;
    let megabytes = |size: u64| MemoryState::parse(Some(&format!("{size}M")), None, None);
    let host_memory = megabytes(2 * guest_mb + HOST_EXTRA_MB)?;
    let memory = MemoryState { host: Some(Box::new(host_memory)), ..megabytes(guest_mb)? };
    let options = SystemOptions { check: setup.check, implicit_maps: false, counts_only: true };
    let pair = composition(setup.guest, host)?;
    let mut system = System::new(setup.machine, pair, &memory, seed, options)?;
    let contents = ContentDistribution { seed, ..setup.contents };
    system.change_host(|hypervisor, _| {
        let kernel = hypervisor.kernel_mut();
        kernel.set_content_distribution(contents)?;
        kernel.set_ksm(KsmConfig { pages_to_scan: u64::MAX, ..KsmConfig::default() })
    })?;
    let heap = map_populated(HEAP_START, setup.regions * REGION_PAGES * PAGE_BYTES, false);
    system.event(&heap)?;
    for page in 0..setup.regions * REGION_PAGES {
        system.translate(AccessKind::Write, VirtualAddress::new(HEAP_START + page * PAGE_BYTES))?;
    }
    let config = KernelConfig::new(guest_mb << 20);
    system.change_host(|hypervisor, updates| {
        let guest = Kernel::new(config, perforate_os::parse_policy(pair.own.policy)?)?;
        second_machine(hypervisor, guest, &heap, updates)
    })?;
    Ok(system)
}

/// The scheme of both guests over the host's.
pub fn composition(guest: &str, host: &str) -> Result<Composition, SimError> {
    Composition::find(&format!("{guest}+{host}"))
}

/// Another virtual machine, whose guest's kernel maps `heap` and touches what it got for it. No
/// hardware translates for it here.
fn second_machine(
    hypervisor: &mut Hypervisor,
    mut guest: Kernel,
    heap: &ProgramEvent,
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    let space = hypervisor.add_machine(&guest.memory_slots())?;
    let mut guest_updates = Vec::new();
    guest.event(heap, &mut guest_updates)?;
    for update in guest_updates {
        let (frame, pages) = match update {
            Update::Truth(Truth::Map { run, frame, .. }) => (frame, run.pages),
            Update::Table(TableOperation::AddNode { frame, .. }) => (frame, 1),
            _ => continue,
        };
        let kernel = hypervisor.kernel_mut();
        for number in frame.number()..frame.number() + pages {
            touch(kernel, space, VirtualPage::new(number), updates)?;
        }
    }
    Ok(())
}

/// A write of the guest to a page of its memory that may not be backed yet.
fn touch(
    kernel: &mut Kernel,
    space: SpaceId,
    page: VirtualPage,
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    if kernel.content(space, page).is_none() {
        kernel.fault(space, page, AccessKind::Write, updates)?;
    }
    Ok(())
}

/// Merges until a full scan after the first finds nothing.
pub fn merge(system: &mut System) -> Result<(), SimError> {
    let mut is_first = true;
    loop {
        let pass = system
            .change_host(|hypervisor, updates| Ok(hypervisor.kernel_mut().ksm_pass(updates)))?;
        if pass.pages_merged == 0 && !is_first {
            return Ok(());
        }
        is_first = false;
    }
}

/// Walks per 1000 of the reads that are counted.
fn walks_per_1000(
    setup: &Setup<'_>,
    system: &mut System,
    pattern: Pattern,
    seed: u64,
) -> Result<f64, SimError> {
    let walks = |system: &System| {
        let mut counters = Counters::default();
        system.record(1, &mut counters);
        counters.get("walks").expect("a counter")
    };
    let pages = setup.regions * REGION_PAGES;
    let mut random = Random(seed);
    let mut at_start = 0.0;
    for read in 0..2 * setup.reads {
        if read == setup.reads {
            at_start = walks(system);
        }
        let page = pattern.next(pages, &mut random);
        system.translate(AccessKind::Read, VirtualAddress::new(HEAP_START + page * PAGE_BYTES))?;
    }
    Ok((walks(system) - at_start) / setup.reads as f64 * 1000.0)
}
