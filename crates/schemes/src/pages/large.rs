//! Conventional large pages, where a whole block is free; 4KB pages elsewhere.

use perforate_os::{Huge1G, Thp};

use super::radix;
use crate::Scheme;

/// 2MB pages at first touch wherever a whole block is free.
pub const TRANSPARENT_LARGE_PAGES: Scheme = Scheme {
    name: "thp",
    summary: "2MB pages where the block is whole, 4KB pages elsewhere (conventional)",
    source: "Linux with transparent_hugepage=always",
    other_names: &["conventional", "2m"],
    colour: "page-2m",
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
    policy: |_| Ok(Box::new(Thp::new("thp"))),
    dimension: radix,
};

/// 2MB pages only in areas with MADV_HUGEPAGE.
pub(crate) const ADVISED_LARGE_PAGES: Scheme = Scheme {
    name: "thp-madvise",
    summary: "as thp, but only where the program asked for large pages (MADV_HUGEPAGE)",
    source: "Linux with transparent_hugepage=madvise",
    other_names: &[],
    policy: |_| Ok(Box::new(Thp { needs_advice: true, ..Thp::new("thp-madvise") })),
    ..TRANSPARENT_LARGE_PAGES
};

/// 1GB pages where contiguous memory is available, otherwise as `thp`.
pub(crate) const HUGE_PAGES: Scheme = Scheme {
    name: "1g",
    summary: "1GB pages where 1GB is contiguous, else as thp",
    source: "x86-64, Linux hugetlbfs with 1GB pages",
    other_names: &[],
    colour: "page-1g",
    policy: |_| Ok(Box::new(Huge1G)),
    ..TRANSPARENT_LARGE_PAGES
};
