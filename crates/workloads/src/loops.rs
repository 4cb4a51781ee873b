//! Loop workloads: loops over a pattern of addresses, in constant host memory.

use perforate_config::{BoundedSize, ConfigError, Count, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::Dependence;
use crate::churn::Churn;
use crate::patterns::{Chase, Popular, Stride, Uniform};
use crate::registry::Registered;
use crate::source::{Loop, Synthetic};
use crate::spec::text_of;
use perforate_trace::Source;

const MOST_BYTES: u64 = 64 << 40;

/// Defines the options of a loop: its own options, and the options of all loops.
macro_rules! options {
    ($name:ident: $size:expr; $($(#[$help:meta])* $key:ident: $type:ty = $default:expr,)*) => {
        #[derive(Clone, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct $name {
            /// Bytes of data; paper P: 2G.
            size: BoundedSize<4096, MOST_BYTES>,
            $($(#[$help])* $key: $type,)*
            /// Other instructions per memory access; the papers leave it open.
            others: Count<0, 1000>,
            /// Share of the accesses that write.
            writes: Share,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    size: BoundedSize::new($size),
                    $($key: $default,)*
                    others: Count::new(3),
                    writes: Share::NONE,
                }
            }
        }

        impl $name {
            /// Parameters of the loop body of a workload of type `W`.
            fn common<W: Registered<Options = Self>>(&self) -> Loop {
                Loop {
                    name: text_of::<W>(self),
                    size_bytes: self.size.bytes(),
                    others: self.others.get() as usize,
                    writes: self.writes.value(),
                    dependence: Dependence::None,
                }
            }
        }
    };
}

options! { RandomOptions: 2 << 30;
    /// Each address depends on the value loaded before.
    dependent: bool = false,
}

/// Workload that accesses random words.
pub(super) struct Random;

impl Registered for Random {
    const NAME: &'static str = "random";
    const SUMMARY: &'static str = "uniformly random words, as GUPS (paper P's random access)";
    const EXAMPLE: &'static str = "random:size=4G,writes=10%";
    type Options = RandomOptions;

    fn source(options: &RandomOptions, seed: u64) -> Box<dyn Source> {
        let dependence = if options.dependent { Dependence::Chains(1) } else { Dependence::None };
        let common = Loop { dependence, ..options.common::<Self>() };
        Synthetic::boxed(Uniform::new(options.size.bytes(), seed), common, seed)
    }
}

options! { SequentialOptions: 2 << 30; }

/// Workload that accesses words in sequence.
pub(super) struct Sequential;

impl Registered for Sequential {
    const NAME: &'static str = "sequential";
    const SUMMARY: &'static str = "word after word, over and over";
    const EXAMPLE: &'static str = "sequential:size=256M,others=0";
    type Options = SequentialOptions;

    fn source(options: &SequentialOptions, seed: u64) -> Box<dyn Source> {
        let words = Stride::new(options.size.bytes(), 8);
        Synthetic::boxed(words, options.common::<Self>(), seed)
    }
}

options! { StrideOptions: 2 << 30;
    /// Bytes from access to access.
    stride: BoundedSize<8, MOST_BYTES> = BoundedSize::new(4096),
}

/// Workload that accesses words at equal distances.
pub(super) struct Strided;

impl Registered for Strided {
    const NAME: &'static str = "stride";
    const SUMMARY: &'static str = "one word every so many bytes, over and over";
    const EXAMPLE: &'static str = "stride:size=1G,stride=64B";
    type Options = StrideOptions;

    fn source(options: &StrideOptions, seed: u64) -> Box<dyn Source> {
        let words = Stride::new(options.size.bytes(), options.stride.bytes());
        Synthetic::boxed(words, options.common::<Self>(), seed)
    }
}

options! { ZipfOptions: 2 << 30;
    /// The item of rank r has probability proportional to r^-exponent, 0 to 10.
    exponent: f64 = 0.99,
    /// Bytes per item; an access reads its first word.
    item: BoundedSize<8, 4096> = BoundedSize::new(64),
}

/// Workload with a Zipf distribution of accesses to items.
pub(super) struct Zipf;

impl Registered for Zipf {
    const NAME: &'static str = "zipf";
    const SUMMARY: &'static str = "few popular items, many rare ones, scattered over the data";
    const EXAMPLE: &'static str = "zipf:size=4G,exponent=0.8,item=1K";
    type Options = ZipfOptions;

    fn check(options: &ZipfOptions) -> Result<(), ConfigError> {
        if (0.0..=10.0).contains(&options.exponent) {
            return Ok(());
        }
        let problem = format!("expected a number from 0 to 10, not {}", options.exponent);
        Err(ConfigError::new(problem).under("exponent"))
    }

    fn source(options: &ZipfOptions, seed: u64) -> Box<dyn Source> {
        let (size_bytes, item_bytes) = (options.size.bytes(), options.item.bytes());
        let items = Popular::new(size_bytes, item_bytes, options.exponent, seed);
        Synthetic::boxed(items, options.common::<Self>(), seed)
    }
}

options! { ChaseOptions: 2 << 30;
    /// Bytes per node.
    node: BoundedSize<8, 4096> = BoundedSize::new(64),
    /// The link lies in any line of its node, not always in the first.
    scattered: bool = false,
    /// Lists that are followed side by side.
    chains: Count<1, { Dependence::MAX_CHAINS }> = Count::new(1),
}

/// Workload that follows linked lists.
pub(super) struct Chased;

impl Registered for Chased {
    const NAME: &'static str = "chase";
    const SUMMARY: &'static str =
        "linked lists in random order; every load waits for the last of its list";
    const EXAMPLE: &'static str = "chase:size=1G,node=4K";
    type Options = ChaseOptions;

    fn source(options: &ChaseOptions, seed: u64) -> Box<dyn Source> {
        let dependence = Dependence::Chains(options.chains.get() as usize);
        let common = Loop { dependence, ..options.common::<Self>() };
        let (size_bytes, node_bytes) = (options.size.bytes(), options.node.bytes());
        let nodes = Chase::new(size_bytes, node_bytes, options.scattered, seed);
        Synthetic::boxed(nodes, common, seed)
    }
}

options! { ChurnOptions: 256 << 20;
    /// Bytes that are unmapped and mapped anew at once.
    piece: BoundedSize<4096, MOST_BYTES> = BoundedSize::new(64 << 10),
    /// Random accesses from one piece to the next; a piece is filled besides.
    between: Count<0, 1_000_000_000> = Count::new(20_000),
}

/// Workload that unmaps memory and maps it again.
pub(super) struct Churned;

impl Registered for Churned {
    const NAME: &'static str = "churn";
    const SUMMARY: &'static str =
        "random words; a piece of the data is unmapped, mapped anew and filled ever again";
    const EXAMPLE: &'static str = "churn:size=1G,piece=2M,between=100k";
    type Options = ChurnOptions;

    fn source(options: &ChurnOptions, seed: u64) -> Box<dyn Source> {
        let (size_bytes, piece_bytes) = (options.size.bytes(), options.piece.bytes());
        let pieces = Churn::new(size_bytes, piece_bytes, options.between.get(), seed);
        Synthetic::boxed(pieces, options.common::<Self>(), seed)
    }
}
