//! Reports of changes: of mappings, independent of the table format, and of entries in ordinary
//! page tables.

use perforate_types::{
    Frame, HoleSet, PageRun, PageSize, Permissions, TableOperation, Truth, VirtualPage,
};

use super::{AddressSpace, SpaceMut, first_of};

impl AddressSpace {
    fn run(&self, page: u64, pages: u64) -> PageRun {
        PageRun::new(self.id, VirtualPage::new(page), pages)
    }
}

impl SpaceMut<'_> {
    /// Reports to the simulator that these unmapped pages are now mapped to consecutive frames.
    pub fn report_mapped(&mut self, page: u64, pages: u64, frame: Frame, permissions: Permissions) {
        self.truth(Truth::Map { run: self.run(page, pages), frame, permissions });
    }

    /// Reports to the simulator that these pages are no longer mapped.
    pub fn report_unmapped(&mut self, page: u64, pages: u64) {
        self.truth(Truth::Unmap { run: self.run(page, pages) });
    }

    /// Reports to the simulator that these pages have new permissions.
    pub fn report_protected(&mut self, page: u64, pages: u64, permissions: Permissions) {
        self.truth(Truth::Protect { run: self.run(page, pages), permissions });
    }

    /// Reports to the simulator that these unmapped sub-pages of a region are now mapped in place in `block`.
    pub fn report_subpages_mapped(
        &mut self,
        number: u64,
        subpages: &HoleSet,
        block: Frame,
        permissions: Permissions,
    ) {
        for (start, pages) in runs(subpages) {
            let page = first_of(number) + start;
            self.report_mapped(page, pages, block.add(start), permissions);
        }
    }

    /// Reports to the simulator that these sub-pages of a region are no longer mapped.
    pub fn report_subpages_unmapped(&mut self, number: u64, subpages: &HoleSet) {
        for (start, pages) in runs(subpages) {
            self.report_unmapped(first_of(number) + start, pages);
        }
    }

    /// Reports to the simulator that these sub-pages of a region have new permissions.
    pub fn report_subpages_protected(
        &mut self,
        number: u64,
        subpages: &HoleSet,
        permissions: Permissions,
    ) {
        for (start, pages) in runs(subpages) {
            self.report_protected(first_of(number) + start, pages, permissions);
        }
    }

    /// Writes a page-table entry for a page of `size` where none was present, and reports the write.
    pub(super) fn write_entry(
        &mut self,
        page: u64,
        size: PageSize,
        frame: Frame,
        permissions: Permissions,
    ) {
        let page = VirtualPage::new(page);
        self.table(TableOperation::Map { space: self.id, page, size, frame, permissions });
    }

    /// Clears the page-table entry of a page, and reports the write and the shootdown.
    pub(super) fn clear_entry(&mut self, page: u64, size: PageSize) {
        let (space, first) = (self.id, VirtualPage::new(page));
        self.table(TableOperation::Unmap { space, page: first, size });
        self.shootdown_entry(page, size);
    }

    /// Changes the permissions of a page and of its page-table entry, and reports the change and the
    /// shootdown.
    pub(super) fn protect_entry(&mut self, page: u64, size: PageSize, permissions: Permissions) {
        self.report_protected(page, size.pages(), permissions);
        let (space, first) = (self.id, VirtualPage::new(page));
        self.table(TableOperation::Protect { space, page: first, size, permissions });
        self.shootdown_entry(page, size);
    }

    fn shootdown_entry(&mut self, page: u64, size: PageSize) {
        match size {
            PageSize::Size4K => self.shootdown_page(page),
            _ => self.shootdown_large(page, size),
        }
    }
}

/// Runs of consecutive sub-pages: index of the first, and length.
fn runs(subpages: &HoleSet) -> impl Iterator<Item = (u64, u64)> + '_ {
    subpages.runs().map(|run| (run.start as u64, run.len() as u64))
}
