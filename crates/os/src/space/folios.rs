//! Folios whose page-table entries say that they are contiguous (Linux on Arm: contpte).
//!
//! The kernel joins the 16 entries of an aligned 64KB when all of them map one aligned part of a folio
//! with equal permissions. Before it changes one of them, it parts them again; a later change of the
//! last of the 16 pages joins them if they agree. Page tables of machines without such entries stay as
//! they are.

use perforate_types::{CONTIGUOUS_PAGES, Contiguity, HoleSet, TableOperation, VirtualPage};

use super::{AddressSpace, Mapping, Pages, SpaceMut, index_of, page_at, region_of};

/// Number of pages in a block.
const PAGES: usize = CONTIGUOUS_PAGES as usize;

/// Blocks of 16 pages of a 2MB region, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blocks(u32);

impl Blocks {
    fn contains(self, block: usize) -> bool {
        self.0 >> block & 1 != 0
    }

    fn insert(&mut self, block: usize) {
        self.0 |= 1 << block;
    }

    fn remove(&mut self, block: usize) {
        self.0 &= !(1 << block);
    }

    /// Indices of the blocks in the region.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..u32::BITS as usize).filter(move |&block| self.contains(block))
    }
}

impl Pages {
    /// True if the entries of the block's pages map one aligned block of frames with equal permissions.
    fn agree(&self, block: usize) -> bool {
        let first = self.entries[block * PAGES];
        let is_next = |index: usize| {
            let entry = self.entries[block * PAGES + index];
            entry.is_present()
                && entry.frame() == first.frame().add(index as u64)
                && entry.permissions() == first.permissions()
        };
        first.frame().number().is_multiple_of(CONTIGUOUS_PAGES) && (0..PAGES).all(is_next)
    }

    /// Checks that joined blocks are in folios, and that their entries agree.
    pub(super) fn check_folios(&self) -> Result<(), String> {
        let wrong = |&block: &usize| !self.folios.contains(block) || !self.agree(block);
        match self.joined.iter().find(wrong) {
            Some(block) => Err(format!("the entries of block {block} are joined and differ")),
            None => Ok(()),
        }
    }
}

impl AddressSpace {
    /// Blocks of a 2MB region that are parts of folios.
    pub(crate) fn folio_blocks(&self, number: u64) -> Blocks {
        match self.regions.get(&number).map(|region| &region.mapping) {
            Some(Mapping::Pages(pages)) => pages.folios,
            _ => Blocks::default(),
        }
    }

    fn pages_of_folios(&mut self, number: u64) -> Option<(&mut Pages, Contiguity)> {
        let contiguity = self.tables.format().contiguity?;
        match &mut self.regions.get_mut(&number)?.mapping {
            Mapping::Pages(pages) => Some((pages, contiguity)),
            _ => None,
        }
    }
}

impl SpaceMut<'_> {
    /// Records that a block of mapped pages of a 2MB region lies in one folio, and joins its entries.
    pub(crate) fn note_folio(&mut self, number: u64, block: usize) {
        if let Some((pages, _)) = self.pages_of_folios(number) {
            pages.folios.insert(block);
            self.join_block(number, block);
        }
    }

    /// Records that the pages `subpages` of a 2MB region are parts of one folio, which was a 2MB page.
    pub(super) fn note_folios_of(&mut self, number: u64, subpages: &HoleSet) {
        for block in 0..HoleSet::SUBPAGES / PAGES {
            if (0..PAGES).all(|index| subpages.contains(block * PAGES + index)) {
                self.note_folio(number, block);
            }
        }
    }

    /// Joins the entries of a block that lies in one folio, if they agree.
    fn join_block(&mut self, number: u64, block: usize) {
        let Some((pages, contiguity)) = self.pages_of_folios(number) else { return };
        let is_parted = pages.folios.contains(block) && !pages.joined.contains(block);
        if is_parted && pages.agree(block) {
            pages.joined.insert(block);
            self.write_block(number, block, Some(contiguity));
        }
    }

    fn write_block(&mut self, number: u64, block: usize, contiguity: Option<Contiguity>) {
        let page = VirtualPage::new(page_at(number, block * PAGES));
        self.table(TableOperation::Join { space: self.id, page, contiguity });
    }

    /// Parts the entries of the block around a page that is to be changed. If `leaves`, the page leaves its
    /// folio.
    pub(super) fn part_block(&mut self, page: u64, leaves: bool) {
        let (number, block) = (region_of(page), index_of(page) / PAGES);
        let Some((pages, _)) = self.pages_of_folios(number) else { return };
        if leaves {
            pages.folios.remove(block);
        }
        if pages.joined.contains(block) {
            pages.joined.remove(block);
            self.write_block(number, block, None);
            self.shootdown_page(page_at(number, block * PAGES));
        }
    }

    /// Joins the entries of the block around a page that was changed, if it is the last of the block.
    pub(super) fn rejoin_block(&mut self, page: u64) {
        let index = index_of(page);
        if index % PAGES == PAGES - 1 {
            self.join_block(region_of(page), index / PAGES);
        }
    }

    /// Prepares to unmap all pages of these blocks that `is_unmapped` names: the entries go as they are,
    /// without being parted first.
    pub(crate) fn drop_blocks(&mut self, number: u64, is_unmapped: impl Fn(usize) -> bool) {
        let Some((pages, _)) = self.pages_of_folios(number) else { return };
        for block in pages.joined.iter() {
            if (block * PAGES..(block + 1) * PAGES).all(&is_unmapped) {
                pages.joined.remove(block);
            }
        }
    }
}
