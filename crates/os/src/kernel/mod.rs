//! One simulated operating system with its own memory.
//!
//! `space` maintains the mappings of one address space. The files of this module decide what is
//! mapped, and when. [`Kernel`] owns a [`Core`], on which all parts act, and components, each with
//! the state of one subsystem. Operations without state between calls are free functions on the
//! core. This file has the operations that a running program causes; `calls` has public operations
//! without a separate file.
//!
//! System calls:
//! - `event`: dispatches each call to the part of the kernel that serves it.
//! - `areas`: mmap, munmap, brk, stacks. `populate`: memory that is touched in advance.
//! - `range`: unmapping and protecting; splits or punches 2MB pages that a range covers in part.
//! - `remap`: mremap.
//! - `processes`, `fork`: creates, copies and destroys address spaces and processes.
//!
//! Page faults:
//! - `fault`: classifies a fault and checks permissions.
//! - `first_touch`: the ordered list of backers that map a page for the first time.
//! - `folios`: maps a block of 16KB to 1MB by 4KB entries.
//! - `single_page`: allocates the frame of a 4KB page or of a hole.
//! - `copy_on_write`: writes to read-only pages of writable areas.
//! - `sharing`: MAP_SHARED; a touch joins the frames that other spaces map.
//!
//! Memory for 2MB pages:
//! - `claim`: takes partly used blocks, emptied or with holes.
//! - `compaction`: moves movable frames away; kcompactd. `migration`: moves one frame.
//! - `defrag`, `deferral`: decide when faults look for such blocks.
//! - `patching`: moves the data of holes back in place.
//! - `demotion`: turns 2MB pages with too many holes into 4KB pages.
//! - `reservation`: gives up reserved frames.
//! - `contiguous`: runs of any length.
//! - `subpage`: punches and patches a single sub-page, for policies, tests and experiments.
//!
//! Background work:
//! - `khugepaged`: promotes 4KB pages to 2MB pages.
//! - `ksm`, `contents`: merges pages of equal content; tracks the content of each page.
//! - `reclaim`, `swap`: takes memory from programs when it is short, and reads it back.
//! - `contiguous_backing`: backs guest memory contiguously in the host.
//! - `balloon`: a guest gives memory to its hypervisor, and exchanges it for contiguous memory.
//! - `hard_fault`: retires failing frames.
//!
//! Counters and checks:
//! - `counters`, `levels`: use of memory, now and at its maximum.
//! - `work`: counts of operations, for cost models.
//! - `effort`: bounds the work of an event in advance.
//! - `memory_map`: content of physical memory.
//! - `invariants`: recounts everything.

mod areas;
mod balloon;
mod calls;
mod claim;
mod compaction;
mod config;
mod contents;
mod contiguous;
mod contiguous_backing;
mod copy_on_write;
mod core;
mod counters;
mod daemon;
mod deferral;
mod defrag;
mod demotion;
mod effort;
mod event;
mod fault;
mod first_touch;
mod folios;
mod fork;
mod hard_fault;
mod invariants;
mod khugepaged;
mod ksm;
mod levels;
mod memory_map;
mod migration;
mod patching;
mod populate;
mod processes;
mod range;
mod reclaim;
mod remap;
mod reservation;
mod setting;
mod sharing;
mod single_page;
mod subpage;
mod swap;
#[cfg(test)]
mod tests;
mod work;

use perforate_types::{AccessKind, Counters, ProgramEvent, SpaceId, VirtualPage};

