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
mod kept;
mod matching;
mod readers;
mod rmat;
mod set_cover;
mod spanning_tree;
mod sparse_matrix;
mod store;

#[cfg(test)]
mod tests;

use perforate_config::{BoundedSize, Options};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::registry::Registered;
use super::source::{data_start, maps};
use super::spec::text_of;
use crate::program::{Program, Space, Tracer};

pub(super) use breadth_first::BreadthFirst;
pub(super) use canneal::Canneal;
pub(super) use dictionary::Dictionary;
pub(super) use fork::Fork;
pub use fork::{ForkCase, ForkOptions};
pub(super) use gups::Gups;
pub(super) use independent_set::IndependentSet;
pub(super) use matching::Matching;
pub(super) use readers::Readers;
pub use readers::ReadersOptions;
pub(super) use set_cover::SetCover;
pub(super) use spanning_tree::SpanningTree;
pub(super) use sparse_matrix::SparseMatrix;
pub(super) use store::KeyValueStore;
pub use store::StoreOptions;

/// Bytes that sizes leave unused, so that each array can begin on a page of its own.
const SLACK_BYTES: u64 = 64 << 10;

/// Bytes of an algorithm's data. 64G keeps the numbers of elements below 2³².
type DataSize = BoundedSize<{ 1 << 20 }, { 64 << 30 }>;

/// Options of an algorithm on data of a given size.
pub(crate) trait Data: Options {
    /// Bytes of its data.
    fn data_bytes(&self) -> u64;
}

/// Options of an algorithm that has none but the size of its data.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DataOptions {
    /// Bytes of all its data.
    size: DataSize,
}

impl Default for DataOptions {
    fn default() -> Self {
        Self { size: BoundedSize::new(1 << 30) }
    }
}

impl Data for DataOptions {
    fn data_bytes(&self) -> u64 {
        self.size.bytes()
    }
}

/// Bytes of code that are mapped; algorithms have some hundred instructions.
const CODE_BYTES: u64 = 4096;

/// A program whose data lie in one mapping, which is there from the start.
trait Algorithm: Registered<Options: Data> + Send {
    /// Makes the data, as the program's initialisation would leave them.
    fn new(options: &Self::Options, seed: u64, space: &mut Space) -> Self;

    /// Runs without end: when it is done, it starts over.
    fn repeat(&mut self, t: &mut Tracer) -> impl Future<Output = ()> + Send;
}

impl<A: Algorithm> Program for A {
    fn start(options: &A::Options, seed: u64, t: &mut Tracer) -> Self {
        let size_bytes = options.data_bytes();
        let start = data_start(size_bytes);
        let mut space = Space::new(start);
        let algorithm = Self::new(options, seed, &mut space);
        let (name, bytes) = (text_of::<A>(options), space.bytes());
        assert!(bytes <= size_bytes, "{name}: {bytes} bytes of data");
        maps(start, bytes, CODE_BYTES).into_iter().for_each(|event| t.event(event));
        algorithm
    }

    async fn run(&mut self, t: &mut Tracer) {
        self.repeat(t).await;
    }
}
