//! Calls to a kernel other than those of the programs that it runs: setup, threads in the background,
//! the hypervisor's calls, single acts for experiments and tests, and all its figures.

use std::ops::Range;

use perforate_types::{
    AccessKind, Frame, HoleSet, Permissions, PhysicalAddress, ProcessId, SpaceId, TableOperation,
    Update, VirtualPage,
};

use super::first_touch::{Backer, Context};
use super::{
    Approach, CompactionCounts, HardFault, HoleContent, Kernel, KernelConfig, KhugepagedConfig,
    KhugepagedPass, KsmConfig, KsmPass, SelfBalloonConfig, SharedPlace, TableFormat, Work, balloon,
    contents, contiguous, contiguous_backing, demotion, hard_fault, invariants, memory_map,
    sharing, subpage,
};
use crate::memory::{FRAME_BYTES, FreeIndex, TopTable};
use crate::space::{AddressSpace, Effects};
use crate::{
    AgeingOutcome, ContentDistribution, FreeMemory, MemoryMap, Occupancy, OsError, OtherUse,
    Policy, Zones,
};

/// Configuration.
impl Kernel {
    /// The configuration it was made from.
    pub fn config(&self) -> &KernelConfig {
        &self.core.config
    }

    /// The format of its page tables.
    pub fn tables(&self) -> TableFormat {
        self.core.config.tables
    }

    /// First byte of the hole bitmap at the top of memory (P-2): one bit per frame of the
    /// machine. Only with shadow directories.
    pub fn hole_bitmap(&self) -> Option<PhysicalAddress> {
        let bitmap = self.core.memory.top_table(TopTable::is_hole_bitmap);
        bitmap.map(Frame::address)
    }

    /// The first entry of the flat table at the top of memory ([`TableFormat::flat_pages`]).
    pub fn flat_table(&self) -> Option<PhysicalAddress> {
        self.core.memory.top_table(TopTable::is_flat).map(Frame::address)
    }

    /// The frame after the last that there can be: beyond the memory's size with an I/O gap or
    /// room for memory added later.
    pub fn end_frame(&self) -> Frame {
        Frame::new(self.core.memory.end_frame())
    }

    /// Runs of frames in which memory is or can be added: what a hypervisor has to back.
    pub fn memory_slots(&self) -> Vec<Range<Frame>> {
        let config = &self.core.config;
        if config.snapshot.is_some() {
            let present = self.core.memory.present().iter();
            return present.map(|slot| Frame::new(slot.start)..Frame::new(slot.end)).collect();
        }
        let placed = config.layout().place(config.memory_bytes / FRAME_BYTES);
        let (mut slots, addable) = placed.expect("the kernel was made with this layout");
        match slots.last_mut() {
            Some(last) if last.end == addable.start => last.end = addable.end,
            _ if !addable.is_empty() => slots.push(addable),
            _ => {}
        }
        slots.into_iter().map(|slot| Frame::new(slot.start)..Frame::new(slot.end)).collect()
    }

    /// Effect of ageing on the memory before the first process started.
    pub fn ageing_outcome(&self) -> Option<AgeingOutcome> {
        self.aged
    }
}

/// Processes and address spaces.
impl Kernel {
    /// Address space of the running process.
    pub fn current(&self) -> SpaceId {
        self.processes.current()
    }

    /// What happens from here on happens on this processor, and to the process that it runs. A switch
    /// says which that is where it has run none.
    pub fn run_on(&mut self, processor: usize) {
        self.processes.run_on(processor);
    }

    /// The address space that a processor runs, if it runs any.
    pub fn running(&self, processor: usize) -> Option<SpaceId> {
        self.processes.running(processor)
    }

    /// Living processes and their address spaces.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, SpaceId)> + '_ {
        self.processes.iter()
    }

    /// The parts of `pages` that the running process may read: what populating them touches.
    pub fn readable_within(&self, pages: Range<u64>) -> Vec<Range<u64>> {
        let Ok(space) = self.core.space(self.current()) else { return Vec::new() };
        let areas = space.areas_within(pages);
        let readable = areas.filter(|area| area.attributes.effective().allow(AccessKind::Read));
        readable.map(|area| area.pages()).collect()
    }

    /// An empty address space that belongs to no process.
    ///
    /// # Errors
    /// If all 65536 tags are in use.
    pub fn create_space(&mut self) -> Result<SpaceId, OsError> {
        self.core.create_space()
    }

    /// Unmaps everything in an address space and forgets it; its tag may be used again.
    ///
    /// # Errors
    /// If there is no such address space.
    pub fn destroy_space(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.processes.destroy_space(&mut self.core, &mut self.backers, space, updates)
    }
}

/// Figures, and the state of memory.
impl Kernel {
    /// Share of mapped memory that a superpage or an entry of 2MB or more translates (holes
    /// excluded), when most was mapped.
    pub fn large_page_coverage(&self) -> f64 {
        self.core.large_page_coverage()
    }

