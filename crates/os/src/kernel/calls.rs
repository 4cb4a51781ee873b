//! Public operations of a kernel that have no separate file: setup, background threads, calls of
//! the hypervisor, and counters.

use std::ops::Range;

use perforate_types::{
    AccessKind, Frame, PhysicalAddress, SpaceId, TableOperation, Update, VirtualPage,
};

use super::core::Core;
use super::first_touch::Backer;
use super::{
    CompactionCounts, HardFault, HoleContent, Kernel, KernelConfig, KhugepagedConfig,
    KhugepagedPass, KsmConfig, KsmPass, TableFormat, Work, demotion, subpage,
};
use crate::memory::{FRAME_BYTES, FreeIndex, TopTable};
use crate::space::{AddressSpace, SpaceMut};
use crate::{AgeingOutcome, FreeMemory, OsError, Policy, Zones};

/// Configuration of the kernel and the layout of its memory.
impl Kernel {
    /// The configuration that the kernel was made from.
    pub fn config(&self) -> &KernelConfig {
        &self.core.config
    }

    /// The format of the page tables that the kernel was configured with.
    pub fn tables(&self) -> TableFormat {
        self.core.config.tables
    }

    /// Address of the hole bitmap at the top of memory, with one bit per frame of the machine (P §IV).
    /// `None` unless the page tables support holes in 2MB pages.
    pub fn hole_bitmap(&self) -> Option<PhysicalAddress> {
        let bitmap = self.core.memory.top_table(TopTable::is_hole_bitmap);
        bitmap.map(Frame::address)
    }

    /// Address of the flat table at the top of memory, which replaces nested page tables
    /// ([`TableFormat::flat_pages`]); `None` without one.
    pub fn flat_table(&self) -> Option<PhysicalAddress> {
        self.core.memory.top_table(TopTable::is_flat).map(Frame::address)
    }

    /// End of physical memory: the first frame number above all present and hot-addable memory.
    /// Exceeds the memory size if there is an I/O gap or room for hot-added memory.
    pub fn end_frame(&self) -> Frame {
        Frame::new(self.core.memory.end_frame())
    }

    /// Runs of frames in which memory is present or can be hot-added. A hypervisor has to back them.
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

    /// Amount of work that ageing did before the first process started; `None` without ageing.
    pub fn ageing_outcome(&self) -> Option<AgeingOutcome> {
        self.aged
    }
}

/// Operations on processes and address spaces.
impl Kernel {
    /// Updates (mapping changes, table writes and shootdowns), in order, since the caller last drained this
    /// list. An operation that failed may have caused some.
    pub fn updates(&mut self) -> &mut Vec<Update> {
        &mut self.core.updates
    }

    /// Ranges within `pages` that the running process may read. Populating a range touches exactly
    /// these.
    pub fn readable_within(&self, pages: Range<u64>) -> Vec<Range<u64>> {
        let Ok(space) = self.core.space(self.current()) else { return Vec::new() };
        let areas = space.areas_within(pages);
        let readable = areas.filter(|area| area.attributes.effective().allow(AccessKind::Read));
        readable.map(|area| area.pages()).collect()
    }

    /// Creates an empty address space that belongs to no process.
    pub fn create_space(&mut self) -> Result<SpaceId, OsError> {
        self.core.create_space()
    }
}

/// Counters, and the state of memory.
impl Kernel {
    /// Share of mapped memory (holes excluded) that entries of 2MB or more or gap-tolerant superpages
    /// translate, at the moment when most memory was mapped.
    pub fn large_page_coverage(&self) -> f64 {
        self.core.large_page_coverage()
    }

    /// Mapped memory in bytes at this moment. A frame counts once for every page that maps it.
    pub fn mapped_bytes(&self) -> u64 {
        self.core.usage().mapped_pages() * FRAME_BYTES
    }

    /// Work that the kernel has done since boot.
    pub fn work(&self) -> Work {
        self.core.ledger.total()
    }

    /// Number of translations (pages of any size) added since boot, not counting holes that were filled
    /// in a 2MB page. Equals the number of faults that would map the same memory on demand.
    pub fn pages_brought_in(&self) -> u64 {
        self.core.ledger.pages_brought_in()
    }

    /// Counts, since boot, of compaction and of 2MB blocks claimed for large pages although partly used.
    pub fn compaction(&self) -> CompactionCounts {
        self.core.compaction.counts
    }

    /// Memory zones of the machine with their free frames.
    pub fn zones(&self) -> &Zones {
        self.core.memory.zones()
    }

    /// Number of free blocks of each order at this moment.
    pub fn free_memory(&self) -> FreeMemory {
        FreeMemory::of(self.core.memory.zones())
    }
}

/// Background kernel threads and their parameters.
impl Kernel {
    /// Runs one kcompactd pass over all memory, if a fault has woken kcompactd since its last pass.
    /// After passes that emptied no block, some calls do nothing (exponential backoff).
    pub fn kcompactd_pass(&mut self) -> CompactionCounts {
        self.core.kcompactd_pass()
    }

    /// Runs one pass of background compaction (Linux: kcompactd) over all blocks, lowest address
    /// first. Empties every block without unmovable frames into free frames of other blocks, while
    /// enough free frames remain outside wholly free 2MB blocks. Also patches holes of perforated
    /// pages.
    ///
    /// Linux stops where its two scanners meet. Linux also moves single pages out of blocks that
    /// cannot be emptied. This model does not, because such moves free no 2MB block.
    pub fn compact(&mut self) -> CompactionCounts {
        self.core.compact()
    }

