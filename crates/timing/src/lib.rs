//! Timing model: out-of-order core, caches, DRAM, page walkers.
//!
//! Instructions come in program order. What caches and TLBs hold follows that order, so that it
//! depends on no latency; when something happens follows time. Whoever wants a part that others
//! want too (an MSHR, a page walker, a bank) puts down an event, and events are dealt with in order
//! of time ([`agenda`]). There is no cycle loop: what needs no shared part gets its time at once.
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
mod forward;
mod hierarchy;
mod host_memory;
mod interval;
mod near;
mod pipeline;
mod pool;
mod prefetch;
mod queue;
mod reuse;
mod scheduler;
mod shared;
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

/// Bytes in a cache line.
pub const LINE_BYTES: u64 = 64;
const LINE_SHIFT: u32 = LINE_BYTES.trailing_zeros();
