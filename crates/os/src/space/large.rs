//! Extents of ordinary 2MB pages.

use std::ops::Range;

use perforate_types::{Frame, HoleSet, PageSize, Permissions, VirtualPage};

use super::extent::{Extent, Mechanism, Part, Present, SharedBlock};
use super::{
    AddressSpace, Attributes, Entries, FrameVisitor, Mapping, PAGES, Pages, REGION_PAGES, Region,
    RegionPlace, SpaceMut, Usage, allowed, first_of, leaf, page_at, pages_of, region_of,
    subpages_of,
};
use crate::memory::{PhysicalMemory, Recount, complement};
use crate::{FrameClass, OsError};

const SIZE: PageSize = PageSize::Size2M;

/// An ordinary 2MB page, as an extent of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    /// First frame of the 2MB block.
    pub block: Frame,
    /// Permissions of the whole 2MB page.
    pub permissions: Permissions,
}

impl Extent for Large {
    fn mechanism(&self) -> &'static dyn Mechanism {
        &LargePages
    }

    fn pages(&self) -> u64 {
        REGION_PAGES
    }

    fn permissions(&self) -> Permissions {
        self.permissions
    }

    fn find(&self, offset: u64) -> Present {
        Present::InPlace(self.block.add(offset), self.permissions)
    }

    fn may_have_holes(&self) -> bool {
        true
    }

    fn is_shared(&self, memory: &PhysicalMemory) -> bool {
        memory.any_shared(self.block, &HoleSet::FULL)
    }

    fn offset_of(&self, frame: Frame) -> Option<u64> {
        frame.number().checked_sub(self.block.number()).filter(|&offset| offset < REGION_PAGES)
    }

    fn share(&self, memory: &mut PhysicalMemory) {
        memory.share_block(self.block, &HoleSet::FULL);
    }

    fn release(&self, memory: &mut PhysicalMemory) {
        memory.release_block(self.block, &HoleSet::FULL);
    }

    fn with_permissions(&self, permissions: Permissions) -> Box<dyn Extent> {
        Box::new(Self { permissions, ..*self })
    }

    fn shared_block(&self, _region: u64, wanted: &HoleSet) -> Option<SharedBlock> {
        let some = !wanted.is_empty();
        let (block, holes) = (self.block, complement(wanted));
        some.then(|| SharedBlock { block, holes, moved: Vec::new() })
    }

    fn visit_frames(&self, visitor: &mut dyn FrameVisitor) {
        visitor.blocks(self.block, 1, FrameClass::Large);
    }

    fn forget_owners(&self, memory: &mut PhysicalMemory) {
        memory.forget_owners(self.block, &HoleSet::FULL);
    }

    fn check(
        &self,
        _first: VirtualPage,
        _space: &AddressSpace,
        usage: &mut Usage,
        recount: &mut Recount,
    ) -> Result<(), String> {
        recount.map_in_place(self.block, &HoleSet::FULL);
        usage.large_pages += 1;
        Ok(())
    }
}

/// Operations on ordinary 2MB pages. To detach a sub-page, they give the 2MB page a hole if the address space
/// has a mechanism for holes; otherwise they split the page.
pub(crate) struct LargePages;

impl Mechanism for LargePages {
    fn map(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        extent: Box<dyn Extent>,
    ) -> Result<(), OsError> {
        space.map_large(region_of(first), *extent.downcast())
    }

    fn unmap(&self, space: &mut SpaceMut<'_>, first: u64) -> Box<dyn Extent> {
        space.report_unmapped(first, REGION_PAGES);
        let large = space.take_large(region_of(first));
        space.close_region(region_of(first));
        Box::new(large)
    }

    fn protect(&self, space: &mut SpaceMut<'_>, first: u64, permissions: Permissions) {
        let large = space.large_mut(region_of(first));
        if large.permissions != permissions {
            large.permissions = permissions;
            space.protect_entry(first, SIZE, permissions);
        }
    }

    fn break_up(&self, space: &mut SpaceMut<'_>, first: u64) -> Result<(), OsError> {
        space.split_large(region_of(first), &HoleSet::FULL).map(|_| ())
    }

    fn drop_subpages(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        subpages: &HoleSet,
    ) -> Result<Part, OsError> {
        if let Some(holes) = space.holes {
            return holes.drop_subpages(space, first, subpages);
        }
        let large = space.split_large(region_of(first), &complement(subpages))?;
        space.memory.release_block(large.block, subpages);
        Ok(Part::Done)
    }

    fn protect_part(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        pages: &Range<u64>,
        attributes: &Attributes,
    ) -> Result<Part, OsError> {
        let number = region_of(first);
        let subpages = subpages_of(pages, number);
        let large = *space.large_mut(number);
        let permissions = allowed(attributes, space.memory.any_shared(large.block, &subpages));
        if large.permissions == permissions {
            return Ok(Part::Done);
        }
        if subpages == HoleSet::FULL {
            self.protect(space, first, permissions);
            return Ok(Part::Done);
        }
        match space.holes {
            Some(holes) => holes.protect_part(space, first, pages, attributes),
            None => self.break_up(space, first).map(|()| Part::BrokenUp),
        }
    }

