//! Synthetic workloads.
//!
//! Some are loops over a pattern of addresses, in constant memory ([`loops`]); others are programs
//! that run on contents of their own ([`programs`]). [`WORKLOADS`] is the one list of them; parsing,
//! help and errors derive from it. A new workload is a pattern or a program that is [`Registered`],
//! and a line there.

mod body;
mod churn;
mod loops;
mod patterns;
mod programs;
mod random;
mod registry;
pub(crate) mod source;
mod spec;
mod zipf;

use std::ops::Range;

pub(crate) use body::{CODE_START, INSTRUCTION_BYTES};
pub use programs::{ForkCase, ForkOptions, ReadersOptions, StoreOptions};
pub(crate) use registry::Registered;
pub use registry::{WORKLOADS, Workload};
pub(crate) use source::PAGE_BYTES;
pub use spec::WorkloadSpec;
pub(crate) use spec::text_of;

/// [`crate::SourceMetadata::format`] of synthetic workloads.
pub(crate) const FORMAT: &str = "synthetic";

/// Where the accesses of a workload go.
trait Pattern: Send + 'static {
    /// Offset in bytes of the next access inside the data region.
    fn next_offset(&mut self) -> u64;

    /// Bytes of the region that are to be unmapped and mapped anew before the next round.
    fn renews(&mut self) -> Option<Range<u64>> {
        None
    }

    /// Whether the next access writes, whatever share of them does.
    fn fills(&self) -> bool {
        false
    }
}
