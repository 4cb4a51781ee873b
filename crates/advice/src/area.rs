//! Areas: memory that a program mapped together.

use std::ops::Range;

use perforate_types::ProcessId;
use serde::Serialize;

/// Kind of an area, as `/proc/PID/maps` distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AreaKind {
    /// The heap grown by `brk`.
    Heap,
    /// Private anonymous mappings.
    Anonymous,
    /// The main thread's stack.
    Stack,
    /// Mappings of files: code, libraries, data.
    File,
    /// Shared anonymous mappings and shared memory.
    Shared,
    /// Memory outside all mappings that the evidence tells.
    Unknown,
}

impl AreaKind {
    /// Kind of a mapping with this name in `/proc/PID/maps`; `is_shared` is true for MAP_SHARED.
    pub fn of_mapping(name: &str, is_shared: bool) -> Self {
        const SHARED: [&str; 4] = ["/dev/zero", "/memfd:", "/SYSV", "/dev/shm/"];
        match name {
            "[heap]" => Self::Heap,
            _ if name.starts_with("[stack") => Self::Stack,
            _ if SHARED.iter().any(|prefix| name.starts_with(prefix)) && is_shared => Self::Shared,
            _ if name.is_empty() || name.starts_with("[anon") => {
                if is_shared {
                    Self::Shared
                } else {
                    Self::Anonymous
                }
            }
            _ if name.starts_with("/anon_hugepage") => Self::Anonymous,
            _ => Self::File,
        }
    }

    /// True if transparent large pages can be asked for with `madvise`, or if that is not known.
    pub const fn takes_advice(self) -> bool {
        matches!(self, Self::Heap | Self::Anonymous | Self::Shared | Self::Unknown)
    }
}

/// Memory that a program mapped together: addresses of one kind and name without a gap between them, over
/// the whole trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Area {
    /// Process to which the area belongs.
    pub process: ProcessId,
    /// Name as in `/proc/PID/maps`: `[heap]`, `[stack]`, the path of a file, `[anon:NAME]`; empty for an
    /// anonymous mapping without a name.
    pub name: String,
    /// Kind of the area.
    pub kind: AreaKind,
    /// Addresses in bytes, multiples of 4096.
    pub bytes: Range<u64>,
    /// Instructions before which the first part of the area was mapped and after which the last was unmapped.
    pub lifetime: Range<u64>,
}
