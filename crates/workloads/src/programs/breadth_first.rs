//! Breadth-first searches on a directed R-MAT graph, one after the other.

use perforate_types::Random;

use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::rmat::Rmat;
use super::{Algorithm, Data, DataOptions, SLACK_BYTES};
use crate::registry::Registered;
use crate::traced::{Array, Space, Tracer, Value};

/// Value in `parents` of a vertex that the search has not reached.
const NONE: u32 = u32::MAX;

pub(crate) struct BreadthFirst {
    pub(super) graph: Graph,
    pub(super) parents: Array<u32>,
    queue: Array<u32>,
    random: Random,
}

impl Registered for BreadthFirst {
    // A bundled trace has the name bfs.
    const NAME: &'static str = "rmat-bfs";
    const SUMMARY: &'static str =
        "breadth-first searches of a directed R-MAT graph (BFS in paper G: 7.4G)";
    const EXAMPLE: &'static str = "rmat-bfs:size=4G";
    type Options = DataOptions;

    fn host_bytes(options: &DataOptions) -> u64 {
        options.data_bytes()
    }
}

impl Algorithm for BreadthFirst {
    fn new(options: &DataOptions, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = OFFSET_BYTES + 2 * VERTEX_BYTES;
        let bytes = options.data_bytes() - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, VERTEX_BYTES, seed);
        Self::on(Graph::directed(&rmat, space), seed, space)
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        self.search(t).await;
        self.parents.fill(t, |_| NONE).await;
    }
}

impl BreadthFirst {
    /// Makes a program that searches a graph that is already made.
    pub(super) fn on(graph: Graph, seed: u64, space: &mut Space) -> Self {
        let vertices = graph.vertices() as usize;
        Self {
            graph,
            parents: space.array(vec![NONE; vertices], VERTEX_BYTES),
            queue: space.array(vec![0; vertices], VERTEX_BYTES),
            random: Random::new(!seed),
        }
    }

    /// Starts a search at a random vertex, which becomes its own parent and the first in the queue. Returns
    /// the indices of the queue's head and tail.
    fn begin(&mut self, t: &mut Tracer) -> (Value<u64>, Value<u64>) {
        let random = t.integer((), ());
        let random = t.multiply(random, ());
        let root = t.integer(random, self.random.below(self.graph.vertices()) as u32);
        self.parents.store(t, root, root);
        let head = t.integer((), 0_u64);
        self.queue.store(t, head, root);
        let tail = t.integer(head, 1);
        t.jump();
        (head, tail)
    }

    pub(super) async fn search(&mut self, t: &mut Tracer) {
        let (mut head, mut tail) = self.begin(t);
        loop {
            let vertex = self.queue.load(t, head);
            head = t.integer(head, *head + 1);
            let (mut edge, end) = self.graph.load_range(t, vertex);
            let mut is_done = t.branch(*edge == *end, (edge, end));
            t.align();
            while !is_done {
                let neighbour = self.graph.neighbours.load(t, edge);
                edge = t.integer(edge, *edge + 1);
                let parent = self.parents.load(t, neighbour);
                if !t.branch(*parent != NONE, parent) {
                    self.parents.store(t, neighbour, vertex);
                    self.queue.store(t, tail, neighbour);
                    tail = t.integer(tail, *tail + 1);
                }
                is_done = !t.branch(*edge < *end, (edge, end));
            }
            t.pause().await;
            if !t.branch(*head < *tail, (head, tail)) {
                break;
            }
        }
    }
}
