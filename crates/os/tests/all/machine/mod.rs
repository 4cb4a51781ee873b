//! A kernel whose updates go to an oracle and to an inspector of page tables: the machine of all
//! tests of the operating system.
#![allow(dead_code)]

pub mod expected;
mod inspector;
mod policy;

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};

use inspector::Inspector;
use perforate_config::read;
use perforate_kept::TextHash;
use perforate_oracle::Oracle;
use perforate_os::{
    FaultOutcome, FrameClass, FrameState, HoleContent, Kernel, KernelConfig, MigrateType, OsError,
    Span, TableFormat, Work,
};
use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_schemes::perforated::PerforatedOperation;
use perforate_schemes::segment::SegmentOperation;
use perforate_types::{
    AccessKind, Advice, Backing, Counters, FormatOperation, Frame, Permissions, ProcessId,
    ProgramEvent, Shootdown, SpaceId, TableOperation, ThreadId, Truth, Update, VirtualAddress,
    VirtualPage,
};

pub use policy::policy;

pub const MB: u64 = 1 << 20;
pub const GB: u64 = 1 << 30;
/// Address of region 64, where a group of 64 2MB regions starts.
pub const BASE: u64 = 128 * MB;

pub struct Machine {
    pub kernel: Kernel,
    pub oracle: Oracle,
    pub inspector: Inspector,
    /// Updates of the last call, without truths.
    pub updates: Vec<Update>,
    /// Truths of the last call.
    pub truths: Vec<Truth>,
    /// Work that the updates of all calls amount to, counted by the test.
    pub emitted: Work,
    /// Hash of all updates so far.
    pub history: TextHash,
}

impl Machine {
    pub fn new(policy: &str, memory_bytes: u64) -> Self {
        Self::with(policy, memory_bytes, None, false)
    }

    pub fn fragmented(policy: &str, memory_bytes: u64, fragmentation: &str) -> Self {
        Self::with(policy, memory_bytes, Some(fragmentation), false)
    }

    pub fn with(
        policy: &str,
        memory_bytes: u64,
        fragmentation: Option<&str>,
        implicit: bool,
    ) -> Self {
        let config = KernelConfig {
            fragmentation: fragmentation.map(|text| read(text).expect("valid")),
            implicit_maps: implicit,
            ..KernelConfig::new(memory_bytes)
        };
        Self::configured(policy, config)
    }

    /// A machine with this configuration. Overrides its seed, and its table format except for gap
    /// tolerance.
    pub fn configured(policy: &str, config: KernelConfig) -> Self {
        let shadow_directories = policy.starts_with("perforated");
        let tables = TableFormat { shadow_directories, ..config.tables };
        let config = KernelConfig { seed: 42, tables, ..config };
        let gap_tolerant = tables.gap_tolerance.map(|mode| mode.directory_bytes() / 4096);
        let pair = 1 + u64::from(shadow_directories);
        Self {
            kernel: Kernel::new(config, self::policy(policy)).expect("kernel"),
            oracle: Oracle::new(),
            inspector: Inspector::new(gap_tolerant.unwrap_or(pair)),
            updates: Vec::new(),
            truths: Vec::new(),
            emitted: Work::default(),
            history: TextHash::default(),
        }
    }

    /// Runs an action on the kernel and passes its updates to inspector and oracle.
    pub fn act<T>(
        &mut self,
        act: impl FnOnce(&mut Kernel) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.updates.clear();
        self.truths.clear();
        let result = act(&mut self.kernel);
        if let Err(error) = &result {
            self.note(error);
        }
        for update in self.kernel.updates().drain(..) {
            write!(self.history, "{update:?}").expect("a hash takes all");
            match update {
                Update::Truth(truth) => self.truths.push(truth),
                update => self.updates.push(update),
            }
        }
        self.inspector.inspect(&self.updates);
        self.updates.iter().for_each(|update| count(update, &mut self.emitted));
        for truth in &self.truths {
            self.oracle.apply(truth).expect("the oracle accepts every truth");
        }
        result
    }

    pub fn event(&mut self, event: ProgramEvent) {
        self.act(|kernel| kernel.event(&event)).expect("event");
    }

    pub fn fault(&mut self, address: u64, kind: AccessKind) -> FaultOutcome {
        let space = self.kernel.current();
        let page = VirtualAddress::new(address).page();
        let outcome = self.act(|kernel| kernel.fault(space, page, kind)).expect("fault");
        self.note(&outcome);
        outcome
    }

    /// Adds an answer of the kernel to the hash.
    pub fn note(&mut self, answer: &impl Debug) {
        write!(self.history, "{answer:?}").expect("a hash takes all");
    }

    pub fn write(&mut self, address: u64) {
        assert_eq!(self.fault(address, AccessKind::Write), FaultOutcome::Mapped);
    }

