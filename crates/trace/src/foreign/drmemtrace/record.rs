//! Record types of DynamoRIO's drmemtrace traces after its post-processing, and their meanings.

use perforate_types::{Branch, counted};

use super::super::foreign_source::NO_EVENTS;
use crate::source::ALL_MAKE_ADDRESSES;

/// Length of a record of a final trace in bytes.
pub(super) const BYTES: usize = 12;

pub(super) const WRITE: u16 = 1;
pub(super) const BUNDLE: u16 = 17;
pub(super) const THREAD: u16 = 22;
pub(super) const THREAD_EXIT: u16 = 23;
pub(super) const PROCESS: u16 = 24;
pub(super) const HEADER: u16 = 25;
pub(super) const FOOTER: u16 = 26;
pub(super) const MARKER: u16 = 28;
pub(super) const ENCODING: u16 = 47;
/// Largest record type that the reader knows; a larger one is an error.
pub(super) const LAST: u16 = 49;

/// Marker type of a time stamp. A marker is a record that describes the trace; its field `size` is its type.
pub(super) const TIME: u16 = 2;
pub(super) const PROCESSOR: u16 = 3;
pub(super) const FILE_TYPE: u16 = 9;
pub(super) const VERSION: u16 = 12;
pub(super) const PAGE_SIZE: u16 = 18;
/// Types of the markers after a system-call instruction: one has the number of the call, the other states
/// that the call may block.
pub(super) const SYSTEM_CALL: [u16; 2] = [25, 26];
pub(super) const KERNEL_CODE_BEGINS: [u16; 2] = [27, 34];
pub(super) const KERNEL_CODE_ENDS: [u16; 2] = [28, 35];

/// A decoded record of 12 bytes.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) kind: u16,
    pub(super) size: u16,
    pub(super) value: u64,
}

impl Record {
    /// Decodes the record at the beginning of `bytes`, which has at least 12 bytes.
    #[inline]
    pub(super) fn decode(bytes: &[u8]) -> Self {
        Self {
            kind: u16::from_le_bytes([bytes[0], bytes[1]]),
            size: u16::from_le_bytes([bytes[2], bytes[3]]),
            value: u64::from_le_bytes(bytes[4..12].try_into().expect("eight bytes")),
        }
    }
}

/// Branch information that the type of an instruction record gives.
#[derive(Clone, Copy)]
pub(super) enum Flow {
    /// Kind of branch that the record type names, and true if it is taken.
    Known(Branch, bool),
    /// A conditional branch. The next instruction's address shows whether it is taken.
    NextTells,
}

/// Returns the control flow of a record of type `kind`; `None` if the record is not an instruction.
#[inline]
pub(super) fn flow(kind: u16) -> Option<Flow> {
    Some(match kind {
        // Plain instruction, repeated string instruction (two types), system call by sysenter.
        10 | 29 | 30 | 31 => Flow::Known(Branch::None, false),
        11 => Flow::Known(Branch::Jump, true),
        12 => Flow::Known(Branch::Indirect, true),
        13 => Flow::NextTells,
        14 => Flow::Known(Branch::Call, true),
        15 => Flow::Known(Branch::IndirectCall, true),
        16 => Flow::Known(Branch::Return, true),
        48 => Flow::Known(Branch::Conditional, true),
        49 => Flow::Known(Branch::Conditional, false),
        _ => return None,
    })
}

/// Properties of a trace, from the records before its first instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Value of the marker of the file type: bits of `offline_file_type_t`.
    pub(super) file_type: u64,
    /// Version of the trace's format.
    pub(super) version: u64,
    /// Page size of the recorded machine in bytes.
    pub(super) page_bytes: u64,
}

/// Bits of the file type, with descriptions for users.
const FILE_TYPES: [(u64, &str); 17] = [
    (0x40, "x86-64"),
    (0x20, "32-bit x86"),
    (0x8, "AArch64"),
    (0x10, "32-bit ARM"),
    (Facts::SYNTHETIC, "a synthetic instruction set (regdeps)"),
    (Facts::ENCODINGS, "encodings"),
    (Facts::NO_DATA, "no data accesses"),
    (0x1, "filtered"),
    (0x80, "instructions filtered"),
    (0x100, "data filtered"),
    (0x2000, "filtered only while warming up"),
    (0x400, "numbers of system calls"),
    (0x800, "system calls that may block"),
    (0x1000, "code of system calls"),
    (0x4000, "templates of system calls"),
    (0x8000, "instructions only in code of system calls"),
    (0x1_0000, "a file for each core"),
];

impl Facts {
    const NO_DATA: u64 = 0x4;
    const ENCODINGS: u64 = 0x200;
    const SYNTHETIC: u64 = 0x2_0000;
    const OTHER_ARCHITECTURE: u64 = 0x8 | 0x10 | 0x20;
    const FILTERED: u64 = 0x1 | 0x80 | 0x100;

    /// Stores the value of a marker that describes the trace: file type, version, page size.
    pub(super) fn take(&mut self, marker: Record) {
        match marker.size {
            FILE_TYPE => self.file_type = marker.value,
            VERSION => self.version = marker.value,
            PAGE_SIZE => self.page_bytes = marker.value,
            _ => {}
        }
    }

    /// Combines the properties from two files of a trace.
    pub(super) fn join(&mut self, other: Self) {
        self.file_type |= other.file_type;
        self.version = self.version.max(other.version);
        self.page_bytes = self.page_bytes.max(other.page_bytes);
    }

    /// True if the trace has encodings that name registers.
    pub(super) fn has_registers(self) -> bool {
        let wanted = Self::SYNTHETIC | Self::ENCODINGS;
        self.file_type & wanted == wanted
    }

    /// Describes the recording in one line; `files` is the number of its files.
    pub(super) fn description(self, files: usize) -> String {
        let mut text = format!("version {}", self.version);
        let known = FILE_TYPES.iter().fold(0, |all, (bit, _)| all | bit);
        for (_, meaning) in FILE_TYPES.iter().filter(|(bit, _)| self.file_type & bit != 0) {
            text += &format!(", {meaning}");
        }
        let rest = self.file_type & !known & !0x2; // 0x2: recorded without optimisations
        if rest != 0 {
            text += &format!(", unknown flags {rest:#x}");
        }
        if self.page_bytes > 0 {
            text += &format!(", pages of {} bytes", self.page_bytes);
        }
        text + ", " + &counted(files, "file")
    }

    /// Lists the assumptions about information that the trace does not contain.
    pub(super) fn assumptions(self) -> Vec<String> {
        let mut list = match self.has_registers() {
            true => vec![
                "registers are those of a synthetic instruction set; four that are read and two that \
                 are written are kept of an instruction's eight",
                ALL_MAKE_ADDRESSES,
                "multiplications and divisions are not told from other integer operations",
            ],
            false => vec![
                "registers are not recorded, instruction bytes not decoded; no dependencies assumed",
                "operations are not recorded; all counted as integer, system calls as serializing",
            ],
        };
        list.push(NO_EVENTS);
        list.push("prefetches, cache flushes and code of the kernel are left out");
        if self.file_type & Self::NO_DATA != 0 {
            list.push("recorded without data accesses: only fetches are translated");
        }
        if self.file_type & Self::FILTERED != 0 {
            list.push("recorded behind a filter: accesses that hit it are missing");
        }
        if self.file_type & Self::OTHER_ARCHITECTURE != 0 {
            list.push("not recorded on x86-64; addresses are taken as they are");
        }
        list.into_iter().map(str::to_owned).collect()
    }
}
