//! What a program asks of the operating system.

use serde::{Deserialize, Serialize};

use crate::{Permissions, VirtualAddress};

/// A process of the traced program; 0 is the first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ProcessId(pub u16);

/// A thread of the traced program; 0 is the first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ThreadId(pub u16);

/// What lies behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backing {
    /// Anonymous memory (mmap without a file).
    Anonymous,
    /// A file: code, libraries, data files. Not eligible for transparent large pages.
    File,
    /// The main thread's stack.
    Stack,
    /// The heap grown by `brk`.
    Heap,
}

/// `madvise` advice that matters to translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// MADV_HUGEPAGE.
    HugePage,
    /// MADV_NOHUGEPAGE.
    NoHugePage,
    /// MADV_DONTNEED: the pages are dropped now and come back zeroed.
    DontNeed,
    /// MADV_FREE: the pages may be dropped later.
    Free,
    /// Any other advice, by its Linux number.
    Other(i32),
}

/// A change a program asks for between two instructions. Lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum ProgramEvent {
    /// A new mapping, replacing whatever was there.
    Map {
        /// First byte; a multiple of 4096.
        start: VirtualAddress,
        /// Length in bytes, rounded up to whole pages.
        length: u64,
        /// What the mapping allows.
        permissions: Permissions,
        /// Whether any access is allowed at all (false: PROT_NONE).
        accessible: bool,
        /// What lies behind it.
        backing: Backing,
        /// MAP_SHARED.
        shared: bool,
        /// Mapped in full at once (MAP_POPULATE), before the next instruction.
        populate: bool,
    },
    /// munmap.
    Unmap {
        /// First byte; a multiple of 4096.
        start: VirtualAddress,
        /// Length in bytes.
        length: u64,
    },
    /// mprotect.
    Protect {
        /// First byte; a multiple of 4096.
        start: VirtualAddress,
        /// Length in bytes.
        length: u64,
        /// New permissions.
        permissions: Permissions,
        /// Whether any access is allowed at all (false: PROT_NONE).
        accessible: bool,
    },
    /// madvise.
    Advise {
        /// First byte; a multiple of 4096.
        start: VirtualAddress,
        /// Length in bytes.
        length: u64,
        /// The advice.
        advice: Advice,
    },
    /// mremap: the mapping at `from` now lies at `to`.
    Remap {
        /// Old first byte.
        from: VirtualAddress,
        /// Old length in bytes.
        from_length: u64,
        /// New first byte.
        to: VirtualAddress,
        /// New length in bytes.
        to_length: u64,
    },
    /// brk: the heap now spans `start..end`.
    Brk {
        /// First byte of the heap; never changes within a process image.
        start: VirtualAddress,
        /// End of the heap.
        end: VirtualAddress,
    },
    /// fork: `child` starts with a copy of the running process's memory.
    Fork {
        /// The new process.
        child: ProcessId,
    },
    /// The running process replaced its memory (execve).
    Exec,
    /// `process` ended.
    Exit {
        /// The process that ended.
        process: ProcessId,
    },
    /// Instructions that the program executed here and that are not in the trace, which is a
    /// sample: the recorder passed over them between two windows.
    Gap {
        /// Their number.
        instructions: u64,
    },
    /// The program begins another part of its work.
    Phase {
        /// What it calls that part.
        name: String,
        /// What it can tell of itself at this point, by name.
        figures: Vec<(String, u64)>,
    },
    /// The instructions that follow belong to this process and thread.
    Switch {
        /// Process that runs now.
        process: ProcessId,
        /// Thread that runs now.
        thread: ThreadId,
    },
}
