//! What a mapping allows and what an access wants.

use serde::{Deserialize, Serialize};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AccessKind {
    /// Data load.
    Read,
    /// Data store.
    Write,
    /// Instruction fetch.
    Fetch,
}

/// What a mapping allows. A present mapping is always readable, as on x86-64.
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
    /// User data that may be read only.
    pub const READ: Self = Self { write: false, execute: false, user: true };
    /// User data that may be read and written.
    pub const READ_WRITE: Self = Self { write: true, execute: false, user: true };
    /// User code.
    pub const READ_EXECUTE: Self = Self { write: false, execute: true, user: true };
    /// User memory that may be read, written and executed.
    pub const ALL: Self = Self { write: true, execute: true, user: true };

    /// Whether a user-mode access of this kind is allowed.
    pub const fn allow(self, kind: AccessKind) -> bool {
        self.user
            && match kind {
                AccessKind::Read => true,
                AccessKind::Write => self.write,
                AccessKind::Fetch => self.execute,
            }
    }
}
