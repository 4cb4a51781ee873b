//! A perforated page: a 2MB page with holes (P §IV).

use perforate_os::FrameClass;
use perforate_os::mechanism::{
    AddressSpace, Entries, Extent, FrameVisitor, Holed, Large, Mechanism, PhysicalMemory, Present,
    REGION_PAGES, Recount, SharedBlock, Usage, complement, expect, visit_entries,
};
use perforate_types::{Frame, HoleSet, PageTableEntry, Permissions, VirtualPage};

use super::PerforatedPages;

/// A 2MB page with holes. It holds a reference to the in-place frame of every sub-page that is not
/// a hole, and to the separate frame of every allocated hole.
pub(super) struct PerforatedPage {
    /// First frame of the 2MB block that the page maps.
    pub block: Frame,
    /// Permissions of the sub-pages that are not holes.
    pub permissions: Permissions,
    /// Sub-pages that are holes in this address space.
    pub holes: HoleSet,
    /// Frame of the level-1 node that the shadow entry points to, which has the entries of the
    /// holes.
    pub node: Frame,
    /// Holes without a frame of their own whose in-place frames are reserved for this page (P §VI).
    pub reserved: HoleSet,
    /// Number of holes that are mapped to a frame of their own.
    pub allocated: u32,
    /// Page-table entries of the page's holes, by sub-page.
    pub entries: Entries,
}

impl PerforatedPage {
    /// Creates a perforated page that maps the block of `large`, with `holes` that have no frame
    /// yet. `node` is the level-1 node for the entries of the holes.
    pub(super) fn new(large: Large, holes: HoleSet, node: Frame) -> Self {
        Self {
            block: large.block,
            permissions: large.permissions,
            holes,
            node,
            reserved: HoleSet::EMPTY,
            allocated: 0,
            entries: Entries::default(),
        }
    }

    /// Frame of sub-page `index` (0–511) in the 2MB block that the page maps.
    pub(super) fn in_place(&self, index: usize) -> Frame {
        self.block.add(index as u64)
    }

    /// Sub-pages that are mapped in place or through a hole's entry.
    pub(super) fn mapped(&self) -> HoleSet {
        complement(&self.holes).union(&self.allocated_holes().map(|(index, _)| index).collect())
    }

    pub(super) fn allocated_holes(&self) -> impl Iterator<Item = (usize, PageTableEntry)> + '_ {
        let holes = self.holes.iter().map(|index| (index, self.entries[index]));
        holes.filter(|(_, entry)| entry.is_present())
    }
}

