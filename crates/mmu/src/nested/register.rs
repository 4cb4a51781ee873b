//! A register with the location of a run of guest memory.

use perforate_types::{Frame, GuestFrame, SpaceId, Truth};

/// A run of guest memory whose location is in a register (P §V: the guest's hole bitmaps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredRun {
    /// First page of the run.
    pub first: GuestFrame,
    /// Number of 4KB pages.
    pub pages: u64,
    /// Machine frame of the first page; the other pages are consecutive.
    pub located: Frame,
}

impl RegisteredRun {
    /// True if a change in the host's `space` may move or unmap pages of the run.
    pub(super) fn is_moved_by(&self, space: SpaceId, truth: &Truth) -> bool {
        let (changed, start) = (truth.run(), self.first.number());
        changed.space == space
            && changed.page.number() < start + self.pages
            && start < changed.end().number()
    }
}
