//! Parsers of the memory files of `/proc`.
//!
//! The files are `buddyinfo`, `zoneinfo`, `pagetypeinfo`, `iomem`, `kpageflags` and `smaps`.
//! [`perforate_record::process_memory`] reads `maps` and `pagemap`.
//!
//! Parsers take text, so that they also work on copies of the files. They skip unknown lines, because
//! the files differ between kernels, and reject numbers that no machine can have.

mod entries;
mod iomem;
mod page_flags;
mod smaps;
mod zones;

use std::path::Path;

use perforate_record::process_memory::read_text;

pub(crate) use entries::Entries;
pub(crate) use iomem::memory_ranges;
pub(crate) use page_flags::{PageFlags, has_no_use, is_large_page, state_of};
pub use smaps::Residency;
pub(crate) use smaps::{MappedArea, parse_areas};
pub(crate) use zones::{Zones, free_memory};

/// Parses a size such as `  1024 kB`. Returns bytes.
pub(crate) fn kilobytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// Name of the program of a process, from the process's folder in `/proc`. Empty if it cannot be read.
pub(crate) fn program_name(folder: &Path) -> String {
    let name = read_text(folder.join("comm")).unwrap_or_default();
    name.trim().chars().take(64).collect()
}

/// Release of the kernel from the file `sys/kernel/osrelease` in `folder`, which is `/proc` or a
/// copy of parts of it. Empty if the file cannot be read.
pub(crate) fn kernel_release(folder: &Path) -> String {
    let release = read_text(folder.join("sys/kernel/osrelease")).unwrap_or_default();
    let word = release.split_whitespace().next().unwrap_or_default();
    word.chars().filter(char::is_ascii_graphic).take(64).collect()
}
