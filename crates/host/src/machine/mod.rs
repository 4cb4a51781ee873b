//! The machine: its processor, its clock, its large-page settings, and how much of its memory may be
//! used.

mod clock;
mod hypervisor;
mod large_pages;
mod memory_limit;
mod own;
mod processor;
mod stated;

pub use clock::{clock_ghz, clock_ghz_of};
pub use hypervisor::Hypervisor;
pub use large_pages::{LargePageSettings, chosen};
pub use memory_limit::{Headroom, bounded, parse_control_groups};
pub(crate) use own::nearest_machine;
pub use own::{kept_file, own_machine};
pub use processor::Processor;
pub use stated::{Stated, StatedPart};
