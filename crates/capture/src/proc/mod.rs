//! The files of `/proc` about memory, each read in one place.
//!
//! Texts are taken from strings, so that copies and any other content can be tried on them. Lines
//! that are not understood are passed over, as the files differ between kernels; numbers that no
//! machine can have are refused. What cannot be read is absent, not wrong.

mod buddyinfo;
mod input;
mod iomem;
mod kpageflags;
mod maps;
mod meminfo;
mod pagemap;
mod pagetypeinfo;
mod smaps;
mod table;
mod zoneinfo;
mod zones;

pub(crate) use buddyinfo::free_memory;
pub use buddyinfo::free_memory_now;
pub use input::kernel_release;
pub(crate) use input::{text, wrong};
pub(crate) use iomem::memory_ranges;
pub use kpageflags::PageFlags;
pub(crate) use maps::Mapping;
pub use meminfo::MemoryAmounts;
pub(crate) use pagemap::{PageEntry, PageMap};
pub use smaps::Residency;
pub(crate) use smaps::{Area, areas};
pub(crate) use table::{Entries, Table};
pub(crate) use zones::Zones;

/// Bytes of the pages that `/proc` counts and lists.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Bytes of a value such as `  1024 kB`.
fn kilobytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}
