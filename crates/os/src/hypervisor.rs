//! A hypervisor with virtual machines: the host's kernel, with an address space for each machine,
//! which is the guest's physical memory.
//!
//! As under KVM, the guest's memory is memory of a host process. The policy of the host's kernel
//! backs it on demand. Guest frame *n* is page *n* of that address space, so the kernel's
//! operations on this address space change the nested page table (gPA→hPA).

use std::ops::Range;

use perforate_types::{
    AccessKind, Advice, Backing, FormatOperation, Frame, GuestFrame, Permissions, ProgramEvent,
    SpaceId, TableOperation, Update, VirtualAddress, VirtualPage, Written,
};

use crate::memory::FRAME_BYTES;
use crate::{FaultOutcome, Kernel, OsError, ShadowLeaf, ShadowTables, TableFormat};

/// The host's kernel and the virtual machine that it runs.
pub struct Hypervisor {
    kernel: Kernel,
    space: SpaceId,
    /// Ranges of guest-physical frames that have memory.
    slots: Vec<Range<Frame>>,
    shadow: Option<ShadowTables>,
}

impl Hypervisor {
    /// Creates a virtual machine in the first process of the host's kernel. `slots` are the ranges of guest
    /// frames with memory, none of them backed yet. Advises large pages for the memory, as QEMU does.
    ///
    /// # Errors
    /// If the address space cannot hold the memory.
    pub fn new(mut kernel: Kernel, slots: &[Range<Frame>]) -> Result<Self, OsError> {
        let space = kernel.current();
        map_slots(&mut kernel, space, slots)?;
        Ok(Self { kernel, space, slots: slots.to_vec(), shadow: None })
    }

    /// Adds a virtual machine on this host. `slots` are the ranges of guest frames with memory, none of them
    /// backed yet. Returns the machine's address space in the host's kernel, by which [`Kernel::fault`] knows
    /// the machine.
    ///
    /// # Errors
    /// If there are too many address spaces, or the new one cannot hold the memory.
    pub fn add_machine(&mut self, slots: &[Range<Frame>]) -> Result<SpaceId, OsError> {
        let space = self.kernel.create_space()?;
        map_slots(&mut self.kernel, space, slots)?;
        Ok(space)
    }

    /// Replaces the nested page table by shadow tables. `guest` is the format of the guest's
    /// tables.
    pub fn with_shadow_paging(self, guest: TableFormat) -> Self {
        Self { shadow: Some(ShadowTables::new(guest)), ..self }
    }

    /// The shadow tables, if shadow paging is in use.
    pub fn shadow_tables(&self) -> Option<&ShadowTables> {
        self.shadow.as_ref()
    }

    /// Reclaims the host's memory from its programs if little is free. Call it before shadow tables are
    /// allocated.
    pub fn make_room(&mut self) {
        self.kernel.make_room_for_tables();
    }

    /// Changes of the shadow tables, in order, since the caller last drained this list; `None`
    /// without shadow paging.
    pub fn shadow_updates(&mut self) -> Option<&mut Vec<Update>> {
        self.shadow.as_mut().map(|shadow| &mut shadow.updates)
    }

    /// Creates the shadow page-table entry that `leaf` describes (guest-virtual page to host frame). Does
    /// nothing without shadow paging.
    ///
    /// # Errors
    /// If memory runs out for the shadow tables above the entry.
    pub fn shadow(&mut self, leaf: &ShadowLeaf) -> Result<(), OsError> {
        let Self { kernel, shadow: Some(shadow), .. } = self else { return Ok(()) };
        shadow.map(leaf, kernel)
    }

    /// Updates the shadow tables after the guest has written a page-table entry or a translation register. If
    /// the write caused a VM exit, returns what the guest wrote: an entry of a shadowed table, or registers.
    pub fn guest_changed(&mut self, operation: &dyn FormatOperation) -> Option<Written> {
        let Self { kernel, shadow: Some(shadow), .. } = self else { return None };
        shadow.guest_changed(operation, kernel)
    }

    /// Updates the shadow tables after the host has written an entry of its own page tables. Ignores tables
    /// of address spaces other than that of the virtual machine.
    pub fn host_changed(&mut self, operation: &TableOperation) {
        let Self { kernel, shadow: Some(shadow), space, .. } = self else { return };
        if operation.space() != *space {
            return;
        }
        shadow.host_changed(operation, kernel);
    }

