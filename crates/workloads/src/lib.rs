//! Synthetic workloads, which are traces that are generated on demand, and layouts of page sizes.
//!
//! Some workloads are loops over a pattern of addresses, in constant host memory ([`loops`]). The rest
//! are programs that compute with real contents ([`programs`]). [`WORKLOADS`] lists all workloads;
//! parsing, help and errors are derived from this list. To add a workload, implement [`registry::Registered`] for
//! a pattern or a program, and add a line to the list.
//!
//! A layout ([`layout`]) moves the memory of any program into pools with given page sizes.

/// Declares a struct of options with their defaults: `key: Type = default`.
macro_rules! options {
    (
        $(#[$meta:meta])* $vis:vis struct $name:ident {
            $($(#[$help:meta])* $key_vis:vis $key:ident: $type:ty = $default:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        $vis struct $name {
            $($(#[$help])* $key_vis $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }
    };
}

mod body;
mod churn;
pub mod layout;
mod loops;
mod patterns;
mod permutation;
mod programs;
mod registry;
mod source;
mod traced;
mod zipf;

use std::ops::Range;

pub use programs::{ForkCase, ForkOptions, ReadersOptions, StoreOptions};
pub use registry::{WORKLOADS, Workload, WorkloadSpec};

/// Address pattern of a loop workload.
trait Pattern: Send + 'static {
    /// Returns the offset of the next access in the data region, in bytes.
    fn next_offset(&mut self) -> u64;

    /// True if [`Self::renews`] may return a range to unmap and map again.
    const RENEWS: bool = false;

    /// Returns the byte range of the data region to unmap and map again before the next access; `None` by
    /// default.
    fn renews(&mut self) -> Option<Range<u64>> {
        None
    }

    /// True if the next access must be a write, regardless of the share of writes.
    fn fills(&self) -> bool {
        false
    }
}
