//! Operations on gap-tolerant superpages (G §3.8: install and release).
//!
//! A 2MB region has either superpages or a level-1 node: the pointer to a node and its padding
//! occupy the entries of all superpages in the region (G §3.5). So if a part of a superpage
//! changes, all superpages in its regions are demoted to 4KB pages in place.

use std::ops::Range;

use perforate_os::mechanism::{
    AddressSpace, Attributes, Extent, FrameVisitor, Mechanism, Part, PhysicalMemory, Present,
    Recount, SpaceMut, Usage, allowed, covers, expect, first_of, region_of, regions_of, visit_run,
};
use perforate_os::{FrameClass, OsError};
use perforate_types::{Frame, GapTolerance, Permissions, Shootdown, VirtualPage};

use super::granularities;
use super::slices::Selected;
use crate::gap_tolerant::SuperpageOperation;

/// Mapping of a gap-tolerant entry: one superpage, or a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Superpage {
    /// Slices and B-blocks that the gap-tolerant entry maps.
    pub place: Selected,
    /// Accesses that the gap-tolerant entry allows.
    pub permissions: Permissions,
    /// Mode of the page directory that contains the entry: size of B-blocks, single or paired
    /// entries.
    pub mode: GapTolerance,
}

impl Superpage {
    /// Frames of the entry, in the order of its pages.
    pub(super) fn frames(self) -> impl Iterator<Item = Frame> {
        let blocks = self.place.blocks(self.mode);
        let length = self.mode.block_frames();
        blocks.flat_map(move |block| (0..length).map(move |index| block.add(index)))
    }
}

impl Extent for Superpage {
    fn mechanism(&self) -> &'static dyn Mechanism {
        &Superpages
    }

    fn pages(&self) -> u64 {
        self.mode.entry_pages()
    }

    fn permissions(&self) -> Permissions {
        self.permissions
    }

    fn find(&self, offset: u64) -> Present {
        let block = self.place.block(self.mode, offset >> self.mode.block_order());
        let frame = block.add(offset & (self.mode.block_frames() - 1));
        Present::InPlace(frame, self.permissions)
    }

    fn is_shared(&self, memory: &PhysicalMemory) -> bool {
        self.frames().any(|frame| memory.is_shared(frame))
    }

    fn offset_of(&self, frame: Frame) -> Option<u64> {
        let slice = Frame::new(frame.number() - frame.number() % self.mode.slice_frames());
        let is_near = self.place.slice == slice || self.place.second == slice;
        let offset = is_near.then(|| self.frames().position(|of| of == frame)).flatten();
        offset.map(|offset| offset as u64)
    }

    fn share(&self, memory: &mut PhysicalMemory) {
        self.frames().for_each(|frame| memory.share(frame));
    }

    fn release(&self, memory: &mut PhysicalMemory) {
        self.frames().for_each(|frame| memory.release(frame));
    }

    fn with_permissions(&self, permissions: Permissions) -> Box<dyn Extent> {
        Box::new(Self { permissions, ..*self })
    }

    fn visit_frames(&self, visitor: &mut dyn FrameVisitor) {
        for block in self.place.blocks(self.mode) {
            let first = block.number();
            visit_run(first..first + self.mode.block_frames(), FrameClass::Superpage, visitor);
        }
    }

    fn forget_owners(&self, memory: &mut PhysicalMemory) {
        self.frames().for_each(|frame| memory.forget_owner(frame));
    }

    fn check(
        &self,
        first: VirtualPage,
        space: &AddressSpace,
        usage: &mut Usage,
        recount: &mut Recount,
    ) -> Result<(), String> {
        let pages = first.number()..first.number() + self.pages();
        usage.wide_pages += self.pages();
        self.frames().for_each(|frame| recount.map(frame, None));
        if let Some(number) = regions_of(&pages).find(|&number| space.is_region_mapped(number)) {
            return Err(format!("region {number:#x} has a node beside superpage {first:?}"));
        }
        let areas = space.areas_within(pages);
        let covered = areas.map(|area| area.end - area.start).sum();
        expect("pages of a superpage in areas", self.pages(), covered)
    }
}

/// Operations of the kernel on gap-tolerant entries, such as splitting, moving and protecting. A
/// change of a part of an entry demotes its superpages to 4KB pages.
pub(super) struct Superpages;

impl Mechanism for Superpages {
    fn map(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        extent: Box<dyn Extent>,
    ) -> Result<(), OsError> {
        let superpage = *extent.downcast::<Superpage>();
        map_superpage(space, first, superpage)
    }

    fn unmap(&self, space: &mut SpaceMut<'_>, first: u64) -> Box<dyn Extent> {
        space.report_unmapped(first, space.extent(first).pages());
        let superpage = take_superpage(space, first);
        space.prune(first);
        Box::new(superpage)
    }

