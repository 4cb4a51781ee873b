//! What the operating system changes in the mapping, and which cached translations it kills.
//!
//! The operating system decides frames, also those of page-table nodes; the memory-management
//! unit writes the entries; the oracle hears the same changes and ignores the nodes.

use serde::{Deserialize, Serialize};

use crate::{Frame, GapTolerance, HoleSet, PageSize, Permissions, VirtualPage};

/// An address space as the hardware tags it (ASID, PCID).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SpaceId(pub u16);

/// Level of a page-table node: 4 is the root (PML4), 1 holds the 4KB entries.
pub type Level = u8;

/// One change of what is mapped where. Every change leaves the tables consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingChange {
    /// A page-table node now exists at `frame`, linked from its parent (level 4: the root).
    /// A level-2 node of the perforated format is an order-1 pair: its shadow is `frame + 1`. One of
    /// a gap-tolerant format has `GapTolerance::directory_bytes`.
    AddTable {
        /// Address space.
        space: SpaceId,
        /// Level of the node.
        level: Level,
        /// First page the node covers.
        page: VirtualPage,
        /// Where the node lies.
        frame: Frame,
        /// Whether this level-1 node hangs off the shadow entry and so maps holes (P §IV.B).
        holes: bool,
    },
    /// The node covering `page` at `level` is gone; it maps nothing any more.
    RemoveTable {
        /// Address space.
        space: SpaceId,
        /// Level of the node.
        level: Level,
        /// First page the node covers.
        page: VirtualPage,
        /// Whether the level-1 node hung off the shadow entry.
        holes: bool,
    },
    /// An ordinary page of `size`.
    Map {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to `size`.
        page: VirtualPage,
        /// Page size.
        size: PageSize,
        /// First frame; aligned to `size`.
        frame: Frame,
        /// What it allows.
        permissions: Permissions,
    },
    /// The ordinary or perforated page of `size` at `page` is gone, with all its holes.
    Unmap {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to `size`.
        page: VirtualPage,
        /// Page size (2M for a perforated page).
        size: PageSize,
    },
    /// The page of `size` at `page` has new permissions; the holes of a perforated page keep theirs.
    Protect {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to `size`.
        page: VirtualPage,
        /// Page size (2M for a perforated page).
        size: PageSize,
        /// New permissions.
        permissions: Permissions,
    },
    /// A new perforated page: `block` is mapped except for `holes`, which are unallocated.
    Perforate {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to 2MB.
        page: VirtualPage,
        /// First frame of the block; aligned to 2MB.
        block: Frame,
        /// What the sub-pages that are not holes allow.
        permissions: Permissions,
        /// This address space's own holes.
        holes: HoleSet,
    },
    /// Sub-page `page` of a perforated or ordinary 2MB page becomes an unallocated hole.
    Punch {
        /// Address space.
        space: SpaceId,
        /// The 4KB sub-page.
        page: VirtualPage,
    },
    /// Sub-page `page` is a hole no more: it is translated by the 2MB mapping again.
    Patch {
        /// Address space.
        space: SpaceId,
        /// The 4KB sub-page.
        page: VirtualPage,
    },
    /// The hole `page` is now allocated: mapped to `frame` (possibly its in-place frame, where
    /// only the permissions differ).
    MapHole {
        /// Address space.
        space: SpaceId,
        /// The 4KB sub-page.
        page: VirtualPage,
        /// Where its data lie.
        frame: Frame,
        /// What it allows.
        permissions: Permissions,
    },
    /// The hole `page` is unallocated again; it stays a hole.
    UnmapHole {
        /// Address space.
        space: SpaceId,
        /// The 4KB sub-page.
        page: VirtualPage,
    },
    /// The segment registers of the address space are set: BASE is `page`, LIMIT `page` + `pages`,
    /// OFFSET `frame` − `page`; the escape filter is empty (D §II.B, §III). Of its pages only
    /// escaped ones may be mapped elsewhere by paging; others may be mapped in place, for those the
    /// filter takes for escaped. Pages that are mapped elsewhere at this moment escape with the
    /// changes that follow at once. Then everything cached for the address space is shot down.
    Segment {
        /// Address space.
        space: SpaceId,
        /// First page.
        page: VirtualPage,
        /// Number of 4KB pages, not 0.
        pages: u64,
        /// Frame of the first page; the others follow.
        frame: Frame,
        /// What the segment allows.
        permissions: Permissions,
    },
    /// The segment registers of the address space are cleared: BASE = LIMIT. Pages mapped by paging
    /// inside it stay mapped. The shootdown of the address space follows.
    ClearSegment {
        /// Address space.
        space: SpaceId,
    },
    /// A page of the segment escapes it: it goes into the escape filter, and paging alone
    /// translates it from now on (D §V): at first as it was mapped in place, if it was. The
    /// shootdown of the address space follows, after further escapes at most.
    Escape {
        /// Address space.
        space: SpaceId,
        /// The 4KB page.
        page: VirtualPage,
    },
    /// A gap-tolerant entry: one superpage, or the two of a pair (G §3.3, §3.6). Virtual block *k*
    /// of a superpage lies in the B-block of its slice that the *k*-th set bit of the selection
    /// names. There is no level-1 node and no 2MB page in the 2MB regions it touches.
    MapSuperpage {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to `mode.entry_pages()`.
        page: VirtualPage,
        /// Mode of the address space's page directories.
        mode: GapTolerance,
        /// First frame of the slice of the (first) superpage; aligned to `mode.slice_frames()`.
        slice: Frame,
        /// First frame of the slice of a pair's second superpage, in the same chunk of 128MB; the
        /// first slice itself where it is whole and paired with itself. Of single entries `slice`.
        second: Frame,
        /// B-blocks used, bit *i* for the *i*-th: 32 bits, or all 64 of a slice paired with itself.
        selection: u64,
        /// What it allows.
        permissions: Permissions,
    },
    /// The gap-tolerant entry at `page` is gone.
    UnmapSuperpage {
        /// Address space.
        space: SpaceId,
        /// First page.
        page: VirtualPage,
        /// Mode of the address space's page directories.
        mode: GapTolerance,
    },
    /// The gap-tolerant entry at `page` has new permissions.
    ProtectSuperpage {
        /// Address space.
        space: SpaceId,
        /// First page.
        page: VirtualPage,
        /// Mode of the address space's page directories.
        mode: GapTolerance,
        /// New permissions.
        permissions: Permissions,
    },
}

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
}

impl MappingChange {
    /// The address space that is changed.
    pub fn space(&self) -> SpaceId {
        match *self {
            Self::AddTable { space, .. }
            | Self::RemoveTable { space, .. }
            | Self::Map { space, .. }
            | Self::Unmap { space, .. }
            | Self::Protect { space, .. }
            | Self::Perforate { space, .. }
            | Self::Punch { space, .. }
            | Self::Patch { space, .. }
            | Self::MapHole { space, .. }
            | Self::UnmapHole { space, .. }
            | Self::Segment { space, .. }
            | Self::ClearSegment { space }
            | Self::Escape { space, .. }
            | Self::MapSuperpage { space, .. }
            | Self::UnmapSuperpage { space, .. }
            | Self::ProtectSuperpage { space, .. } => space,
        }
    }
}

/// One message of the operating system, in the order it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The mapping changed.
    Change(MappingChange),
    /// Cached translations died.
    Shootdown(Shootdown),
}

impl From<MappingChange> for Update {
    fn from(change: MappingChange) -> Self {
        Self::Change(change)
    }
}

impl From<Shootdown> for Update {
    fn from(shootdown: Shootdown) -> Self {
        Self::Shootdown(shootdown)
    }
}
