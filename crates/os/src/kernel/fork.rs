//! fork: maps the same frames in two address spaces. Private memory is read-only until a write
//! copies it.

use crate::OsError;
use crate::space::{ALL_PAGES, AddressSpace, SpaceMut, first_of, page_at};

impl SpaceMut<'_> {
    /// fork: copies all mappings of this address space to `child`, which must be empty. Both then share the
    /// frames.
    pub(super) fn copy_to(&mut self, child: &mut AddressSpace) -> Result<(), OsError> {
        child.areas = self.areas.clone();
        child.heap_end = self.heap_end;
        self.share_swapped(child);
        for first in self.wide_within(&ALL_PAGES) {
            self.mechanism(first).copy_to(self, first, child)?;
        }
        for number in self.regions_within(&ALL_PAGES) {
            if self.has_extent(number) {
                let first = first_of(number);
                self.mechanism(first).copy_to(self, first, child)?;
            } else {
                self.copy_pages(number, child)?;
            }
        }
        Ok(())
    }

    fn copy_pages(&mut self, number: u64, child: &mut AddressSpace) -> Result<(), OsError> {
        for index in self.mapped_pages(number).iter() {
            let page = page_at(number, index);
            let present = self.find(page).expect("mapped page");
            let permissions = self.shared_permissions(page, present.permissions());
            let frame = present.frame().expect("mapped page");
            self.other(child).map_page(page, frame, permissions)?;
            self.memory.share(frame);
            self.protect_page(page, permissions);
        }
        for block in self.folio_blocks(number).iter() {
            self.other(child).note_folio(number, block);
        }
        Ok(())
    }
}
