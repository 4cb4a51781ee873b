//! The machine: processor, clock, settings of transparent huge pages, and limits of usable memory.

mod clock;
mod hypervisor;
mod large_pages;
mod memory_limit;
mod own;
mod processor;
mod stated;
mod surroundings;

pub use clock::{clock_ghz, clock_ghz_of};
pub use hypervisor::Hypervisor;
pub use large_pages::{LargePageSettings, chosen};
pub use memory_limit::{Headroom, bounded, parse_control_groups};
pub(crate) use own::nearest_machine;
pub use own::{kept_file, own_machine};
pub use processor::Processor;
pub use stated::{Stated, StatedPart};
pub use surroundings::{
    Version, free_large_bytes, kernel_version, numa_nodes, program_files, versioned,
};
