//! Hardware half: an array of page-table entries in simulated memory.

use std::any::TypeId;

use perforate_mmu::{
    Capability, CapabilityKind, CapabilityMut, Dimension, Mark, Radix, Reach, TableMemory,
    WalkFault, WalkRequest, Walker, allow,
};
use perforate_types::{
    AccessKind, FormatOperation, PageSize, PageTableEntry, PhysicalAddress, Purpose, SpaceId,
    TableOperation, VirtualPage,
};

use crate::Hardware;

/// Builds the host's flat page table, at the physical address that the host's kernel has reserved
/// for it.
pub(super) fn flat(hardware: &Hardware<'_>) -> Box<dyn Dimension> {
    let kernel = hardware.kernel;
    let first = kernel.flat_table().expect("the host's kernel reserved memory for the table");
    let tables = kernel.tables();
    let flat = Flat::new(first, tables.flat_pages, kernel.current());
    let others = Radix::new().with_five_levels(tables.five_levels);
    Box::new(Flat { others, ..flat })
}

/// Flat page table of one address space of the host, namely that of the virtual machine's memory.
/// Other processes of the host have ordinary page tables.
pub struct Flat {
    first: PhysicalAddress,
    pages: u64,
    space: SpaceId,
    memory: TableMemory,
    others: Radix,
}

impl Flat {
    /// Creates an empty flat table for pages 0 to `pages` − 1, whose first entry is at address
    /// `first`.
    pub fn new(first: PhysicalAddress, pages: u64, space: SpaceId) -> Self {
        Self { first, pages, space, memory: TableMemory::new(), others: Radix::new() }
    }

    /// Physical address of a page's entry in the flat table; `None` beyond the end of the table.
    fn place(&self, space: SpaceId, page: VirtualPage) -> Option<PhysicalAddress> {
        debug_assert_eq!(space, self.space, "another process's page");
        let is_inside = page.number() < self.pages;
        is_inside.then(|| self.first.add(8 * page.number()))
    }

    /// Address and value of a page's flat-table entry; `None` if the entry is not present.
    fn entry(
        &self,
        space: SpaceId,
        page: VirtualPage,
    ) -> Option<(PhysicalAddress, PageTableEntry)> {
        let place = self.place(space, page)?;
        let entry = self.memory.entry(place);
        entry.is_present().then_some((place, entry))
    }

    /// Applies `change` to all 4KB flat-table entries of a page of `size`.
    fn change(
        &mut self,
        (space, page, size): (SpaceId, VirtualPage, PageSize),
        change: impl Fn(PageTableEntry) -> PageTableEntry,
    ) {
        for index in 0..size.pages() {
            let place = self.place(space, page.add(index));
            let place = place.unwrap_or_else(|| panic!("{page:?} of {space:?} has no entry"));
            self.memory.set_entry(place, change(self.memory.entry(place)));
        }
    }

    /// True if any flat-table entry of the 2MB page around `page` is dirty.
    fn is_any_dirty(&self, space: SpaceId, page: VirtualPage) -> bool {
        let first = page.align_down(PageSize::Size2M);
        let entry = |index| self.entry(space, first.add(index));
        (0..PageSize::Size2M.pages()).any(|index| entry(index).is_some_and(|(_, of)| of.is_dirty()))
    }

    /// Applies an operation to the flat table. Adding or removing nodes of ordinary tables changes
    /// nothing, because no hardware walks those nodes. Entries of the flat table do not say that
    /// pages are contiguous.
    fn write(&mut self, operation: &TableOperation) {
        match *operation {
            TableOperation::SetControl { .. }
            | TableOperation::AddNode { .. }
            | TableOperation::RemoveNode { .. }
            | TableOperation::Join { .. } => {}
            TableOperation::Map { space, page, size, frame, permissions } => {
                self.change((space, page, size), |before| {
                    assert!(!before.is_present(), "{page:?} is mapped already");
                    PageTableEntry::leaf(frame, size, permissions)
                });
            }
            TableOperation::Unmap { space, page, size } => {
                self.change((space, page, size), |before| {
                    assert!(before.is_present(), "{page:?} is not mapped");
                    PageTableEntry::ABSENT
                });
            }
            TableOperation::Protect { space, page, size, permissions } => {
                self.change((space, page, size), |before| before.with_permissions(permissions));
            }
        }
    }

    fn mark_entry(
        &mut self,
        (place, entry): (PhysicalAddress, PageTableEntry),
        write: bool,
    ) -> PageTableEntry {
        let marked = entry.with_accessed(write);
        self.memory.set_entry(place, marked);
        marked
    }
}

