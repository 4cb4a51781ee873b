//! The memory-management unit: page-table formats, TLBs, walk caches, and the pipeline that
//! translates with them.
//!
//! [`Mmu::translate`] is the one translation loop; what differs between schemes is the
//! [`Dimension`] behind it. Ordinary page tables ([`Radix`]) are here, and two dimensions as one
//! ([`Nested`]); those of mechanisms stand elsewhere, made of [`radix`] and [`Around`].
//!
//! The operating system's [`perforate_types::FormatOperation`]s become entries written to simulated
//! physical memory, and walks read those entries: no translation comes from anywhere else. Nothing
//! here has a clock; costs are [`perforate_types::Steps`].

mod around;
mod capability;
mod coalescing;
mod config;
mod counters;
mod dimension;
mod fault;
mod host_memory;
mod inspect;
mod nested;
mod parked;
mod pipeline;
pub mod radix;
mod reach;
mod tlb;
mod walk;

pub use around::Around;
pub use capability::{
    BesideCounters, BesideL2, BesideUse, BitmapLoading, Capability, CapabilityMut, Holes, OfCores,
    OverHost, Runs, Wanted,
};
pub use coalescing::{Coalescing, CoalescingForm, Run, RunRequest};
pub use config::{
    BitmapUpdates, ConfigError, L2Part, MmuConfig, NestedEntries, ShadowReads, TlbConfig,
    TlbGeometry, VirtualizationConfig, WalkCacheConfig, Ways, WaysError,
};
pub use counters::{MmuCounters, counters};
pub use dimension::{Dimension, Mark, WalkRequest};
pub use fault::{HostFault, PageFault, WalkFault};
pub use inspect::{Attempt, CachedContent, CachedEntry};
pub use nested::{Host, Nested, RegisteredRun};
pub use parked::Parked;
pub use pipeline::{Case, Mmu, Translated};
pub use radix::Radix;
pub use reach::{Reach, allow};
pub use tlb::{EntryKind, L2Contents, SetAssociative};
pub use walk::{Node, TableMemory, WalkCaches, Walker};
