//! One simulated operating system with its own memory.
//!
//! `space` keeps the mappings of one address space in order; the files here decide what is mapped,
//! and when.
//!
//! What programs ask for:
//! - `event`: mmap, munmap, mprotect, madvise, brk, and memory populated in advance.
//! - `range`: unmapping and protecting; 2MB pages of which a range covers a part are split or
//!   punched.
//! - `remap`: mremap.
//! - `process`, `fork`: address spaces and processes come, are copied and go.
//!
//! Page faults:
//! - `fault`: which kind of fault it is, and whether the program may do that.
//! - `first_touch`: what is mapped where nothing was, lazy and eager holes, reservation of a block.
//! - `copy_on_write`: writes to pages that are read-only for now.
//! - `shared`: MAP_SHARED; a touch joins the frames that others map.
//!
//! Memory for 2MB pages:
//! - `claim`: blocks that others use in part are taken, whole or with holes.
//! - `compaction`: what is movable is moved away; kcompactd.
//! - `defrag`, `deferral`: when faults look for such blocks at all.
//! - `patching`: holes go back in place.
//! - `demotion`: perforated pages with too many holes become 4KB pages.
//! - `reservation`: reserved frames are given up.
//! - `superpage`: gap-tolerant superpages.
//! - `contiguous`, `segment`: runs of any length, and the direct segments in them.
//! - `subpage`: punching and patching a single sub-page, for policies, tests and experiments.
//!
//! Beside the programs:
//! - `khugepaged`: 4KB pages become 2MB pages in the background.
//! - `ksm`, `contents`: pages of equal content are merged; what is on which page.
//! - `reclaim`, `swap`: memory is taken from programs when it is short, and comes back.
//! - `contiguous_backing`: guest memory that is contiguous in the host.
//! - `balloon`: a guest gives memory to its hypervisor, and exchanges it for contiguous memory.
//! - `hard_fault`: frames that fail.
//! - `own_tables`: tables that a hypervisor keeps besides those of its address spaces.
//!
//! Figures and checks: `counters` (use of memory), `work` (what was done, for whoever knows its
//! cost), `memory_map` (what lies where), `invariants` (everything counted anew).

mod balloon;
mod claim;
mod compaction;
mod contents;
mod contiguous;
mod contiguous_backing;
mod copy_on_write;
mod counters;
mod deferral;
mod defrag;
mod demotion;
mod event;
mod fault;
mod first_touch;
mod fork;
mod hard_fault;
mod invariants;
mod khugepaged;
mod ksm;
mod memory_map;
mod own_tables;
mod patching;
mod process;
mod range;
mod reclaim;
mod remap;
mod reservation;
mod segment;
mod shared;
mod subpage;
mod superpage;
mod swap;
mod work;

pub(crate) use event::POPULATE_WRITE;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use perforate_types::{
    AccessKind, Frame, GapTolerance, PhysicalAddress, ProcessId, ProgramEvent, SpaceId, Update,
    VirtualPage,
};
use serde::{Deserialize, Serialize};

use crate::memory::{FRAME_BYTES, FrameLayout, IoGap, PhysicalMemory};
use crate::space::{AddressSpace, Effects, region_of};
use crate::{
    Ageing, AgeingOutcome, FaultMap, Fragmentation, HostSnapshot, OsError, OtherUse, PartialChange,
    Policy, ZoneLayout, ageing,
};
use claim::ClaimCursor;
pub use compaction::CompactionCounts;
use compaction::Kcompactd;
use contents::PageContents;
use counters::{FaultCounts, Peak};
pub use defrag::Defrag;
pub use hard_fault::HardFault;
use khugepaged::Khugepaged;
pub use khugepaged::{KhugepagedConfig, KhugepagedPass};
use ksm::Ksm;
pub use ksm::{KsmConfig, KsmPass};
use reclaim::Reclaim;
pub use segment::SegmentState;
use segment::Segments;
pub use shared::SharedPlace;
pub use subpage::HoleContent;
use superpage::Superpages;
pub use work::Work;
pub(crate) use work::{FirstTouch, Ledger};