fn reach(entry: PageTableEntry) -> Reach {
    let size = if entry.is_large() { PageSize::Size2M } else { PageSize::Size4K };
    let allows = allow::of_leaf(entry.permissions(), entry.is_dirty());
    Reach { size, frame: entry.leaf_frame(size), allows, filter: 0 }
}

impl Dimension for Flat {
    fn apply(&mut self, operation: &dyn FormatOperation) {
        match operation.downcast_ref::<TableOperation>() {
            Some(operation) if operation.space() != self.space => self.others.write(operation),
            Some(operation) => self.write(operation),
            None => panic!("a flat table cannot hold {operation:?}"),
        }
    }

    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault> {
        let WalkRequest { space, page, write, .. } = request;
        if space != self.space {
            return self.others.walk(request, walker);
        }
        let place = self.place(space, page).ok_or(WalkFault::NotMapped)?;
        walker.read(Purpose::Level1, place);
        let found = self.entry(space, page).ok_or(WalkFault::NotMapped)?;
        let dirtied = write && found.1.permissions().allow(AccessKind::Write);
        Ok(reach(self.mark_entry(found, dirtied)))
    }

    /// Returns the mapping of a page by its flat-table entry, without hardware effects. A 2MB page
    /// counts as dirty if any of its 512 entries is: after one entry is dirty, stores that hit in
    /// the TLB set no further dirty bits.
    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        if space != self.space {
            return self.others.look_at(space, page);
        }
        let mut reach = reach(self.entry(space, page)?.1);
        if reach.size == PageSize::Size2M && self.is_any_dirty(space, page) {
            reach.allows |= allow::DIRTY;
        }
        Some(reach)
    }

    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark) {
        if space != self.space {
            return self.others.mark(space, page, mark);
        }
        if let Some(found) = self.entry(space, page) {
            self.mark_entry(found, mark == Mark::Dirty);
        }
    }

    fn memory(&self) -> &TableMemory {
        &self.memory
    }

    fn capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        (wanted == CapabilityKind::Part(TypeId::of::<Self>())).then_some(Capability::Part(self))
    }

    fn capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        (wanted == CapabilityKind::Part(TypeId::of::<Self>())).then_some(CapabilityMut::Part(self))
    }
}

#[cfg(test)]
mod tests {
    use perforate_mmu::{Host, HostFault, Mmu, MmuConfig, Nested, PageFault, TlbGeometry};
    use perforate_types::{Action, Frame, GuestFrame, Permissions, Steps, Update};

    use super::*;

    const SPACE: SpaceId = SpaceId(0);
    /// Address of the tests' flat table, which has 8 bytes for each of 4,096 pages.
    const TABLE: u64 = 0x80_0000;
    const ALL: Permissions = Permissions::ALL;

    fn map(page: u64, size: PageSize, frame: u64) -> TableOperation {
        let (page, frame) = (VirtualPage::new(page), Frame::new(frame));
        TableOperation::Map { space: SPACE, page, size, frame, permissions: ALL }
    }

    /// Creates hardware for a guest with page 1GB + 5 in its frame 0x205, and tables in frames 0x10
    /// to 0x13. The host maps frames 0x10 to 0x13, and the guest's second 2MB as one page.
    fn guest() -> Mmu {
        let geometry = TlbGeometry { entries: 16, ways: 4 };
        let mut config = MmuConfig::plain(geometry, geometry);
        config.virtualization.nested_tlb = Some(TlbGeometry { entries: 0, ways: 0 });
        let table = Flat::new(PhysicalAddress::new(TABLE), 4096, SPACE);
        let host = Host::new(&config, Box::new(table), SPACE);
        let nested = Nested::new(Box::new(Radix::new()), host);
        let mut mmu = Mmu::new(&config, Box::new(nested)).unwrap();
        for node in 0..4 {
            mmu.apply_host(&map(0x10 + node, PageSize::Size4K, 0x900 + node).into());
        }
        mmu.apply_host(&map(0x200, PageSize::Size2M, 0x600).into());
        for (level, frame) in [(4, 0x10), (3, 0x11), (2, 0x12), (1, 0x13)] {
            let page = VirtualPage::new(if level > 2 { 0 } else { 1 << 18 });
            let frame = Frame::new(frame);
            let node = TableOperation::AddNode { space: SPACE, level, page, frame, branch: 0 };
            mmu.apply(&node.into());
        }
        mmu.apply(&map((1 << 18) + 5, PageSize::Size4K, 0x205).into());
        mmu
    }

    fn load(mmu: &mut Mmu, page: u64) -> (Result<u64, PageFault>, Vec<(Purpose, u64)>) {
        let (address, mut steps) = (VirtualPage::new(page).address(), Steps::new());
        let found = mmu.translate(AccessKind::Read, address, &mut steps);
        let reads = steps.as_slice().iter().filter_map(|step| match step.action {
            Action::Read { address } => Some((step.purpose, address.value())),
            _ => None,
        });
        (found.map(|found| found.physical.page().number()), reads.collect())
    }

