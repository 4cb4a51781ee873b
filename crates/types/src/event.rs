//! Requests of a program to its operating system.

use serde::{Deserialize, Serialize};

use crate::{Permissions, VirtualAddress};

/// A process of the traced program; the first process is 0.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ProcessId(pub u16);

/// A thread of the traced program; the first thread is 0.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ThreadId(pub u16);

/// Kind of memory behind a mapping.
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

/// `madvise` advice that affects translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// MADV_HUGEPAGE: large pages are wanted.
    HugePage,
    /// MADV_NOHUGEPAGE: large pages are forbidden.
    NoHugePage,
    /// MADV_DONTNEED: the pages are dropped now; the next access finds zeroes.
    DontNeed,
    /// MADV_FREE: the kernel may drop the pages later.
    Free,
    /// Any other advice, by its Linux number.
    Other(i32),
    /// Pages of 2ⁿ × 4KB are wanted, in this memory only: 16KB to 1MB, or 1GB from a reserve. Linux has no such
    /// call, so no trace has it; settings of the machine and several calls lead there.
    #[serde(skip)]
    PageSize(u8),
}

/// Advice by Linux's numbers (`include/uapi/asm-generic/mman-common.h`).
impl Advice {
    /// MADV_MERGEABLE: same-page merging may look at the pages.
    pub const MERGEABLE: Self = Self::Other(12);
    /// MADV_UNMERGEABLE: merged pages get frames of their own now.
    pub const UNMERGEABLE: Self = Self::Other(13);
    /// MADV_PAGEOUT: the pages are swapped out now.
    pub const PAGEOUT: Self = Self::Other(21);
    /// MADV_POPULATE_READ: the pages are mapped now, as by reads.
    pub const POPULATE_READ: Self = Self::Other(22);
    /// MADV_POPULATE_WRITE: the pages are mapped now, as by writes. A recorded trace begins with it, for pages that
    /// are in memory or swapped out when recording starts.
    pub const POPULATE_WRITE: Self = Self::Other(23);
    /// MADV_COLLAPSE: large pages are made now.
    pub const COLLAPSE: Self = Self::Other(25);

    /// True for advice that maps the pages now.
    pub const fn populates(self) -> bool {
        matches!(self, Self::POPULATE_READ | Self::POPULATE_WRITE)
    }
}

/// An event of the traced program between two instructions, such as a system call. Lengths are in
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum ProgramEvent {
    /// mmap: a new mapping, which replaces any mapping in its range.
    Map {
        /// Address of the mapping's first byte; a multiple of 4096.
        start: VirtualAddress,
        /// Length in bytes, rounded up to whole pages.
        length: u64,
        /// Accesses that the mapping allows.
        permissions: Permissions,
        /// False for PROT_NONE, which forbids every access.
        accessible: bool,
        /// Kind of memory behind the mapping.
        backing: Backing,
        /// True for a mapping with MAP_SHARED.
        shared: bool,
        /// True for MAP_POPULATE: all pages are mapped at once, before the next instruction.
        populate: bool,
    },
    /// munmap: removes the mappings in a range of addresses.
    Unmap {
        /// Address of the range's first byte; a multiple of 4096.
        start: VirtualAddress,
        /// Length in bytes, rounded up to whole pages.
        length: u64,
    },
    /// mprotect: changes the permissions of a range of addresses.
    Protect {
        /// Address of the range's first byte; a multiple of 4096.
        start: VirtualAddress,
        /// Length in bytes, rounded up to whole pages.
        length: u64,
        /// Accesses that the range allows from now on.
        permissions: Permissions,
        /// False for PROT_NONE, which forbids every access.
        accessible: bool,
    },
    /// madvise: gives advice about a range of addresses.
    Advise {
        /// Address of the range's first byte; a multiple of 4096.
        start: VirtualAddress,
        /// Length in bytes, rounded up to whole pages.
        length: u64,
        /// Advice that the program gives.
        advice: Advice,
    },
    /// mremap: resizes the mapping at `from` or moves it to `to`.
    Remap {
        /// Address of the mapping's first byte before the call.
        from: VirtualAddress,
        /// Length of the mapping before the call, in bytes.
        from_length: u64,
        /// Address of the mapping's first byte after the call.
        to: VirtualAddress,
        /// Length of the mapping after the call, in bytes.
        to_length: u64,
    },
    /// brk: moves the end of the heap. Afterwards, the heap spans `start..end`.
    Brk {
        /// Address of the heap's first byte; never changes within a process image.
        start: VirtualAddress,
        /// Address after the last byte of the heap.
        end: VirtualAddress,
    },
    /// Addresses have this name from now on, as `/proc/PID/maps` shows names: the path of a mapped file,
    /// `/memfd:NAME (deleted)`, `[anon:NAME]`. Changes nothing but the name. A new mapping has no name until
    /// this event; mremap moves names with the memory.
    Name {
        /// Address of the range's first byte; a multiple of 4096.
        start: VirtualAddress,
        /// Length in bytes, rounded up to whole pages.
        length: u64,
        /// Name of the range; empty to take the name away.
        name: String,
    },
    /// fork: `child` starts with a copy of the running process's memory.
    Fork {
        /// Process that the fork creates.
        child: ProcessId,
    },
    /// execve: the running process replaced its memory.
    Exec,
    /// exit: the process `process` ended.
    Exit {
        /// Process that has ended.
        process: ProcessId,
    },
    /// Instructions that the program executed here but the trace omits. Only sampled traces have
    /// gaps: the recorder skipped instructions between two windows.
    Gap {
        /// Number of instructions that the trace omits.
        instructions: u64,
    },
    /// The program begins another phase of its work.
    Phase {
        /// Name of the phase, chosen by the program.
        name: String,
        /// Names and values of the counts that the program itself reports at this point.
        figures: Vec<(String, u64)>,
    },
    /// Context switch: the instructions that follow belong to this process and thread.
    Switch {
        /// Process that runs now.
        process: ProcessId,
        /// Thread that runs now.
        thread: ThreadId,
    },
}
