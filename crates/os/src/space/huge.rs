//! Extents of 1GB pages.

use std::ops::Range;

use perforate_types::{Frame, HoleSet, PageSize, Permissions, VirtualPage};

use super::extent::{Extent, Mechanism, Part, Present, SharedBlock};
use super::{
    AddressSpace, Attributes, FrameVisitor, GIGABYTE_PAGES, GIGABYTE_REGIONS, Large, REGION_PAGES,
    SpaceMut, Usage, allowed, covers, gigabyte_of, region_of,
};
use crate::memory::{PhysicalMemory, Recount, blocks_of_huge, complement};
use crate::{FrameClass, OsError};

const SIZE: PageSize = PageSize::Size1G;

/// A 1GB page, as an extent of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Huge {
    /// First frame of the aligned 1GB run.
    pub run: Frame,
    /// Permissions of the whole 1GB page.
    pub permissions: Permissions,
}

impl Extent for Huge {
    fn mechanism(&self) -> &'static dyn Mechanism {
        &HugePages
    }

    fn pages(&self) -> u64 {
        GIGABYTE_PAGES
    }

    fn permissions(&self) -> Permissions {
        self.permissions
    }

    fn find(&self, offset: u64) -> Present {
        Present::InPlace(self.run.add(offset), self.permissions)
    }

    fn stays_whole(&self) -> bool {
        true
    }

    fn is_shared(&self, memory: &PhysicalMemory) -> bool {
        memory.any_shared_huge(self.run)
    }

    fn offset_of(&self, frame: Frame) -> Option<u64> {
        frame.number().checked_sub(self.run.number()).filter(|&offset| offset < GIGABYTE_PAGES)
    }

    fn share(&self, memory: &mut PhysicalMemory) {
        memory.share_huge(self.run);
    }

    fn release(&self, memory: &mut PhysicalMemory) {
        memory.release_huge(self.run);
    }

    fn with_permissions(&self, permissions: Permissions) -> Box<dyn Extent> {
        Box::new(Self { permissions, ..*self })
    }

    fn shared_block(&self, region: u64, wanted: &HoleSet) -> Option<SharedBlock> {
        let some = !wanted.is_empty();
        let (block, holes) = (self.run.add(region * REGION_PAGES), complement(wanted));
        some.then(|| SharedBlock { block, holes, moved: Vec::new() })
    }

    fn visit_frames(&self, visitor: &mut dyn FrameVisitor) {
        visitor.blocks(self.run, GIGABYTE_REGIONS, FrameClass::Huge);
    }

    fn forget_owners(&self, memory: &mut PhysicalMemory) {
        for block in blocks_of_huge(self.run) {
            memory.forget_owners(block, &HoleSet::FULL);
        }
    }

    fn check(
        &self,
        _first: VirtualPage,
        _space: &AddressSpace,
        usage: &mut Usage,
        recount: &mut Recount,
    ) -> Result<(), String> {
        (0..GIGABYTE_PAGES).for_each(|index| recount.map(self.run.add(index), None));
        usage.huge_pages += 1;
        Ok(())
    }
}

/// Operations on 1GB pages. A 1GB page is split into 2MB pages when a part of it changes.
pub(crate) struct HugePages;

impl Mechanism for HugePages {
    fn map(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        extent: Box<dyn Extent>,
    ) -> Result<(), OsError> {
        let huge = *extent.downcast::<Huge>();
        space.extend_tables(first, 3)?;
        space.tables.attach_huge(first);
        space.insert_wide(first, Box::new(huge));
        space.usage.huge_pages += 1;
        let Huge { run: frame, permissions } = huge;
        space.report_mapped(first, GIGABYTE_PAGES, frame, permissions);
        space.write_entry(first, SIZE, frame, permissions);
        Ok(())
    }

    fn unmap(&self, space: &mut SpaceMut<'_>, first: u64) -> Box<dyn Extent> {
        space.report_unmapped(first, GIGABYTE_PAGES);
        let huge = space.take_huge(first);
        space.tables.detach_huge(first);
        space.prune(first);
        Box::new(huge)
    }

    fn protect(&self, space: &mut SpaceMut<'_>, first: u64, permissions: Permissions) {
        let huge: &mut Huge = space.wide_mut(first).expect("a 1GB page");
        if huge.permissions == permissions {
            return;
        }
        huge.permissions = permissions;
        space.protect_entry(first, SIZE, permissions);
    }

    fn break_up(&self, space: &mut SpaceMut<'_>, first: u64) -> Result<(), OsError> {
        let node = space.allocate_directory()?;
        let Huge { run, permissions } = space.take_huge(first);
        space.ledger.done.huge_pages_split += 1;
        space.replace_huge(first, node);
        for (block, region) in blocks_of_huge(run).zip(region_of(first)..) {
            space.insert_large(region, Large { block, permissions });
        }
        Ok(())
    }

    fn protect_part(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        pages: &Range<u64>,
        attributes: &Attributes,
    ) -> Result<Part, OsError> {
        if !covers(pages, &(first..first + GIGABYTE_PAGES)) {
            return self.break_up(space, first).map(|()| Part::BrokenUp);
        }
        let shared = space.extent(first).is_shared(space.memory);
        self.protect(space, first, allowed(attributes, shared));
        Ok(Part::Done)
    }

    fn moves_as_one(&self, _space: &AddressSpace, _first: u64, _target: u64) -> bool {
        false
    }
}

impl AddressSpace {
    /// True if no page in the 1GB around `page` is mapped or swapped.
    pub(crate) fn is_gigabyte_empty(&self, page: u64) -> bool {
        let pages = super::pages_of_gigabyte(gigabyte_of(page));
        !self.tables.has_directory(page)
            && !self.wide.contains_key(&pages.start)
            && !self.any_swapped(pages)
    }
}

impl SpaceMut<'_> {
    /// Clears the page-table entry of a 1GB page and returns the page. The caller must report the change of
    /// the mapping of its 4KB pages.
    fn take_huge(&mut self, first: u64) -> Huge {
        let huge = self.take_wide(first).downcast::<Huge>();
        self.clear_entry(first, SIZE);
        self.usage.huge_pages -= 1;
        *huge
    }
}