pub use self::core::Core;
use crate::memory::PhysicalMemory;
use crate::space::region_of;
use crate::{AgeingOutcome, OsError, Policy, ageing};
pub use balloon::SelfBalloonConfig;
pub use compaction::CompactionCounts;
pub use config::{EarlyCompaction, KernelConfig, TableFormat, in_words};
pub use contiguous::Approach;
pub use counters::counters;
pub use daemon::Daemon;
pub use deferral::Deferral;
pub use defrag::Defrag;
use first_touch::Backers;
pub use first_touch::{Backed, Backer, Touch, layout_counters};
use hard_fault::HardFaults;
pub use hard_fault::{HardFault, HardFaultConfig};
use khugepaged::Khugepaged;
pub use khugepaged::{KhugepagedConfig, KhugepagedPass};
use ksm::Ksm;
pub use ksm::{KsmConfig, KsmPass};
pub use levels::Span;
use processes::Processes;
pub use setting::Setting;
use sharing::SharedObjects;
pub use sharing::SharedPlace;
pub use subpage::HoleContent;
pub(crate) use work::Ledger;
pub use work::{FirstTouch, Work};

/// Outcome of a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The page is mapped; the access will succeed when retried.
    Mapped,
    /// The access is not allowed (segmentation fault).
    Segfault,
}

/// A page of an address space: space and page number (address ÷ 4KB).
type SpacePage = (SpaceId, u64);
/// A 2MB region of an address space: space and region number (address ÷ 2MB).
type SpaceRegion = (SpaceId, u64);

/// One simulated operating system with its own memory. Two kernels share no state.
///
/// It reports its updates in the order in which hardware must see them. A page-table node is added before
/// anything is mapped below it, and removed after the last mapping below it. A shootdown directly follows
/// every update that removes or changes a translation, before the frames are used again.
pub struct Kernel {
    core: Core,
    processes: Processes,
    backers: Backers,
    shared_objects: SharedObjects,
    ksm: Ksm,
    khugepaged: Khugepaged,
    hard_faults: HardFaults,
    /// Maximum of each counter of same-page merging and of the backers (mechanisms that map memory), sampled
    /// before events that can reduce these counters.
    mechanisms_maxima: Counters,
    aged: Option<AgeingOutcome>,
}

impl Kernel {
    /// Boots a machine with one empty process, number 0.
    ///
    /// # Errors
    /// If the memory is too small or too large, or the page tables cannot hold what the policy maps.
    pub fn new(config: KernelConfig, policy: Box<dyn Policy>) -> Result<Self, OsError> {
        if policy.hole_rule().is_some() && !config.tables.shadow_directories {
            return Err(OsError::NoShadowDirectories);
        }
        if let Some(mode) = config.tables.gap_tolerance
            && policy.maps_large()
        {
            let (policy, mode) = (policy.name(), mode.label());
            return Err(OsError::LargePagesWithGapTolerance { policy, mode });
        }
        let (memory, aged) = boot_memory(&config, policy.as_ref())?;
        let backers = Backers::new(&config, policy.as_ref());
        let KernelConfig {
            compaction: early_compaction,
            ksm,
            khugepaged,
            hard_faults,
            contents,
            ..
        } = config;
        let mut core = Core::new(config, policy, memory);
        let processes = Processes::new(core.create_space()?);
        if early_compaction.is_some() {
            core.compact(); // Nothing is mapped: no updates.
        }
        let mut kernel = Self {
            core,
            processes,
            backers,
            shared_objects: SharedObjects::default(),
            ksm: Ksm::default(),
            khugepaged: Khugepaged::default(),
            hard_faults: HardFaults::default(),
            mechanisms_maxima: Counters::default(),
            aged,
        };
        kernel.ksm.config = ksm.map(|daemon| daemon.knobs).unwrap_or_default();
        kernel.khugepaged.config = khugepaged.map(|daemon| daemon.knobs).unwrap_or_default();
        kernel.hard_faults.config = hard_faults.map(|daemon| daemon.knobs).unwrap_or_default();
        if let Some(contents) = contents {
            kernel.set_content_distribution(contents)?;
        }
        Ok(kernel)
    }

    /// Serves a request of the running process. [`ProgramEvent::Switch`] changes which process
    /// runs; a process that was not forked starts empty.
    ///
    /// # Errors
    /// If memory runs out, or the event names a range outside the address space.
    pub fn event(&mut self, event: &ProgramEvent) -> Result<(), OsError> {
        self.event_in(self.current(), event)
    }

