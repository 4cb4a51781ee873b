//! Page sharing between virtual machines (D §IX.E, D-C8; P §III.A, P-C4).
//!
//! Two guest kernels run on one host kernel, whose scanner merges pages with equal contents across
//! the machines. Neither paper describes the contents of pages. The contents are our choice, and so
//! are the possible savings. The effects on large pages and TLB misses follow from the model.

mod expected;
#[cfg(test)]
mod tests;

use perforate_config::{BoundedSize, Changes, Count, Share};
use perforate_os::{ContentDistribution, Hypervisor, Kernel, KernelConfig, OsError};
use perforate_schemes::segment;
use perforate_sim::{Composition, Machine, MemoryState, PhasedRun, SimError, System};
use perforate_types::{
    AccessKind, Chunk, Counters, ProgramEvent, SpaceId, TableOperation, Truth, Update, VirtualPage,
};
use perforate_workloads::ReadersOptions;
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{
    CONTENTS, HEAP_BYTES, PAGE_BYTES, counter, counters, merge, named, unlimited_ksm,
};
use super::settings::{changed, wrong};
use super::{Measurement, Settings, Study};
use expected::saved_pages;

/// Minimum number of pages of a heap (64MB), because segments are not made for smaller heaps.
const LEAST_PAGES: u64 = 64 << 20 >> 12;
/// Memory of a guest in MB in addition to the heap, for page tables and spare memory; a multiple of 2.
const GUEST_EXTRA_MB: u64 = 64;
/// Memory of the host in MB in addition to that of both virtual machines, for page tables and spare
/// memory.
const HOST_EXTRA_MB: u64 = 512;

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SharingSettings {
    /// Options of the workload `readers` in one virtual machine. Defaults here: heap 2580M, as in P
    /// §III.A, touch yes, reads and warmup 1M.
    readers: Option<Changes<ReadersOptions>>,
    /// Contents of the pages of both machines. Without distinct= the pool has so many contents that
    /// two pages have each of them on average.
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

/// Savings, large pages and page walks of two virtual machines on a host that merges equal pages. Subjects
/// are schemes of the host.
pub struct VmPageSharing {
    machine: Machine,
    /// Scheme that both guests use.
    guest: String,
    /// Options of the workload `readers`, which both machines run.
    readers: ReadersOptions,
    contents: ContentDistribution,
    check: bool,
}

impl Study for VmPageSharing {
    const NAME: &'static str = "vm-page-sharing";
    type Settings = SharingSettings;

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

    /// Rejects hosts with shadow page tables, because shadow paging itself merges no pages. Rejects guests
    /// without ordinary page tables, because the second machine has no simulated hardware.
    fn check(&self, host: &str) -> Result<(), String> {
        let pair = self.pair(host).map_err(|error| error.to_string())?;
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

    fn cost(&self) -> f64 {
        // Two patterns, before and after merging, each with a warm-up. Pages are also written and
        // scanned.
        self.readers.reads.get() as f64 * 8.0 + self.readers.pages() as f64 * 10.0
    }

    fn measure(&self, host: &str, seed: u64) -> Result<Measurement, String> {
        self.run(host, seed).map_err(|error| error.to_string())
    }
}

impl VmPageSharing {
    /// Returns the composition of the guests' scheme with the host's.
    fn pair(&self, host: &str) -> Result<Composition, SimError> {
        Ok(Composition::find(&format!("{}+{host}", self.guest))?)
    }

    fn run(&self, host: &str, seed: u64) -> Result<Measurement, SimError> {
        let mut run = self.start(host, seed)?;
        let before = host_counters(run.simulation.system());
        let [uniform_before, skewed_before] = self.walks_per_1000(&mut run)?;
        merge_on_host(run.simulation.system_mut())?;
        let after = host_counters(run.simulation.system());
        let [uniform_after, skewed_after] = self.walks_per_1000(&mut run)?;
        let change = |name: &str| counter(&after, name) - counter(&before, name);
        let backed = host_kernel(run.simulation.system()).mapped_bytes() / PAGE_BYTES;
        let pages = backed as f64;
        let tables = change("page_table_bytes") / PAGE_BYTES as f64;
        let saved = change("free_bytes") / PAGE_BYTES as f64 + tables;
        let large = counter(&before, "large_pages");
        // If all memory is in segments, the scanner finds no pages and registers no counters.
        let split = after.get("ksm_large_pages_split").unwrap_or(0.0);
        Ok(named([
            ("backed_pages", pages),
            ("frames_saved", saved),
            ("table_frames_added", tables),
            ("frames_saved_share", saved / pages),
            ("frames_saved_net_share", (saved - tables) / pages),
            // Applies to pages outside segments.
            ("frames_saved_expected_share", saved_pages(&self.contents, backed) / pages),
            ("host_large_pages", large),
            ("large_pages_split_share", split / large.max(1.0)),
            ("large_pages_punched_share", change("perforated_pages") / large.max(1.0)),
            ("uniform_before_walks_per_1000_reads", uniform_before),
            ("uniform_after_walks_per_1000_reads", uniform_after),
            ("skewed_before_walks_per_1000_reads", skewed_before),
            ("skewed_after_walks_per_1000_reads", skewed_after),
        ]))
    }

    /// Starts both machines and fills their heaps, until the program of the first machine begins to read.
    fn start(&self, host: &str, seed: u64) -> Result<PhasedRun, SimError> {
        let guest_mb = ((self.readers.pages() * PAGE_BYTES) >> 20) + GUEST_EXTRA_MB;
        let host_memory = MemoryState::of((2 * guest_mb + HOST_EXTRA_MB) << 20);
        let memory =
            MemoryState { host: Some(Box::new(host_memory)), ..MemoryState::of(guest_mb << 20) };
        let pair = self.pair(host)?;
        let place = (&self.machine, &memory);
        let mut run =
            PhasedRun::new(place, pair, &self.readers.workload(), seed, (false, self.check))?;
        run.simulation.system_mut().change_host(|hypervisor| {
            let kernel = hypervisor.kernel_mut();
            kernel.set_content_distribution(ContentDistribution { seed, ..self.contents })?;
            kernel.set_ksm(unlimited_ksm());
            Ok(())
        })?;
        run.run_until("uniform-warm-up")?;
        let config = KernelConfig::new(guest_mb << 20);
        let maps = self.maps(seed)?;
        run.simulation.system_mut().change_host(|hypervisor| {
            let guest = Kernel::new(config, (pair.own.policy)(&memory.policy_options())?)?;
            second_machine(hypervisor, guest, &maps)
        })?;
        Ok(run)
    }

    /// Returns the program's system calls before its reads.
    fn maps(&self, seed: u64) -> Result<Vec<ProgramEvent>, SimError> {
        let mut source = self.readers.workload().source(seed, None);
        let (mut maps, mut chunk) = (Vec::new(), Chunk::default());
        while source.next_chunk(&mut chunk)? && chunk.phase_start("uniform-warm-up").is_none() {
            maps.extend(chunk.events.drain(..).map(|(_, event)| event));
        }
        Ok(maps)
    }

    /// Runs the next round of reads, and returns page walks per 1000 measured reads: for uniform reads, and
    /// for reads with a 1/rank distribution.
    fn walks_per_1000(&self, run: &mut PhasedRun) -> Result<[f64; 2], SimError> {
        let mut walks = [0.0; 2];
        for (walks, pattern) in walks.iter_mut().zip(["uniform", "skewed"]) {
            run.run_until(pattern)?;
            run.simulation.reset_counts();
            run.next_phase()?;
            let count = counter(&counters(run.simulation.system()), "walks");
            *walks = count / self.readers.reads.get() as f64 * 1000.0;
        }
        Ok(walks)
    }
}

fn host_kernel(system: &System) -> &Kernel {
    system.hypervisor().expect("the system is virtualized").kernel()
}

fn host_counters(system: &System) -> Counters {
    let mut counters = Counters::default();
    host_kernel(system).counters(&mut counters);
    counters
}

fn merge_on_host(system: &mut System) -> Result<(), SimError> {
    merge(|| system.change_host(|hypervisor| Ok(hypervisor.kernel_mut().ksm_pass())))
}

/// Adds a second virtual machine to the host. Its guest kernel executes the system calls `maps`, and touches
/// every frame that it allocates. No hardware is simulated for this machine.
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

/// Writes to a guest page for which the host has no frame, so that the host allocates one.
fn touch(kernel: &mut Kernel, space: SpaceId, page: VirtualPage) -> Result<(), OsError> {
    if kernel.content(space, page).is_none() {
        kernel.fault(space, page, AccessKind::Write)?;
    }
    Ok(())
}

/// Returns the contents of pages for two machines with heaps of `heap_pages` pages each.
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