    /// A nested walk reads (4 + 1) × (1 + 1) − 1 = 9 entries: one flat-table entry of 8 bytes
    /// before each of the guest's four entries, and one at the end.
    #[test]
    fn nine_references_where_nothing_is_cached() {
        let mut mmu = guest();
        let (frame, reads) = load(&mut mmu, (1 << 18) + 5);
        assert_eq!(frame, Ok(0x605));
        let flat = |page: u64| (Purpose::HostLevel1, TABLE + 8 * page);
        assert_eq!(
            reads,
            [
                flat(0x10),
                (Purpose::Level4, 0x900 << 12),
                flat(0x11),
                (Purpose::Level3, (0x901 << 12) + 8),
                flat(0x12),
                (Purpose::Level2, 0x902 << 12),
                flat(0x13),
                (Purpose::Level1, (0x903 << 12) + 5 * 8),
                flat(0x205),
            ]
        );
    }

    #[test]
    fn every_entry_of_a_2mb_page_is_marked_large() {
        let mmu = guest();
        let host = mmu.dimension().host().unwrap().dimension();
        for page in [0x200, 0x205, 0x3ff] {
            let reach = host.look_at(SPACE, VirtualPage::new(page)).unwrap();
            assert_eq!((reach.size, reach.frame), (PageSize::Size2M, Frame::new(0x600)));
        }
        assert!(host.look_at(SPACE, VirtualPage::new(0x400)).is_none());
        assert!(host.look_at(SPACE, VirtualPage::new(4096)).is_none(), "the table ends there");
        assert!(host.look_at(SpaceId(1), VirtualPage::new(0x200)).is_none(), "another process");
    }

    #[test]
    fn pages_unmapped_by_the_host_fault() {
        let mut mmu = guest();
        let (page, size) = (VirtualPage::new(0x200), PageSize::Size2M);
        let update: Update = TableOperation::Unmap { space: SPACE, page, size }.into();
        mmu.apply_host(&update);
        let (found, _) = load(&mut mmu, (1 << 18) + 5);
        let fault = HostFault { page: GuestFrame::new(0x205), kind: AccessKind::Read };
        assert_eq!(found, Err(PageFault::Host(fault)));
        mmu.apply_host(&map(0x205, PageSize::Size4K, 0x777).into());
        assert_eq!(load(&mut mmu, (1 << 18) + 5).0, Ok(0x777));
    }

    /// Permissions change in all entries of a page, and in no other. The table's last page is 4,095.
    #[test]
    fn permissions_change_in_every_entry_of_a_page() {
        let mut flat = Flat::new(PhysicalAddress::new(TABLE), 4096, SPACE);
        flat.apply(&map(0x200, PageSize::Size2M, 0x600));
        for page in [0x1ff, 0x400, 4095] {
            flat.apply(&map(page, PageSize::Size4K, page));
        }
        let allows = |flat: &Flat| {
            let pages = [0x1ff, 0x200, 0x3ff, 0x400, 4095].map(VirtualPage::new);
            pages.map(|page| flat.look_at(SPACE, page).unwrap().allows)
        };
        let all = allow::READ | allow::WRITE | allow::FETCH;
        assert_eq!(allows(&flat), [all; 5]);
        for (page, size) in [(0x200, PageSize::Size2M), (4095, PageSize::Size4K)] {
            let (page, permissions) = (VirtualPage::new(page), Permissions::READ);
            flat.apply(&TableOperation::Protect { space: SPACE, page, size, permissions });
        }
        assert_eq!(allows(&flat), [all, allow::READ, allow::READ, all, allow::READ]);
        let is_mapped = |flat: &Flat, page| flat.look_at(SPACE, VirtualPage::new(page)).is_some();
        let page = VirtualPage::new(0x200);
        flat.apply(&TableOperation::Unmap { space: SPACE, page, size: PageSize::Size2M });
        let left = [0x1ff, 0x200, 0x3ff, 0x400].map(|page| is_mapped(&flat, page));
        assert_eq!(left, [true, false, false, true]);
    }

    /// A dirty 4KB page says nothing about the others of its 2MB. A mark of the access leaves a page clean.
    #[test]
    fn pages_of_4kb_are_dirty_one_by_one() {
        let mut flat = Flat::new(PhysicalAddress::new(TABLE), 4096, SPACE);
        (5..8).for_each(|page| flat.apply(&map(page, PageSize::Size4K, page)));
        flat.mark(SPACE, VirtualPage::new(5), Mark::Dirty);
        flat.mark(SPACE, VirtualPage::new(6), Mark::Accessed);
        let entry = |page: u64| flat.memory().entry(PhysicalAddress::new(TABLE + 8 * page));
        let bits = [5, 6, 7].map(|page| (entry(page).is_accessed(), entry(page).is_dirty()));
        assert_eq!(bits, [(true, true), (true, false), (false, false)]);
        let is_dirty = |page| {
            let found = flat.look_at(SPACE, VirtualPage::new(page)).unwrap();
            found.allows & allow::DIRTY != 0
        };
        assert_eq!([5, 6, 7].map(is_dirty), [true, false, false]);
    }

