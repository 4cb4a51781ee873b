//! Hardware half: shadow tables map guest-virtual to host-physical addresses. The hypervisor
//! maintains them, and the hardware walks them without nested translation (D §II.A).
//!
//! The guest's dimension (its translation from guest-virtual to guest-physical addresses) holds the
//! tables and registers that the guest's operating system writes. No hardware walks it, so it may
//! belong to any mechanism. The hypervisor reads it without hardware effects.

use perforate_mmu::{
    Capability, CapabilityKind, CapabilityMut, Dimension, DimensionLayer, Host, Mark, OverHost,
    PageFault, Radix, Reach, WalkFault, WalkRequest, Walker,
};
use perforate_types::{
    AccessKind, FormatOperation, GuestFrame, SpaceId, TableOperation, VirtualPage,
};

/// Shadow tables, which the hardware walks, and the translations of guest and host that they are
/// made from, which only the hypervisor reads.
pub struct Shadow {
    guest: Box<dyn Dimension>,
    host: Host,
    tables: Radix,
}

impl Shadow {
    /// Combines the translations of guest and host; the shadow tables are still empty.
    pub fn new(guest: Box<dyn Dimension>, host: Host) -> Self {
        Self { guest, host, tables: Radix::new() }
    }

    /// The guest's translation from guest-virtual to guest-physical addresses, which only the
    /// hypervisor reads.
    pub fn guest(&self) -> &dyn Dimension {
        self.guest.as_ref()
    }

    /// The guest's leaf entry for a page, from the guest's tables and registers; `None` if the
    /// guest has not mapped the page.
    pub fn guest_leaf(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        self.guest.look_at(space, page)
    }

    /// True if the guest maps a page by page tables rather than by segment registers, which take
    /// precedence. A guest's unit that caches entries, such as a range TLB, is empty here, because
    /// only hardware walks fill it.
    pub fn is_in_guest_tables(&self, space: SpaceId, page: VirtualPage) -> bool {
        self.guest.sideband_tlb().is_none_or(|unit| unit.find(space, page).is_none())
    }

    /// The host's leaf entry for a page of the guest's memory (gPA→hPA); `None` if the host has not
    /// mapped the page.
    pub fn host_leaf(&self, page: GuestFrame) -> Option<Reach> {
        self.host.look_at(page)
    }

    /// Sets accessed bits in the guest's tables, and for a store the dirty bit of the leaf entry.
    /// The hypervisor has to do this, because the hardware sets only the bits in the shadow tables.
    /// Has no effect on pages that the guest's registers translate, which have no such bits.
    pub fn mark_guest(&mut self, space: SpaceId, page: VirtualPage, write: bool) {
        if !self.is_in_guest_tables(space, page) {
            return;
        }
        self.guest.mark(space, page, Mark::Accessed);
        if write {
            self.guest.mark(space, page, Mark::Dirty);
        }
    }

    /// Sets the dirty bit of the host's leaf entry, when a shadow entry begins to allow stores.
    pub fn mark_host(&mut self, page: GuestFrame) {
        self.host.mark(page, Mark::Dirty);
    }

    /// Applies an operation of the hypervisor to the shadow tables. TLB entries filled from these
    /// tables carry the address-space tags of the guest.
    ///
    /// # Panics
    /// If the operation does not fit the tables, which is a bug of the hypervisor model.
    pub fn apply_shadow(&mut self, operation: &TableOperation) {
        self.tables.write(operation);
    }
}

/// The hardware walks the shadow tables only. It uses no unit of the guest or the host, such as a
/// range TLB, so this impl does not offer the look-ups and fills of such units.
impl DimensionLayer for Shadow {
    fn inside(&self) -> &dyn Dimension {
        &self.tables
    }

    fn inside_mut(&mut self) -> &mut dyn Dimension {
        &mut self.tables
    }

    /// Applies an operation of the guest's kernel to the guest's tables; [`Shadow::apply_shadow`]
    /// takes those of the hypervisor.
    fn apply_own(&mut self, operation: &dyn FormatOperation) -> bool {
        self.guest.apply(operation);
        true
    }

    /// Walks the shadow tables as ordinary tables. If there is no leaf entry, the hypervisor
    /// determines the cause of the fault.
    fn walk_around(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        self.tables.walk(request, walker).map_err(|_| WalkFault::Incomplete)
    }

    fn own_capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        (wanted == CapabilityKind::OverHost).then_some(Capability::OverHost(self))
    }

    fn own_capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        (wanted == CapabilityKind::OverHost).then_some(CapabilityMut::OverHost(self))
    }
}

impl OverHost for Shadow {
    fn host(&self) -> &Host {
        &self.host
    }

    fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Returns a fault without a cause, because a shadow entry may allow less than guest and host
    /// do. The hypervisor determines the cause.
    fn blame(&self, _: WalkRequest, _: AccessKind) -> PageFault {
        PageFault::Incomplete
    }
}

#[cfg(test)]
mod tests {
    use perforate_mmu::{Mmu, MmuConfig, TlbGeometry, WalkCacheConfig, allow};
    use perforate_types::{
        Frame, PageSize, Permissions, Purpose, Shootdown, Steps, Update, VirtualAddress,
    };

    use super::*;
    use crate::segment::{EscapeFilterConfig, SegmentOperation, Segmented};

    const SPACE: SpaceId = SpaceId(0);
    const PAGE: VirtualPage = VirtualPage::new(7);

    fn map(frame: u64, permissions: Permissions) -> TableOperation {
        let (page, frame) = (PAGE, Frame::new(frame));
        TableOperation::Map { space: SPACE, page, size: PageSize::Size4K, frame, permissions }
    }

