//! 4KB pages only: the baseline of every comparison.

use perforate_os::BasePages;

use super::radix;
use crate::Scheme;

/// x86-64 with 4KB pages for all memory.
pub const BASE_PAGES: Scheme = Scheme {
    name: "4k",
    summary: "4KB pages only",
    source: "x86-64, Linux with transparent_hugepage=never",
    other_names: &["base"],
    colour: "page-4k",
    counters: Vec::new,
    ideal_memory: false,
    free_translation: false,
    shadow_paging: false,
    flat_table: false,
    native_only: None,
    shadow_directories: false,
    gap_tolerance: None,
    bitmap_loading: None,
    coalescing: None,
    policy: |_| Ok(Box::new(BasePages)),
    dimension: radix,
};
