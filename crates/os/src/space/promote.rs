//! Replacement of a region's 4KB pages by a 2MB page. The directory above keeps its entry, so
//! nothing here can fail.

use perforate_types::{PageSize, TableOperation};

use super::{Entries, Extent, Large, Mapping, PAGES, REGION_PAGES, SpaceMut, first_of, first_page};

impl SpaceMut<'_> {
    /// Replaces the 4KB pages of a region by a 2MB page. Returns the old entries; the references to
    /// their frames pass to the caller.
    pub(crate) fn replace_by_large(&mut self, number: u64, large: Large) -> Entries {
        let entries = self.take_pages(number, Box::new(large));
        self.usage.large_pages += 1;
        let Large { block, permissions } = large;
        self.tell_mapped((first_of(number), REGION_PAGES), block, permissions);
        self.table(TableOperation::Map {
            space: self.id,
            page: first_page(number),
            size: PageSize::Size2M,
            frame: block,
            permissions,
        });
        entries
    }

    /// Unmaps the 4KB pages of a region, removes their node and sets `extent` as the mapping of the
    /// region. Returns the old entries. The directory above keeps its entry.
    pub fn take_pages(&mut self, number: u64, extent: Box<dyn Extent>) -> Entries {
        let mapping = Mapping::Extent(extent);
        self.tell_subpages_unmapped(number, &self.mapped_pages(number));
        let region = self.regions.get_mut(&number).expect("mapped region");
        let Mapping::Pages(pages) = std::mem::replace(&mut region.mapping, mapping) else {
            unreachable!("region {number:#x} is a 2MB page already");
        };
        for (index, _) in pages.entries.present() {
            let page = first_page(number).add(index as u64);
            let (space, size) = (self.id, PageSize::Size4K);
            self.table(TableOperation::Unmap { space, page, size });
            self.shootdown_page(page.number());
        }
        self.usage.pages -= u64::from(pages.used);
        self.remove_node(number, pages.node, PAGES);
        pages.entries
    }
}
