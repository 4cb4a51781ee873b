//! The truth about an address space: which pages are mapped to which frames, and what may be done
//! with them, whatever the format of the tables that say so.

use crate::{Frame, PageRun, Permissions};

/// A change of what is mapped where. It is the same for every mechanism: a large page that is split
/// where it lies changes tables but no truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// Consecutive pages, none of them mapped before, are mapped to consecutive frames.
    Map {
        /// The pages.
        run: PageRun,
        /// Frame of the first page.
        frame: Frame,
        /// What they allow.
        permissions: Permissions,
    },
    /// Pages, all of them mapped before, are mapped no more.
    Unmap {
        /// The pages.
        run: PageRun,
    },
    /// Pages, all of them mapped, have other permissions.
    Protect {
        /// The pages.
        run: PageRun,
        /// What they allow.
        permissions: Permissions,
    },
}

impl Truth {
    /// The pages that are changed.
    pub const fn run(&self) -> PageRun {
        match *self {
            Self::Map { run, .. } | Self::Unmap { run } | Self::Protect { run, .. } => run,
        }
    }
}
