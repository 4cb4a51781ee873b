//! A register that says where a run of the guest's memory lies.

use perforate_types::{Frame, GuestFrame, SpaceId, Truth};

/// A run of the guest's memory of which a register tells where it lies (P §V: the guest's hole
/// bitmaps).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredRun {
    /// First page.
    pub first: GuestFrame,
    /// Pages.
    pub pages: u64,
    /// Where the first page lies; the others follow.
    pub located: Frame,
}

impl RegisteredRun {
    /// Whether some of its pages, which are pages of `space`, may be elsewhere now, or nowhere.
    pub(super) fn is_moved_by(&self, space: SpaceId, truth: &Truth) -> bool {
        let (changed, start) = (truth.run(), self.first.number());
        changed.space == space
            && changed.page.number() < start + self.pages
            && start < changed.end().number()
    }
}
