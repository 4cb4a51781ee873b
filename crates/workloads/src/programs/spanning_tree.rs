//! Workload `mst`: a minimum spanning forest of an undirected R-MAT graph. Kruskal's algorithm over
//! edges sorted by weight, with union-find and path halving.
//!
//! Sorting is part of the initialisation. All weights are different: a random permutation maps rank r
//! to an edge, and weight grows with r.

use perforate_types::Random;

use super::graph::VERTEX_BYTES;
use super::rmat::Rmat;
use super::{Algorithm, Data, DataOptions, SLACK_BYTES};
use crate::permutation::Permutation;
use crate::registry::Registered;
use crate::traced::{Array, Place, Space, Tracer, Value};

const NUMBER_BYTES: u64 = 8;
const WEIGHT_BYTES: u64 = 8;
/// Size of an edge in bytes: two vertices and a weight.
const EDGE_BYTES: u64 = 2 * VERTEX_BYTES + WEIGHT_BYTES;
/// Size in bytes of an edge in the sorted array, where it has a number, as in the benchmark suite.
const SORTED_BYTES: u64 = EDGE_BYTES + NUMBER_BYTES;

pub(crate) struct SpanningTree {
    pub(super) rmat: Rmat,
    /// Array of the edges in order of weight. It has addresses only: the values are computed when they are
    /// loaded.
    sorted: Place,
    permutation: Permutation,
    pub(super) parents: Array<u32>,
    /// Array of the numbers of the spanning forest's edges.
    tree: Place,
    /// Sum of the forest's edges' ranks by weight.
    pub(super) weight: u64,
}

impl Registered for SpanningTree {
    const NAME: &'static str = "mst";
    const SUMMARY: &'static str =
        "minimum spanning forest of an undirected R-MAT graph (MST in paper G: 13G)";
    const EXAMPLE: &'static str = "mst:size=4G";
    type Options = DataOptions;

    fn host_bytes(options: &DataOptions) -> u64 {
        options.data_bytes() / 100
    }
}

impl Algorithm for SpanningTree {
    fn new(options: &DataOptions, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = VERTEX_BYTES + NUMBER_BYTES;
        let bytes = options.data_bytes() - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, EDGE_BYTES + SORTED_BYTES, seed);
        // The graph before sorting takes memory, and the search for the forest does not access it.
        space.place(rmat.edges(), EDGE_BYTES);
        Self {
            rmat,
            sorted: space.place(rmat.edges(), SORTED_BYTES),
            permutation: Permutation::new(rmat.edges(), &mut Random::new(!seed)),
            parents: space.array((0..rmat.vertices() as u32).collect(), VERTEX_BYTES),
            tree: space.place(rmat.vertices(), NUMBER_BYTES),
            weight: 0,
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        self.find_forest(t).await;
        self.parents.fill(t, |vertex| vertex as u32).await;
        t.jump();
    }
}

impl SpanningTree {
    pub(super) async fn find_forest(&mut self, t: &mut Tracer) {
        self.weight = 0;
        let mut cursor = t.integer((), 0_u64);
        let mut tree_edges = t.integer((), 0_u64);
        loop {
            let (first, second) = self.rmat.edge(self.number(*cursor));
            let first = self.sorted.load_field(t, cursor, (0, VERTEX_BYTES), first);
            let second = self.sorted.load_field(t, cursor, (VERTEX_BYTES, VERTEX_BYTES), second);
            let first = self.find_root(&mut t.inlined(), first);
            let second = self.find_root(&mut t.inlined(), second);
            if !t.branch(*first == *second, (first, second)) {
                // The lower root becomes the parent of the higher root.
                let lower = t.integer((first, second), first.min(*second));
                let higher = t.integer((first, second), first.max(*second));
                self.parents.store(t, higher, lower);
                let number = self.sorted.load_field(t, cursor, (EDGE_BYTES, NUMBER_BYTES), ());
                self.tree.store(t, tree_edges, number);
                tree_edges = t.integer(tree_edges, *tree_edges + 1);
                self.weight += *cursor;
            }
            cursor = t.integer(cursor, *cursor + 1);
            t.pause().await;
            if !t.branch(*cursor < self.rmat.edges(), cursor) {
                break;
            }
        }
    }

    /// Finds the root of a vertex in the union-find structure. On the way, every other vertex is linked to
    /// its grandparent.
    fn find_root(&mut self, t: &mut Tracer, vertex: Value<u32>) -> Value<u32> {
        let mut vertex = vertex;
        t.align();
        loop {
            let parent = self.parents.load(t, vertex);
            if t.branch(*parent == *vertex, (parent, vertex)) {
                return vertex;
            }
            let grandparent = self.parents.load(t, parent);
            self.parents.store(t, vertex, grandparent);
            vertex = t.integer(grandparent, *grandparent);
            t.jump();
        }
    }

    /// Number, in the list of edges, of the edge with this rank in order of weight.
    pub(super) fn number(&self, rank: u64) -> u64 {
        self.permutation.apply(rank)
    }
}
