//! Register with the machine location of a run of guest memory, such as the guest's hole bitmaps.

use perforate_types::{Frame, GuestFrame, SpaceId, Truth};

/// A run of guest-physical pages whose machine location is in a register, so the walker needs no
/// nested walk for them (P §V: the guest's hole bitmaps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredRun {
    /// First guest-physical page of the run that the register describes.
    pub first: GuestFrame,
    /// Length of the run in 4KB pages.
    pub pages: u64,
    /// Machine frame of the run's first page. The other pages have the consecutive frames after it.
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