    /// Mapped memory in bytes at this moment; a frame counts once for every page that maps it.
    pub fn mapped_bytes(&self) -> u64 {
        self.core.usage().mapped_pages() * FRAME_BYTES
    }

    /// The work that the kernel has done since it booted.
    pub fn work(&self) -> Work {
        self.core.ledger.total()
    }

    /// Translations added since it booted, those apart of sub-pages of a page that was there: so many
    /// faults it takes to bring the same in by touching it.
    pub fn pages_brought_in(&self) -> u64 {
        self.core.ledger.pages_brought_in()
    }

    /// Compaction and claims so far.
    pub fn compaction(&self) -> CompactionCounts {
        self.compaction.counts
    }

    /// Free frames, by zone.
    pub fn zones(&self) -> &Zones {
        self.core.memory.zones()
    }

    /// The free blocks of each order at this moment.
    pub fn free_memory(&self) -> FreeMemory {
        FreeMemory::of(self.core.memory.zones())
    }

    /// A picture of physical memory at this moment.
    pub fn memory_map(&self) -> MemoryMap {
        memory_map::map(&self.core)
    }

    /// The state of every frame at this moment, as a snapshot of a real machine would tell it.
    ///
    /// # Errors
    /// If the memory is larger than a snapshot can be.
    pub fn occupancy(&self) -> Result<Occupancy, OsError> {
        memory_map::occupancy(&self.core)
    }

    /// The longest run of contiguous memory that is free or, with `compacts`, can be made free by
    /// moving things, if there is room for them; in bytes.
    pub fn longest_run_bytes(&mut self, compacts: bool) -> u64 {
        contiguous::longest_run_bytes(&mut self.core, compacts)
    }

    /// The object that a page of shared memory belongs to, and its place there; `None` for private
    /// memory and where there is no area.
    pub fn shared_place(&self, space: SpaceId, page: VirtualPage) -> Option<SharedPlace> {
        sharing::place(&self.core, space, page)
    }

    /// Counts everything anew and compares it with what is recorded: every frame is used once and
    /// as often mapped as its count of references says; whoever maps a frame alone by an entry of
    /// its own is recorded as its owner; figures of use, reservations, blocks with perforated pages
    /// and slots of the swap space are right; all shootdowns are sent. Takes time in proportion to
    /// the memory; to be called between operations.
    ///
    /// # Errors
    /// A description of what is wrong.
    pub fn check_invariants(&self) -> Result<(), String> {
        invariants::check(&self.core)
    }
}

/// Kernel threads in the background, and their knobs.
impl Kernel {
    /// Background compaction of the whole memory, if a fault has woken kcompactd since its last
    /// pass. After passes that emptied nothing it sleeps through some calls for it, as faults do
    /// without their searches.
    pub fn kcompactd_pass(&mut self, updates: &mut Vec<Update>) -> CompactionCounts {
        self.compaction.kcompactd_pass(&mut self.core, updates)
    }

    /// Background compaction (Linux: kcompactd): once over all blocks from the lowest address on,
    /// those in which nothing stays are emptied into free frames of others, as long as there are
    /// enough outside wholly free 2MB blocks. Holes of perforated pages are patched on the way.
    ///
    /// Linux ends where its two scanners meet. It also moves single pages out of blocks that
    /// cannot be emptied; that makes no 2MB block and is left out.
    pub fn compact(&mut self, updates: &mut Vec<Update>) -> CompactionCounts {
        self.compaction.compact(&mut self.core, updates)
    }

    /// Sets the knobs of same-page merging.
    pub fn set_ksm(&mut self, config: KsmConfig) {
        self.ksm.set(config);
    }

    /// One pass of the merging scanner over the next `pages_to_scan` pages, or up to the end of all
    /// address spaces. Pages for whose merging memory is short (a table node) stay as they are.
    pub fn ksm_pass(&mut self, updates: &mut Vec<Update>) -> KsmPass {
        self.ksm.pass(&mut self.core, updates)
    }

    /// Sets the knobs of background promotion.
    pub fn set_khugepaged(&mut self, config: KhugepagedConfig) {
        self.khugepaged.set(config);
    }

    /// One pass of background promotion over the next `pages_to_scan` pages, or up to the end of
    /// all address spaces. A region for which memory is short stays as it is.
    pub fn khugepaged_pass(&mut self, updates: &mut Vec<Update>) -> KhugepagedPass {
        let Self { core, compaction, khugepaged, .. } = self;
        khugepaged.pass(&mut Context { core, compaction }, updates)
    }