    /// Another process of the host has ordinary tables, of as many levels as are asked for.
    #[test]
    fn other_processes_have_ordinary_tables() {
        let mut flat = Flat::new(PhysicalAddress::new(TABLE), 4096, SPACE);
        let space = SpaceId(3);
        for level in (1..=4).rev() {
            let (page, frame) = (VirtualPage::new(0), Frame::new(0x20 + u64::from(level)));
            flat.apply(&TableOperation::AddNode { space, level, page, frame, branch: 0 });
        }
        let (page, frame, size) = (VirtualPage::new(9), Frame::new(0x777), PageSize::Size4K);
        flat.apply(&TableOperation::Map { space, page, size, frame, permissions: ALL });
        assert!(flat.look_at(SPACE, page).is_none());
        assert_eq!(flat.look_at(space, page).unwrap().frame, frame);
        flat.mark(space, page, Mark::Dirty);
        assert_ne!(flat.look_at(space, page).unwrap().allows & allow::DIRTY, 0);
        let dimension: &mut dyn Dimension = &mut flat;
        assert!(dimension.part::<Flat>().is_some() && dimension.part_mut::<Flat>().is_some());
        assert!(dimension.part::<Radix>().is_none() && dimension.part_mut::<Radix>().is_none());
    }

    #[test]
    #[should_panic(expected = "va-page:0x1000 of SpaceId(0) has no entry")]
    fn the_table_has_no_entry_for_the_page_after_its_last() {
        let mut flat = Flat::new(PhysicalAddress::new(TABLE), 4096, SPACE);
        flat.apply(&map(4096, PageSize::Size4K, 1));
    }

    /// A load sets the accessed bit and a store the dirty bit, in the page's own entry only.
    #[test]
    fn an_access_leaves_its_bits() {
        let mut mmu = guest();
        assert!(load(&mut mmu, (1 << 18) + 5).0.is_ok());
        let bits = |mmu: &Mmu, page: u64| {
            let host = mmu.dimension().host().unwrap().dimension();
            let entry = host.memory().entry(PhysicalAddress::new(TABLE + 8 * page));
            (entry.is_accessed(), entry.is_dirty())
        };
        assert_eq!(bits(&mmu, 0x205), (true, false));
        let address = VirtualPage::new((1 << 18) + 5).address();
        mmu.translate(AccessKind::Write, address, &mut Steps::new()).unwrap();
        assert_eq!(bits(&mmu, 0x205), (true, true));
        assert_eq!(bits(&mmu, 0x206), (false, false));
        let host = mmu.dimension().host().unwrap().dimension();
        let neighbour = host.look_at(SPACE, VirtualPage::new(0x206)).unwrap();
        assert_ne!(neighbour.allows & allow::DIRTY, 0, "the 2MB page is dirty");
    }

    /// Other address spaces of the host, such as its own processes, have ordinary tables.
    #[test]
    fn other_address_spaces_are_walked_in_tables_of_four_levels() {
        let (space, geometry) = (SpaceId(1), TlbGeometry { entries: 16, ways: 4 });
        let flat = Flat::new(PhysicalAddress::new(TABLE), 4096, SPACE);
        let mut mmu = Mmu::new(&MmuConfig::plain(geometry, geometry), Box::new(flat)).unwrap();
        let page = VirtualPage::new(5);
        for (level, frame) in [(4, 0x10), (3, 0x11), (2, 0x12), (1, 0x13)] {
            let frame = Frame::new(frame);
            mmu.apply(&TableOperation::AddNode { space, level, page, frame, branch: 0 }.into());
        }
        let (size, frame, permissions) = (PageSize::Size4K, Frame::new(0x777), ALL);
        mmu.apply(&TableOperation::Map { space, page, size, frame, permissions }.into());
        mmu.apply(&map(5, size, 0x888).into());
        mmu.switch(space);
        let (found, reads) = load(&mut mmu, 5);
        assert_eq!((found, reads.len()), (Ok(0x777), 4));
        assert_eq!(reads[3], (Purpose::Level1, (0x13 << 12) + 5 * 8));
        mmu.switch(SPACE);
        assert_eq!(load(&mut mmu, 5), (Ok(0x888), vec![(Purpose::Level1, TABLE + 5 * 8)]));
    }
}
