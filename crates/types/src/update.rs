//! Messages from the operating system: changes of the intended mapping, writes to tables and
//! registers, and invalidations of cached translations.

use std::ops::Range;

use crate::{FormatOperation, GapTolerance, PageSize, SpaceId, TableOperation, Truth, VirtualPage};

/// Invalidation of cached translations after a change (P §IV.E).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shootdown {
    /// Invalidates the 4KB translation of `page`: of a 4KB page, of a hole, or generated from the
    /// entry of a perforated page.
    Page {
        /// Address space of the invalidated translation.
        space: SpaceId,
        /// Virtual page whose 4KB translation is invalidated.
        page: VirtualPage,
    },
    /// Invalidates the entry of `size` that covers `page`. A 2MB entry may be ordinary or
    /// perforated.
    Large {
        /// Address space of the invalidated entry.
        space: SpaceId,
        /// Any 4KB page that the invalidated entry covers.
        page: VirtualPage,
        /// Page size of the invalidated entry: 2M or 1G.
        size: PageSize,
    },
    /// Invalidates the TLB's bitmap entry (32 bits of a hole bitmap) that covers sub-page `page`.
    Bitmap {
        /// Address space of the invalidated entry.
        space: SpaceId,
        /// Any 4KB sub-page that the bitmap entry covers.
        page: VirtualPage,
    },
    /// Invalidates the gap-tolerant entry at `page` and all 4KB translations generated from it.
    Superpage {
        /// Address space of the invalidated entry.
        space: SpaceId,
        /// First page that the gap-tolerant entry maps.
        page: VirtualPage,
        /// Mode of the address space's page directories, which determines the size of the entry.
        mode: GapTolerance,
    },
    /// Invalidates all cached entries of `space`, including its walk caches.
    Space {
        /// Address space whose cached translations are invalidated.
        space: SpaceId,
    },
}

impl Shootdown {
    /// The address space whose translations are invalidated.
    pub fn space(&self) -> SpaceId {
        match *self {
            Self::Page { space, .. }
            | Self::Large { space, .. }
            | Self::Bitmap { space, .. }
            | Self::Superpage { space, .. }
            | Self::Space { space } => space,
        }
    }

    /// Range of numbers of the 4KB pages whose translations are invalidated; `None` if only bits of
    /// a hole bitmap are invalidated.
    pub fn pages(&self) -> Option<Range<u64>> {
        let (page, pages) = match *self {
            Self::Page { page, .. } => (page, 1),
            Self::Large { page, size, .. } => (page.align_down(size), size.pages()),
            Self::Superpage { page, mode, .. } => (page, mode.entry_pages()),
            Self::Space { .. } => return Some(0..u64::MAX),
            Self::Bitmap { .. } => return None,
        };
        Some(page.number()..page.number() + pages)
    }
}

/// One message from the operating system to the translation hardware or the oracle. The order of messages is
/// the order of the changes.
#[derive(Clone, Debug)]
pub enum Update {
    /// A change of the intended mapping. The oracle, which checks every translation, receives only
    /// these messages.
    Truth(Truth),
    /// A write to page tables. It is a separate variant because `Format` would need a heap
    /// allocation for every page fault.
    Table(TableOperation),
    /// A write, in its own format, to the tables or registers of a mechanism, such as a range table.
    Format(Box<dyn FormatOperation>),
    /// An invalidation of cached translations.
    Shootdown(Shootdown),
}

impl Update {
    /// The operation on tables or registers, of any format; `None` for other messages.
    pub fn operation(&self) -> Option<&dyn FormatOperation> {
        match self {
            Self::Table(operation) => Some(operation),
            Self::Format(operation) => Some(&**operation),
            Self::Truth(_) | Self::Shootdown(_) => None,
        }
    }
}

impl PartialEq for Update {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Truth(one), Self::Truth(other)) => one == other,
            (Self::Table(one), Self::Table(other)) => one == other,
            (Self::Format(one), Self::Format(other)) => **one == **other,
            (Self::Shootdown(one), Self::Shootdown(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Update {}

impl From<Truth> for Update {
    fn from(truth: Truth) -> Self {
        Self::Truth(truth)
    }
}

impl From<TableOperation> for Update {
    fn from(operation: TableOperation) -> Self {
        Self::Table(operation)
    }
}

impl From<Shootdown> for Update {
    fn from(shootdown: Shootdown) -> Self {
        Self::Shootdown(shootdown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, PageRun, Permissions};

    /// Different messages of every kind.
    fn different() -> Vec<Update> {
        let (space, other) = (SpaceId(1), SpaceId(2));
        let (page, frame) = (VirtualPage::new(512), Frame::new(7));
        let permissions = Permissions::READ;
        let table =
            |space| TableOperation::Map { space, page, size: PageSize::Size4K, frame, permissions };
        let run = |pages| PageRun::new(space, page, pages);
        vec![
            Truth::Map { run: run(1), frame, permissions }.into(),
            Truth::Map { run: run(2), frame, permissions }.into(),
            Truth::Unmap { run: run(1) }.into(),
            table(space).into(),
            table(other).into(),
            Update::Format(Box::new(table(space))),
            Update::Format(Box::new(table(other))),
            Shootdown::Page { space, page }.into(),
            Shootdown::Page { space: other, page }.into(),
            Shootdown::Bitmap { space, page }.into(),
            Shootdown::Space { space }.into(),
        ]
    }

    #[test]
    fn a_message_equals_itself_and_no_other() {
        for (number, one) in different().iter().enumerate() {
            for (place, other) in different().iter().enumerate() {
                assert_eq!(one == other, number == place, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn shootdowns_cover_aligned_pages_of_their_space() {
        let (space, page) = (SpaceId(3), VirtualPage::new(512 * 512 + 700));
        let large = |size| Shootdown::Large { space, page, size };
        let gap_tolerant = GapTolerance::SINGLE_2M;
        for (shootdown, pages) in [
            (Shootdown::Page { space, page }, Some(262_844..262_845)),
            (large(PageSize::Size2M), Some(262_656..263_168)),
            (large(PageSize::Size1G), Some(262_144..524_288)),
            (
                Shootdown::Superpage { space, page, mode: gap_tolerant },
                Some(262_844..262_844 + gap_tolerant.entry_pages()),
            ),
            (Shootdown::Space { space }, Some(0..u64::MAX)),
            (Shootdown::Bitmap { space, page }, None),
        ] {
            assert_eq!(shootdown.pages(), pages, "{shootdown:?}");
            assert_eq!(shootdown.space(), space);
        }
    }
}
