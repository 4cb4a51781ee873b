//! Runs in the second-level TLB. A window has at most one run at a time.

use perforate_types::{SpaceId, VirtualPage};

use super::Run;
use crate::tlb::{EntryKind, L2Entry, L2Tlb, Tag};

/// Place of the length less one in the word of an entry; the place of the first page in the window
/// is where other entries have the filter.
const LENGTH_SHIFT: u32 = 56;

impl L2Entry {
    /// An entry of a run of pages.
    fn run(run: &Run, allows: u8) -> Self {
        let entry = Self::page(EntryKind::Run, run.frame, allows, run.first as u8);
        Self(entry.0 | (run.pages - 1) << LENGTH_SHIFT)
    }

    /// The pages of a run.
    pub(crate) fn pages_of_run(self) -> Run {
        Run {
            first: u64::from(self.filter()),
            pages: (self.0 >> LENGTH_SHIFT) + 1,
            frame: self.frame(),
        }
    }
}

impl L2Tlb {
    /// The run of the window of `page`, and the place of the page in the window.
    fn find_run(&self, space: SpaceId, page: VirtualPage) -> Option<(usize, L2Entry, u64)> {
        let number = page.number() / self.window;
        let slot = self.shared.find_key(number, Tag::Run.key_of(space, number))?;
        Some((slot, self.shared.value(slot), page.number() % self.window))
    }

    /// The entry that a run is for `page`. It equals no entry that is held, so that a store through
    /// it leaves the run clean: dirty is only the one page ([`Self::mark_dirty`]).
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
        self.shared.touch(slot);
        let frame = run.frame.add(index - run.first);
        Some((slot as u32, L2Entry::page(EntryKind::Run, frame, entry.allows(), 0)))
    }

    /// Fills a run around `page`, which was looked up in vain. A run that is at least as long stays
    /// in the window; then there is no place for another.
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

    /// Forgets the run that holds `page`, if there is one.
    pub(crate) fn invalidate_run(&mut self, space: SpaceId, page: VirtualPage) {
        if self.window != 0
            && let Some((slot, entry, index)) = self.find_run(space, page)
            && entry.pages_of_run().covers(index)
        {
            self.shared.clear_slot(slot);
        }
    }
}
