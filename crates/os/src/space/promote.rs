//! A 2MB page takes the place of a region's 4KB pages. The directory above keeps its entry, so
//! nothing here can fail.

use perforate_types::{Frame, HOLE_BRANCH, HoleSet, PageSize, PerforatedOperation, TableOperation};

use super::perforated::Perforated;
use super::{
    AddressSpace, Effects, Entries, Large, Mapping, PAGES, REGION_PAGES, first_of, first_page,
};
use crate::OsError;
use crate::memory::complement;

impl AddressSpace {
    /// A frame for the level-1 node of a perforated page that is about to be made.
    pub(crate) fn take_hole_node(&mut self, effects: &mut Effects<'_>) -> Result<Frame, OsError> {
        self.allocate_leaf_node(effects)
    }

    /// The perforated page is not made after all.
    pub(crate) fn give_back_hole_node(&mut self, node: Frame, effects: &mut Effects<'_>) {
        effects.memory.free(node, 0);
        self.usage.leaf_nodes -= 1;
    }

    /// Maps a 2MB page instead of a region's 4KB pages and returns what those were; the
    /// references to their frames are now the caller's.
    pub(crate) fn replace_by_large(
        &mut self,
        number: u64,
        large: Large,
        effects: &mut Effects<'_>,
    ) -> Entries {
        let entries = self.take_pages(number, Mapping::Extent(Box::new(large)), effects);
        self.usage.large_pages += 1;
        let Large { block, permissions } = large;
        self.tell_mapped((first_of(number), REGION_PAGES), block, permissions, effects);
        effects.table(TableOperation::Map {
            space: self.id,
            page: first_page(number),
            size: PageSize::Size2M,
            frame: block,
            permissions,
        });
        entries
    }

    /// Maps a 2MB page with these holes, unallocated, instead of a region's 4KB pages and returns
    /// what those were; the references to their frames are now the caller's. `node` is from
    /// [`Self::take_hole_node`].
    pub(crate) fn replace_by_perforated(
        &mut self,
        number: u64,
        large: Large,
        holes: HoleSet,
        node: Frame,
        effects: &mut Effects<'_>,
    ) -> Entries {
        let Large { block, permissions } = large;
        let mapping = Mapping::Extent(Box::new(Perforated::new(large, holes, node)));
        let entries = self.take_pages(number, mapping, effects);
        self.add_leaf_node(number, node, HOLE_BRANCH, effects);
        self.usage.perforated_pages += 1;
        self.usage.holes_unallocated += holes.count() as u64;
        let page = first_page(number);
        effects.memory.add_perforated(block, self.id, page);
        self.tell_subpages_mapped((number, &complement(&holes)), block, permissions, effects);
        let space = self.id;
        effects.ledger.done.pages_mapped += 1;
        effects.format(PerforatedOperation::Perforate { space, page, block, permissions, holes });
        entries
    }

    /// Unmaps the 4KB pages of a region and removes their node; `mapping` is what the region has
    /// from now on.
    fn take_pages(&mut self, number: u64, mapping: Mapping, effects: &mut Effects<'_>) -> Entries {
        self.tell_subpages_unmapped(number, &self.mapped_pages(number), effects);
        let region = self.regions.get_mut(&number).expect("mapped region");
        let Mapping::Pages(pages) = std::mem::replace(&mut region.mapping, mapping) else {
            unreachable!("region {number:#x} is a 2MB page already");
        };
        for index in (0..HoleSet::SUBPAGES).filter(|&index| pages.entries[index].is_present()) {
            let page = first_page(number).add(index as u64);
            let (space, size) = (self.id, PageSize::Size4K);
            effects.table(TableOperation::Unmap { space, page, size });
            self.shootdown_page(page.number(), effects);
        }
        self.usage.pages -= u64::from(pages.used);
        self.remove_leaf_node(number, pages.node, PAGES, effects);
        pages.entries
    }
}