impl Extent for PerforatedPage {
    fn mechanism(&self) -> &'static dyn Mechanism {
        &PerforatedPages
    }

    fn pages(&self) -> u64 {
        REGION_PAGES
    }

    fn permissions(&self) -> Permissions {
        self.permissions
    }

    fn find(&self, offset: u64) -> Present {
        let index = offset as usize;
        if !self.holes.contains(index) {
            return Present::InPlace(self.in_place(index), self.permissions);
        }
        let entry = self.entries[index];
        if entry.is_present() {
            Present::Detached(entry.frame(), entry.permissions())
        } else {
            Present::Vacant
        }
    }

    fn entries(&self) -> Option<&Entries> {
        Some(&self.entries)
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn holed(&self) -> Option<Holed> {
        let &Self { block, permissions, holes, reserved, .. } = self;
        Some(Holed { block, permissions, holes, reserved })
    }

    fn may_have_holes(&self) -> bool {
        true
    }

    fn maps_nothing(&self) -> bool {
        self.holes == HoleSet::FULL && self.allocated == 0
    }

    fn is_shared(&self, memory: &PhysicalMemory) -> bool {
        memory.any_shared(self.block, &complement(&self.holes))
    }

    fn offset_of(&self, frame: Frame) -> Option<u64> {
        let offset = frame.number().checked_sub(self.block.number())?;
        (offset < REGION_PAGES && !self.holes.contains(offset as usize)).then_some(offset)
    }

    fn share(&self, memory: &mut PhysicalMemory) {
        memory.share_block(self.block, &complement(&self.holes));
    }

    fn release(&self, memory: &mut PhysicalMemory) {
        let kept = complement(&self.holes).union(&self.reserved);
        memory.release_block(self.block, &kept);
        for (_, entry) in self.allocated_holes() {
            memory.release(entry.frame());
        }
    }

    fn with_permissions(&self, permissions: Permissions) -> Box<dyn Extent> {
        let large = Large { block: self.block, permissions };
        Box::new(Self::new(large, self.holes, self.node))
    }

    fn shared_block(&self, _region: u64, wanted: &HoleSet) -> Option<SharedBlock> {
        let frame_of = |index: usize| {
            let entry = self.entries[index];
            entry.is_present().then(|| entry.frame())
        };
        // Holes that differ only in permissions belong to this address space only (P Fig. 1).
        let is_moved = |&index: &usize| frame_of(index) != Some(self.in_place(index));
        let holes: HoleSet = self.holes.iter().filter(is_moved).collect();
        let moved = holes.iter().filter(|&index| wanted.contains(index));
        let moved = moved.filter_map(|index| Some((index, frame_of(index)?))).collect();
        let holes = holes.union(&complement(wanted));
        (holes != HoleSet::FULL).then_some(SharedBlock { block: self.block, holes, moved })
    }

    fn visit_frames(&self, visitor: &mut dyn FrameVisitor) {
        visitor.frames(self.block, &complement(&self.holes), FrameClass::Perforated);
        visitor.frames(self.block, &self.reserved, FrameClass::Reserved);
        visit_entries(&self.entries, visitor);
    }

    fn forget_owners(&self, memory: &mut PhysicalMemory) {
        memory.forget_owners(self.block, &complement(&self.holes));
    }

    fn check(
        &self,
        first: VirtualPage,
        space: &AddressSpace,
        usage: &mut Usage,
        recount: &mut Recount,
    ) -> Result<(), String> {
        expect("allocated holes", self.allocated as usize, self.allocated_holes().count())?;
        recount.hold(self.node)?;
        recount.map_in_place(self.block, &complement(&self.holes));
        for index in self.reserved.iter() {
            if !self.holes.contains(index) || self.entries[index].is_present() {
                return Err(format!("reserved sub-page {index} is no unallocated hole"));
            }
            recount.hold(self.in_place(index))?;
        }
        let is_stray =
            |index: usize| self.entries[index].is_present() && !self.holes.contains(index);
        if self.holes.is_empty() || (0..HoleSet::SUBPAGES).any(is_stray) {
            return Err("a perforated page without holes, or an entry that is no hole's".into());
        }
        usage.perforated_pages += 1;
        usage.leaf_nodes += 1;
        usage.holes_allocated += u64::from(self.allocated);
        usage.holes_unallocated += self.holes.count() as u64 - u64::from(self.allocated);
        usage.reserved += self.reserved.count() as u64;
        recount.map_holed(self.block, space.id(), first);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use perforate_os::mechanism::{Backed, Backer, Core, Touch};
    use perforate_os::{HoleContent, Kernel, KernelConfig, OsError, TableFormat};
    use perforate_types::{AccessKind, Backing, ProgramEvent, SpaceId};

    use super::*;
    use crate::perforated::{Perforated, PerforationOptions};

    const SPACE: SpaceId = SpaceId(0);
    const FIRST: u64 = 512;

    struct Nothing;

    impl Backer for Nothing {
        fn back(&mut self, _: &mut Core, _: &Touch) -> Result<Backed, OsError> {
            Ok(Backed::No)
        }
    }

    /// A 2MB page with holes 3 and 4, of which hole 3 has a frame of its own.
    fn kernel() -> Kernel {
        let tables = TableFormat { shadow_directories: true, ..TableFormat::default() };
        let config = KernelConfig { tables, ..KernelConfig::new(16 << 20) };
        let policy = Perforated::new(PerforationOptions::DEFAULT).unwrap();
        let mut kernel = Kernel::new(config, Box::new(policy)).unwrap();
        let event = ProgramEvent::Map {
            start: VirtualPage::new(FIRST).address(),
            length: 2 << 20,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        };
        kernel.event(&event).unwrap();
        let page = |index| VirtualPage::new(FIRST + index);
        kernel.fault(SPACE, page(0), AccessKind::Write).unwrap();
        for (index, content) in [(3, HoleContent::Moved), (4, HoleContent::Unallocated)] {
            kernel.punch(SPACE, page(index), content).unwrap();
        }
        kernel
    }

    fn change(kernel: &mut Kernel, act: impl FnOnce(&mut PerforatedPage)) {
        let changed = kernel.with_backer(
            |_| Nothing,
            |_: &mut Nothing, core| {
                let space = &mut core.space_mut(SPACE)?;
                act(space.region_extent_mut(FIRST / 512).unwrap());
                Ok(())
            },
        );
        changed.unwrap();
    }

    #[test]
    fn a_perforated_page_that_disagrees_with_its_holes_is_found() {
        type Spoil = fn(&mut PerforatedPage);
        let unreserved = |index| {
            format!("space 0: region 0x1: reserved sub-page {index} is no unallocated hole")
        };
        let stray =
            "space 0: region 0x1: a perforated page without holes, or an entry that is no hole's";
        let cases: [(Spoil, String); 7] = [
            (
                |page| page.allocated += 1,
                "space 0: region 0x1: allocated holes: 2 recorded, 1 counted".into(),
            ),
            (
                |page| page.allocated = 0,
                "space 0: region 0x1: allocated holes: 0 recorded, 1 counted".into(),
            ),
            (|page| assert!(page.reserved.insert(3)), unreserved(3)),
            (|page| assert!(page.reserved.insert(5)), unreserved(5)),
            (
                |page| {
                    page.holes.remove(3);
                    page.allocated = 0;
                },
                stray.into(),
            ),
            (
                |page| {
                    page.holes = HoleSet::EMPTY;
                    page.entries.take(3);
                    page.allocated = 0;
                },
                stray.into(),
            ),
            (|page| page.block = page.block.add(512), String::new()),
        ];
        for (spoil, expected) in cases {
            let mut kernel = kernel();
            assert_eq!(kernel.check_invariants(), Ok(()));
            change(&mut kernel, |page| {
                spoil(page);
            });
            let error = kernel.check_invariants().unwrap_err();
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    /// A page of holes only is mapped if any hole has a frame.
    #[test]
    fn a_page_of_unmapped_holes_maps_nothing() {
        let mut kernel = kernel();
        change(&mut kernel, |page| {
            let answers = |page: &PerforatedPage| {
                (page.pages(), page.is_whole(), page.may_have_holes(), page.maps_nothing())
            };
            assert_eq!(answers(page), (512, false, true, false));
            let holes = std::mem::replace(&mut page.holes, HoleSet::FULL);
            assert_eq!(answers(page), (512, false, true, false));
            page.allocated = 0;
            assert_eq!(answers(page), (512, false, true, true));
            page.holes = holes;
            assert!(!page.maps_nothing());
            page.allocated = 1;
        });
        assert_eq!(kernel.check_invariants(), Ok(()));
    }

    /// 510 sub-pages in place, and one frame for a hole.
    #[test]
    fn the_map_of_memory_has_the_frames_of_holes() {
        let map = kernel().memory_map();
        let found = [FrameClass::Perforated, FrameClass::Movable, FrameClass::Reserved]
            .map(|class| map.frames(class));
        assert_eq!(found, [510, 1, 0]);
    }
}