/// The format of the page tables, as far as frames are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableFormat {
    /// Level-2 nodes are order-1 pairs, node and shadow node, and memory has a hole bitmap (P-1,
    /// P-2).
    pub shadow_directories: bool,
    /// Level-2 nodes hold gap-tolerant entries of this mode beside entries of level-1 nodes, and no
    /// 2MB pages (G §3.7).
    pub gap_tolerance: Option<GapTolerance>,
}

impl TableFormat {
    /// log2 of the frames of a level-2 node: two where it has a shadow (P §VI), up to four where
    /// it holds gap-tolerant entries (G Table 2).
    pub(crate) fn directory_order(self) -> u32 {
        match self.gap_tolerance {
            Some(mode) => mode.directory_order(),
            None => u32::from(self.shadow_directories),
        }
    }
}

/// What a [`Kernel`] is made from, besides its policy.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelConfig {
    /// Size of physical memory in bytes, a multiple of 4096.
    pub memory_bytes: u64,
    /// Injected fragmentation.
    #[serde(default)]
    pub fragmentation: Option<Fragmentation>,
    /// Seed of the fragmentation.
    #[serde(default)]
    pub seed: u64,
    /// Format of the page tables.
    #[serde(default)]
    pub tables: TableFormat,
    /// How memory is divided into zones.
    #[serde(default)]
    pub zones: ZoneLayout,
    /// The I/O gap; without one, memory begins at address 0 and has no gaps.
    #[serde(default)]
    pub io_gap: Option<IoGap>,
    /// Room for memory that is added at run time, at the end of the physical address space: in a
    /// guest, what its balloon holds from the start (D §VI.C).
    #[serde(default)]
    pub hot_add_bytes: u64,
    /// Frames that are faulty and never used.
    #[serde(default)]
    pub faulty: Option<FaultMap>,
    /// What a fault does for a 2MB page when no whole block is free.
    #[serde(default)]
    pub defrag: Defrag,
    /// Swap space in bytes; without any, no memory of programs is swapped out.
    #[serde(default)]
    pub swap_bytes: u64,
    /// Whether background compaction had its time before the program started.
    #[serde(default)]
    pub compacted: bool,
    /// What happened to memory before the program started.
    #[serde(default)]
    pub ageing: Option<Ageing>,
    /// The memory of a real machine that this one begins as; its size, layout and zones are then the
    /// snapshot's, whatever is said of them here.
    #[serde(skip)]
    pub snapshot: Option<Arc<HostSnapshot>>,
    /// For traces without map events: a touch outside any area makes an anonymous area that
    /// allows everything, of the aligned 2MB region around it (less what other areas hold).
    #[serde(default)]
    pub implicit_maps: bool,
}

impl KernelConfig {
    /// A memory of this size without a past, ordinary page tables.
    pub fn new(memory_bytes: u64) -> Self {
        Self { memory_bytes, ..Self::default() }
    }
}

/// What became of a page fault.
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
    config: KernelConfig,
    policy: Box<dyn Policy>,
    memory: PhysicalMemory,
    spaces: Vec<Option<Box<AddressSpace>>>,
    processes: BTreeMap<ProcessId, SpaceId>,
    current: SpaceId,
    faults: FaultCounts,
    claims: ClaimCursor,
    kcompactd: Kcompactd,
    compaction: CompactionCounts,
    reclaim: Reclaim,
    segments: Segments,
    superpages: Superpages,
    peak: Peak,
    contents: PageContents,
    ksm: Ksm,
    khugepaged: Khugepaged,
    ledger: Ledger,
    aged: Option<AgeingOutcome>,
    /// Sub-pages punched up to the last operation that was concluded.
    concluded_punches: u64,
    /// Extents that moved since one of their frames failed.
    extents_relocated: u64,
    /// Objects that shared mappings made so far.
    shared_objects: u64,
    /// Frames of tables that belong to no address space.
    own_tables: BTreeSet<Frame>,
}

