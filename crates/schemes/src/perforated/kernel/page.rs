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
