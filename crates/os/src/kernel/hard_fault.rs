//! A frame fails while it is in use (P §VI names hard faults among the reasons for a hole): its
//! data are copied elsewhere and the frame is never used again.

use perforate_types::{Frame, HoleSet, PageSize, SpaceId, Update, VirtualPage};

use super::{HoleContent, Kernel};
use crate::PartialChange;
use crate::space::{page_at, region_of};

/// What became of a failing frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardFault {
    /// It was free, or reserved and not touched yet.
    WasFree,
    /// Its data were copied elsewhere.
    Moved,
    /// It was part of a 2MB page, which has a hole there now.
    Punched,
    /// It was part of a direct segment; its page escapes it (D §V).
    Escaped,
    /// It was part of a gap-tolerant superpage, which lies in other B-blocks now.
    Relocated,
    /// It was part of a gap-tolerant superpage, which is 4KB pages now.
    Demoted,
    /// It was part of a 2MB page, which was split into 4KB pages.
    Split,
    /// It stays in use: it holds kernel data or tables, is shared, is part of a 1GB page, or there
    /// is no memory to copy it to. A real machine would stop a program, or altogether.
    Uncorrected,
}

impl Kernel {
    /// `frame` is failing; it is taken out of use if its data can be moved.
    pub fn hard_fault(&mut self, frame: Frame, updates: &mut Vec<Update>) -> HardFault {
        self.note_peak();
        self.refresh_owners();
        let mut outcome = self.move_away(frame, updates);
        // At once: a page that is demoted needs a frame for a node, and must not get this one.
        if outcome != HardFault::Uncorrected && !self.memory.retire(frame) {
            outcome = HardFault::Uncorrected;
        }
        self.conclude(updates);
        outcome
    }

    fn move_away(&mut self, frame: Frame, updates: &mut Vec<Update>) -> HardFault {
        if frame.number() >= self.memory.usable_frames() {
            return HardFault::Uncorrected;
        }
        if self.memory.zones().is_free(frame) {
            return HardFault::WasFree;
        }
        if let Some((space, page)) = self.segment_page_of(frame) {
            let escaped = self.escape_elsewhere(space, page, updates);
            return if escaped.is_ok() { HardFault::Escaped } else { HardFault::Uncorrected };
        }
        if self.migrate(frame, updates) {
            return HardFault::Moved;
        }
        // An owner that is recorded may have left while the frame is a part of a 2MB page.
        if self.memory.is_shared(frame) {
            return HardFault::Uncorrected;
        }
        if self.release_reservation_of(frame, updates) {
            return HardFault::WasFree;
        }
        if let Some(place) = self.superpage_page_of(frame) {
            return self.take_out_of_superpage(place, frame, updates);
        }
        match self.large_page_around(frame) {
            Some((space, page)) => self.take_out_of_large(space, page, frame, updates),
            None => HardFault::Uncorrected,
        }
    }

    /// Who translates `frame` by an ordinary or perforated 2MB page, in place. Frames fail
    /// seldom: all mappings are looked through.
    fn large_page_around(&self, frame: Frame) -> Option<(SpaceId, VirtualPage)> {
        let block = frame.align_down(PageSize::Size2M);
        let index = frame.index_in(PageSize::Size2M);
        self.processes.values().find_map(|&id| {
            let space = self.space(id).ok()?;
            let number = space.in_place_region(block, index)?;
            Some((id, VirtualPage::new(page_at(number, index))))
        })
    }

    fn take_out_of_large(
        &mut self,
        id: SpaceId,
        page: VirtualPage,
        frame: Frame,
        updates: &mut Vec<Update>,
    ) -> HardFault {
        if self.partial_change() == PartialChange::Punch {
            let punched = self.punch_subpage(id, page.number(), HoleContent::Moved, updates);
            return if punched.is_ok() { HardFault::Punched } else { HardFault::Uncorrected };
        }
        let number = region_of(page.number());
        let Ok((space, mut effects)) = self.parts(id, updates) else {
            return HardFault::Uncorrected;
        };
        let split = space.split_large(number, &HoleSet::FULL, &mut effects);
        if split.is_ok() && self.migrate(frame, updates) {
            HardFault::Split
        } else {
            HardFault::Uncorrected
        }
    }
}
