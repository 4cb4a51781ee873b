//! Operations on gap-tolerant superpages (G §3.8: install and release).
//!
//! A 2MB region has superpages or a level-1 node, never both: the entry of a node with its padding
//! takes the places of all of them (G §3.5). So a superpage of which a part changes becomes 4KB pages
//! where it lies, together with what else there is in its regions.

use std::ops::Range;

use perforate_types::{
    Frame, GapTolerance, Permissions, Shootdown, SuperpageOperation, VirtualPage,
};

use super::region::no_entries;
use super::{
    AddressSpace, Effects, Mapping, PAGES, Pages, Present, Region, first_of, region_of, regions_of,
};
use crate::OsError;
use crate::memory::{PhysicalMemory, Selected};

/// A gap-tolerant entry: one superpage, or a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superpage {
    /// Where it lies.
    pub place: Selected,
    /// What it allows.
    pub permissions: Permissions,
}

impl Superpage {
    /// Its frames, in the order of its pages.
    pub(crate) fn frames(self, mode: GapTolerance) -> impl Iterator<Item = Frame> {
        let blocks = self.place.blocks(mode);
        blocks.flat_map(move |block| (0..mode.block_frames()).map(move |index| block.add(index)))
    }

    /// Whether any of its frames has more than one mapping.
    pub(crate) fn is_shared(self, mode: GapTolerance, memory: &PhysicalMemory) -> bool {
        self.frames(mode).any(|frame| memory.is_shared(frame))
    }

    /// One mapping less of each of its frames.
    pub(crate) fn release(self, mode: GapTolerance, memory: &mut PhysicalMemory) {
        self.frames(mode).for_each(|frame| memory.release(frame));
    }
}

impl AddressSpace {
    /// The mode of its superpages.
    ///
    /// # Panics
    /// If its page tables have none.
    pub(crate) fn mode(&self) -> GapTolerance {
        self.gap_tolerance.expect("the page tables have gap-tolerant entries")
    }

    /// The superpage entry whose first page is `page`.
    pub(crate) fn superpage(&self, page: u64) -> Superpage {
        self.superpages[&page]
    }

    /// Whether there is a superpage entry whose first page is `page`.
    pub(crate) fn has_superpage(&self, page: u64) -> bool {
        self.superpages.contains_key(&page)
    }

    /// First page of the entry around `page`.
    pub(crate) fn superpage_start(&self, page: u64) -> u64 {
        page & !(self.mode().entry_pages() - 1)
    }

    pub(super) fn find_superpage(&self, page: u64) -> Option<Present> {
        if self.superpages.is_empty() {
            return None;
        }
        let mode = self.mode();
        let start = self.superpage_start(page);
        let superpage = self.superpages.get(&start)?;
        let index = page - start;
        let block = superpage.place.block(mode, index >> mode.block_order());
        let frame = block.add(index & (mode.block_frames() - 1));
        Some(Present::Superpage(frame, superpage.permissions))
    }

    /// First pages of the entries that touch `pages`.
    pub(crate) fn superpages_within(&self, pages: &Range<u64>) -> Vec<u64> {
        if self.superpages.is_empty() || pages.is_empty() {
            return Vec::new();
        }
        let first = self.superpage_start(pages.start);
        self.superpages.range(first..pages.end).map(|(&page, _)| page).collect()
    }

    /// The pages of the entry at `page`.
    pub(crate) fn superpage_pages(&self, page: u64) -> Range<u64> {
        page..page + self.mode().entry_pages()
    }

