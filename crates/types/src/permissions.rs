//! Permissions of mappings and kinds of access.

use serde::{Deserialize, Serialize};

/// Kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AccessKind {
    /// Data load.
    Read,
    /// Data store.
    Write,
    /// Instruction fetch.
    Fetch,
}

/// Accesses that a mapping allows. A present mapping is always readable, as on x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Permissions {
    /// Stores allowed (R/W bit).
    pub write: bool,
    /// Fetches allowed (NX bit clear).
    pub execute: bool,
    /// User-mode access allowed (U/S bit).
    pub user: bool,
}

impl Permissions {
    /// Read-only user data.
    pub const READ: Self = Self { write: false, execute: false, user: true };
    /// Readable and writable user data.
    pub const READ_WRITE: Self = Self { write: true, execute: false, user: true };
    /// User code: readable and executable.
    pub const READ_EXECUTE: Self = Self { write: false, execute: true, user: true };
    /// Readable, writable and executable user memory.
    pub const ALL: Self = Self { write: true, execute: true, user: true };

    /// True if a user-mode access of this kind is allowed.
    pub const fn allow(self, kind: AccessKind) -> bool {
        self.user
            && match kind {
                AccessKind::Read => true,
                AccessKind::Write => self.write,
                AccessKind::Fetch => self.execute,
            }
    }
}
