//! Two virtual machines on one host: filled, then merged.

use perforate_config::Count;
use perforate_os::{ContentDistribution, Hypervisor, Kernel, KernelConfig, KsmConfig, OsError};
use perforate_sim::{Composition, MemoryState, PhasedRun, SimError, System};
use perforate_types::{
    AccessKind, Chunk, Counters, ProgramEvent, SpaceId, TableOperation, Truth, Update, VirtualPage,
};

use super::Setup;
use super::expected::saved_pages;
use crate::kind::case_study::{PAGE_BYTES, counter, counters};

/// Guest memory besides the heap: tables, and what is left over. Whole large pages.
const GUEST_EXTRA_MB: u64 = 64;
/// Host memory besides that of both virtual machines, in MB: tables, and what is left over.
const HOST_EXTRA_MB: u64 = 512;

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

/// Runs both machines over a host of this scheme.
///
/// # Errors
/// Out of memory, or a disagreement with the oracle.
pub fn run(setup: &Setup, host: &str, seed: u64) -> Result<Figures, SimError> {
    let mut run = start(setup, host, seed)?;
    let before = host_counters(run.simulation.system());
    let walks_before = walks_per_1000(setup, &mut run)?;
    merge(run.simulation.system_mut())?;
    let after = host_counters(run.simulation.system());
    let walks_after = walks_per_1000(setup, &mut run)?;
    let change = |name: &str| counter(&after, name) - counter(&before, name);
    let pages = host_kernel(run.simulation.system()).mapped_bytes() / PAGE_BYTES;
    let tables = change("page_table_bytes") / PAGE_BYTES as f64;
    Ok(Figures {
        pages: pages as f64,
        saved: change("free_bytes") / PAGE_BYTES as f64 + tables,
        tables,
        closed: saved_pages(&setup.contents, pages),
        large: counter(&before, "large_pages"),
        // Where all memory is in segments, the scanner finds no page and counts nothing.
        split: after.get("ksm_large_pages_split").unwrap_or(0.0),
        punched: change("perforated_pages"),
        uniform: [walks_before[0], walks_after[0]],
        skewed: [walks_before[1], walks_after[1]],
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

/// Both machines with their heaps filled, before the first machine's program reads.
pub fn start(setup: &Setup, host: &str, seed: u64) -> Result<PhasedRun, SimError> {
    let guest_mb = ((setup.readers.pages() * PAGE_BYTES) >> 20) + GUEST_EXTRA_MB;
    let host_memory = MemoryState::of((2 * guest_mb + HOST_EXTRA_MB) << 20);
    let memory =
        MemoryState { host: Some(Box::new(host_memory)), ..MemoryState::of(guest_mb << 20) };
    let pair = composition(&setup.guest, host)?;
    let place = (&setup.machine, &memory);
    let mut run =
        PhasedRun::new(place, pair, &setup.readers.workload(), seed, (false, setup.check))?;
    let contents = ContentDistribution { seed, ..setup.contents };
    run.simulation.system_mut().change_host(|hypervisor| {
        let kernel = hypervisor.kernel_mut();
        kernel.set_content_distribution(contents)?;
        let pages_to_scan = Count::new(u64::MAX);
        kernel.set_ksm(KsmConfig { pages_to_scan, ..KsmConfig::default() });
        Ok(())
    })?;
    run.run_until("uniform-warm-up")?;
    let config = KernelConfig::new(guest_mb << 20);
    let maps = maps(setup, seed)?;
    run.simulation.system_mut().change_host(|hypervisor| {
        let guest = Kernel::new(config, (pair.own.policy)(&memory.policy_options())?)?;
        second_machine(hypervisor, guest, &maps)
    })?;
    Ok(run)
}

/// System calls of the program before it reads.
fn maps(setup: &Setup, seed: u64) -> Result<Vec<ProgramEvent>, SimError> {
    let mut source = setup.readers.workload().source(seed, None);
    let (mut maps, mut chunk) = (Vec::new(), Chunk::default());
    while source.next_chunk(&mut chunk)? && chunk.phase_start("uniform-warm-up").is_none() {
        maps.extend(chunk.events.drain(..).map(|(_, event)| event));
    }
    Ok(maps)
}

/// The scheme of both guests over the host's.
pub fn composition(guest: &str, host: &str) -> Result<Composition, SimError> {
    Ok(Composition::find(&format!("{guest}+{host}"))?)
}

/// Another virtual machine, whose guest's kernel maps what its program asks for and touches what it
/// got for it. No hardware translates for it here.
fn second_machine(
    hypervisor: &mut Hypervisor,
    mut guest: Kernel,
    maps: &[ProgramEvent],
) -> Result<(), OsError> {
    let space = hypervisor.add_machine(&guest.memory_slots())?;
    maps.iter().try_for_each(|map| guest.event(map))?;
    for update in guest.updates().drain(..) {
        let (frame, pages) = match update {
            Update::Truth(Truth::Map { run, frame, .. }) => (frame, run.pages),
            Update::Table(TableOperation::AddNode { frame, .. }) => (frame, 1),
            _ => continue,
        };
        let kernel = hypervisor.kernel_mut();
        for number in frame.number()..frame.number() + pages {
            touch(kernel, space, VirtualPage::new(number))?;
        }
    }
    Ok(())
}

/// A write of the guest to a page of its memory that may not be backed yet.
fn touch(kernel: &mut Kernel, space: SpaceId, page: VirtualPage) -> Result<(), OsError> {
    if kernel.content(space, page).is_none() {
        kernel.fault(space, page, AccessKind::Write)?;
    }
    Ok(())
}

/// Merges until a full scan after the first finds nothing.
pub fn merge(system: &mut System) -> Result<(), SimError> {
    let mut is_first = true;
    loop {
        let pass = system.change_host(|hypervisor| Ok(hypervisor.kernel_mut().ksm_pass()))?;
        if pass.pages_merged == 0 && !is_first {
            return Ok(());
        }
        is_first = false;
    }
}

/// Walks per 1000 of the counted reads of the round that begins here, in both patterns.
fn walks_per_1000(setup: &Setup, run: &mut PhasedRun) -> Result<[f64; 2], SimError> {
    let mut walks = [0.0; 2];
    for (walks, pattern) in walks.iter_mut().zip(["uniform", "skewed"]) {
        run.run_until(pattern)?;
        run.simulation.reset_counts();
        run.next_phase()?;
        let count = counter(&counters(run.simulation.system()), "walks");
        *walks = count / setup.readers.reads.get() as f64 * 1000.0;
    }
    Ok(walks)
}
