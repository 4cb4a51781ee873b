//! The machine: its processor, its clock, its large-page settings, and how much of its memory may be
//! used.

mod clock;
mod large_pages;
mod memory_limit;
mod processor;

pub use clock::{clock_ghz, clock_ghz_of};
pub use large_pages::{LargePageSettings, chosen};
pub use memory_limit::{Headroom, MemoryAmounts, MemoryLimit, bounded, parse_control_groups};
pub use processor::Processor;
