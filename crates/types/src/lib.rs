//! Types that all other crates share: addresses, page-table entries, program events, updates of the
//! operating system, and steps of a translation.
//!
//! The types only encode and decode. Data flows in one direction: [`Chunk`]s of a trace →
//! [`Update`]s of the operating system → [`Steps`] of a translation → cycles.

mod address;
mod counters;
mod entry;
mod event;
mod figure;
mod format;
mod gap_tolerance;
mod hole_set;
mod instruction;
mod page_size;
mod permissions;
mod random;
mod range_map;
mod scheme_facts;
mod space;
mod step;
mod truth;
mod update;
mod words;

pub use address::{
    Address, Frame, GuestFrame, GuestPhysical, GuestPhysicalAddress, PageNumber, Physical,
    PhysicalAddress, Space, Virtual, VirtualAddress, VirtualPage,
};
pub use counters::{CounterValue, Counters};
pub use entry::{CONTIGUOUS_PAGES, Contiguity, PageTableEntry};
pub use event::{Advice, Backing, ProcessId, ProgramEvent, ThreadId};
pub use figure::{Counter, CounterUnit, Figure, Part, Prominence, registered, spaced};
pub use format::{FormatOperation, Level, PlainData, TableOperation, Written};
pub use gap_tolerance::{
    CHUNK_FRAMES, ControlError, GT_PDE_BYTES, GapTolerance, SLICE_BLOCKS, SUPERPAGE_BLOCKS,
};
pub use hole_set::HoleSet;
pub use instruction::{
    Branch, Chunk, ChunkItem, FLAGS, INSTRUCTION_POINTER, Instruction, MemoryAccess, Operation,
    Register, STACK_POINTER, access_count,
};
pub use page_size::PageSize;
pub use permissions::{AccessKind, Permissions};
pub use random::{Random, scaled};
pub use range_map::RangeMap;
pub use scheme_facts::{SchemeFacts, SchemeRole};
pub use space::{PageRun, SpaceId};
pub use step::{Action, Purpose, Step, StepLists, Steps, Unit};
pub use truth::Truth;
pub use update::{Shootdown, Update};
pub use words::{counted, noun};