impl Kernel {
    /// A machine that has just booted, with one empty process, number 0.
    ///
    /// # Errors
    /// If the memory is too small or too large, or the policy perforates and the tables have no
    /// shadow directories.
    pub fn new(config: KernelConfig, policy: Box<dyn Policy>) -> Result<Self, OsError> {
        let punches = policy.partial_change() == PartialChange::Punch;
        if punches && !config.tables.shadow_directories {
            return Err(OsError::NoShadowDirectories);
        }
        let layout = FrameLayout { io_gap: config.io_gap, hot_add_bytes: config.hot_add_bytes };
        let with_bitmap = config.tables.shadow_directories;
        let mut memory = match &config.snapshot {
            Some(snapshot) => PhysicalMemory::from_snapshot(snapshot, with_bitmap, config.seed)?,
            None => {
                let bytes = config.memory_bytes;
                PhysicalMemory::with_layout(bytes, with_bitmap, config.zones, layout)?
            }
        };
        superpage::prepare(&mut memory, &config, policy.as_ref())?;
        if let Some(faulty) = &config.faulty {
            memory.retire_all(&faulty.frames(memory.end_frame(), config.seed)?);
        }
        let aged = match &config.ageing {
            Some(ageing) => Some(ageing::age(&mut memory, ageing, config.seed)?),
            None => None,
        };
        memory.set_swap_bytes(config.swap_bytes);
        let tables = config.tables;
        let mut kernel = Self {
            config,
            policy,
            memory,
            spaces: Vec::new(),
            processes: BTreeMap::new(),
            current: SpaceId(0),
            faults: FaultCounts::default(),
            claims: ClaimCursor::default(),
            kcompactd: Kcompactd::default(),
            compaction: CompactionCounts::default(),
            reclaim: Reclaim::default(),
            segments: Segments::default(),
            superpages: Superpages::default(),
            peak: Peak::default(),
            contents: PageContents::default(),
            ksm: Ksm::default(),
            khugepaged: Khugepaged::default(),
            extents_relocated: 0,
            shared_objects: 0,
            own_tables: BTreeSet::new(),
            ledger: Ledger::new(tables),
            aged,
            concluded_punches: 0,
        };
        kernel.current = kernel.create_space()?;
        kernel.processes.insert(ProcessId(0), kernel.current);
        if kernel.config.compacted {
            kernel.compact(&mut Vec::new()); // Nothing is mapped yet: there are no updates.
        }
        Ok(kernel)
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
        self.event_in(self.current, event, updates)
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
        self.note_peak();
        self.relieve(None, updates);
        let result = self.handle(space, event, updates);
        self.conclude(updates);
        result.map_err(|error| self.with_estimate(error))
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
        let (page, place) = (page.number(), (space, region_of(page.number())));
        self.relieve(Some(place), updates);
        let mut result = self.serve(space, page, kind, updates);
        while self.relieves(&result, place, updates) {
            result = self.serve(space, page, kind, updates);
        }
        self.conclude(updates);
        result.map_err(|error| self.with_estimate(error))
    }

    /// The format of its page tables.
    pub fn tables(&self) -> TableFormat {
        self.config.tables
    }

    /// Address space of the running process.
    pub fn current(&self) -> SpaceId {
        self.current
    }

    /// What the kernel was made from.
    pub fn config(&self) -> &KernelConfig {
        &self.config
    }

    /// First byte of the hole bitmap at the top of memory (P-2): one bit per frame of the
    /// machine. Only with shadow directories.
    pub fn hole_bitmap(&self) -> Option<PhysicalAddress> {
        self.memory.hole_bitmap().map(|frame| frame.address())
    }

    /// The frame after the last that there can be: beyond the memory's size with an I/O gap or
    /// room for memory added later.
    pub fn end_frame(&self) -> perforate_types::Frame {
        perforate_types::Frame::new(self.memory.end_frame())
    }

