//! The memory-management unit (MMU): page-table formats, TLBs, walk caches, and the translation
//! pipeline.
//!
//! [`Mmu::translate`] is the only translation loop. Schemes differ in the [`Dimension`] behind the
//! loop. This crate contains ordinary page tables ([`Radix`]) and the composition of two dimensions
//! ([`Nested`]). The dimensions of mechanisms are in the crate `schemes`, built from [`radix`] and
//! [`Around`].
//!
//! The MMU writes the operating system's [`perforate_types::FormatOperation`]s as entries to
//! simulated physical memory, and walks read those entries. No translation has another source. The
//! MMU has no clock; costs are [`perforate_types::Steps`].

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
    BesideCounters, BesideL2, BesideUse, BitmapLoading, Capability, CapabilityMut, Holes, OverHost,
    PerCoreHardware, Runs, Wanted,
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
