//! The intended mapping of an address space: pages, their frames and their permissions, independent
//! of the format of the tables.

use crate::{Frame, PageRun, Permissions};

/// A change of the intended mapping from pages to frames. It does not depend on the format of the
/// tables: splitting a large page in place, for example, changes tables but no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// Maps consecutive unmapped pages to consecutive frames.
    Map {
        /// Pages that become mapped.
        run: PageRun,
        /// Frame to which the first page is mapped.
        frame: Frame,
        /// Accesses that the pages allow.
        permissions: Permissions,
    },
    /// Unmaps pages, all of which are mapped.
    Unmap {
        /// Pages that become unmapped.
        run: PageRun,
    },
    /// Changes the permissions of pages, all of which are mapped.
    Protect {
        /// Pages whose permissions change.
        run: PageRun,
        /// Accesses that the pages allow from now on.
        permissions: Permissions,
    },
}

impl Truth {
    /// Pages whose mapping or permissions change.
    pub const fn run(&self) -> PageRun {
        match *self {
            Self::Map { run, .. } | Self::Unmap { run } | Self::Protect { run, .. } => run,
        }
    }
}