    /// Sets the parameters of same-page merging.
    pub fn set_ksm(&mut self, config: KsmConfig) {
        self.ksm.config = config;
    }

    /// Runs one pass of the merging scanner: over the next `pages_to_scan` pages, or up to the end
    /// of all address spaces. If memory for a page-table node is short, a page stays unmerged.
    pub fn ksm_pass(&mut self) -> KsmPass {
        self.ksm.pass(&mut self.core)
    }

    /// Sets the parameters of background promotion.
    pub fn set_khugepaged(&mut self, config: KhugepagedConfig) {
        self.khugepaged.config = config;
    }

    /// Runs one pass of background promotion: over the next `pages_to_scan` pages, or up to the end of all
    /// address spaces. If memory is short, a 2MB region keeps its 4KB pages.
    pub fn khugepaged_pass(&mut self) -> KhugepagedPass {
        let Self { core, khugepaged, .. } = self;
        khugepaged.pass(core)
    }
}

/// Access for mechanisms outside this crate.
impl Kernel {
    /// The address space with this number.
    pub fn space(&self, space: SpaceId) -> Result<&AddressSpace, OsError> {
        self.core.space(space)
    }

    /// Index of free memory that the policy's mechanism keeps; `None` if the index is not of type `T`.
    pub fn free_index<T: FreeIndex>(&self) -> Option<&T> {
        self.core.memory.free_index()
    }

    /// Runs `act`, in which a mechanism changes an address space, and sends all shootdowns at the end.
    ///
    /// # Errors
    /// If there is no such address space, or `act` fails.
    pub fn change_space<T>(
        &mut self,
        space: SpaceId,
        act: impl FnOnce(&mut SpaceMut<'_>) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.operation(|kernel| act(&mut kernel.core.space_mut(space)?))
    }

    /// Runs `act` on the backer (mechanism that maps memory) of type `B`, outside of any page fault, and
    /// sends the shootdowns together at the end. If the kernel has no such backer, `make` creates one.
    ///
    /// # Errors
    /// If `act` fails.
    pub fn with_backer<B: Backer, T>(
        &mut self,
        make: impl FnOnce(&dyn Policy) -> B,
        act: impl FnOnce(&mut B, &mut Core) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.operation(|kernel| {
            let Self { core, backers, .. } = kernel;
            let backer = backers.find_or_add(|| make(core.policy.as_ref()));
            act(backer, core)
        })
    }
}

/// Operations on single pages and frames, for policies, event storms and experiments.
impl Kernel {
    /// Makes sub-page `page` of an ordinary or perforated 2MB page a hole. `hole` says what happens
    /// to its data.
    ///
    /// # Errors
    /// - If the tables have no shadow nodes for holes, or memory runs out.
    /// - If the page is not part of a 2MB page, or is a hole already.
    /// - If the page is shared memory and its data would move in one address space only.
    pub fn punch(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        hole: HoleContent,
    ) -> Result<(), OsError> {
        self.operation(|kernel| subpage::punch(&mut kernel.core, space, page.number(), hole))
    }

    /// Moves the data of hole `page` back in place. After the last hole, the page is an ordinary
    /// 2MB page again.
    ///
    /// # Errors
    /// - If the page is not a hole, or its in-place frame is in use.
    /// - If the 2MB mapping grants more than the program may do at the page.
    /// - If the page is private and the rest is shared memory, or the reverse.
    /// - If other spaces map the shared memory to another frame.
    pub fn patch(&mut self, space: SpaceId, page: VirtualPage) -> Result<(), OsError> {
        let result = subpage::patch(&mut self.core, space, page);
        self.core.ledger.send();
        result
    }

    /// Handles a failing `frame`: retires it if its data can be moved.
    pub fn hard_fault(&mut self, frame: Frame) -> HardFault {
        self.hard_faults.fail(&mut self.core, frame)
    }

    /// Lets frames fail that programs use, as many as configured, drawn at random.
    pub fn hard_fault_pass(&mut self) {
        self.hard_faults.pass(&mut self.core);
    }
}

/// Operations that the hypervisor of this crate needs from the host's kernel.
impl Kernel {
    /// Allocates a frame for a shadow page table, which belongs to no address space. The frame
    /// counts as a page table and is unmovable.
    ///
    /// # Errors
    /// If there is no free frame.
    pub(crate) fn allocate_shadow_table(&mut self) -> Result<Frame, OsError> {
        let core = &mut self.core;
        let frame = core.memory.allocate_nodes(0).map_err(|error| core.with_estimate(error))?;
        core.own_tables.insert(frame);
        Ok(frame)
    }

    /// Frees the frame of a shadow table.
    ///
    /// # Panics
    /// If the frame holds no such table.
    pub(crate) fn free_shadow_table(&mut self, frame: Frame) {
        let is_own = self.core.own_tables.remove(&frame);
        assert!(is_own, "{frame:?} holds no table of the kernel's own");
        self.core.memory.free(frame, 0);
    }

    /// Adds an operation on shadow page tables to the counts of the kernel's work.
    pub(crate) fn note_operation(&mut self, operation: &TableOperation) {
        self.core.ledger.table(operation);
    }

    /// Reclaims memory from the host's programs if little is free, so that shadow tables can be allocated.
    pub(crate) fn make_room_for_tables(&mut self) {
        self.core.relieve(None);
        demotion::conclude(&mut self.core);
    }
}
