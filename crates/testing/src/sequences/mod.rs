//! For tests: sequences of events and accesses that no sound program makes and no kernel may fall
//! over.
//!
//! Ranges are empty, vast, cut in the midst of a page, and begin and end where others did; mappings
//! lie over mappings, parts of them move, processes fork, run and end in any order. Every event by
//! itself is one that a trace can hold; the kernel may refuse it.

mod choices;
mod generator;
mod places;
mod trace;

use perforate_types::{AccessKind, ProgramEvent, VirtualAddress};

pub use choices::{Bytes, Choices, Random};
pub use generator::sequence;
pub use trace::write;

/// First address of the arena in which most of it happens.
pub const ARENA: u64 = 0x7f00_0000_0000;
/// 2MB regions in the arena.
pub const REGIONS: u64 = 6;

/// One step of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// What the running process asks for.
    Event(ProgramEvent),
    /// What the running process touches.
    Access {
        /// How.
        kind: AccessKind,
        /// Where.
        address: VirtualAddress,
    },
}