    pub fn read(&mut self, address: u64) {
        assert_eq!(self.fault(address, AccessKind::Read), FaultOutcome::Mapped);
    }

    /// Accesses an address as a program does: faults only if the translation does not allow the
    /// access.
    pub fn access(&mut self, address: u64, kind: AccessKind) -> FaultOutcome {
        for _ in 0..3 {
            let mapping = self.translate(address);
            if mapping.is_some_and(|(_, permissions)| permissions.allow(kind)) {
                return FaultOutcome::Mapped;
            }
            if self.fault(address, kind) == FaultOutcome::Segfault {
                return FaultOutcome::Segfault;
            }
        }
        panic!("{kind:?} of {address:#x} faults for ever");
    }

    pub fn translate(&self, address: u64) -> Option<(Frame, Permissions)> {
        self.oracle.translate(self.kernel.current(), VirtualAddress::new(address).page())
    }

    pub fn frame(&self, address: u64) -> Option<u64> {
        self.translate(address).map(|(frame, _)| frame.number())
    }

    pub fn map(&mut self, start: u64, length: u64) {
        self.event(map(start, length));
    }

    pub fn punch(&mut self, address: u64, hole: HoleContent) -> Result<(), OsError> {
        let space = self.kernel.current();
        let page = VirtualAddress::new(address).page();
        self.act(|kernel| kernel.punch(space, page, hole))
    }

    pub fn patch(&mut self, address: u64) -> Result<(), OsError> {
        let space = self.kernel.current();
        let page = VirtualAddress::new(address).page();
        self.act(|kernel| kernel.patch(space, page))
    }

    pub fn counter(&self, name: &str) -> u64 {
        let mut counters = Counters::default();
        self.kernel.counters(&mut counters);
        counters.get(name).unwrap_or_else(|| panic!("counter {name}")) as u64
    }

    /// Maximum of a counter over the whole run.
    pub fn maximum(&self, name: &str) -> u64 {
        let mut counters = Counters::default();
        self.kernel.counters_of(Span::Run, &mut counters);
        counters.get(name).unwrap_or_else(|| panic!("counter {name}")) as u64
    }

    /// Adds the kernel's state, the maxima of its counters, and its work to the hash.
    pub fn add_state_and_past_to_history(&mut self) {
        self.add_counters_to_history(Span::Run);
        self.note(&self.kernel.work());
        self.add_state_to_history();
    }

    fn add_counters_to_history(&mut self, span: Span) {
        let mut counters = Counters::default();
        self.kernel.counters_of(span, &mut counters);
        self.note(&counters.iter().collect::<Vec<_>>());
    }

    /// Adds all counters, and the states of all frames and pages, to the hash.
    pub fn add_state_to_history(&mut self) {
        self.add_counters_to_history(Span::Moment);
        self.note(&(self.kernel.pages_brought_in(), self.kernel.compaction()));
        self.note(&(self.kernel.memory_map(), self.kernel.free_memory()));
        let occupancy = self.kernel.occupancy().expect("a small memory");
        self.note(&(FrameState::ALL.map(|state| occupancy.frames(state)), occupancy.memory_map()));
        for zone in self.kernel.zones().iter() {
            let buddy = &zone.buddy;
            let blocks = MigrateType::ALL.map(|kind| buddy.free_blocks_of(kind, 0));
            let taken = (buddy.steals_and_claims(), buddy.taken_from_aside(), blocks);
            write!(self.history, "{} {taken:?}", zone.name).expect("a hash takes all");
        }
        for (process, space) in self.kernel.processes() {
            let running = (self.kernel.running(0), self.kernel.running(1));
            write!(self.history, "{process:?} {running:?}").expect("a hash takes all");
            for (page, (frame, permissions)) in self.oracle.mappings(space) {
                let content = self.kernel.content(space, page);
                let place = self.kernel.shared_place(space, page).map(|place| place.page);
                let page = (page.number(), frame.number(), content, place);
                write!(self.history, "{page:x?} {permissions:?}").expect("a hash takes all");
            }
        }
    }

    /// Memory that overlays keep although nothing translates it, in bytes.
    pub fn idle_bytes(&self) -> u64 {
        let spaces = self.spaces().into_iter();
        let idle = spaces.map(|id| self.kernel.space(id).expect("it lives").idle_pages());
        idle.sum::<u64>() * 4096
    }

    pub fn spaces(&self) -> Vec<SpaceId> {
        self.kernel.processes().map(|(_, space)| space).collect()
    }

    /// Mapped frames, with the number of pages that map each.
    pub fn mapped_frames(&self) -> BTreeMap<u64, u32> {
        let mut frames = BTreeMap::new();
        for space in self.spaces() {
            for (_, (frame, _)) in self.oracle.mappings(space) {
                *frames.entry(frame.number()).or_default() += 1;
            }
        }
        frames
    }

