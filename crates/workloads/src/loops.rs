//! Loop workloads: loops over a pattern of addresses, in constant host memory.

use perforate_config::{BoundedSize, ConfigError, Count, Share};
use perforate_trace::Source;

use crate::body::Dependence;
use crate::churn::Churn;
use crate::patterns::{Chase, Popular, Stride, Uniform};
use crate::registry::{Registered, Sourced, text_of};
use crate::source::{Loop, Synthetic};
use crate::zipf::check_exponent;

const MOST_BYTES: u64 = 64 << 40;

/// Declares a loop workload with its own options and those that all loops have.
macro_rules! loop_workload {
    (
        $(#[$meta:meta])* $name:ident, $size:expr;
        $($(#[$help:meta])* $key:ident: $type:ty = $default:expr,)*
    ) => {
        options! {
            $(#[$meta])*
            pub(super) struct $name {
                /// Size of the data; 2G in paper P.
                size: BoundedSize<4096, MOST_BYTES> = BoundedSize::new($size),
                $($(#[$help])* $key: $type = $default,)*
                /// Other instructions per memory access (the papers give no number).
                others: Count<0, 1000> = Count::new(3),
                /// Share of accesses that are writes.
                writes: Share = Share::NONE,
            }
        }

        impl $name {
            /// Makes the parameters of the loop body from the options. Accesses do not depend on loaded
            /// values, unless the caller changes this.
            fn common(&self) -> Loop {
                Loop {
                    name: text_of::<Self>(self),
                    size_bytes: self.size.bytes(),
                    others: self.others.get() as usize,
                    writes: self.writes.value(),
                    dependence: Dependence::None,
                }
            }
        }
    };
}

loop_workload! {
    /// Workload that accesses random words.
    Random, 2 << 30;
    /// Each address depends on the previously loaded value.
    dependent: bool = false,
}

impl Registered for Random {
    const NAME: &'static str = "random";
    const SUMMARY: &'static str = "uniformly random words, like GUPS (random access in paper P)";
    const EXAMPLE: &'static str = "random:size=4G,writes=10%";
    type Options = Self;
}

impl Sourced for Random {
    fn source(options: &Self, seed: u64) -> Box<dyn Source> {
        let dependence = if options.dependent { Dependence::Chains(1) } else { Dependence::None };
        let common = Loop { dependence, ..options.common() };
        Synthetic::boxed(Uniform::new(options.size.bytes(), seed), common, seed)
    }
}

loop_workload! {
    /// Workload that accesses words in sequence.
    Sequential, 2 << 30;
}

impl Registered for Sequential {
    const NAME: &'static str = "sequential";
    const SUMMARY: &'static str = "all words in order, repeatedly";
    const EXAMPLE: &'static str = "sequential:size=256M,others=0";
    type Options = Self;
}

impl Sourced for Sequential {
    fn source(options: &Self, seed: u64) -> Box<dyn Source> {
        let words = Stride::new(options.size.bytes(), 8);
        Synthetic::boxed(words, options.common(), seed)
    }
}

loop_workload! {
    /// Workload that accesses words at equal distances.
    Strided, 2 << 30;
    /// Distance between consecutive accesses.
    stride: BoundedSize<8, MOST_BYTES> = BoundedSize::new(4096),
}

impl Registered for Strided {
    const NAME: &'static str = "stride";
    const SUMMARY: &'static str = "words at a fixed distance, repeatedly";
    const EXAMPLE: &'static str = "stride:size=1G,stride=64B";
    type Options = Self;
}

impl Sourced for Strided {
    fn source(options: &Self, seed: u64) -> Box<dyn Source> {
        let words = Stride::new(options.size.bytes(), options.stride.bytes());
        Synthetic::boxed(words, options.common(), seed)
    }
}

loop_workload! {
    /// Workload with a Zipf distribution of accesses to items.
    Zipf, 2 << 30;
    /// Skew, 0 to 10: the item of rank r has a probability proportional to r^-exponent.
    exponent: f64 = 0.99,
    /// Size of an item; an access reads its first word.
    item: BoundedSize<8, 4096> = BoundedSize::new(64),
}

impl Registered for Zipf {
    const NAME: &'static str = "zipf";
    const SUMMARY: &'static str = "items with Zipf-distributed popularity, scattered over the data";
    const EXAMPLE: &'static str = "zipf:size=4G,exponent=0.8,item=1K";
    type Options = Self;

    fn check(options: &Self) -> Result<(), ConfigError> {
        check_exponent(options.exponent)
    }
}

impl Sourced for Zipf {
    fn source(options: &Self, seed: u64) -> Box<dyn Source> {
        let (size_bytes, item_bytes) = (options.size.bytes(), options.item.bytes());
        let items = Popular::new(size_bytes, item_bytes, options.exponent, seed);
        Synthetic::boxed(items, options.common(), seed)
    }
}

loop_workload! {
    /// Workload that follows linked lists.
    Chased, 2 << 30;
    /// Size of a node.
    node: BoundedSize<8, 4096> = BoundedSize::new(64),
    /// The link is in a random cache line of its node, instead of the first.
    scattered: bool = false,
    /// Number of lists that are followed in parallel.
    chains: Count<1, { Dependence::MAX_CHAINS }> = Count::new(1),
}

impl Registered for Chased {
    const NAME: &'static str = "chase";
    const SUMMARY: &'static str =
        "linked lists in random order; each load waits for the previous one of its list";
    const EXAMPLE: &'static str = "chase:size=1G,node=4K";
    type Options = Self;
}

impl Sourced for Chased {
    fn source(options: &Self, seed: u64) -> Box<dyn Source> {
        let dependence = Dependence::Chains(options.chains.get() as usize);
        let common = Loop { dependence, ..options.common() };
        let (size_bytes, node_bytes) = (options.size.bytes(), options.node.bytes());
        let nodes = Chase::new(size_bytes, node_bytes, options.scattered, seed);
        Synthetic::boxed(nodes, common, seed)
    }
}

loop_workload! {
    /// Workload that unmaps memory and maps it again.
    Churned, 256 << 20;
    /// Size of the piece that is unmapped and mapped again at a time.
    piece: BoundedSize<4096, MOST_BYTES> = BoundedSize::new(64 << 10),
    /// Random accesses between two pieces, not counting the writes that fill a piece.
    between: Count<0, 1_000_000_000> = Count::new(20_000),
}

impl Registered for Churned {
    const NAME: &'static str = "churn";
    const SUMMARY: &'static str =
        "random words; now and then, a piece of the data is unmapped, mapped again and filled";
    const EXAMPLE: &'static str = "churn:size=1G,piece=2M,between=100k";
    type Options = Self;
}

impl Sourced for Churned {
    fn source(options: &Self, seed: u64) -> Box<dyn Source> {
        let (size_bytes, piece_bytes) = (options.size.bytes(), options.piece.bytes());
        let pieces = Churn::new(size_bytes, piece_bytes, options.between.get(), seed);
        Synthetic::boxed(pieces, options.common(), seed)
    }
}
