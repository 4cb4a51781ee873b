//! A frame fails while it is in use (P §VI names hard faults among the reasons for a hole): its
//! data are copied elsewhere and the frame is never used again.

use perforate_types::{Frame, SpaceId, Update};

use super::Kernel;

/// What became of a failing frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardFault {
    /// It was free, or reserved and not touched yet.
    WasFree,
    /// Its data were copied elsewhere.
    Moved,
    /// It was part of an extent that has a hole there now.
    Punched,
    /// It was part of a direct segment; its page escapes it (D §V).
    Escaped,
    /// It was part of an extent that lies elsewhere now, as a gap-tolerant superpage can.
    Relocated,
    /// It was part of an extent that was split into 4KB pages.
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
        match self.extent_around(frame) {
            Some((space, page)) => self.take_out_of_extent(space, page, frame, updates),
            None => HardFault::Uncorrected,
        }
    }

    /// The page of an extent that `frame` is in place for. Frames fail seldom: all mappings are
    /// looked through.
    fn extent_around(&self, frame: Frame) -> Option<(SpaceId, u64)> {
        self.processes.values().find_map(|&id| {
            let space = self.space(id).ok()?;
            let page = space.page_of_frame(frame)?;
            let (_, extent) = space.extent_at(page)?;
            (!extent.stays_whole()).then_some((id, page))
        })
    }

    fn take_out_of_extent(
        &mut self,
        id: SpaceId,
        page: u64,
        frame: Frame,
        updates: &mut Vec<Update>,
    ) -> HardFault {
        let Ok((space, mut effects)) = self.parts(id, updates) else {
            return HardFault::Uncorrected;
        };
        let (first, extent) = space.extent_at(page).expect("it was found there");
        let mechanism = extent.mechanism();
        if mechanism.relocate(space, first, &mut effects) {
            self.extents_relocated += 1;
            return HardFault::Relocated;
        }
        if let Some(detacher) = mechanism.detacher(space) {
            let permissions = space.extent(first).permissions();
            let punched = space.detach_with(detacher, page, true, permissions, &mut effects);
            return if punched.is_ok() { HardFault::Punched } else { HardFault::Uncorrected };
        }
        let broken_up = mechanism.break_up(space, first, &mut effects);
        if broken_up.is_ok() && self.migrate(frame, updates) {
            HardFault::Split
        } else {
            HardFault::Uncorrected
        }
    }
}