    /// Contents of all pages that nothing else is said of are drawn from `distribution` from now
    /// on. To be called before programs write: what was written earlier is not remembered.
    ///
    /// # Errors
    /// If the distribution contradicts itself.
    pub fn set_content_distribution(
        &mut self,
        distribution: ContentDistribution,
    ) -> Result<(), OsError> {
        contents::set_distribution(&mut self.core, distribution)
    }

    /// Says what is on a page, as a trace or snapshot with hashes knows it. Equal identities are
    /// equal contents; 0 ([`crate::ZERO_PAGE`]) is a page of zeros.
    ///
    /// # Errors
    /// If nothing is mapped at `page`, or if it shares its frame, so that no content but the one
    /// it has is possible before a write has copied it.
    pub fn set_content(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        identity: u64,
    ) -> Result<(), OsError> {
        contents::set(&mut self.core, space, page, identity)
    }

    /// Content of a mapped page; `None` where nothing is mapped.
    pub fn content(&self, space: SpaceId, page: VirtualPage) -> Option<u64> {
        contents::of_page(&self.core, space, page)
    }
}

/// Mechanisms that stand outside this crate.
impl Kernel {
    /// An address space.
    ///
    /// # Errors
    /// If there is no such address space.
    pub fn space(&self, space: SpaceId) -> Result<&AddressSpace, OsError> {
        self.core.space(space)
    }

    /// What a mechanism keeps about free memory, if it is of this type.
    pub fn free_index<T: FreeIndex>(&self) -> Option<&T> {
        self.core.memory.free_index()
    }

    /// A mechanism acts on an address space, as one operation.
    ///
    /// # Errors
    /// If there is no such address space, or as `act` says.
    pub fn change_space<T>(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
        act: impl FnOnce(&mut AddressSpace, &mut Effects<'_>) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.operation(updates, |kernel, updates| {
            let (space, mut effects) = kernel.core.parts(space, updates)?;
            act(space, &mut effects)
        })
    }

    /// A backer acts without a touch, as one operation. A kernel whose policy has no backer of this
    /// type gets one.
    ///
    /// # Errors
    /// As `act` says.
    pub fn with_backer<B: Backer, T>(
        &mut self,
        make: impl FnOnce(&dyn Policy) -> B,
        updates: &mut Vec<Update>,
        act: impl FnOnce(&mut B, &mut Context<'_>, &mut Vec<Update>) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.operation(updates, |kernel, updates| {
            let Self { core, compaction, backers, .. } = kernel;
            let backer = backers.find_or_add(|| make(core.policy.as_ref()));
            act(backer, &mut Context { core, compaction }, updates)
        })
    }
}

/// Single pages and frames, as policies, event storms and experiments treat them.
impl Kernel {
    /// Punches sub-page `page` of an ordinary or perforated 2MB page out as a hole.
    ///
    /// # Errors
    /// If the tables have no shadow directories, the page is not part of a 2MB page or is a hole
    /// already, the data of shared memory were to move for one address space alone, or memory
    /// runs out.
    pub fn punch(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        hole: HoleContent,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.operation(updates, |kernel, updates| {
            subpage::punch(&mut kernel.core, space, page.number(), hole, updates)
        })
    }

    /// Brings the data of hole `page` back in place. After the last hole the page is an ordinary
    /// 2MB page again.
    ///
    /// # Errors
    /// If the page is not a hole, its in-place frame is used by somebody else, the 2MB mapping
    /// allows more than the program may do there, the page is private and the rest shared or the
    /// other way round, or others map the shared memory elsewhere.
    pub fn patch(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let result = subpage::patch(&mut self.core, space, page, updates);
        self.core.ledger.send();
        result
    }

    /// Maps the 2MB page at `page` of `from` in `to` as well, at the same address, each space
    /// with its own holes from then on (P-2). What was private there becomes shared memory
    /// (MAP_SHARED) of both.
    ///
    /// # Errors
    /// If there is no 2MB page at `page`, something is mapped there in `to`, a private page there
    /// still waits for its copy on write, or memory runs out.
    pub fn share(
        &mut self,
        from: SpaceId,
        page: VirtualPage,
        to: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.operation(updates, |kernel, updates| {
            let others = (&mut kernel.shared_objects, &mut kernel.ksm);
            sharing::share_region(&mut kernel.core, others, from, page, to, updates)
        })
    }

    /// `frame` is failing; it is taken out of use if its data can be moved.
    pub fn hard_fault(&mut self, frame: Frame, updates: &mut Vec<Update>) -> HardFault {
        self.core.note_peak();
        let outcome = hard_fault::serve(&mut self.core, &self.processes, frame, updates);
        demotion::conclude(&mut self.core, updates);
        outcome
    }
}

