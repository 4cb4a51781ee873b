//! What the records of a final trace mean.

use perforate_types::Branch;

use super::super::foreign_source::NO_EVENTS;

/// Length in bytes of a record.
pub(super) const BYTES: usize = 12;

pub(super) const WRITE: u16 = 1;
pub(super) const BUNDLE: u16 = 17;
pub(super) const THREAD: u16 = 22;
pub(super) const THREAD_EXIT: u16 = 23;
pub(super) const PROCESS: u16 = 24;
pub(super) const HEADER: u16 = 25;
pub(super) const FOOTER: u16 = 26;
pub(super) const MARKER: u16 = 28;
/// The largest type there is.
pub(super) const LAST: u16 = 49;

/// Markers, by what other records call size.
pub(super) const TIME: u16 = 2;
pub(super) const FILE_TYPE: u16 = 9;
pub(super) const SYSTEM_CALL: u16 = 25;
pub(super) const KERNEL_CODE_BEGINS: [u16; 2] = [27, 34];
pub(super) const KERNEL_CODE_ENDS: [u16; 2] = [28, 35];

/// One record.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) kind: u16,
    pub(super) size: u16,
    pub(super) value: u64,
}

impl Record {
    /// The record at the beginning of at least 12 bytes.
    #[inline]
    pub(super) fn decode(bytes: &[u8]) -> Self {
        Self {
            kind: u16::from_le_bytes([bytes[0], bytes[1]]),
            size: u16::from_le_bytes([bytes[2], bytes[3]]),
            value: u64::from_le_bytes(bytes[4..12].try_into().expect("eight bytes")),
        }
    }
}

/// How an instruction's record says what it does to the flow of control.
#[derive(Clone, Copy)]
pub(super) enum Flow {
    /// The kind of branch, and whether it is taken.
    Known(Branch, bool),
    /// A conditional branch; the next instruction tells whether it is taken.
    NextTells,
}

/// The flow of control of a record of this type, if it is an instruction.
#[inline]
pub(super) fn flow(kind: u16) -> Option<Flow> {
    Some(match kind {
        // Plain, repetition of a string instruction (twice), system call by sysenter.
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

/// What the records before the first instruction say about a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Bits of the file type marker.
    pub(super) file_type: u64,
}

impl Facts {
    const NO_DATA: u64 = 0x4;
    const OTHER_ARCHITECTURE: u64 = 0x8 | 0x10 | 0x20;
    const FILTERED: u64 = 0x1 | 0x80 | 0x100;

    /// What a trace does not tell and what is assumed instead.
    pub(super) fn assumptions(self) -> Vec<String> {
        let mut list = vec![
            "registers are not recorded, instruction bytes not decoded; no dependencies assumed",
            "operations are not recorded; all counted as integer, system calls as serializing",
            NO_EVENTS,
            "prefetches, cache flushes and code of the kernel are left out",
        ];
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
