//! Workload `mis`: a maximal independent set of an undirected R-MAT graph, found greedily, with
//! vertices in random order or in order of their numbers.

use perforate_config::BoundedSize;
use perforate_types::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::rmat::Rmat;
use super::{Algorithm, Data, DataSize, SLACK_BYTES};
use crate::permutation::Permutation;
use crate::registry::Registered;
use crate::traced::{Array, Place, Space, Tracer, Value};

const UNDECIDED: u8 = 0;
const IN: u8 = 1;
const OUT: u8 = 2;

data_options! { IndependentSetOptions:
    /// Size of all data.
    size;
    /// Order of the vertices: random, or by number as in one program of the benchmark suite.
    order: Order = Order::Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Order {
    Random,
    Numbers,
}

pub(crate) struct IndependentSet {
    pub(super) graph: Graph,
    pub(super) flags: Array<u8>,
    /// Vertices in random order, as an array that has addresses only: its values are computed when they are
    /// loaded. `None` for the order of the vertices' numbers.
    order: Option<(Place, Permutation)>,
}

impl Registered for IndependentSet {
    const NAME: &'static str = "mis";
    const SUMMARY: &'static str =
        "maximal independent set of an undirected R-MAT graph (MIS in paper G: 7.3G)";
    const EXAMPLE: &'static str = "mis:size=4G";
    type Options = IndependentSetOptions;

    fn host_bytes(options: &IndependentSetOptions) -> u64 {
        options.data_bytes()
    }
}

impl Algorithm for IndependentSet {
    fn new(options: &IndependentSetOptions, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = OFFSET_BYTES + VERTEX_BYTES + 1;
        let bytes = options.data_bytes() - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, 2 * VERTEX_BYTES, seed);
        let graph = Graph::undirected(&rmat, space);
        let vertices = graph.vertices();
        let flags = space.array(vec![UNDECIDED; vertices as usize], 1);
        let order = (options.order == Order::Random).then(|| {
            let permutation = Permutation::new(vertices, &mut Random::new(!seed));
            (space.place(vertices, VERTEX_BYTES), permutation)
        });
        Self { graph, flags, order }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        self.find(t).await;
        self.flags.fill(t, |_| UNDECIDED).await;
        t.jump();
    }
}

impl IndependentSet {
    pub(super) async fn find(&mut self, t: &mut Tracer) {
        let mut cursor = t.integer((), 0_u64);
        loop {
            let vertex = match &self.order {
                Some((order, permutation)) => {
                    order.load(t, cursor, permutation.apply(*cursor) as u32)
                }
                None => cursor.map(|vertex| vertex as u32),
            };
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

    /// Adds a vertex to the independent set, and excludes its neighbours.
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
