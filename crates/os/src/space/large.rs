//! Operations on ordinary 2MB pages.

use perforate_types::{Frame, HoleSet, PageSize, Permissions, TableOperation};

use super::region::no_entries;
use super::{
    AddressSpace, Effects, Large, Mapping, PAGES, Pages, REGION_PAGES, Region, RegionPlace,
    first_of, first_page, leaf, pages_of,
};
use crate::OsError;
use crate::memory::complement;

impl AddressSpace {
    /// Maps a 2MB page where nothing is mapped.
    pub(crate) fn map_large(
        &mut self,
        number: u64,
        block: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        self.write_large(number, Large { block, permissions }, effects)?;
        self.tell_mapped((first_of(number), REGION_PAGES), block, permissions, effects);
        Ok(())
    }

    /// Writes the entry of a 2MB page without saying that it is mapped, because it was so before by
    /// other means.
    pub(super) fn write_large(
        &mut self,
        number: u64,
        large: Large,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        self.tables.extend(first_of(number), 2, effects)?;
        self.insert_large(number, large, effects);
        Ok(())
    }

    /// As [`Self::write_large`] where the directory exists.
    pub(super) fn insert_large(&mut self, number: u64, large: Large, effects: &mut Effects<'_>) {
        self.tables.attach_region(first_of(number));
        let region = Region { mapping: Mapping::Large(large), fragment: None };
        assert!(self.regions.insert(number, region).is_none(), "mapped twice");
        self.usage.large_pages += 1;
        effects.table(TableOperation::Map {
            space: self.id,
            page: first_page(number),
            size: PageSize::Size2M,
            frame: large.block,
            permissions: large.permissions,
        });
    }

    /// Unmaps a 2MB page; the references to all its frames are now the caller's.
    pub(crate) fn unmap_large(&mut self, number: u64, effects: &mut Effects<'_>) -> Large {
        self.tell_unmapped(first_of(number), REGION_PAGES, effects);
        let large = self.take_large(number, effects);
        self.close_region(number, effects);
        large
    }

    /// Gives a 2MB page other permissions.
    pub(crate) fn protect_large(
        &mut self,
        number: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        let large = self.large_mut(number);
        if large.permissions == permissions {
            return;
        }
        large.permissions = permissions;
        let page = first_page(number);
        let (space, size) = (self.id, PageSize::Size2M);
        self.tell_protected((page.number(), REGION_PAGES), permissions, effects);
        effects.table(TableOperation::Protect { space, page, size, permissions });
        self.shootdown_large(page.number(), size, effects);
    }

    /// Splits a 2MB page into 4KB pages. Sub-pages outside `keep` are not mapped again; the
    /// references to their frames are now the caller's.
    pub(crate) fn split_large(
        &mut self,
        number: u64,
        keep: &HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<Large, OsError> {
        let node = self.allocate_leaf_node(effects)?;
        self.tell_subpages_unmapped(number, &complement(keep), effects);
        let large = self.take_large(number, effects);
        effects.ledger.done.large_pages_split += 1;
        self.add_leaf_node(number, node, PAGES, effects);
        let mut entries = no_entries();
        for index in keep.iter() {
            let frame = large.block.add(index as u64);
            entries[index] = leaf(frame, large.permissions);
            effects.memory.set_owner(frame, self.id, first_page(number).add(index as u64));
            effects.table(TableOperation::Map {
                space: self.id,
                page: first_page(number).add(index as u64),
                size: PageSize::Size4K,
                frame,
                permissions: large.permissions,
            });
        }
        let used = keep.count() as u32;
        self.usage.pages += u64::from(used);
        let region = self.regions.get_mut(&number).expect("mapped region");
        region.mapping = Mapping::Pages(Pages { node, used, entries });
        self.close_pages_if_empty(number, effects);
        Ok(large)
    }

    /// Maps a 2MB page to another block; the references to the frames it had are now the caller's.
    pub(crate) fn move_large(
        &mut self,
        number: u64,
        to: Frame,
        effects: &mut Effects<'_>,
    ) -> Frame {
        self.tell_unmapped(first_of(number), REGION_PAGES, effects);
        let Large { block, permissions } = self.take_large(number, effects);
        self.large_mut(number).block = to;
        self.usage.large_pages += 1;
        let (space, page, size) = (self.id, first_page(number), PageSize::Size2M);
        self.tell_mapped((page.number(), REGION_PAGES), to, permissions, effects);
        effects.table(TableOperation::Map { space, page, size, frame: to, permissions });
        block
    }

    /// The ordinary 2MB pages that may lie elsewhere as well: their blocks, and where they are.
    pub(crate) fn movable_large_pages(&self) -> impl Iterator<Item = (Frame, RegionPlace)> + '_ {
        self.regions.iter().filter_map(|(number, region)| match &region.mapping {
            Mapping::Large(large)
                if region.fragment.is_none() && !self.meets_segment(&pages_of(number)) =>
            {
                Some((large.block, (self.id, number)))
            }
            _ => None,
        })
    }

    /// Clears the entry of a 2MB page but leaves the record of its region. What becomes of its
    /// sub-pages the caller says.
    fn take_large(&mut self, number: u64, effects: &mut Effects<'_>) -> Large {
        let large = *self.large_mut(number);
        let page = first_page(number);
        let (space, size) = (self.id, PageSize::Size2M);
        effects.table(TableOperation::Unmap { space, page, size });
        self.shootdown_large(page.number(), size, effects);
        self.usage.large_pages -= 1;
        large
    }

    fn large_mut(&mut self, number: u64) -> &mut Large {
        match &mut self.regions.get_mut(&number).expect("mapped region").mapping {
            Mapping::Large(large) => large,
            _ => unreachable!("region {number:#x} is not an ordinary 2MB page"),
        }
    }
}
