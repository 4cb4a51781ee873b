//! Timing model: out-of-order core, caches, DRAM, page walkers.
//!
//! Instructions come in program order. The contents of caches and TLBs follow that order, so that they depend on no
//! latency; times follow events. A request for a part that others want too (an MSHR, a page walker, a bank) is an
//! event, and events are handled in order of time ([`agenda`]), those of one cycle in program order. There is no cycle
//! loop: a time that depends on no shared part is known at once. Records lie in rings by sequence number ([`ring`]).
//!
//! All times are in cycles of the core clock.

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
    Prefetcher, TimingConfig, WalkerAttachment, WalkerConfig,
};
pub use counters::{TranslationAccesses, counters};
pub use error::TimingError;
pub use pipeline::{Core, Processors, Shootdown, Topology};
pub use shortcuts::Shortcuts;

/// Bytes in a cache line.
pub const LINE_BYTES: u64 = 64;
const LINE_SHIFT: u32 = LINE_BYTES.trailing_zeros();
