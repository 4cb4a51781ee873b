//! Operations on gap-tolerant superpages (G §3.8: install and release).
//!
//! A 2MB region has superpages or a level-1 node, never both: the entry of a node with its padding
//! takes the places of all of them (G §3.5). So a superpage of which a part changes becomes 4KB pages
//! where it lies, together with what else there is in its regions.

use std::any::Any;
use std::ops::Range;

use perforate_types::{
    Frame, GapTolerance, Permissions, Shootdown, SuperpageOperation, VirtualPage,
};

use super::extent::{Extent, Mechanism, Part, Present};
use super::region::no_entries;
use super::{
    AddressSpace, Attributes, Effects, FrameVisitor, Mapping, PAGES, Pages, Region, Usage, allowed,
    covers, first_of, region_of, regions_of, visit_run,
};
use crate::memory::{PhysicalMemory, Recount, Selected};
use crate::{FrameClass, OsError};

/// A gap-tolerant entry: one superpage, or a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superpage {
    /// B-blocks it maps.
    pub place: Selected,
    /// Permissions.
    pub permissions: Permissions,
    /// Mode of the page directory that holds the entry.
    pub mode: GapTolerance,
}

impl Superpage {
    /// Its frames, in the order of its pages.
    pub(crate) fn frames(self) -> impl Iterator<Item = Frame> {
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
        usage.superpage_pages += self.pages();
        self.frames().for_each(|frame| recount.map(frame, None));
        if let Some(number) = space.regions_within(&pages).first() {
            return Err(format!("region {number:#x} has a node beside superpage {first:?}"));
        }
        match space.areas.gaps(pages).first() {
            Some(gap) => Err(format!("superpage {first:?} has no area at {:#x}", gap.start)),
            None => Ok(()),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Acts on gap-tolerant entries. One of which a part changes becomes 4KB pages.
pub(crate) struct Superpages;

impl Mechanism for Superpages {
    fn map(
        &self,
        space: &mut AddressSpace,
        first: u64,
        extent: Box<dyn Extent>,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let superpage = *extent.into_any().downcast::<Superpage>().expect("a superpage");
        space.map_superpage(first, superpage, effects)
    }

    fn unmap(
        &self,
        space: &mut AddressSpace,
        first: u64,
        effects: &mut Effects<'_>,
    ) -> Box<dyn Extent> {
        space.tell_unmapped(first, space.extent(first).pages(), effects);
        let superpage = space.take_superpage(first, effects);
        space.tables.prune(first, effects);
        Box::new(superpage)
    }

    fn protect(
        &self,
        space: &mut AddressSpace,
        first: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        space.protect_superpage(first, permissions, effects);
    }

    fn break_up(
        &self,
        space: &mut AddressSpace,
        first: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        space.demote_superpages(first, effects)
    }

    fn protect_part(
        &self,
        space: &mut AddressSpace,
        first: u64,
        pages: &Range<u64>,
        attributes: &Attributes,
        effects: &mut Effects<'_>,
    ) -> Result<Part, OsError> {
        let extent = space.extent(first);
        let permissions = allowed(attributes, extent.is_shared(effects.memory));
        if covers(pages, &(first..first + extent.pages())) {
            space.protect_superpage(first, permissions, effects);
            return Ok(Part::Done);
        }
        if extent.permissions() == permissions {
            return Ok(Part::Done);
        }
        space.demote_superpages(first, effects).map(|()| Part::BrokenUp)
    }

    fn moves_as_one(&self, space: &AddressSpace, first: u64, target: u64) -> bool {
        let pages = space.extent(first).pages();
        target.is_multiple_of(pages)
            && regions_of(&(target..target + pages)).all(|number| space.region(number).is_none())
    }

    /// Moves it to other B-blocks, if nobody else maps it.
    fn relocate(&self, space: &mut AddressSpace, first: u64, effects: &mut Effects<'_>) -> bool {
        if space.extent(first).is_shared(effects.memory) {
            return false;
        }
        let Some(place) = effects.memory.allocate_superpage() else { return false };
        space.tell_unmapped(first, space.extent(first).pages(), effects);
        let old = space.take_superpage(first, effects);
        let moved = space.map_superpage(first, Superpage { place, ..old }, effects);
        moved.expect("the directory is there");
        effects.ledger.done.frames_migrated += old.pages();
        old.release(effects.memory);
        true
    }
}

impl AddressSpace {
    /// Maps a superpage entry at `page` where nothing is mapped.
    pub(crate) fn map_superpage(
        &mut self,
        page: u64,
        superpage: Superpage,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        self.tables.extend(page, 2, effects)?;
        self.tables.attach_region(page);
        self.insert_wide(page, Box::new(superpage));
        self.usage.superpage_pages += superpage.pages();
        let Superpage { place: Selected { slice, second, selection }, permissions, mode } =
            superpage;
        self.tell_superpage_mapped(page, superpage, effects);
        effects.ledger.done.pages_mapped += 1;
        effects.format(SuperpageOperation::Map {
            space: self.id,
            page: VirtualPage::new(page),
            mode,
            slice,
            second,
            selection,
            permissions,
        });
        Ok(())
    }

    /// The pages of a superpage entry are mapped: B-blocks beside one another are one run.
    fn tell_superpage_mapped(&self, page: u64, superpage: Superpage, effects: &mut Effects<'_>) {
        let Superpage { place, permissions, mode } = superpage;
        let block_frames = mode.block_frames();
        let mut blocks = place.blocks(mode).peekable();
        let mut first_page = page;
        while let Some(first) = blocks.next() {
            let mut pages = block_frames;
            while blocks.next_if_eq(&first.add(pages)).is_some() {
                pages += block_frames;
            }
            self.tell_mapped((first_page, pages), first, permissions, effects);
            first_page += pages;
        }
    }

    /// Gives the superpage entry at `page` other permissions.
    fn protect_superpage(
        &mut self,
        page: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        let superpage: &mut Superpage = self.wide_mut(page).expect("a superpage");
        if superpage.permissions == permissions {
            return;
        }
        superpage.permissions = permissions;
        let (mode, pages) = (superpage.mode, superpage.pages());
        self.tell_protected((page, pages), permissions, effects);
        effects.ledger.done.pages_protected += 1;
        let (space, page) = (self.id, VirtualPage::new(page));
        effects.format(SuperpageOperation::Protect { space, page, mode, permissions });
        effects.shootdown(Shootdown::Superpage { space, page, mode });
    }

    /// Makes 4KB pages of the superpages in the regions of the entry at `page`, where they lie.
    fn demote_superpages(&mut self, page: u64, effects: &mut Effects<'_>) -> Result<(), OsError> {
        let regions = regions_of(&(page..page + self.extent(page).pages()));
        let mut nodes = Vec::new();
        for _ in regions.clone() {
            match effects.memory.allocate_nodes(0) {
                Ok(node) => nodes.push(node),
                Err(error) => {
                    nodes.iter().for_each(|&node| effects.memory.free(node, 0));
                    return Err(error);
                }
            }
        }
        let mut pages = Vec::new();
        for page in self.wide_within(&(first_of(regions.start)..first_of(regions.end))) {
            let superpage = self.take_superpage(page, effects);
            effects.ledger.done.superpages_demoted += 1;
            let frames = superpage.frames();
            pages.extend((page..).zip(frames.map(|frame| (frame, superpage.permissions))));
        }
        for (number, node) in regions.zip(nodes) {
            let of_region = pages.iter().filter(|(page, _)| region_of(*page) == number);
            self.open_with(number, node, of_region.copied(), effects);
        }
        Ok(())
    }

    /// Opens a region with these 4KB pages, which were mapped before.
    fn open_with(
        &mut self,
        number: u64,
        node: Frame,
        pages: impl Iterator<Item = (u64, (Frame, Permissions))>,
        effects: &mut Effects<'_>,
    ) {
        self.usage.leaf_nodes += 1;
        self.add_leaf_node(number, node, PAGES, effects);
        self.tables.attach_region(first_of(number));
        let mapping = Mapping::Pages(Pages { node, used: 0, entries: no_entries() });
        self.regions.insert(number, Region { mapping, fragment: None });
        for (page, (frame, permissions)) in pages {
            self.write_page(page, frame, permissions, effects).expect("the node is there");
        }
        self.close_pages_if_empty(number, effects);
    }

    /// Clears the entry but leaves the nodes above it. What becomes of its pages the caller says.
    fn take_superpage(&mut self, page: u64, effects: &mut Effects<'_>) -> Superpage {
        let superpage =
            *self.take_wide(page).into_any().downcast::<Superpage>().expect("superpage");
        let (space, mode) = (self.id, superpage.mode);
        let first = VirtualPage::new(page);
        effects.ledger.done.pages_unmapped += 1;
        effects.format(SuperpageOperation::Unmap { space, page: first, mode });
        effects.shootdown(Shootdown::Superpage { space, page: first, mode });
        self.usage.superpage_pages -= mode.entry_pages();
        self.tables.detach_region(page);
        superpage
    }

    /// Whether nothing is mapped or swapped in any 2MB region of `pages`.
    pub(crate) fn is_clear_for_superpages(&self, pages: &Range<u64>) -> bool {
        let regions = regions_of(pages);
        let whole = first_of(regions.start)..first_of(regions.end);
        self.wide_within(&whole).is_empty()
            && regions.into_iter().all(|number| self.region(number).is_none())
            && !self.is_claimed(&whole)
            && !self.any_swapped(whole)
    }
}