    /// Asserts that private pages with a shared frame are read-only.
    pub fn assert_copies_on_write(&self) {
        let frames = self.mapped_frames();
        for space in self.spaces() {
            for (page, (frame, permissions)) in self.oracle.mappings(space) {
                let others = frames[&frame.number()] > 1;
                let private = self.kernel.shared_place(space, page).is_none();
                assert!(
                    !(others && private && permissions.write),
                    "{page:?} of {space:?} writes a frame that others map"
                );
            }
        }
    }

    /// Asserts that all pages of one place of shared memory map the same frame, and no other page
    /// does.
    pub fn assert_shared_memory_is_one(&self) {
        let mut frames = BTreeMap::new();
        let mut places = BTreeMap::new();
        for space in self.spaces() {
            for (page, (frame, _)) in self.oracle.mappings(space) {
                let place = self.kernel.shared_place(space, page);
                let frame = frame.number();
                let first = *places.entry(frame).or_insert(place);
                assert!(
                    first == place || (first.is_none() && place.is_none()),
                    "{page:?} of {space:?}: frame {frame:#x} is {first:?} and {place:?}"
                );
                if let Some(place) = place {
                    let first = *frames.entry(place).or_insert(frame);
                    assert_eq!(first, frame, "{page:?} of {space:?}: {place:?} is two frames");
                }
            }
        }
    }

    /// Asserts that all pages that map a frame have the same content: merging took equal pages
    /// only, and contents moved with their frames.
    pub fn assert_frames_have_one_content(&self) {
        let mut contents = BTreeMap::new();
        for space in self.spaces() {
            for (page, (frame, _)) in self.oracle.mappings(space) {
                let content = self.kernel.content(space, page).expect("the oracle has it mapped");
                let first = *contents.entry(frame.number()).or_insert(content);
                assert_eq!(first, content, "{page:?} of {space:?}");
            }
        }
    }

    /// Asserts that the kernel's account agrees with its updates.
    pub fn assert_account(&self) {
        let work = self.kernel.work();
        for ((name, emitted), (_, counted)) in self.emitted.iter().zip(work.iter()) {
            assert!(
                emitted == 0 || emitted == counted,
                "{name}: told {emitted}, counted {counted}"
            );
        }
        let batches = work.shootdown_batches - work.spaces_flushed;
        assert!(batches <= work.entries_invalidated && work.entries_invalidated <= 33 * batches);
    }

    /// Asserts that every frame is in exactly one state: free, mapped, table node, bitmap, foreign
    /// or retired.
    pub fn assert_memory_adds_up(&self) {
        let frames = self.mapped_frames();
        for &frame in frames.keys().chain(&self.inspector.table_frames()) {
            assert!(!self.kernel.zones().is_free(Frame::new(frame)), "frame {frame:#x} is free");
        }
        for frame in self.inspector.table_frames() {
            assert!(!frames.contains_key(&frame), "table frame {frame:#x} is mapped");
        }
        let tables = self.inspector.table_frames().len() as u64 * 4096;
        assert_eq!(self.counter("page_table_bytes"), tables);
        let parts = frames.len() as u64 * 4096
            + tables
            + self.counter("hole_bitmap_bytes")
            + self.counter("foreign_bytes")
            + self.counter("retired_bytes")
            + self.counter("balloon_bytes")
            + self.counter("reserved_bytes")
            + self.idle_bytes()
            + self.counter("free_bytes");
        assert_eq!(parts, self.counter("memory_bytes"));
        self.assert_map_adds_up(&frames);
        let mapped: u64 = frames.values().map(|&count| u64::from(count)).sum();
        assert_eq!(self.counter("mapped_bytes"), mapped * 4096);
        self.kernel.check_invariants().expect("records agree");
    }
}

/// The update as an operation of format `T`; `None` if it is of another format.
pub fn operation<T: FormatOperation>(update: &Update) -> Option<&T> {
    update.operation()?.downcast_ref()
}

