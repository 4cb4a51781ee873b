//! Synthetic workloads: traces that are generated on demand.
//!
//! Some workloads are loops over a pattern of addresses, in constant host memory ([`loops`]). The rest
//! are programs that compute with real contents ([`programs`]). [`WORKLOADS`] lists all workloads;
//! parsing, help and errors are derived from this list. To add a workload, implement [`Registered`] for
//! a pattern or a program, and add a line to the list.

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

/// Address pattern of a workload.
trait Pattern: Send + 'static {
    /// Offset in bytes of the next access within the data region.
    fn next_offset(&mut self) -> u64;

    /// Byte range of the region to unmap and map again before the next access.
    fn renews(&mut self) -> Option<Range<u64>> {
        None
    }

    /// True if the next access must be a write, regardless of the share of writes.
    fn fills(&self) -> bool {
        false
    }
}