/// The guest of a hypervisor: memory is taken from it, and added to it.
impl Kernel {
    /// The balloon takes up to this many more frames and returns them. It reclaims memory as
    /// programs do, and stops where there is none left.
    pub fn inflate_balloon(&mut self, frames: u64, updates: &mut Vec<Update>) -> Vec<Frame> {
        self.core.note_peak();
        let taken = balloon::inflate(&mut self.core, &mut self.reclaim, frames, updates);
        demotion::conclude(&mut self.core, updates);
        taken
    }

    /// The balloon gives up to this many frames back to the guest, in the order in which it took
    /// them, and returns them.
    pub fn deflate_balloon(&mut self, frames: u64) -> Vec<Frame> {
        let memory = &mut self.core.memory;
        (0..frames).map_while(|_| memory.remove_oldest_frame(OtherUse::Balloon)).collect()
    }

    /// Memory in the balloon, in bytes.
    pub fn balloon_bytes(&self) -> u64 {
        self.core.memory.other_frames(OtherUse::Balloon) * FRAME_BYTES
    }

    /// Memory is added at the end of the physical address space, in one free run.
    ///
    /// # Errors
    /// If there is no room for so many frames.
    pub fn hot_add(&mut self, frames: u64) -> Result<Range<Frame>, OsError> {
        let added = self.core.memory.hot_add(frames)?;
        Ok(Frame::new(added.start)..Frame::new(added.end))
    }

    /// Self-ballooning (D §IV): the balloon takes `frames` frames, wherever they are, and as many are
    /// added in one run at the end of memory. No data move. Returns the frames that the balloon
    /// took, which are the hypervisor's now.
    ///
    /// # Errors
    /// If there is no room to add so many, or not so much memory to be had; nothing has changed
    /// then but that memory was reclaimed.
    pub fn self_balloon(
        &mut self,
        frames: u64,
        updates: &mut Vec<Update>,
    ) -> Result<Vec<Frame>, OsError> {
        balloon::exchange(&mut self.core, &mut self.reclaim, frames, updates)
    }

    /// Slow compaction (D §IV): moves up to `frames` frames out of the run of whole 2MB blocks that is
    /// cheapest to have, until one of `run_frames` frames is free.
    pub fn approach_run(
        &mut self,
        run_frames: u64,
        frames: u64,
        updates: &mut Vec<Update>,
    ) -> Approach {
        let Self { core, compaction, .. } = self;
        let request = contiguous::RunRequest::free(run_frames.div_ceil(HoleSet::SUBPAGES as u64));
        let approach = compaction.approach_run(core, &request, frames, updates);
        core.ledger.send();
        approach
    }

    /// Self-ballooning for large pages (D §IV): exchanges scattered free frames for whole 2MB blocks,
    /// as far as there are fewer free than asked for. Returns the frames that the balloon took, which
    /// are the hypervisor's now.
    ///
    /// # Errors
    /// If memory that was free cannot be had after all.
    pub fn self_balloon_blocks(
        &mut self,
        config: SelfBalloonConfig,
        updates: &mut Vec<Update>,
    ) -> Result<Vec<Frame>, OsError> {
        let Self { core, reclaim, .. } = self;
        balloon::make_blocks(core, reclaim, config.blocks.get(), updates)
    }
}

/// The hypervisor itself.
impl Kernel {
    /// Maps pages to a run of contiguous frames, 4KB by 4KB, with what they held before. Like all memory
    /// of a program they may be moved later. Returns the first frame.
    ///
    /// # Errors
    /// If there is no such run, and nothing is mapped then; or no memory for the tables of all pages,
    /// and some of them are mapped then.
    pub(crate) fn back_contiguously(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<Frame, OsError> {
        let Self { core, compaction, .. } = self;
        contiguous_backing::back(core, compaction, id, pages, permissions, updates)
    }

    /// A frame for a table that belongs to no address space: a shadow table. It counts as a page table
    /// and stays where it is.
    ///
    /// # Errors
    /// If there is no free frame.
    pub(crate) fn take_table(&mut self) -> Result<Frame, OsError> {
        let core = &mut self.core;
        let frame = core.memory.allocate_nodes(0).map_err(|error| core.with_estimate(error))?;
        core.own_tables.insert(frame);
        Ok(frame)
    }

    /// Gives the frame of such a table back.
    ///
    /// # Panics
    /// If it is none.
    pub(crate) fn give_back_table(&mut self, frame: Frame) {
        let is_own = self.core.own_tables.remove(&frame);
        assert!(is_own, "{frame:?} holds no table of the kernel's own");
        self.core.memory.free(frame, 0);
    }

    /// Counts an operation on such tables as work done.
    pub(crate) fn note_operation(&mut self, operation: &TableOperation) {
        self.core.ledger.table(operation);
    }

    /// Takes memory from programs if it is short, so that tables find room.
    pub(crate) fn make_room_for_tables(&mut self, updates: &mut Vec<Update>) {
        self.reclaim.relieve(&mut self.core, None, updates);
        demotion::conclude(&mut self.core, updates);
    }
}