    fn tables(first: u64) -> impl Iterator<Item = TableOperation> {
        (1..=4).rev().map(move |level| {
            let (page, frame) = (VirtualPage::new(0), Frame::new(first + u64::from(level)));
            TableOperation::AddNode { space: SPACE, level, page, frame, branch: 0 }
        })
    }

    /// Creates hardware in which guest page 7 is guest frame 7, which is frame 300 in the machine.
    /// (Page numbers in the host's address space are guest frame numbers.)
    fn unit() -> Mmu {
        let geometry = TlbGeometry { entries: 16, ways: 4 };
        let walk_cache = WalkCacheConfig::fully_associative(1, 1, 1);
        let config = MmuConfig { walk_cache, ..MmuConfig::plain(geometry, geometry) };
        let host = Host::new(&config, Box::new(Radix::new()), SPACE);
        let shadow = Shadow::new(Box::new(Radix::new()), host);
        let mut mmu = Mmu::new(&config, Box::new(shadow)).unwrap();
        for change in tables(10).chain([map(7, Permissions::READ_WRITE)]) {
            mmu.apply(&change.into());
        }
        for change in tables(100).chain([map(300, Permissions::ALL)]) {
            mmu.apply_host(&change.into());
        }
        mmu
    }

    fn shadow_of(mmu: &mut Mmu) -> &mut Shadow {
        mmu.dimension_mut().part_mut().expect("the hardware walks shadow tables")
    }

    fn reads(steps: &Steps) -> (u8, u8) {
        let (own, host) = steps.reads().split_at(Purpose::HostPage as usize);
        (own.iter().sum(), host.iter().sum())
    }

    #[test]
    fn the_hardware_walks_shadow_tables_only() {
        let mut mmu = unit();
        let (address, mut steps) = (PAGE.address().add(5), Steps::new());
        let mut translate = |mmu: &mut Mmu, kind| {
            let found = mmu.translate(kind, address, &mut steps);
            (found.map(|found| found.physical.value()), reads(&steps))
        };
        assert_eq!(translate(&mut mmu, AccessKind::Read).0, Err(PageFault::Incomplete));
        let shadow = shadow_of(&mut mmu);
        let (guest, host) = (
            shadow.guest_leaf(SPACE, PAGE).unwrap(),
            shadow.host_leaf(GuestFrame::new(7)).unwrap(),
        );
        assert_eq!((guest.frame, host.frame), (Frame::new(7), Frame::new(300)));
        assert_eq!(guest.allows & allow::DIRTY, 0);
        for change in tables(200).chain([map(300, Permissions::READ)]) {
            shadow_of(&mut mmu).apply_shadow(&change);
        }
        let found = translate(&mut mmu, AccessKind::Read);
        assert_eq!(found, (Ok(300 << 12 | 5), (4, 0)), "one dimension, four levels");
        // A store to a clean page faults to the hypervisor, even if guest and host allow it.
        assert_eq!(translate(&mut mmu, AccessKind::Write).0, Err(PageFault::Incomplete));
        shadow_of(&mut mmu).mark_guest(SPACE, PAGE, true);
        let guest = shadow_of(&mut mmu).guest_leaf(SPACE, PAGE).unwrap();
        assert_ne!(guest.allows & allow::DIRTY, 0);
        let gone = TableOperation::Unmap { space: SPACE, page: PAGE, size: PageSize::Size4K };
        shadow_of(&mut mmu).apply_shadow(&gone);
        mmu.apply(&Update::Shootdown(Shootdown::Page { space: SPACE, page: PAGE }));
        shadow_of(&mut mmu).apply_shadow(&map(300, Permissions::READ_WRITE));
        assert_eq!(translate(&mut mmu, AccessKind::Write), (Ok(300 << 12 | 5), (4, 0)));
        let beyond = VirtualAddress::new(1 << 40);
        let outside = mmu.translate(AccessKind::Read, beyond, &mut Steps::new());
        assert_eq!(outside, Err(PageFault::Incomplete), "of what is not mapped, too");
    }

    /// A segment of the guest has pages 4 to 7. Its tables map pages 7 to 9. Marks go to the tables of
    /// pages outside the segment only, and only a store marks a page dirty.
    #[test]
    fn pages_of_a_guests_segment_have_no_marks() {
        let geometry = TlbGeometry { entries: 16, ways: 4 };
        let config = MmuConfig::plain(geometry, geometry);
        let paging = Box::new(Radix::new());
        let mut guest = Segmented::new(paging, EscapeFilterConfig::default());
        let map = |page| {
            let (frame, page, size) = (Frame::new(page), VirtualPage::new(page), PageSize::Size4K);
            let permissions = Permissions::READ_WRITE;
            TableOperation::Map { space: SPACE, page, size, frame, permissions }
        };
        tables(10).chain((7..10).map(map)).for_each(|change| guest.apply(&change));
        guest.apply(&SegmentOperation::Set {
            space: SPACE,
            page: VirtualPage::new(4),
            pages: 4,
            frame: Frame::new(4),
            permissions: Permissions::READ_WRITE,
        });
        let host = Host::new(&config, Box::new(Radix::new()), SPACE);
        let mut shadow = Shadow::new(Box::new(guest), host);
        for (page, write) in [(7, true), (8, false), (9, true)] {
            let page = VirtualPage::new(page);
            assert_eq!(shadow.is_in_guest_tables(SPACE, page), page.number() > 7);
            shadow.mark_guest(SPACE, page, write);
        }
        let bits = [7, 8, 9].map(|page| {
            let place = Frame::new(11).address().add(8 * page);
            let entry = shadow.guest().memory().entry(place);
            (entry.is_accessed(), entry.is_dirty())
        });
        assert_eq!(bits, [(false, false), (true, false), (true, true)]);
    }
}
