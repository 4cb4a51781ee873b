//! Operations on 4KB pages.

use std::ops::Range;

use perforate_types::{Frame, HoleSet, PageSize, Permissions, VirtualPage};

use super::{
    AddressSpace, Entries, Extent, Mapping, PAGES, Pages, Region, SpaceMut, first_of, index_of,
    leaf, page_at, pages_of, region_of,
};
use crate::OsError;

impl AddressSpace {
    /// Writes the 4KB entry of an unmapped page into the level-1 node of its 2MB region. Returns false if the
    /// region has no such node.
    fn set_page(&mut self, page: u64, frame: Frame, permissions: Permissions) -> bool {
        let Some(region) = self.regions.get_mut(&region_of(page)) else { return false };
        let Mapping::Pages(pages) = &mut region.mapping else {
            unreachable!("{page:#x} is mapped by a 2MB page")
        };
        let before = pages.entries.replace(index_of(page), leaf(frame, permissions));
        assert!(!before.is_present(), "mapped twice");
        pages.used += 1;
        true
    }

    /// Indices of the mapped 4KB pages of a 2MB region.
    pub(crate) fn mapped_pages(&self, number: u64) -> HoleSet {
        match self.regions.get(&number).map(|region| &region.mapping) {
            Some(Mapping::Pages(pages)) => {
                pages.entries.present().map(|(index, _)| index).collect()
            }
            _ => HoleSet::EMPTY,
        }
    }

    /// True if the 2MB region has a level-1 node whose entries for these sub-pages are empty, and nothing else
    /// decides what the first touches of the sub-pages map: no overlay, and no content in swap.
    pub(crate) fn has_vacant_entries(&self, number: u64, subpages: &HoleSet) -> bool {
        let has_node = matches!(
            self.region(number).map(|region| &region.mapping),
            Some(Mapping::Pages(pages)) if pages.entries.present().all(|(index, _)| !subpages.contains(index))
        );
        has_node && !self.any_held_elsewhere(&pages_of(number))
    }

    fn pages_mut(&mut self, page: u64) -> &mut Pages {
        let region = self.regions.get_mut(&region_of(page)).expect("mapped region");
        match &mut region.mapping {
            Mapping::Pages(pages) => pages,
            _ => unreachable!("{page:#x} is mapped by a 2MB page"),
        }
    }
}