    fn moves_as_one(&self, _space: &AddressSpace, _first: u64, target: u64) -> bool {
        target.is_multiple_of(REGION_PAGES)
    }
}

impl AddressSpace {
    /// Ordinary 2MB pages that may be migrated: first frame of the block, and 2MB region that is mapped to
    /// the block.
    pub(crate) fn movable_large_pages(&self) -> impl Iterator<Item = (Frame, RegionPlace)> + '_ {
        self.regions.iter().filter_map(|(number, region)| {
            let large = region.mapping.extent()?.downcast_ref::<Large>()?;
            let may_move = region.fragment.is_none() && !self.is_claimed(&pages_of(number));
            may_move.then_some((large.block, (self.id, number)))
        })
    }

    pub(super) fn large_mut(&mut self, number: u64) -> &mut Large {
        self.region_extent_mut(number).expect("an ordinary 2MB page")
    }
}

impl SpaceMut<'_> {
    /// Maps the unmapped 2MB region `number` by the ordinary 2MB page `large`.
    pub fn map_large(&mut self, number: u64, large: Large) -> Result<(), OsError> {
        self.write_large(number, large)?;
        self.report_mapped(first_of(number), REGION_PAGES, large.block, large.permissions);
        Ok(())
    }

    /// Writes the entry of a 2MB page without reporting new mappings, because smaller or larger
    /// entries mapped the region before.
    pub fn write_large(&mut self, number: u64, large: Large) -> Result<(), OsError> {
        self.extend_tables(first_of(number), 2)?;
        self.insert_large(number, large);
        Ok(())
    }

    /// Like [`Self::write_large`], but the level-2 node for the 2MB entry must exist already.
    pub(super) fn insert_large(&mut self, number: u64, large: Large) {
        self.tables.attach_region(first_of(number));
        let region = Region { mapping: Mapping::Extent(Box::new(large)), fragment: None };
        assert!(self.regions.insert(number, region).is_none(), "mapped twice");
        self.usage.large_pages += 1;
        self.write_entry(first_of(number), SIZE, large.block, large.permissions);
    }

    /// Replaces the 4KB pages of a 2MB region by a 2MB page. Returns the old entries, whose frames the caller
    /// must release.
    pub(crate) fn replace_by_large(&mut self, number: u64, large: Large) -> Entries {
        let entries = self.take_pages(number, Box::new(large));
        self.usage.large_pages += 1;
        let (first, Large { block, permissions }) = (first_of(number), large);
        self.report_mapped(first, REGION_PAGES, block, permissions);
        self.write_entry(first, SIZE, block, permissions);
        entries
    }

    /// Splits a 2MB page into 4KB pages and returns it. Sub-pages outside `keep` are unmapped, and the
    /// caller must release their frames.
    pub fn split_large(&mut self, number: u64, keep: &HoleSet) -> Result<Large, OsError> {
        let node = self.allocate_node()?;
        self.report_subpages_unmapped(number, &complement(keep));
        let large = self.take_large(number);
        self.ledger.done.large_pages_split += 1;
        self.add_node(number, node, PAGES);
        let mut entries = Entries::default();
        for index in keep.iter() {
            let (page, frame) = (page_at(number, index), large.block.add(index as u64));
            entries.replace(index, leaf(frame, large.permissions));
            self.memory.set_owner(frame, self.id, VirtualPage::new(page));
            self.write_entry(page, PageSize::Size4K, frame, large.permissions);
        }
        let used = keep.count() as u32;
        self.usage.pages += u64::from(used);
        let region = self.regions.get_mut(&number).expect("mapped region");
        region.mapping = Mapping::Pages(Pages::new(node, used, entries));
        self.note_folios_of(number, keep);
        self.close_pages_if_empty(number);
        Ok(large)
    }

    /// Maps a 2MB page to another block. Returns its old block, which the caller must release.
    pub(crate) fn move_large(&mut self, number: u64, to: Frame) -> Frame {
        self.report_unmapped(first_of(number), REGION_PAGES);
        let Large { block, permissions } = self.take_large(number);
        let large = Large { block: to, permissions };
        let region = self.regions.get_mut(&number).expect("its record was left");
        region.mapping = Mapping::Extent(Box::new(large));
        self.usage.large_pages += 1;
        self.report_mapped(first_of(number), REGION_PAGES, to, permissions);
        self.write_entry(first_of(number), SIZE, to, permissions);
        block
    }

    /// Clears the page-table entry of a 2MB page but keeps the record of its region. The caller must report
    /// the change of the mapping of its 4KB sub-pages.
    fn take_large(&mut self, number: u64) -> Large {
        let large = *self.large_mut(number);
        let region = self.regions.get_mut(&number).expect("mapped region");
        region.mapping = Mapping::Changing;
        self.clear_entry(first_of(number), SIZE);
        self.usage.large_pages -= 1;
        large
    }
}
