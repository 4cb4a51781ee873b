//! The list of workloads.

use super::churn::Churn;
use super::patterns::{Chase, Popular, Stride, Uniform};
use super::programs;
use super::source::Synthetic;
use super::spec::WorkloadSpec;
use crate::Source;

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Bytes, with an optional K, M, G or T (powers of 1024), between these limits.
    Size(u64, u64),
    /// A whole number up to this limit, with k, M or G for powers of 1000.
    Count(u64),
    /// The same between these limits.
    Between(u64, u64),
    /// A share from 0 to 1, or from 0% to 100%.
    Share,
    /// A number from 0 to 10.
    Exponent,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Present or absent; takes no value.
    Flag,
}

/// One parameter of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name before the equals sign.
    pub name: &'static str,
    /// What values it takes.
    pub kind: ParameterKind,
    /// Value where it is not given; empty for a flag.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
}

/// A synthetic workload.
pub struct Workload {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does, one line.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Bytes of its own that it needs beside the simulated memory: contents of its data.
    pub(super) host_bytes: fn(&WorkloadSpec) -> u64,
    pub(super) build: fn(&WorkloadSpec, u64) -> Box<dyn Source>,
}

const MAX_SIZE_BYTES: u64 = 64 << 40;

const SIZE: Parameter = Parameter {
    name: "size",
    kind: ParameterKind::Size(4096, MAX_SIZE_BYTES),
    default: "2G",
    help: "bytes of data, 4K to 64T (paper P: 2G)",
};
const OTHERS: Parameter = Parameter {
    name: "others",
    kind: ParameterKind::Count(1000),
    default: "3",
    help: "other instructions per memory access; the papers leave it open",
};
const WRITES: Parameter = Parameter {
    name: "writes",
    kind: ParameterKind::Share,
    default: "0",
    help: "share of the accesses that write, 0 to 1 or in %",
};

/// All workloads.
pub static WORKLOADS: &[Workload] = &[
    Workload {
        name: "random",
        summary: "uniformly random words, as GUPS (paper P's random access)",
        parameters: &[
            SIZE,
            OTHERS,
            WRITES,
            Parameter {
                name: "dependent",
                kind: ParameterKind::Flag,
                default: "",
                help: "each address depends on the value loaded before",
            },
        ],
        host_bytes: |_| 0,
        build: |spec, seed| {
            Synthetic::boxed(
                Uniform::new(spec.size("size"), seed),
                spec,
                spec.flag("dependent"),
                seed,
            )
        },
    },
    Workload {
        name: "sequential",
        summary: "word after word, over and over",
        parameters: &[SIZE, OTHERS, WRITES],
        host_bytes: |_| 0,
        build: |spec, seed| Synthetic::boxed(Stride::new(spec.size("size"), 8), spec, false, seed),
    },
    Workload {
        name: "stride",
        summary: "one word every so many bytes, over and over",
        parameters: &[
            SIZE,
            Parameter {
                name: "stride",
                kind: ParameterKind::Size(8, MAX_SIZE_BYTES),
                default: "4K",
                help: "bytes from access to access, at least 8",
            },
            OTHERS,
            WRITES,
        ],
        host_bytes: |_| 0,
        build: |spec, seed| {
            Synthetic::boxed(Stride::new(spec.size("size"), spec.size("stride")), spec, false, seed)
        },
    },
    Workload {
        name: "zipf",
        summary: "few popular items, many rare ones, scattered over the data",
        parameters: &[
            SIZE,
            Parameter {
                name: "exponent",
                kind: ParameterKind::Exponent,
                default: "0.99",
                help: "item of rank r has probability proportional to r^-exponent, 0 to 10",
            },
            Parameter {
                name: "item",
                kind: ParameterKind::Size(8, 4096),
                default: "64",
                help: "bytes per item, 8 to 4K; an access reads its first word",
            },
            OTHERS,
            WRITES,
        ],
        host_bytes: |_| 0,
        build: |spec, seed| {
            let (size, item) = (spec.size("size"), spec.size("item"));
            Synthetic::boxed(
                Popular::new(size, item, spec.number("exponent"), seed),
                spec,
                false,
                seed,
            )
        },
    },
    Workload {
        name: "chase",
        summary: "a linked list through all nodes in random order; every load waits for the last",
        parameters: &[
            SIZE,
            Parameter {
                name: "node",
                kind: ParameterKind::Size(8, 4096),
                default: "64",
                help: "bytes per node, 8 to 4K",
            },
            OTHERS,
            WRITES,
        ],
        host_bytes: |_| 0,
        build: |spec, seed| {
            Synthetic::boxed(
                Chase::new(spec.size("size"), spec.size("node"), seed),
                spec,
                true,
                seed,
            )
        },
    },
    Workload {
        name: "churn",
        summary: "random words; a piece of the data is unmapped, mapped anew and filled ever again",
        parameters: &[
            Parameter { default: "256M", help: "bytes of data, 4K to 64T", ..SIZE },
            Parameter {
                name: "piece",
                kind: ParameterKind::Size(4096, MAX_SIZE_BYTES),
                default: "64K",
                help: "bytes that are unmapped and mapped anew at once",
            },
            Parameter {
                name: "between",
                kind: ParameterKind::Count(1_000_000_000),
                default: "20000",
                help: "random accesses from one piece to the next; a piece is filled besides",
            },
            OTHERS,
            WRITES,
        ],
        host_bytes: |_| 0,
        build: |spec, seed| {
            let (size, piece) = (spec.size("size"), spec.size("piece"));
            let pattern = Churn::new(size, piece, spec.size("between"), seed);
            Synthetic::boxed(pattern, spec, false, seed)
        },
    },
    programs::GUPS,
    programs::CANNEAL,
    programs::DICTIONARY,
    programs::BREADTH_FIRST,
    programs::SET_COVER,
    programs::SPANNING_TREE,
    programs::SPARSE_MATRIX,
    programs::MATCHING,
    programs::INDEPENDENT_SET,
    programs::STORE,
    programs::FORK,
    programs::READERS,
];