impl SpaceMut<'_> {
    /// Ensures that `page` has a level-1 node. No 2MB page may map its region; larger pages are broken up.
    pub fn open_pages(&mut self, page: u64) -> Result<(), OsError> {
        let number = region_of(page);
        if self.regions.contains_key(&number) {
            return Ok(());
        }
        if let Some(&first) = self.wide_within(&pages_of(number)).first() {
            self.mechanism(first).break_up(self, first)?;
            return self.open_pages(page);
        }
        let node = self.open_node(number, PAGES)?;
        let mapping = Mapping::Pages(Pages::new(node, 0, Entries::default()));
        self.regions.insert(number, Region { mapping, fragment: None });
        Ok(())
    }

    /// Creates the level-1 node of a 2MB region with 4KB entries for `pages`, without reporting new mappings,
    /// because other entries mapped the pages before. `node` is a frame from [`SpaceMut::allocate_table`].
    pub fn open_region(
        &mut self,
        number: u64,
        node: Frame,
        pages: impl IntoIterator<Item = (u64, Frame, Permissions)>,
    ) {
        self.usage.leaf_nodes += 1;
        self.tables.attach_region(first_of(number));
        self.regions.insert(number, Region { mapping: Mapping::Changing, fragment: None });
        self.refill_region(number, node, pages);
    }

    /// Like [`Self::open_region`], for a 2MB region whose large page was removed from the records.
    pub fn refill_region(
        &mut self,
        number: u64,
        node: Frame,
        pages: impl IntoIterator<Item = (u64, Frame, Permissions)>,
    ) {
        self.add_node(number, node, PAGES);
        let region = self.regions.get_mut(&number).expect("its record was left");
        region.mapping = Mapping::Pages(Pages::new(node, 0, Entries::default()));
        for (page, frame, permissions) in pages {
            self.write_page(page, frame, permissions).expect("the node is there");
        }
        self.close_pages_if_empty(number);
    }

    /// Removes the level-1 node of the 2MB region if the node is empty.
    pub(crate) fn close_pages_if_empty(&mut self, number: u64) {
        let Some(Region { mapping: Mapping::Pages(pages), .. }) = self.regions.get(&number) else {
            return;
        };
        if pages.used == 0 {
            let node = pages.node;
            self.remove_node(number, node, PAGES);
            self.close_region(number);
        }
    }

    /// Maps an unmapped 4KB page to `frame`. Creates the level-1 node if necessary.
    pub fn map_page(
        &mut self,
        page: u64,
        frame: Frame,
        permissions: Permissions,
    ) -> Result<(), OsError> {
        self.write_page(page, frame, permissions)?;
        self.report_mapped(page, 1, frame, permissions);
        Ok(())
    }

    /// Maps adjacent unmapped 4KB pages, from `first` on, to adjacent frames. The pages are in one 2MB region, which has a
    /// level-1 node.
    pub(crate) fn map_pages(&mut self, first: u64, frames: Range<u64>, permissions: Permissions) {
        let count = frames.end - frames.start;
        let pages = self.pages_mut(first);
        for (index, frame) in (index_of(first)..).zip(frames.clone()) {
            let before = pages.entries.replace(index, leaf(Frame::new(frame), permissions));
            assert!(!before.is_present(), "mapped twice");
        }
        pages.used += count as u32;
        self.usage.pages += count;
        for (page, frame) in (first..).zip(frames.clone()) {
            self.memory.set_owner(Frame::new(frame), self.id, VirtualPage::new(page));
            self.write_entry(page, PageSize::Size4K, Frame::new(frame), permissions);
        }
        self.report_mapped(first, count, Frame::new(frames.start), permissions);
    }

    /// Writes the entry of a 4KB page without reporting a new mapping, because other entries mapped
    /// the page before.
    pub fn write_page(
        &mut self,
        page: u64,
        frame: Frame,
        permissions: Permissions,
    ) -> Result<(), OsError> {
        // Most pages are not the first of their region, so one look-up suffices.
        if !self.set_page(page, frame, permissions) {
            self.open_pages(page)?;
            assert!(self.set_page(page, frame, permissions), "just opened");
        }
        self.usage.pages += 1;
        self.memory.set_owner(frame, self.id, VirtualPage::new(page));
        self.write_entry(page, PageSize::Size4K, frame, permissions);
        Ok(())
    }

    /// Maps a 4KB page to another frame. Returns its old frame, which the caller must release.
    pub fn remap_page(&mut self, page: u64, frame: Frame, permissions: Permissions) -> Frame {
        let old = self.unmap_page(page);
        let mapped = self.map_page(page, frame, permissions);
        mapped.expect("the node is there");
        old
    }

    /// Unmaps a 4KB page. Returns its frame, which the caller must release. The level-1 node stays until
    /// [`Self::close_pages_if_empty`].
    pub(crate) fn unmap_page(&mut self, page: u64) -> Frame {
        self.part_block(page, true);
        let pages = self.pages_mut(page);
        let entry = pages.entries.take(index_of(page));
        assert!(entry.is_present(), "not mapped");
        pages.used -= 1;
        self.usage.pages -= 1;
        self.report_unmapped(page, 1);
        self.clear_entry(page, PageSize::Size4K);
        entry.frame()
    }

    /// Changes the permissions of a 4KB page.
    pub(crate) fn protect_page(&mut self, page: u64, permissions: Permissions) {
        let entry = self.pages_mut(page).entries[index_of(page)];
        if entry.permissions() == permissions {
            return;
        }
        self.part_block(page, false);
        let changed = leaf(entry.frame(), permissions);
        self.pages_mut(page).entries.replace(index_of(page), changed);
        self.protect_entry(page, PageSize::Size4K, permissions);
        self.rejoin_block(page);
    }

    /// Unmaps the 4KB pages of a 2MB region, removes their node, and sets `extent`, such as a 2MB page, as
    /// the mapping of the region. Returns the old entries. The node above keeps its entry for the region.
    pub fn take_pages(&mut self, number: u64, extent: Box<dyn Extent>) -> Entries {
        let mapping = Mapping::Extent(extent);
        self.report_subpages_unmapped(number, &self.mapped_pages(number));
        let region = self.regions.get_mut(&number).expect("mapped region");
        let Mapping::Pages(pages) = std::mem::replace(&mut region.mapping, mapping) else {
            unreachable!("region {number:#x} is a 2MB page already");
        };
        for (index, _) in pages.entries.present() {
            self.clear_entry(page_at(number, index), PageSize::Size4K);
        }
        self.usage.pages -= u64::from(pages.used);
        self.remove_node(number, pages.node, PAGES);
        pages.entries
    }
}