fn count(update: &Update, emitted: &mut Work) {
    if let Update::Shootdown(shootdown) = update {
        *match shootdown {
            Shootdown::Page { .. } => &mut emitted.shootdowns_page,
            Shootdown::Bitmap { .. } => &mut emitted.shootdowns_bitmap,
            Shootdown::Large { .. } => &mut emitted.shootdowns_large,
            Shootdown::Superpage { .. } => &mut emitted.shootdowns_superpage,
            Shootdown::Space { .. } => &mut emitted.shootdowns_space,
        } += 1;
    }
    match operation(update) {
        Some(TableOperation::Map { .. }) => emitted.pages_mapped += 1,
        Some(TableOperation::Unmap { .. }) => emitted.pages_unmapped += 1,
        Some(TableOperation::Protect { .. }) => emitted.pages_protected += 1,
        Some(TableOperation::Join { .. }) => emitted.entries_joined += 16,
        Some(
            TableOperation::SetControl { .. }
            | TableOperation::AddNode { .. }
            | TableOperation::RemoveNode { .. },
        )
        | None => {}
    }
    match operation(update) {
        Some(PerforatedOperation::Perforate { .. } | PerforatedOperation::MapHole { .. }) => {
            emitted.pages_mapped += 1;
        }
        Some(PerforatedOperation::UnmapHole { .. }) => emitted.pages_unmapped += 1,
        Some(PerforatedOperation::Punch { .. }) => emitted.subpages_punched += 1,
        Some(PerforatedOperation::Patch { .. }) => emitted.subpages_patched += 1,
        None => {}
    }
    match operation(update) {
        Some(SuperpageOperation::Map { .. }) => emitted.pages_mapped += 1,
        Some(SuperpageOperation::Unmap { .. }) => emitted.pages_unmapped += 1,
        Some(SuperpageOperation::Protect { .. }) => emitted.pages_protected += 1,
        None => {}
    }
    match operation(update) {
        Some(SegmentOperation::Set { .. } | SegmentOperation::Clear { .. }) => {
            emitted.segments_switched += 1;
        }
        Some(SegmentOperation::Escape { .. }) => emitted.pages_escaped += 1,
        None => {}
    }
}

impl Machine {
    /// Asserts that the memory map counts every frame once: free frames, the frames in `mapped`,
    /// and all others.
    fn assert_map_adds_up(&self, mapped: &BTreeMap<u64, u32>) {
        let map = self.kernel.memory_map();
        let frames = |class| map.frames(class) * 4096;
        assert_eq!(frames(FrameClass::Free), self.counter("free_bytes"));
        let kept = ["page_table_bytes", "hole_bitmap_bytes", "foreign_bytes", "balloon_bytes"];
        let kept: u64 = kept.iter().map(|name| self.counter(name)).sum();
        assert_eq!(frames(FrameClass::Unmovable), kept);
        assert_eq!(frames(FrameClass::Reserved), self.counter("reserved_bytes"));
        let all: u64 = FrameClass::ALL.into_iter().map(frames).sum();
        assert_eq!(all, self.kernel.end_frame().number() * 4096);
        assert_eq!(all - frames(FrameClass::Absent), self.counter("memory_bytes"));
        let mut by_block: BTreeMap<u64, u64> = BTreeMap::new();
        for frame in mapped.keys() {
            *by_block.entry(frame / 512).or_default() += 1;
        }
        let user = [
            FrameClass::Movable,
            FrameClass::Perforated,
            FrameClass::Large,
            FrameClass::Huge,
            FrameClass::Superpage,
            FrameClass::Segment,
        ];
        let mut others = 0;
        for (block, frames) in by_block {
            let block = map.block(block).expect("a block of the memory");
            others += user.iter().map(|&class| block.count(class)).sum::<u64>() - frames;
        }
        // Frames of segments whose registers are cleared belong to no page.
        assert!(others * 4096 <= self.idle_bytes());
    }
}

pub fn map(start: u64, length: u64) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    }
}

pub fn populate(start: u64, length: u64) -> ProgramEvent {
    match map(start, length) {
        ProgramEvent::Map { start, length, permissions, accessible, backing, shared, .. } => {
            let populate = true;
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate }
        }
        _ => unreachable!(),
    }
}

/// A map event for shared memory (MAP_SHARED).
pub fn map_shared(start: u64, length: u64) -> ProgramEvent {
    match map(start, length) {
        ProgramEvent::Map { start, length, permissions, accessible, backing, populate, .. } => {
            let shared = true;
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate }
        }
        _ => unreachable!(),
    }
}

pub fn advise(start: u64, length: u64, advice: Advice) -> ProgramEvent {
    ProgramEvent::Advise { start: VirtualAddress::new(start), length, advice }
}

pub fn remap(from: u64, from_length: u64, to: u64, to_length: u64) -> ProgramEvent {
    let (from, to) = (VirtualAddress::new(from), VirtualAddress::new(to));
    ProgramEvent::Remap { from, from_length, to, to_length }
}

pub fn unmap(start: u64, length: u64) -> ProgramEvent {
    ProgramEvent::Unmap { start: VirtualAddress::new(start), length }
}

pub fn protect(start: u64, length: u64, permissions: Permissions) -> ProgramEvent {
    ProgramEvent::Protect {
        start: VirtualAddress::new(start),
        length,
        permissions,
        accessible: true,
    }
}

pub fn switch(process: u16) -> ProgramEvent {
    ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(0) }
}

pub fn fork(child: u16) -> ProgramEvent {
    ProgramEvent::Fork { child: ProcessId(child) }
}

pub fn page(address: u64) -> VirtualPage {
    VirtualAddress::new(address).page()
}
