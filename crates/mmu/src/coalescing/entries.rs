//! Entries of runs of 4KB pages in the second-level TLB. Each aligned window of pages has at most
//! one run at a time.

use perforate_types::{Frame, SpaceId, VirtualPage};

use super::Run;
use crate::tlb::{EntryKind, L2Entry, L2Tlb, Tag};

/// Lowest bit of the field of an [`L2Entry`] that holds a run's length minus one. The field of the
/// hole filter holds the index of the run's first page in its window.
const LENGTH_SHIFT: u32 = 56;

impl L2Entry {
    /// Encodes a run of pages as an entry. `allows` has the bits of the allowed accesses.
    fn run(run: &Run, allows: u8) -> Self {
        let entry = Self::run_page(run.frame, allows, run.first as u8);
        Self(entry.0 | (run.pages - 1) << LENGTH_SHIFT)
    }

    /// Creates an entry that stands for one page of a run, whose first page has index `first` in
    /// its window, or, with `first` 0, for the page that was looked up.
    pub(crate) fn run_page(frame: Frame, allows: u8, first: u8) -> Self {
        Self::page(EntryKind::Run, frame, allows, first)
    }

    /// Decodes the run of pages that the entry maps.
    pub(crate) fn pages_of_run(self) -> Run {
        Run {
            first: u64::from(self.filter()),
            pages: (self.0 >> LENGTH_SHIFT) + 1,
            frame: self.frame(),
        }
    }
}

impl L2Tlb {
    /// Finds the run in the window of `page`. Returns the slot, the entry, and the index of the
    /// page in the window.
    fn find_run(&self, space: SpaceId, page: VirtualPage) -> Option<(usize, L2Entry, u64)> {
        let number = page.number() / self.window;
        let slot = self.shared.find_key(number, Tag::Run.key_of(space, number))?;
        Some((slot, self.shared.value(slot), page.number() % self.window))
    }

    /// Looks up a run that contains `page`. Returns the slot, and an entry of kind
    /// [`EntryKind::Run`] made for this single page.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_up_run(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
    ) -> Option<(u32, L2Entry)> {
        let (slot, entry, index) = self.find_run(space, page)?;
        let run = entry.pages_of_run();
        if !run.covers(index) {
            return None;
        }
        self.shared.touch(page.number() / self.window, slot);
        let frame = run.frame.add(index - run.first);
        Some((slot as u32, L2Entry::run_page(frame, entry.allows(), 0)))
    }

    /// Fills a run around `page` after a look-up that missed, and returns its slot. Returns `None`
    /// if the window has a run that is at least as long; that run stays.
    pub(crate) fn fill_run(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        run: &Run,
        allows: u8,
    ) -> Option<u32> {
        let held = self.find_run(space, page).map(|(_, entry, _)| entry.pages_of_run());
        if held.is_some_and(|held| held.pages >= run.pages) {
            return None;
        }
        let number = page.number() / self.window;
        let entry = L2Entry::run(run, allows);
        self.insert_small(number, Tag::Run.key_of(space, number), entry)
    }

    /// Sets the dirty bit of the run that contains `page`, if any.
    pub(crate) fn mark_run_dirty(&mut self, space: SpaceId, page: VirtualPage) {
        if let Some((slot, entry, _)) = self.find_run(space, page) {
            *self.shared.value_mut(slot) = entry.with_dirty();
        }
    }

    /// Invalidates the run that contains `page`, if any.
    pub(crate) fn invalidate_run(&mut self, space: SpaceId, page: VirtualPage) {
        if self.window != 0
            && let Some((slot, entry, index)) = self.find_run(space, page)
            && entry.pages_of_run().covers(index)
        {
            self.shared.clear_slot(slot);
        }
    }
}
