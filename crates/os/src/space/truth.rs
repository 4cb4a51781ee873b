//! Reporting the truth: what is mapped where, independent of the tables that implement it.

use perforate_types::{Frame, HoleSet, PageRun, Permissions, Truth, VirtualPage};

use super::{AddressSpace, SpaceMut, first_of};

impl AddressSpace {
    fn run(&self, page: u64, pages: u64) -> PageRun {
        PageRun::new(self.id, VirtualPage::new(page), pages)
    }
}

impl SpaceMut<'_> {
    /// Reports that these unmapped pages are now mapped to consecutive frames.
    pub fn tell_mapped(
        &mut self,
        (page, pages): (u64, u64),
        frame: Frame,
        permissions: Permissions,
    ) {
        self.truth(Truth::Map { run: self.run(page, pages), frame, permissions });
    }

    /// Reports that these pages are no longer mapped.
    pub fn tell_unmapped(&mut self, page: u64, pages: u64) {
        self.truth(Truth::Unmap { run: self.run(page, pages) });
    }

    /// Reports that these pages have new permissions.
    pub fn tell_protected(&mut self, (page, pages): (u64, u64), permissions: Permissions) {
        self.truth(Truth::Protect { run: self.run(page, pages), permissions });
    }

    /// Reports that these unmapped sub-pages of a region are now mapped in place in `block`.
    pub fn tell_subpages_mapped(
        &mut self,
        (number, subpages): (u64, &HoleSet),
        block: Frame,
        permissions: Permissions,
    ) {
        for (start, pages) in runs(subpages) {
            let page = first_of(number) + start;
            self.tell_mapped((page, pages), block.add(start), permissions);
        }
    }

    /// Reports that these sub-pages of a region are no longer mapped.
    pub fn tell_subpages_unmapped(&mut self, number: u64, subpages: &HoleSet) {
        for (start, pages) in runs(subpages) {
            self.tell_unmapped(first_of(number) + start, pages);
        }
    }

    /// Reports that these sub-pages of a region have new permissions.
    pub fn tell_subpages_protected(
        &mut self,
        (number, subpages): (u64, &HoleSet),
        permissions: Permissions,
    ) {
        for (start, pages) in runs(subpages) {
            self.tell_protected((first_of(number) + start, pages), permissions);
        }
    }
}

/// Index of the first sub-page, and length, of each run.
fn runs(subpages: &HoleSet) -> impl Iterator<Item = (u64, u64)> + '_ {
    subpages.runs().map(|run| (run.start as u64, run.len() as u64))
}
