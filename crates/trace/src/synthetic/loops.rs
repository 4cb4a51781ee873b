//! Workloads that are loops over a pattern of addresses, in constant memory.

use super::churn::Churn;
use super::patterns::{Chase, Popular, Stride, Uniform};
use super::registry::{Parameter, ParameterKind, Workload};
use super::source::Synthetic;

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

pub(super) const RANDOM: Workload = Workload {
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
        Synthetic::boxed(Uniform::new(spec.size("size"), seed), spec, spec.flag("dependent"), seed)
    },
};

pub(super) const SEQUENTIAL: Workload = Workload {
    name: "sequential",
    summary: "word after word, over and over",
    parameters: &[SIZE, OTHERS, WRITES],
    host_bytes: |_| 0,
    build: |spec, seed| Synthetic::boxed(Stride::new(spec.size("size"), 8), spec, false, seed),
};

pub(super) const STRIDE: Workload = Workload {
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
};

pub(super) const ZIPF: Workload = Workload {
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
        Synthetic::boxed(Popular::new(size, item, spec.number("exponent"), seed), spec, false, seed)
    },
};

pub(super) const CHASE: Workload = Workload {
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
        Synthetic::boxed(Chase::new(spec.size("size"), spec.size("node"), seed), spec, true, seed)
    },
};

pub(super) const CHURN: Workload = Workload {
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
};
