//! Sequences of events and accesses for tests. No real program produces them, but no kernel may
//! crash on them.
//!
//! Ranges are empty, very large, or not page-aligned, and begin and end at the boundaries of other
//! ranges. Mappings overlap mappings, parts of them move, and processes fork, run and exit in any
//! order. A trace can contain each of these events; the kernel may refuse it.

mod choices;
mod generator;
mod places;
mod trace;

use perforate_types::{AccessKind, ProgramEvent, VirtualAddress};

pub use choices::{Bytes, Choices};
pub use generator::sequence;
pub use trace::write;

/// First address of the arena, the range of addresses in which most events happen.
pub const ARENA: u64 = 0x7f00_0000_0000;
/// Number of 2MB regions in the arena.
pub const REGIONS: u64 = 6;

/// Event or access of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Request of the running process to its operating system.
    Event(ProgramEvent),
    /// Memory access of the running process.
    Access {
        /// Kind of the access: load, store or fetch.
        kind: AccessKind,
        /// Virtual address of the access.
        address: VirtualAddress,
    },
}
