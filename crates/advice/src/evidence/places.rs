//! Places: named memory of a process.

use std::ops::Range;

use serde::Serialize;

use crate::AreaKind;

/// Memory of one process with its name and kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Process ID of the operating system.
    pub process: u32,
    /// Name as in `/proc/PID/maps`; empty for memory without a name.
    pub name: String,
    /// Kind of the memory.
    pub kind: AreaKind,
    /// Addresses of the memory in bytes.
    pub bytes: Range<u64>,
}