    /// Living processes and their address spaces.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, SpaceId)> + '_ {
        self.processes.iter().map(|(&process, &space)| (process, space))
    }

    /// Runs of frames in which memory is or can be added: what a hypervisor has to back.
    pub fn memory_slots(&self) -> Vec<Range<Frame>> {
        if self.config.snapshot.is_some() {
            let present = self.memory.present().iter();
            return present.map(|slot| Frame::new(slot.start)..Frame::new(slot.end)).collect();
        }
        let KernelConfig { memory_bytes, io_gap, hot_add_bytes, .. } = self.config;
        let layout = FrameLayout { io_gap, hot_add_bytes };
        let placed = layout.place(memory_bytes / FRAME_BYTES);
        let (mut slots, addable) = placed.expect("the kernel was made with this layout");
        match slots.last_mut() {
            Some(last) if last.end == addable.start => last.end = addable.end,
            _ if !addable.is_empty() => slots.push(addable),
            _ => {}
        }
        slots.into_iter().map(|slot| Frame::new(slot.start)..Frame::new(slot.end)).collect()
    }

    /// What ageing did to the memory before the first process started.
    pub fn ageing_outcome(&self) -> Option<AgeingOutcome> {
        self.aged
    }

    /// Free frames, by zone.
    pub fn zones(&self) -> &crate::Zones {
        self.memory.zones()
    }

    fn space(&self, space: SpaceId) -> Result<&AddressSpace, OsError> {
        match self.spaces.get(usize::from(space.0)) {
            Some(Some(found)) => Ok(found),
            _ => Err(OsError::UnknownSpace { space }),
        }
    }

    /// An address space and what operations on it act on besides.
    fn parts<'a>(
        &'a mut self,
        space: SpaceId,
        updates: &'a mut Vec<Update>,
    ) -> Result<(&'a mut AddressSpace, Effects<'a>), OsError> {
        let Some(Some(found)) = self.spaces.get_mut(usize::from(space.0)) else {
            return Err(OsError::UnknownSpace { space });
        };
        let (memory, ledger) = (&mut self.memory, &mut self.ledger);
        Ok((found, Effects { memory, updates, ledger }))
    }

    /// Completes an out-of-memory error with a memory size that would do: what is used now, and
    /// for every page of an area that is not mapped yet its frame, its share of foreign frames
    /// and of tables.
    fn with_estimate(&self, error: OsError) -> OsError {
        let OsError::OutOfMemory { asked_bytes, free_bytes, memory_bytes, .. } = error else {
            return error;
        };
        let untouched_pages: u64 = self.live_spaces().map(AddressSpace::untouched_pages).sum();
        let foreign = self.config.fragmentation.map_or(0.0, |f| f.portion * f.hole_share);
        let used_bytes = memory_bytes - free_bytes;
        let more_bytes = (untouched_pages * FRAME_BYTES) as f64 * (1.0 + foreign) * 1.02;
        // Faulty frames and what the rest of the system has grow with the memory.
        let others = OtherUse::ALL.into_iter().map(|usage| self.memory.other_frames(usage));
        let lost_bytes = (self.memory.retired_frames() + others.sum::<u64>()) * FRAME_BYTES;
        let usable_share = 1.0 - (lost_bytes as f64 / memory_bytes as f64).min(0.999);
        let needed_bytes = used_bytes - lost_bytes + more_bytes as u64 + asked_bytes + (8 << 20);
        let enough_bytes = ((needed_bytes as f64 / usable_share) as u64 + (1 << 20)) >> 20 << 20;
        OsError::OutOfMemory { asked_bytes, free_bytes, memory_bytes, enough_bytes }
    }

    /// The first mapped 2MB region from this one on, address space after address space: how
    /// scanners go round.
    fn next_region(&self, (id, number): SpaceRegion) -> Option<SpaceRegion> {
        let first = usize::from(id.0);
        (first..self.spaces.len()).find_map(|slot| {
            let from = if slot == first { number } else { 0 };
            let found = self.spaces[slot].as_ref()?.next_region(from)?;
            Some((SpaceId(slot as u16), found))
        })
    }

    fn live_spaces(&self) -> impl Iterator<Item = &AddressSpace> {
        self.spaces.iter().flatten().map(|space| &**space)
    }
}