    fn protect(&self, space: &mut SpaceMut<'_>, first: u64, permissions: Permissions) {
        let page = first;
        let superpage: &mut Superpage = space.extent_mut(page).expect("a superpage");
        if superpage.permissions == permissions {
            return;
        }
        superpage.permissions = permissions;
        let (mode, pages) = (superpage.mode, superpage.pages());
        space.report_protected(page, pages, permissions);
        space.work().pages_protected += 1;
        let (id, page) = (space.id(), VirtualPage::new(page));
        space.format(SuperpageOperation::Protect { space: id, page, mode, permissions });
        space.shootdown(Shootdown::Superpage { space: id, page, mode });
    }

    /// Demotes the superpages in the entry's 2MB regions to 4KB pages in place.
    fn break_up(&self, space: &mut SpaceMut<'_>, first: u64) -> Result<(), OsError> {
        let page = first;
        let regions = regions_of(&(page..page + space.extent(page).pages()));
        let mut nodes = Vec::new();
        for _ in regions.clone() {
            match space.allocate_table() {
                Ok(node) => nodes.push(node),
                Err(error) => {
                    nodes.iter().for_each(|&node| space.free_table(node));
                    return Err(error);
                }
            }
        }
        let mut pages = Vec::new();
        for page in space.wide_within(&(first_of(regions.start)..first_of(regions.end))) {
            let superpage = take_superpage(space, page);
            space.work().superpages_demoted += 1;
            let frames = superpage.frames();
            pages.extend(
                (page..).zip(frames).map(|(page, frame)| (page, frame, superpage.permissions)),
            );
        }
        for (number, node) in regions.zip(nodes) {
            let of_region = pages.iter().filter(|(page, ..)| region_of(*page) == number);
            space.open_region(number, node, of_region.copied());
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
        let extent = space.extent(first);
        let permissions = allowed(attributes, extent.is_shared(space.memory));
        if covers(pages, &(first..first + extent.pages())) {
            self.protect(space, first, permissions);
            return Ok(Part::Done);
        }
        if extent.permissions() == permissions {
            return Ok(Part::Done);
        }
        self.break_up(space, first).map(|()| Part::BrokenUp)
    }

    fn moves_as_one(&self, space: &AddressSpace, first: u64, target: u64) -> bool {
        let pages = space.extent(first).pages();
        target.is_multiple_of(pages)
            && regions_of(&(target..target + pages)).all(|number| !space.is_region_mapped(number))
    }

    /// Moves the entry's superpages to other B-blocks. Returns false if another mapping shares
    /// their frames, or no suitable B-blocks are free.
    fn relocate(&self, space: &mut SpaceMut<'_>, first: u64) -> bool {
        if space.extent(first).is_shared(space.memory) {
            return false;
        }
        let Some(mode) = space.tables().gap_tolerance else { return false };
        let Some(place) = granularities::allocate(space.memory, mode) else { return false };
        space.report_unmapped(first, space.extent(first).pages());
        let old = take_superpage(space, first);
        let moved = map_superpage(space, first, Superpage { place, ..old });
        moved.expect("the directory is there");
        space.migrated(old.pages());
        old.release(space.memory);
        true
    }
}

/// Maps a gap-tolerant entry at `page`, where no page is mapped.
pub(super) fn map_superpage(
    space: &mut SpaceMut<'_>,
    page: u64,
    superpage: Superpage,
) -> Result<(), OsError> {
    space.insert_extent(page, Box::new(superpage))?;
    let Superpage { place: Selected { slice, second, selection }, permissions, mode } = superpage;
    report_superpage_mapped(space, page, superpage);
    space.work().pages_mapped += 1;
    space.format(SuperpageOperation::Map {
        space: space.id(),
        page: VirtualPage::new(page),
        mode,
        slice,
        second,
        selection,
        permissions,
    });
    Ok(())
}

/// Reports to the oracle which frames the pages of a gap-tolerant entry are mapped to; contiguous
/// B-blocks form one run.
fn report_superpage_mapped(space: &mut SpaceMut<'_>, page: u64, superpage: Superpage) {
    let Superpage { place, permissions, mode } = superpage;
    let block_frames = mode.block_frames();
    let mut blocks = place.blocks(mode).peekable();
    let mut first_page = page;
    while let Some(first) = blocks.next() {
        let mut pages = block_frames;
        while blocks.next_if_eq(&first.add(pages)).is_some() {
            pages += block_frames;
        }
        space.report_mapped(first_page, pages, first, permissions);
        first_page += pages;
    }
}

/// Clears a gap-tolerant entry but keeps the page-table nodes above it. The oracle is not informed:
/// the caller must report the unmapping or new mapping of the pages.
fn take_superpage(space: &mut SpaceMut<'_>, page: u64) -> Superpage {
    let extent = space.take_extent(page);
    let superpage = *extent.downcast::<Superpage>();
    let (id, mode) = (space.id(), superpage.mode);
    let page = VirtualPage::new(page);
    space.work().pages_unmapped += 1;
    space.format(SuperpageOperation::Unmap { space: id, page, mode });
    space.shootdown(Shootdown::Superpage { space: id, page, mode });
    superpage
}
