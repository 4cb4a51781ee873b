//! One simulated operating system with its own memory.
//!
//! `space` keeps the mappings of one address space in order; the files here decide what is mapped,
//! and when. [`Kernel`] owns a [`Core`], which everybody acts on, and components, each with the
//! state of one thing it does; operations without state of their own are free functions on the
//! core. This file has the operations that a running program causes; `calls` has all others.
//!
//! System calls:
//! - `event`: hands each to the part of the kernel that does it.
//! - `areas`: mmap, munmap, brk, stacks. `populate`: memory touched in advance.
//! - `range`: unmapping and protecting; 2MB pages of which a range covers a part are split or
//!   punched.
//! - `remap`: mremap.
//! - `processes`, `fork`: address spaces and processes come, are copied and go.
//!
//! Page faults:
//! - `fault`: which kind of fault it is, and whether the program may do that.
//! - `first_touch`: the ordered list of backers that map a page where nothing was.
//! - `single_page`: the frame of a 4KB page or of a hole.
//! - `copy_on_write`: writes to pages that are read-only for now.
//! - `sharing`: MAP_SHARED; a touch joins the frames that others map.
//!
//! Memory for 2MB pages:
//! - `claim`: blocks that others use in part are taken, whole or with holes.
//! - `compaction`: what is movable is moved away; kcompactd. `migration`: one frame is moved.
//! - `defrag`, `deferral`: when faults look for such blocks at all.
//! - `patching`: holes go back in place.
//! - `demotion`: 2MB pages with too many holes become 4KB pages.
//! - `reservation`: reserved frames are given up.
//! - `contiguous`: runs of any length.
//! - `subpage`: punching and patching a single sub-page, for policies, tests and experiments.
//!
//! Beside the programs:
//! - `khugepaged`: 4KB pages become 2MB pages in the background.
//! - `ksm`, `contents`: pages of equal content are merged; what is on which page.
//! - `reclaim`, `swap`: memory is taken from programs when it is short, and comes back.
//! - `contiguous_backing`: guest memory that is contiguous in the host.
//! - `balloon`: a guest gives memory to its hypervisor, and exchanges it for contiguous memory.
//! - `hard_fault`: frames that fail.
//!
//! Figures and checks: `counters` and `levels` (use of memory, now and at most), `work` (what was
//! done, for whoever knows its cost), `effort` (what an event will take, for whoever bounds it),
//! `memory_map` (what lies where), `invariants` (everything counted anew).

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
mod work;

use perforate_types::{AccessKind, Counters, ProgramEvent, SpaceId, Update, VirtualPage};

pub use self::core::Core;
use crate::memory::PhysicalMemory;
use crate::space::region_of;
use crate::{AgeingOutcome, OsError, Policy, ageing};
pub use balloon::SelfBalloonConfig;
use compaction::Compaction;
pub use compaction::CompactionCounts;
pub use config::{EarlyCompaction, KernelConfig, TableFormat, in_words};
pub use contiguous::Approach;
pub use counters::counters;
pub use daemon::Daemon;
pub use deferral::Deferral;
pub use defrag::Defrag;
use first_touch::Backers;
pub use first_touch::{Backed, Backer, Context, Touch, layout_counters};
pub use hard_fault::HardFault;
use khugepaged::Khugepaged;
pub use khugepaged::{KhugepagedConfig, KhugepagedPass};
use ksm::Ksm;
pub use ksm::{KsmConfig, KsmPass};
pub use levels::Span;
pub(crate) use populate::POPULATE_WRITE;
use processes::Processes;
use reclaim::Reclaim;
pub use setting::Setting;
use sharing::SharedObjects;
pub use sharing::SharedPlace;
pub use subpage::HoleContent;
pub(crate) use work::Ledger;
pub use work::{FirstTouch, Work};

/// Outcome of a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The access will succeed now.
    Mapped,
    /// The program may not do that.
    Segfault,
}

/// A page of an address space.
type SpacePage = (SpaceId, u64);
/// A 2MB region of an address space.
type SpaceRegion = (SpaceId, u64);

/// One simulated operating system with its own memory. Nothing is shared between two of them.
///
/// Updates are in order: a node is added before anything is mapped below it and removed after the
/// last mapping below it; whatever takes a translation away or alters it is followed at once by
/// its shootdowns, before its frames are used again.
pub struct Kernel {
    core: Core,
    processes: Processes,
    backers: Backers,
    compaction: Compaction,
    reclaim: Reclaim,
    shared_objects: SharedObjects,
    ksm: Ksm,
    khugepaged: Khugepaged,
    /// The most that figures of mechanisms came to, as far as it was noted.
    mechanisms_most: Counters,
    aged: Option<AgeingOutcome>,
}

