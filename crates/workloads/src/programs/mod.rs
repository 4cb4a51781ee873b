//! Workloads that are programs.
//!
//! Nine of them run an algorithm and represent the programs of paper G, §4.2: GUPS, canneal, and seven
//! benchmarks on dictionaries, graphs and matrices. Their data are generated when the first instructions are
//! requested; a graph takes some seconds per gigabyte. The recorded part starts with memory that is mapped in
//! full and filled. An algorithm that is finished starts again.
//!
//! The remaining programs are those of paper P's case studies. Their operations on memory mappings
//! matter as much as their reads. They announce phases, and experiments report figures per phase.

/// Declares options of an algorithm: the size of its data, and others.
macro_rules! data_options {
    (
        $name:ident: $(#[$size_help:meta])* size;
        $($(#[$help:meta])* $key:ident: $type:ty = $default:expr,)*
    ) => {
        options! {
            pub(crate) struct $name {
                $(#[$size_help])* size: DataSize = BoundedSize::new(1 << 30),
                $($(#[$help])* $key: $type = $default,)*
            }
        }

        impl Data for $name {
            fn data_bytes(&self) -> u64 {
                self.size.bytes()
            }
        }
    };
}

mod breadth_first;
mod btree;
mod canneal;
mod cross_sections;
mod dictionary;
mod fork;
mod graph;
mod grouped;
mod gups;
mod hash_join;
mod heap;
mod independent_set;
mod kept;
mod matching;
mod page_rank;
mod readers;
mod rmat;
mod set_cover;
mod spanning_tree;
mod sparse_matrix;
mod store;

#[cfg(test)]
mod tests;

use perforate_config::{BoundedSize, Options};

use crate::registry::{Registered, text_of};
use crate::source::{data_start, map_code};
use crate::traced::{Program, Space, Tracer};

pub(super) use breadth_first::BreadthFirst;
pub(super) use btree::Tree;
pub(super) use canneal::Canneal;
pub(super) use cross_sections::CrossSections;
pub(super) use dictionary::Dictionary;
pub(super) use fork::Fork;
pub use fork::{ForkCase, ForkOptions};
pub(super) use gups::Gups;
pub(super) use hash_join::Join;
pub(super) use independent_set::IndependentSet;
pub(super) use matching::Matching;
pub(super) use page_rank::PageRank;
pub(super) use readers::Readers;
pub use readers::ReadersOptions;
pub(super) use set_cover::SetCover;
pub(super) use spanning_tree::SpanningTree;
pub(super) use sparse_matrix::SparseMatrix;
pub(super) use store::KeyValueStore;
pub use store::StoreOptions;

/// Bytes of an option `size` that the data leave unused, so that each array can start on a separate page.
const SLACK_BYTES: u64 = 64 << 10;

/// Size of an algorithm's data in bytes. The maximum of 64GB keeps the number of elements below 2³².
type DataSize = BoundedSize<{ 1 << 20 }, { 64 << 30 }>;

/// Options of an algorithm, including the size of its data.
pub(crate) trait Data: Options {
    /// Size of the algorithm's data in bytes.
    fn data_bytes(&self) -> u64;
}

data_options! { DataOptions:
    /// Size of all data.
    size;
}

/// Size of the mapped code in bytes. Algorithms have a few hundred instructions.
const CODE_BYTES: u64 = 4096;

/// A program whose data are mapped from the start.
trait Algorithm: Registered<Options: Data> + Send {
    /// Generates the data as the program's initialisation would leave them.
    fn new(options: &Self::Options, seed: u64, space: &mut Space) -> Self;

    /// Runs the algorithm once, or repeatedly without end. It starts again when it has finished.
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
        space.maps().into_iter().chain([map_code(CODE_BYTES)]).for_each(|event| t.event(event));
        algorithm
    }

    async fn run(&mut self, t: &mut Tracer) {
        loop {
            self.repeat(t).await;
        }
    }
}