    /// Backs guest pages (those of the hole bitmap) with contiguous host memory and keeps their contents. A
    /// hardware register can then hold their host address, until the host moves the pages. Returns the first
    /// host frame.
    ///
    /// # Errors
    /// If the host has no such memory.
    pub fn back_contiguously(&mut self, pages: Range<GuestFrame>) -> Result<Frame, OsError> {
        let pages = pages.start.number()..pages.end.number();
        self.kernel.back_contiguously(self.space, pages, Permissions::ALL)
    }

    /// Serves a nested page fault (EPT violation): backs a guest page that the host has not mapped.
    ///
    /// # Errors
    /// If the host's memory runs out.
    pub fn fault(&mut self, page: GuestFrame, kind: AccessKind) -> Result<FaultOutcome, OsError> {
        self.kernel.fault(self.space, VirtualPage::new(page.number()), kind)
    }

    /// Allocates host memory for those guest frames in `frames` that have none yet. Call this function after
    /// the guest's kernel has written the frames.
    ///
    /// # Errors
    /// If the host's memory runs out.
    pub fn back(&mut self, frames: Range<u64>) -> Result<(), OsError> {
        let start = VirtualAddress::new(frames.start * FRAME_BYTES);
        let length = (frames.end - frames.start) * FRAME_BYTES;
        let advice = Advice::POPULATE_WRITE;
        self.kernel.event_in(self.space, &ProgramEvent::Advise { start, length, advice })
    }

    /// Frees the host's memory for frames in the guest's balloon (MADV_DONTNEED). This splits or
    /// punches the large pages around them.
    ///
    /// # Errors
    /// If memory runs out for the tables of a split page.
    pub fn take_back(&mut self, frames: &[Frame]) -> Result<(), OsError> {
        for run in runs(frames) {
            let start = VirtualAddress::new(run.start * FRAME_BYTES);
            let length = (run.end - run.start) * FRAME_BYTES;
            let event = ProgramEvent::Advise { start, length, advice: Advice::DontNeed };
            self.kernel.event_in(self.space, &event)?;
        }
        Ok(())
    }

    /// The host's kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The host's kernel, mutably. The updates that it reports are changes of the nested page table and
    /// shootdowns.
    pub fn kernel_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// The virtual machine's address space in the host's kernel.
    pub fn space(&self) -> SpaceId {
        self.space
    }

    /// True if the virtual machine has memory at this guest frame.
    pub fn has_memory(&self, page: GuestFrame) -> bool {
        self.slots.iter().any(|slot| slot.contains(&Frame::new(page.number())))
    }
}

/// Maps the memory of a virtual machine in the host's kernel, and advises large pages for that memory.
fn map_slots(kernel: &mut Kernel, space: SpaceId, slots: &[Range<Frame>]) -> Result<(), OsError> {
    for slot in slots {
        let start = VirtualAddress::new(slot.start.number() * FRAME_BYTES);
        let length = (slot.end.number() - slot.start.number()) * FRAME_BYTES;
        let map = ProgramEvent::Map {
            start,
            length,
            permissions: Permissions::ALL,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        };
        kernel.event_in(space, &map)?;
        let advise = ProgramEvent::Advise { start, length, advice: Advice::HugePage };
        kernel.event_in(space, &advise)?;
    }
    Ok(())
}

