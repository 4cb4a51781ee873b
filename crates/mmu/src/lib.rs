//! The memory-management unit (MMU): page-table formats, TLBs, walk caches, and the translation
//! pipeline.
//!
//! [`Mmu::translate`] is the only translation loop. After a TLB miss, it asks a [`Dimension`],
//! which translates one address space to the next, for example by walking page tables. Schemes
//! differ in their dimension only. This crate has ordinary page tables ([`Radix`]) and the nested
//! translation of a guest's dimension over a host's ([`Nested`]). The crate `schemes` has the
//! dimensions of mechanisms, which are built from [`radix`] and [`DimensionLayer`].
//!
//! The MMU writes the operating system's [`perforate_types::FormatOperation`]s as entries to
//! simulated physical memory. Walks read those entries, so every translation comes from memory. The
//! MMU has no clock: its results are [`perforate_types::Steps`], which the timing model turns into
//! cycles.

mod capability;
mod coalescing;
mod config;
mod counters;
mod dimension;
mod fault;
mod host_memory;
mod inspect;
mod layer;
mod nested;
mod parked;
mod pipeline;
pub mod radix;
mod reach;
mod tlb;
mod walk;

pub use capability::{
    BitmapLoading, Capability, CapabilityKind, CapabilityMut, Holes, OverHost, PerCoreHardware,
    Runs, SidebandCounters, SidebandTlb, SidebandUse,
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
pub use layer::DimensionLayer;
pub use nested::{Host, Nested, RegisteredRun};
pub use parked::Parked;
pub use pipeline::{Case, Mmu, Translated};
pub use radix::Radix;
pub use reach::{Reach, allow};
pub use tlb::{EntryKind, L2Contents, SetAssociative};
pub use walk::{Node, TableMemory, WalkCaches, Walker};