    /// The frames that its entries map, with their first pages.
    pub(crate) fn superpages(&self) -> impl Iterator<Item = (u64, Superpage)> + '_ {
        self.superpages.iter().map(|(&page, &superpage)| (page, superpage))
    }

    /// The entry that maps `frame`, and the page.
    pub(crate) fn superpage_of(&self, frame: Frame) -> Option<u64> {
        let mode = self.gap_tolerance?;
        let slice = Frame::new(frame.number() - frame.number() % mode.slice_frames());
        let near = self.superpages().filter(|(_, superpage)| {
            superpage.place.slice == slice || superpage.place.second == slice
        });
        near.into_iter().find_map(|(page, superpage)| {
            let index = superpage.frames(mode).position(|of| of == frame)?;
            Some(page + index as u64)
        })
    }

    /// Maps a superpage entry at `page` where nothing is mapped.
    pub(crate) fn map_superpage(
        &mut self,
        page: u64,
        superpage: Superpage,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        self.tables.extend(page, 2, effects)?;
        self.tables.attach_region(page);
        let before = self.superpages.insert(page, superpage);
        assert!(before.is_none(), "mapped twice");
        self.usage.superpage_pages += self.mode().entry_pages();
        let Superpage { place: Selected { slice, second, selection }, permissions } = superpage;
        self.tell_superpage_mapped(page, superpage, effects);
        effects.ledger.done.pages_mapped += 1;
        effects.format(SuperpageOperation::Map {
            space: self.id,
            page: VirtualPage::new(page),
            mode: self.mode(),
            slice,
            second,
            selection,
            permissions,
        });
        Ok(())
    }

    /// The pages of a superpage entry are mapped: B-blocks beside one another are one run.
    fn tell_superpage_mapped(&self, page: u64, superpage: Superpage, effects: &mut Effects<'_>) {
        let Superpage { place, permissions } = superpage;
        let block_frames = self.mode().block_frames();
        let mut blocks = place.blocks(self.mode()).peekable();
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

    /// Unmaps the superpage entry at `page`; the references to its frames are now the caller's.
    pub(crate) fn unmap_superpage(&mut self, page: u64, effects: &mut Effects<'_>) -> Superpage {
        self.tell_unmapped(page, self.mode().entry_pages(), effects);
        let superpage = self.take_superpage(page, effects);
        self.tables.prune(page, effects);
        superpage
    }

    /// Maps the superpage entry at `page` to other B-blocks; the references to the frames it had are
    /// now the caller's.
    pub(crate) fn move_superpage_to(
        &mut self,
        page: u64,
        place: Selected,
        effects: &mut Effects<'_>,
    ) -> Superpage {
        self.tell_unmapped(page, self.mode().entry_pages(), effects);
        let old = self.take_superpage(page, effects);
        let moved = self.map_superpage(page, Superpage { place, ..old }, effects);
        moved.expect("the directory is there");
        old
    }

    /// Gives the superpage entry at `page` other permissions.
    pub(crate) fn protect_superpage(
        &mut self,
        page: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        let superpage = self.superpages.get_mut(&page).expect("superpage");
        if superpage.permissions == permissions {
            return;
        }
        superpage.permissions = permissions;
        self.tell_protected((page, self.mode().entry_pages()), permissions, effects);
        effects.ledger.done.pages_protected += 1;
        let (space, mode, page) = (self.id, self.mode(), VirtualPage::new(page));
        effects.format(SuperpageOperation::Protect { space, page, mode, permissions });
        effects.shootdown(Shootdown::Superpage { space, page, mode });
    }

    /// Makes 4KB pages of the superpages in the regions of the entry at `page`, where they lie.
    pub(crate) fn demote_superpages(
        &mut self,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let regions = regions_of(&self.superpage_pages(page));
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
        for page in self.superpages_within(&(first_of(regions.start)..first_of(regions.end))) {
            let superpage = self.take_superpage(page, effects);
            effects.ledger.done.superpages_demoted += 1;
            let frames = superpage.frames(self.mode());
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
        let superpage = self.superpages.remove(&page).expect("superpage");
        let (space, mode) = (self.id, self.mode());
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
        self.superpages_within(&whole).is_empty()
            && regions.into_iter().all(|number| self.region(number).is_none())
            && self.huge_within(&whole).is_empty()
            && !self.meets_segment(&whole)
            && !self.any_swapped(whole)
    }
}
