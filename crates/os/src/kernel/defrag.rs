//! Effort that page faults spend on 2MB pages when memory is fragmented.

use std::fmt;

use perforate_config::write;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Effort of a page fault for a 2MB page when no whole block is free (Linux:
/// `transparent_hugepage/defrag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Defrag {
    /// Never migrates. A block may still become a perforated page, with holes at all frames in use.
    #[default]
    Never,
    /// Direct compaction only in areas that the program advised (MADV_HUGEPAGE).
    Madvise,
    /// Direct compaction in advised areas; elsewhere kcompactd is woken.
    #[serde(rename = "defer+madvise")]
    DeferMadvise,
    /// kcompactd is woken, and the fault maps smaller pages.
    Defer,
    /// Direct compaction: movable contents of a suitable block are copied to other blocks.
    Always,
}

impl Defrag {
    /// True if a fault migrates frames itself; `advised` is true in memory areas with MADV_HUGEPAGE.
    pub(super) const fn is_direct(self, advised: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Madvise | Self::DeferMadvise => advised,
            Self::Never | Self::Defer => false,
        }
    }

    /// True if faults wake kcompactd, in advised or other memory areas.
    pub const fn wakes_kcompactd(self) -> bool {
        self.wakes(false) || self.wakes(true)
    }

    /// True if a fault wakes kcompactd; `advised` is true in memory areas with MADV_HUGEPAGE.
    pub(super) const fn wakes(self, advised: bool) -> bool {
        match self {
            Self::Defer => true,
            Self::DeferMadvise => !advised,
            Self::Never | Self::Madvise | Self::Always => false,
        }
    }
}

/// Writes Linux's name of the mode.
impl fmt::Display for Defrag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(self))
    }
}
