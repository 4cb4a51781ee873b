//! A maximal independent set of an undirected R-MAT graph: greedy, vertices in random order.

use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::rmat::Rmat;
use super::{Algorithm, SLACK_BYTES, size};
use crate::program::{Array, Place, Running, Space, Tracer, Value};
use crate::synthetic::random::{Permutation, Random};
use crate::synthetic::registry::Workload;
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const INDEPENDENT_SET: Workload = Workload {
    name: "mis",
    summary: "maximal independent set of an undirected R-MAT graph (paper G's MIS)",
    parameters: &[size("bytes of the graph, order and flags, 1M to 64G (paper G: 7.3G)")],
    host_bytes: |spec| spec.size("size"),
    build: Running::boxed::<IndependentSet>,
};

const UNDECIDED: u8 = 0;
const IN: u8 = 1;
const OUT: u8 = 2;

pub(super) struct IndependentSet {
    pub(super) graph: Graph,
    pub(super) flags: Array<u8>,
    /// Vertices in random order, computed.
    order: Place,
    permutation: Permutation,
}

impl Algorithm for IndependentSet {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = OFFSET_BYTES + VERTEX_BYTES + 1;
        let bytes = spec.size("size") - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, 2 * VERTEX_BYTES, seed);
        let graph = Graph::undirected(&rmat, space);
        let vertices = graph.vertices();
        Self {
            graph,
            flags: space.array(vec![UNDECIDED; vertices as usize], 1),
            order: space.place(vertices, VERTEX_BYTES),
            permutation: Permutation::new(vertices, &mut Random::new(!seed)),
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        loop {
            self.find(t).await;
            self.flags.fill(t, |_| UNDECIDED).await;
            t.jump();
        }
    }
}

impl IndependentSet {
    pub(super) async fn find(&mut self, t: &mut Tracer) {
        let mut cursor = t.integer((), 0_u64);
        loop {
            let vertex = self.order.load(t, cursor, self.permutation.apply(*cursor) as u32);
            cursor = t.integer(cursor, *cursor + 1);
            let flag = self.flags.load(t, vertex);
            if !t.branch(*flag != UNDECIDED, flag) {
                self.join(t, vertex);
            }
            t.pause().await;
            if !t.branch(*cursor < self.graph.vertices(), cursor) {
                break;
            }
        }
    }

    /// A vertex is in the set, and so its neighbours are not.
    fn join(&mut self, t: &mut Tracer, vertex: Value<u32>) {
        self.flags.store(t, vertex, Value::constant(IN));
        let (mut edge, end) = self.graph.load_range(t, vertex);
        let mut is_done = t.branch(*edge == *end, (edge, end));
        while !is_done {
            let neighbour = self.graph.neighbours.load(t, edge);
            edge = t.integer(edge, *edge + 1);
            let flag = self.flags.load(t, neighbour);
            if !t.branch(*flag != UNDECIDED, flag) {
                self.flags.store(t, neighbour, Value::constant(OUT));
            }
            is_done = !t.branch(*edge < *end, (edge, end));
        }
    }
}
