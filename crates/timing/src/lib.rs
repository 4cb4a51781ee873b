//! Timing model: out-of-order core, caches, DRAM, page walkers.
//!
//! Instructions come in program order. The contents of caches and TLBs are updated in that order, so that
//! they depend on no latency; cycles are determined by events. A request for a shared resource (an MSHR, a
//! page walker, a DRAM bank) is an event. Events are handled in order of time ([`agenda`]), those of one
//! cycle in program order. There is no cycle loop: a time that depends on no shared resource is computed at
//! once. Notes on each fill, walk, access and store (records) lie in ring buffers ([`ring`]), indexed by
//! sequence number.
//!
//! All times are cycles of the core clock, counted from the start of the run.

mod agenda;
mod branch;
mod cache;
mod calendar;
mod config;
mod counters;
mod critical_path;
mod dram;
mod error;
mod hierarchy;
mod host_memory;
mod interval;
mod near;
mod pipeline;
mod pool;
mod prefetch;
mod queue;
mod ring;
mod scheduler;
mod shared;
mod shortcuts;
mod split;
mod translation;
mod validate;

pub use config::{
    BitmapReader, BranchPredictorConfig, CacheConfig, CachesConfig, CoreConfig, DramConfig,
    MshrOrder, Prefetcher, TimingConfig, WalkerAttachment, WalkerConfig,
};
pub use counters::{TranslationAccesses, counters};
pub use error::TimingError;
pub use pipeline::{Core, Processors, Shootdown, Topology};
pub use shortcuts::Shortcuts;

/// Bytes in a cache line.
pub const LINE_BYTES: u64 = 64;
const LINE_SHIFT: u32 = LINE_BYTES.trailing_zeros();