impl Kernel {
    /// A machine that has just booted, with one empty process, number 0.
    ///
    /// # Errors
    /// If the memory is too small or too large, or policy and page tables do not fit.
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
        let KernelConfig { compaction: early_compaction, ksm, khugepaged, contents, .. } = config;
        let mut core = Core::new(config, policy, memory);
        let processes = Processes::new(core.create_space()?);
        let mut compaction = Compaction::default();
        if early_compaction.is_some() {
            compaction.compact(&mut core, &mut Vec::new()); // Nothing is mapped: no updates.
        }
        if let Some(contents) = contents {
            contents::set_distribution(&mut core, contents)?;
        }
        Ok(Self {
            core,
            processes,
            backers,
            compaction,
            reclaim: Reclaim::default(),
            shared_objects: SharedObjects::default(),
            ksm: Ksm::new(ksm.map_or_else(Default::default, |daemon| daemon.knobs)),
            khugepaged: Khugepaged::new(
                khugepaged.map_or_else(Default::default, |daemon| daemon.knobs),
            ),
            mechanisms_most: Counters::default(),
            aged,
        })
    }

    /// Does what the running process asks for. [`ProgramEvent::Switch`] changes which that is; a
    /// process that no fork made starts empty.
    ///
    /// # Errors
    /// If memory runs out, or the event names a range outside the address space.
    pub fn event(
        &mut self,
        event: &ProgramEvent,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.event_in(self.current(), event, updates)
    }

    /// Does what the process of `space` asks for.
    ///
    /// # Errors
    /// As [`Self::event`], or if there is no such address space.
    pub fn event_in(
        &mut self,
        space: SpaceId,
        event: &ProgramEvent,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        if takes_away(event) {
            self.note_mechanisms();
        }
        self.operation(updates, |kernel, updates| {
            kernel.reclaim.relieve(&mut kernel.core, None, updates);
            kernel.handle(space, event, updates)
        })
    }

    /// Serves the page fault of an access to `page`.
    ///
    /// # Errors
    /// If memory runs out or there is no such address space.
    pub fn fault(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        kind: AccessKind,
        updates: &mut Vec<Update>,
    ) -> Result<FaultOutcome, OsError> {
        let Self { core, compaction, backers, ksm, reclaim, .. } = self;
        let (page, place) = (page.number(), (space, region_of(page.number())));
        reclaim.relieve(core, Some(place), updates);
        let mut context = Context { core, compaction };
        let mut result = fault::serve(&mut context, backers, ksm, (space, page), kind, updates);
        while reclaim.relieves(context.core, &result, place, updates) {
            result = fault::serve(&mut context, backers, ksm, (space, page), kind, updates);
        }
        demotion::conclude(&mut self.core, updates);
        self.check_policy()?;
        result.map_err(|error| self.core.with_estimate(error))
    }

    /// Whether the policy answered all that it was asked.
    ///
    /// # Errors
    /// Why it did not.
    pub fn check_policy(&self) -> Result<(), OsError> {
        self.core.policy.failure().map_or(Ok(()), Err)
    }

    /// Whether a mechanism has something to do in advance of touches.
    pub fn has_work_in_advance(&self) -> bool {
        self.backers.have_work()
    }

    /// Does a part of what mechanisms have to do in advance of touches. To be called after events
    /// and faults, as long as there is work: the updates of large mappings are never all held at
    /// once.
    ///
    /// # Errors
    /// As [`Self::event`].
    pub fn proceed(&mut self, updates: &mut Vec<Update>) -> Result<(), OsError> {
        self.operation(updates, |kernel, updates| {
            let Self { core, compaction, backers, .. } = kernel;
            backers.proceed(&mut Context { core, compaction }, updates)
        })
    }

    /// Does one operation: its shootdowns go out together at its end.
    fn operation<T>(
        &mut self,
        updates: &mut Vec<Update>,
        act: impl FnOnce(&mut Self, &mut Vec<Update>) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.core.note_peak();
        let result = act(self, updates);
        demotion::conclude(&mut self.core, updates);
        self.check_policy()?;
        result.map_err(|error| self.core.with_estimate(error))
    }
}

/// Whether an event may take away whatever a mechanism keeps.
fn takes_away(event: &ProgramEvent) -> bool {
    use ProgramEvent::{Exec, Exit, Remap, Unmap};
    matches!(event, Exec | Exit { .. } | Remap { .. } | Unmap { .. })
}

/// Memory as the first process finds it, and what ageing did to it.
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