/// Groups frames into runs of consecutive frame numbers, in ascending order.
fn runs(frames: &[Frame]) -> Vec<Range<u64>> {
    let mut numbers: Vec<u64> = frames.iter().map(|frame| frame.number()).collect();
    numbers.sort_unstable();
    let mut runs: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(run) if run.end == number => run.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BasePages, KernelConfig};

    fn frames(numbers: &[u64]) -> Vec<Frame> {
        numbers.iter().map(|&number| Frame::new(number)).collect()
    }

    #[test]
    fn two_machines_have_memory_of_their_own() {
        let kernel = Kernel::new(KernelConfig::new(64 << 20), Box::new(BasePages)).unwrap();
        let slots = [Frame::new(0)..Frame::new(4096)];
        let mut hypervisor = Hypervisor::new(kernel, &slots).unwrap();
        let other = hypervisor.add_machine(&slots).unwrap();
        assert_ne!(other, hypervisor.space());
        hypervisor.fault(GuestFrame::new(3), AccessKind::Write).unwrap();
        let kernel = hypervisor.kernel_mut();
        assert_eq!(kernel.mapped_bytes(), 4096);
        let page = VirtualPage::new(3);
        let outcome = kernel.fault(other, page, AccessKind::Write).unwrap();
        assert_eq!((outcome, kernel.mapped_bytes()), (FaultOutcome::Mapped, 8192));
    }

    #[test]
    fn guest_memory_is_backed_when_touched_and_goes_back_in_runs() {
        let kernel = Kernel::new(KernelConfig::new(64 << 20), Box::new(BasePages)).unwrap();
        let mut hypervisor = Hypervisor::new(kernel, &[Frame::new(0)..Frame::new(4096)]).unwrap();
        for number in [3, 4, 4095] {
            let page = GuestFrame::new(number);
            let outcome = hypervisor.fault(page, AccessKind::Write).unwrap();
            assert_eq!(outcome, FaultOutcome::Mapped);
        }
        let beyond = GuestFrame::new(4096);
        let outcome = hypervisor.fault(beyond, AccessKind::Read).unwrap();
        assert_eq!(outcome, FaultOutcome::Segfault, "the guest has no such frame");
        assert_eq!(runs(&frames(&[4, 3, 9])), [3..5, 9..10]);
        let before = hypervisor.kernel().work().pages_unmapped;
        hypervisor.take_back(&frames(&[4, 3, 9])).unwrap();
        assert_eq!(hypervisor.kernel().work().pages_unmapped - before, 2, "9 was never backed");
    }

    fn hypervisor() -> Hypervisor {
        let kernel = Kernel::new(KernelConfig::new(64 << 20), Box::new(BasePages)).unwrap();
        let slots = [Frame::new(0)..Frame::new(1024), Frame::new(2048)..Frame::new(3072)];
        Hypervisor::new(kernel, &slots).unwrap()
    }

    #[test]
    fn a_guest_has_the_memory_of_its_slots() {
        let mut hypervisor = hypervisor();
        for (number, expected) in
            [(0, true), (1023, true), (1024, false), (2047, false), (2048, true), (3072, false)]
        {
            let page = GuestFrame::new(number);
            assert_eq!(hypervisor.has_memory(page), expected, "{number}");
            let outcome = hypervisor.fault(page, AccessKind::Write).unwrap();
            assert_eq!(outcome == FaultOutcome::Mapped, expected, "{number}");
        }
        // Backed in advance, without faults; a gap stays empty.
        let faults = hypervisor.kernel().work().faults_4k;
        hypervisor.back(1020..2050).unwrap();
        assert_eq!(hypervisor.kernel().mapped_bytes() / 4096, 3 + 3 + 1);
        assert_eq!(hypervisor.kernel().work().faults_4k, faults);
        // Contiguous backing replaces what is mapped, with its data.
        let first = hypervisor
            .back_contiguously(GuestFrame::new(1016)..GuestFrame::new(1024))
            .unwrap()
            .number();
        let space = hypervisor.kernel().space(hypervisor.space()).unwrap();
        let frames = (1016..1024).map(|page| space.frame_of(page).map(Frame::number));
        assert!(frames.eq((first..first + 8).map(Some)));
        assert_eq!(first % 512, 1016 % 512, "the run begins at a block");
        assert_eq!(hypervisor.kernel().work().frames_migrated, 4);
        assert_eq!(hypervisor.kernel().check_invariants(), Ok(()));
    }

    #[test]
    fn only_a_hypervisor_with_shadow_paging_has_shadow_tables() {
        let page = VirtualPage::new(7);
        let leaf = |space| ShadowLeaf {
            space,
            page,
            size: perforate_types::PageSize::Size4K,
            guest_frame: GuestFrame::new(5),
            frame: Frame::new(9),
            permissions: Permissions::READ,
            is_in_tables: false,
        };
        let mut plain = hypervisor();
        let of_host = plain.space();
        assert_eq!(plain.shadow(&leaf(SpaceId(4))), Ok(()));
        let unmap = |space| TableOperation::Unmap {
            space,
            page: VirtualPage::new(5),
            size: perforate_types::PageSize::Size4K,
        };
        assert!(plain.shadow_tables().is_none() && plain.shadow_updates().is_none());
        assert_eq!(plain.guest_changed(&unmap(SpaceId(4))), None);
        let mut shadowed = hypervisor().with_shadow_paging(TableFormat::default());
        shadowed.shadow(&leaf(SpaceId(4))).unwrap();
        let entries = |hypervisor: &Hypervisor| hypervisor.shadow_tables().unwrap().entries();
        assert_eq!(entries(&shadowed), 1);
        // Other machines' memory is none of this guest's.
        let other = shadowed.add_machine(&[Frame::new(0)..Frame::new(512)]).unwrap();
        shadowed.host_changed(&unmap(other));
        assert_eq!(entries(&shadowed), 1);
        shadowed.host_changed(&unmap(of_host));
        assert_eq!(entries(&shadowed), 0);
        assert_eq!(shadowed.shadow_tables().unwrap().most(), (4, 1));
        assert_eq!(shadowed.shadow_updates().unwrap().len(), 4 + 1 + 2);
    }
}
