//! One-pass timing model: out-of-order core, caches, DRAM, page walkers.
//!
//! Instructions come in program order, and each is given its times at once: when it is
//! dispatched, issued, complete and retired. There is no cycle loop; a resource (a bank, a bus,
//! an MSHR, a page walker) remembers when it is busy and gives a request the first gap, so that
//! a request late in time delays none that is early in time but later in the program.
//!
//! What a cache holds follows program order, when its lines arrive follows time.
//!
//! All times are in cycles of the core clock.

mod branch;
mod cache;
mod config;
mod counters;
mod dram;
mod error;
mod forward;
mod hierarchy;
mod interval;
mod pipeline;
mod prefetch;
mod queue;
mod split;
mod translation;
mod validate;

pub use config::{
    BranchPredictorConfig, CacheConfig, CachesConfig, CoreConfig, DramConfig, Prefetcher,
    TimingConfig, WalkerAttachment, WalkerConfig,
};
pub use counters::{TranslationAccesses, counters};
pub use error::TimingError;
pub use pipeline::Core;

/// Bytes in a cache line.
pub const LINE_BYTES: u64 = 64;
const LINE_SHIFT: u32 = LINE_BYTES.trailing_zeros();
