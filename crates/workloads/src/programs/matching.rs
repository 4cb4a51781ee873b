//! Workload `matching`: a maximal matching of an undirected R-MAT graph, found greedily, with edges in
//! the random order of their list.

use super::graph::VERTEX_BYTES;
use super::rmat::Rmat;
use super::{Algorithm, Data, DataOptions, SLACK_BYTES};
use crate::registry::Registered;
use crate::traced::{Array, Place, Space, Tracer};

/// Value in `partners` of a vertex that is not matched.
const NONE: u32 = u32::MAX;
/// Size of an edge in bytes: two vertices.
const EDGE_BYTES: u64 = 2 * VERTEX_BYTES;
/// Size of a match in bytes: the number of its edge.
const MATCH_BYTES: u64 = 8;

pub(crate) struct Matching {
    pub(super) rmat: Rmat,
    /// Array of the edges, in random order. It has addresses only: the values are computed when they are
    /// loaded.
    edges: Place,
    pub(super) partners: Array<u32>,
    matches: Place,
}

impl Registered for Matching {
    const NAME: &'static str = "matching";
    const SUMMARY: &'static str =
        "maximal matching of an undirected R-MAT graph (matching in paper G: 6.2G)";
    const EXAMPLE: &'static str = "matching:size=4G";
    type Options = DataOptions;

    fn host_bytes(options: &DataOptions) -> u64 {
        options.data_bytes() / 20
    }
}

impl Algorithm for Matching {
    fn new(options: &DataOptions, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = VERTEX_BYTES + MATCH_BYTES / 2;
        let bytes = options.data_bytes() - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, EDGE_BYTES, seed);
        Self {
            rmat,
            edges: space.place(rmat.edges(), EDGE_BYTES),
            partners: space.array(vec![NONE; rmat.vertices() as usize], VERTEX_BYTES),
            matches: space.place(rmat.vertices() / 2, MATCH_BYTES),
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        self.find(t).await;
        self.partners.fill(t, |_| NONE).await;
        t.jump();
    }
}

impl Matching {
    pub(super) async fn find(&mut self, t: &mut Tracer) {
        let mut matches = t.integer((), 0_u64);
        let mut cursor = t.integer((), 0_u64);
        loop {
            let edge = cursor;
            let (first, second) = self.rmat.edge(*edge);
            let first = self.edges.load_field(t, edge, (0, VERTEX_BYTES), first);
            let second = self.edges.load_field(t, edge, (VERTEX_BYTES, VERTEX_BYTES), second);
            cursor = t.integer(cursor, *cursor + 1);
            let is_free = !t.branch(*first == *second, (first, second))
                && {
                    let partner = self.partners.load(t, first);
                    !t.branch(*partner != NONE, partner)
                }
                && {
                    let partner = self.partners.load(t, second);
                    !t.branch(*partner != NONE, partner)
                };
            if is_free {
                self.partners.store(t, first, second);
                self.partners.store(t, second, first);
                self.matches.store(t, matches, edge);
                matches = t.integer(matches, *matches + 1);
            }
            t.pause().await;
            if !t.branch(*cursor < self.rmat.edges(), cursor) {
                break;
            }
        }
    }
}
