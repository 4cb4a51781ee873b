//! Heaps of the programs from paper P.

use perforate_config::BoundedSize;
use perforate_types::{Backing, Permissions, ProcessId, ProgramEvent, ThreadId, VirtualAddress};

use crate::source::PAGE_BYTES;

/// Number of 4KB pages in a 2MB region.
pub(super) const REGION_PAGES: u64 = 512;
const REGION_BYTES: u64 = REGION_PAGES * PAGE_BYTES;

/// Size of a heap in bytes, rounded down to whole 2MB pages.
pub(super) type HeapSize = BoundedSize<REGION_BYTES, { 64 << 30 }>;

/// Number of other instructions before each access to a heap: the default of the other workloads, because no
/// source gives a number.
pub(super) const OTHERS: u32 = 3;

const START: u64 = 0x7f00_0000_0000;

/// Heap of a simulated process, in whole 2MB regions.
#[derive(Clone, Copy)]
pub(super) struct Heap {
    /// Size of the heap in 4KB pages.
    pub(super) pages: u64,
}

impl Heap {
    pub(super) fn new(size: HeapSize) -> Self {
        Self { pages: size.bytes() / REGION_BYTES * REGION_PAGES }
    }

    /// Address of the heap's page with this number.
    pub(super) fn page(self, number: u64) -> u64 {
        START + number * PAGE_BYTES
    }

    /// Makes the event that maps and populates the whole heap.
    pub(super) fn map(self, shared: bool) -> ProgramEvent {
        ProgramEvent::Map {
            start: VirtualAddress::new(START),
            length: self.pages * PAGE_BYTES,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared,
            populate: true,
        }
    }
}

/// Makes the event that switches to a process.
pub(super) fn switch(process: ProcessId) -> ProgramEvent {
    ProgramEvent::Switch { process, thread: ThreadId(0) }
}
