//! Ordinary page tables: 4KB pages, large pages where available, and two bounds (the papers' ideal
//! large pages, and translation that takes no time).

use perforate_mmu::{Dimension, Radix};
use perforate_os::{BasePages, Huge1G, Thp, layout_counters};

use crate::{Hardware, Scheme};

/// Scheme with 4KB pages only.
pub(crate) const BASE: &[&Scheme] = &[&BASE_PAGES];
/// Schemes with large pages, without a mechanism beyond ordinary page tables.
pub(crate) const LARGE: &[&Scheme] =
    &[&TRANSPARENT_LARGE_PAGES, &ADVISED_LARGE_PAGES, &HUGE_PAGES, &LAID_OUT];
/// Schemes that bound the results of other schemes.
pub(crate) const BOUNDS: &[&Scheme] = &[&IDEAL, &FREE_TRANSLATION];

/// x86-64 with 4KB pages for all memory: the baseline of every comparison.
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

/// Scheme that maps 2MB pages at first touch wherever a whole 2MB block is free.
pub const TRANSPARENT_LARGE_PAGES: Scheme = Scheme {
    name: "thp",
    summary: "2MB pages where the block is whole, 4KB pages elsewhere (conventional)",
    source: "Linux with transparent_hugepage=always",
    other_names: &["conventional", "2m"],
    colour: "page-2m",
    policy: |_| Ok(Box::new(Thp::new("thp"))),
    ..BASE_PAGES
};

/// Scheme that maps 2MB pages only in areas with MADV_HUGEPAGE.
pub(crate) const ADVISED_LARGE_PAGES: Scheme = Scheme {
    name: "thp-madvise",
    summary: "as thp, but only where the program asked for large pages (MADV_HUGEPAGE)",
    source: "Linux with transparent_hugepage=madvise",
    other_names: &[],
    policy: |_| Ok(Box::new(Thp { needs_advice: true, ..Thp::new("thp-madvise") })),
    ..TRANSPARENT_LARGE_PAGES
};

/// Scheme that maps 1GB pages where contiguous memory is available, otherwise pages as in `thp`.
pub(crate) const HUGE_PAGES: Scheme = Scheme {
    name: "1g",
    summary: "1GB pages where 1GB is contiguous, else as thp",
    source: "x86-64, Linux hugetlbfs with 1GB pages",
    other_names: &[],
    colour: "page-1g",
    policy: |_| Ok(Box::new(Huge1G)),
    ..TRANSPARENT_LARGE_PAGES
};

/// Scheme that maps pages of 4KB, 2MB and 1GB in the intervals of a layout (`--layout`), or 4KB
/// pages without a layout.
pub(crate) const LAID_OUT: Scheme = Scheme {
    name: "layout",
    summary: "4KB, 2MB and 1GB pages in the parts of memory that --layout says",
    source: "Mosalloc (Agbarya, Yaniv and others, MICRO 2020) over Linux hugetlbfs",
    other_names: &["mosaic"],
    colour: "layout",
    counters: layout_counters,
    policy: |options| Ok(Box::new(options.layout.clone().unwrap_or_default())),
    ..TRANSPARENT_LARGE_PAGES
};

/// Scheme that maps 2MB pages on unfragmented memory: the upper bound that the papers compare with.
pub(crate) const IDEAL: Scheme = Scheme {
    name: "ideal",
    summary: "2MB pages on unfragmented memory: every large page contiguous",
    source: "P §VII",
    other_names: &[],
    colour: "ideal",
    ideal_memory: true,
    policy: |_| Ok(Box::new(Thp::new("ideal"))),
    ..TRANSPARENT_LARGE_PAGES
};

/// Scheme with 4KB pages whose translation takes no time: a bound that shows the cost of
/// translation. In all other respects it equals `4k`. The program has the same frames, so its data
/// use the same cache sets and DRAM rows, and TLBs have the same misses. `ideal` has other frames
/// and other misses.
pub const FREE_TRANSLATION: Scheme = Scheme {
    name: "free",
    summary: "4KB pages whose translation takes no time: shows what translation costs",
    source: "a bound of ours: TLBs and walks as in 4k, in no time",
    other_names: &[],
    colour: "free",
    free_translation: true,
    ..BASE_PAGES
};

/// Schemes with the Linux setting that produces their page sizes on current systems.
const SETTINGS: [(&Scheme, &str); 5] = [
    (&BASE_PAGES, "transparent_hugepage/enabled=never"),
    (&TRANSPARENT_LARGE_PAGES, "transparent_hugepage/enabled=always"),
    (&ADVISED_LARGE_PAGES, "transparent_hugepage/enabled=madvise"),
    (&HUGE_PAGES, "hugetlbfs with 1GB pages"),
    (&LAID_OUT, "hugetlbfs by Mosalloc with this layout"),
];

/// Linux setting that produces the page sizes of the scheme called `name`; `None` if no current
/// system has one.
pub(crate) fn setting(name: &str) -> Option<&'static str> {
    SETTINGS.iter().find(|(scheme, _)| scheme.name == name).map(|&(_, setting)| setting)
}

/// Builds ordinary page tables of x86-64, with as many levels as the kernel's.
pub fn radix(hardware: &Hardware<'_>) -> Box<dyn Dimension> {
    Box::new(Radix::new().with_five_levels(hardware.kernel.tables().five_levels))
}
