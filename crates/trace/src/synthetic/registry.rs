//! The list of workloads.

use super::spec::WorkloadSpec;
use super::{loops, programs};
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

/// All workloads.
pub static WORKLOADS: &[Workload] = &[
    loops::RANDOM,
    loops::SEQUENTIAL,
    loops::STRIDE,
    loops::ZIPF,
    loops::CHASE,
    loops::CHURN,
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
