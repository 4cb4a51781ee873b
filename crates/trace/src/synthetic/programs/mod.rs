//! Workloads that are programs.
//!
//! Nine run an algorithm and stand for the programs of paper G, §4.2: GUPS, canneal and seven
//! benchmarks on dictionaries, graphs and matrices. Data are made when the first instruction is
//! asked for, which takes some seconds per gigabyte of a graph; the program starts with its memory
//! mapped in full and filled. When an algorithm is done, it starts over.
//!
//! The others are those of paper P's case studies: what they do to their memory matters as much as
//! what they read. They announce phases, of which experiments tell figures apart.

mod breadth_first;
mod canneal;
mod dictionary;
mod fork;
mod graph;
mod gups;
mod heap;
mod independent_set;
mod matching;
mod readers;
mod rmat;
mod set_cover;
mod spanning_tree;
mod sparse_matrix;
mod store;

#[cfg(test)]
mod tests;

use super::registry::{Parameter, ParameterKind};
use super::source::{data_start, maps};
use super::spec::WorkloadSpec;
use crate::program::{Program, Space, Tracer};

pub(super) use breadth_first::BREADTH_FIRST;
pub(super) use canneal::CANNEAL;
pub(super) use dictionary::DICTIONARY;
pub(super) use fork::FORK;
pub use fork::{ForkCase, ForkOptions};
pub(super) use gups::GUPS;
pub(super) use independent_set::INDEPENDENT_SET;
pub(super) use matching::MATCHING;
pub(super) use readers::READERS;
pub use readers::ReadersOptions;
pub(super) use set_cover::SET_COVER;
pub(super) use spanning_tree::SPANNING_TREE;
pub(super) use sparse_matrix::SPARSE_MATRIX;
pub(super) use store::STORE;
pub use store::StoreOptions;

/// Bytes that sizes leave unused, so that each array can begin on a page of its own.
const SLACK_BYTES: u64 = 64 << 10;

/// The `size` of a workload whose data in paper G's Table 5 take `help` says how much. 64G keeps
/// the numbers of elements below 2³².
const fn size(help: &'static str) -> Parameter {
    Parameter { name: "size", kind: ParameterKind::Size(1 << 20, 64 << 30), default: "1G", help }
}

/// Bytes of code that are mapped; algorithms have some hundred instructions.
const CODE_BYTES: u64 = 4096;

/// A program whose data lie in one mapping, which is there from the start.
trait Algorithm: Sized + Send + 'static {
    /// Makes the data, as the program's initialisation would leave them.
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self;

    /// Runs without end: when it is done, it starts over.
    fn repeat(&mut self, t: &mut Tracer) -> impl Future<Output = ()> + Send;
}

impl<A: Algorithm> Program for A {
    fn start(spec: &WorkloadSpec, seed: u64, t: &mut Tracer) -> Self {
        let size_bytes = spec.size("size");
        let start = data_start(size_bytes);
        let mut space = Space::new(start);
        let algorithm = Self::new(spec, seed, &mut space);
        assert!(space.bytes() <= size_bytes, "{spec}: {} bytes of data", space.bytes());
        maps(start, space.bytes(), CODE_BYTES).into_iter().for_each(|event| t.event(event));
        algorithm
    }

    async fn run(&mut self, t: &mut Tracer) {
        self.repeat(t).await;
    }
}
