//! What the operating system tells whoever listens: what is true now, what is written for it, and
//! which cached translations it kills.

use std::ops::Range;

use crate::{FormatOperation, GapTolerance, PageSize, SpaceId, TableOperation, Truth, VirtualPage};

/// Which cached translations a change kills (P §IV.E, SPEC P-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shootdown {
    /// The 4KB translation of `page`, ordinary, generated or hole.
    Page {
        /// Address space.
        space: SpaceId,
        /// The 4KB page.
        page: VirtualPage,
    },
    /// The entry of `size` (2M: ordinary or perforated) that covers `page`.
    Large {
        /// Address space.
        space: SpaceId,
        /// A page inside it.
        page: VirtualPage,
        /// 2M or 1G.
        size: PageSize,
    },
    /// The bitmap entry that covers sub-page `page`.
    Bitmap {
        /// Address space.
        space: SpaceId,
        /// The 4KB sub-page.
        page: VirtualPage,
    },
    /// The gap-tolerant entry at `page` and all 4KB translations that came of it.
    Superpage {
        /// Address space.
        space: SpaceId,
        /// First page.
        page: VirtualPage,
        /// Mode of the address space's page directories.
        mode: GapTolerance,
    },
    /// Everything cached for `space`, walk caches included.
    Space {
        /// Address space.
        space: SpaceId,
    },
}

impl Shootdown {
    /// Whose translations died.
    pub fn space(&self) -> SpaceId {
        match *self {
            Self::Page { space, .. }
            | Self::Large { space, .. }
            | Self::Bitmap { space, .. }
            | Self::Superpage { space, .. }
            | Self::Space { space } => space,
        }
    }

    /// Numbers of the 4KB pages whose translations died; `None` where only bits of a bitmap did.
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

/// One message of the operating system, in the order it happened.
#[derive(Clone, Debug)]
pub enum Update {
    /// What is mapped where changed; the oracle hears nothing else.
    Truth(Truth),
    /// Page tables changed. Kept apart from other formats so that an ordinary fault allocates
    /// nothing.
    Table(TableOperation),
    /// What a mechanism has besides or instead of ordinary tables changed.
    Format(Box<dyn FormatOperation>),
    /// Cached translations died.
    Shootdown(Shootdown),
}

impl Update {
    /// The operation on tables or registers, of whatever format, if it is one.
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
