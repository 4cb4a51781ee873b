//! Migrate types of pageblocks, as in Linux.

use serde::{Deserialize, Serialize};

/// Number of frames in a pageblock: 2MB, the unit by which Linux groups frames by mobility.
pub(crate) const PAGEBLOCK_FRAMES: u64 = 512;

/// Mobility of allocated frames.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum MigrateType {
    /// Page tables, kernel data: cannot be moved.
    Unmovable,
    /// User memory and page cache: can be migrated.
    #[default]
    Movable,
    /// Slab caches: cannot be moved, but can be freed under pressure.
    Reclaimable,
}

impl MigrateType {
    /// Number of variants, for arrays indexed by `kind as usize`.
    pub const COUNT: usize = 3;

    /// All variants, in the order of their values.
    pub const ALL: [Self; Self::COUNT] = [Self::Unmovable, Self::Movable, Self::Reclaimable];

    /// Types to steal from if no block of this type is free, best first (Linux: `fallbacks` in
    /// mm/page_alloc.c).
    pub(crate) const fn fallbacks(self) -> [Self; Self::COUNT - 1] {
        match self {
            Self::Unmovable => [Self::Reclaimable, Self::Movable],
            Self::Movable => [Self::Reclaimable, Self::Unmovable],
            Self::Reclaimable => [Self::Unmovable, Self::Movable],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MigrateType::{Movable, Reclaimable, Unmovable};

    /// Compares with `fallbacks` in mm/page_alloc.c of Linux 6.8.
    #[test]
    fn types_fall_back_as_in_linux() {
        assert_eq!(Unmovable.fallbacks(), [Reclaimable, Movable]);
        assert_eq!(Movable.fallbacks(), [Reclaimable, Unmovable]);
        assert_eq!(Reclaimable.fallbacks(), [Unmovable, Movable]);
    }
}
