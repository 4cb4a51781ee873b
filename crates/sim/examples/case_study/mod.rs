//! What the case studies share: random numbers that are the same for every scheme, and the events
//! they send.
#![allow(dead_code)]

use perforate_types::{Backing, Permissions, ProcessId, ProgramEvent, ThreadId, VirtualAddress};

/// The same numbers for every scheme, from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// A number from 0 up to 1, evenly.
    pub fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `bound`, evenly.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.fraction() * bound as f64) as u64
    }
}

/// Process `process` runs now.
pub fn switch(process: u16) -> ProgramEvent {
    ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(0) }
}

/// Anonymous memory that is mapped in full at once.
pub fn map_populated(start: u64, length: u64, shared: bool) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared,
        populate: true,
    }
}
