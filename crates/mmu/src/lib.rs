//! The memory-management unit: page-table formats, TLBs, walk caches, and the pipeline that
//! translates with them.
//!
//! [`Mmu::translate`] is the one translation loop; what differs between schemes is the
//! [`Dimension`] behind it. The operating system's [`perforate_types::FormatOperation`]s become
//! entries written to simulated physical memory, and walks read those entries: no translation
//! comes from anywhere else. Nothing here has a clock; costs are [`perforate_types::Steps`].

mod coalescing;
mod config;
mod counters;
mod dimension;
mod escape_filter;
mod gap_tolerant;
mod l1_tlb;
mod l2_tlb;
mod nested;
mod perforated;
mod pipeline;
mod radix;
mod sabotage;
mod segmented;
mod set_associative;
mod shadow;
mod table_memory;
mod walk_cache;
mod walker;

pub use coalescing::{Coalescing, CoalescingForm, Run, RunRequest};
pub use config::{
    ConfigError, MmuConfig, TlbConfig, TlbGeometry, VirtualizationConfig, WalkCacheConfig,
};
pub use counters::MmuCounters;
pub use dimension::{
    Dimension, HostFault, PerforatedPage, Reach, Superpage, WalkFault, WalkRequest, allow,
};
pub use escape_filter::EscapeFilter;
pub use gap_tolerant::{GapTolerantEntry, GapTolerantRadix, added_storage_bytes};
pub use l2_tlb::{EntryKind, L2Contents};
pub use nested::{Host, Nested, NestedCounters, RegisteredRun};
pub use perforated::PerforatedRadix;
pub use pipeline::{Case, Mmu, PageFault, Translated};
pub use radix::Radix;
pub use sabotage::Sabotage;
pub use segmented::Segmented;
pub use shadow::Shadow;
pub use table_memory::TableMemory;
pub use walk_cache::WalkCaches;
pub use walker::{Node, Walker};

/// How the second-level TLB holds the bitmap of a perforated page (P §IV.C, Fig. 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerforatedVariant {
    /// All 16 bitmap entries are loaded with the page; the filter is ignored.
    Naive,
    /// Bitmap entries are loaded when needed; the filter is ignored.
    OnDemand,
    /// On demand, and only for 256KB regions whose filter bit is set: the paper's proposal.
    Filtered,
}
