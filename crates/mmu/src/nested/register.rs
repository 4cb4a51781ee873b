//! A register that says where a run of the guest's memory lies.

use perforate_types::{Frame, GuestFrame, MappingChange, PageSize, VirtualPage};

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
    fn holds(&self, first: VirtualPage, pages: u64) -> bool {
        let start = self.first.number();
        first.number() < start + self.pages && start < first.number() + pages
    }

    /// Whether a change may map some of its pages elsewhere, or nowhere.
    pub(super) fn is_moved_by(&self, change: &MappingChange) -> bool {
        match *change {
            MappingChange::AddTable { .. } | MappingChange::RemoveTable { .. } => false,
            MappingChange::Map { page, size, .. }
            | MappingChange::Unmap { page, size, .. }
            | MappingChange::Protect { page, size, .. } => self.holds(page, size.pages()),
            MappingChange::Perforate { page, .. } => self.holds(page, PageSize::Size2M.pages()),
            MappingChange::Punch { page, .. }
            | MappingChange::Patch { page, .. }
            | MappingChange::MapHole { page, .. }
            | MappingChange::UnmapHole { page, .. }
            | MappingChange::Escape { page, .. } => self.holds(page, 1),
            MappingChange::MapSuperpage { page, mode, .. }
            | MappingChange::UnmapSuperpage { page, mode, .. }
            | MappingChange::ProtectSuperpage { page, mode, .. } => {
                self.holds(page, mode.entry_pages())
            }
            MappingChange::Segment { page, pages, .. } => self.holds(page, pages),
            MappingChange::ClearSegment { .. } => true,
        }
    }
}
