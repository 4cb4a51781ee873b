//! The memory-management unit: page-table formats, TLBs, walk caches, and the pipeline that
//! translates with them.
//!
//! [`Mmu::translate`] is the one translation loop; what differs between schemes is the
//! [`Dimension`] behind it. The operating system's [`perforate_types::FormatOperation`]s become
//! entries written to simulated physical memory, and walks read those entries: no translation
//! comes from anywhere else. Nothing here has a clock; costs are [`perforate_types::Steps`].

mod capability;
mod coalescing;
mod config;
mod counters;
mod dimension;
mod fault;
mod gap_tolerant;
mod nested;
mod perforated;
mod pipeline;
mod radix;
mod reach;
mod segment;
mod shadow;
mod tlb;
mod walk;

pub use capability::{
    BesideCounters, BesideL2, BesideUse, Capability, CapabilityMut, Holes, OverHost, Runs, Wanted,
};
pub use coalescing::{Coalescing, CoalescingForm, Run, RunRequest};
pub use config::{
    ConfigError, MmuConfig, TlbConfig, TlbGeometry, VirtualizationConfig, WalkCacheConfig,
};
pub use counters::{MmuCounters, counters};
pub use dimension::{Dimension, Mark, WalkRequest};
pub use fault::{HostFault, PageFault, WalkFault};
pub use gap_tolerant::{GapTolerantEntry, GapTolerantRadix, Superpage, added_storage_bytes};
pub use nested::{Host, Nested, RegisteredRun};
pub use perforated::{PerforatedPage, PerforatedRadix};
pub use pipeline::{Case, Mmu, Translated};
pub use radix::Radix;
pub use reach::{Reach, allow};
pub use segment::{EscapeFilter, Segmented};
pub use shadow::Shadow;
pub use tlb::{EntryKind, L2Contents};
pub use walk::{Node, TableMemory, WalkCaches, Walker};

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