    /// Serves a request of the process of `space`.
    ///
    /// # Errors
    /// As [`Self::event`], or if there is no such address space.
    pub fn event_in(&mut self, space: SpaceId, event: &ProgramEvent) -> Result<(), OsError> {
        if removes_mappings(event) {
            self.note_mechanisms();
        }
        self.operation(|kernel| {
            kernel.core.relieve(None);
            kernel.handle(space, event)
        })
    }

    /// Serves the page fault of an access to `page`.
    ///
    /// # Errors
    /// If memory runs out, there is no such address space, or the policy failed.
    pub fn fault(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        kind: AccessKind,
    ) -> Result<FaultOutcome, OsError> {
        let Self { core, backers, ksm, .. } = self;
        let (page, place) = (page.number(), (space, region_of(page.number())));
        let serve = |core: &mut Core| fault::serve(core, backers, ksm, space, page, kind);
        let result = core.with_reclaim(place, serve);
        demotion::conclude(&mut self.core);
        self.check_policy()?;
        result.map_err(|error| self.core.with_estimate(error))
    }

    /// Checks that the policy (for example, one written as a script) has not failed so far.
    ///
    /// # Errors
    /// The policy's error, if it failed.
    pub fn check_policy(&self) -> Result<(), OsError> {
        self.core.policy.failure().map_or(Ok(()), Err)
    }

    /// True if a backer (mechanism that maps memory) has memory to map before the program touches it.
    pub fn has_work_in_advance(&self) -> bool {
        self.backers.have_work()
    }

    /// Maps a bounded amount of memory before the program touches it. Call this function after events and
    /// faults while [`Self::has_work_in_advance`] is true. Small steps bound the number of updates held at
    /// once for large mappings.
    ///
    /// # Errors
    /// As [`Self::event`].
    pub fn proceed(&mut self) -> Result<(), OsError> {
        self.operation(|kernel| kernel.backers.proceed(&mut kernel.core))
    }

    /// Runs `act` as one operation of the kernel. At its end, demotes 2MB pages with too many holes and sends
    /// all shootdowns in one batch. Returns the policy's error if the policy failed.
    pub(super) fn operation<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.core.note_peak();
        let result = act(self);
        demotion::conclude(&mut self.core);
        self.check_policy()?;
        result.map_err(|error| self.core.with_estimate(error))
    }
}

/// True if the event can remove mappings, so that counters of mechanisms such as direct segments may
/// decrease.
fn removes_mappings(event: &ProgramEvent) -> bool {
    use ProgramEvent::{Exec, Exit, Remap, Unmap};
    matches!(event, Exec | Exit { .. } | Remap { .. } | Unmap { .. })
}

/// Creates the physical memory as it is before the first process starts. Also returns the outcome of ageing,
/// if it is configured.
fn boot_memory(
    config: &KernelConfig,
    policy: &dyn Policy,
) -> Result<(PhysicalMemory, Option<AgeingOutcome>), OsError> {
    let top_table = config.tables.top_table();
    let mut memory = match &config.snapshot {
        Some(snapshot) => PhysicalMemory::from_snapshot(snapshot, top_table, config.seed)?,
        None => {
            let (bytes, zones) = (config.memory_bytes, config.zones);
            PhysicalMemory::with_layout(bytes, top_table, zones, config.layout())?
        }
    };
    let is_injected = config.fragmentation.is_some();
    if let Some(index) = policy.free_index(config.tables, memory.end_frame(), is_injected)? {
        memory.set_free_index(index);
    }
    if let Some(faulty) = &config.faulty {
        memory.retire_all(&faulty.frames(memory.end_frame(), config.seed)?);
    }
    let aged = match &config.age {
        Some(ageing) => Some(ageing::age(&mut memory, ageing, config.seed)?),
        None => None,
    };
    memory.set_swap_bytes(config.swap.0);
    Ok((memory, aged))
}
