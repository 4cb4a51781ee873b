//! A maximal matching of an undirected R-MAT graph: greedy, edges in the random order of their
//! list.

use super::graph::VERTEX_BYTES;
use super::rmat::Rmat;
use super::{Algorithm, SLACK_BYTES, size};
use crate::program::{Array, Place, Running, Space, Tracer};
use crate::synthetic::registry::Workload;
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const MATCHING: Workload = Workload {
    name: "matching",
    summary: "maximal matching of an undirected R-MAT graph (paper G's matching)",
    parameters: &[size("bytes of edges, partners and matches, 1M to 64G (paper G: 6.2G)")],
    host_bytes: |spec| spec.size("size") / 20,
    build: Running::boxed::<Matching>,
};

/// A vertex without a partner.
const NONE: u32 = u32::MAX;
/// An edge: two vertices.
const EDGE_BYTES: u64 = 2 * VERTEX_BYTES;
/// A matched edge: its number.
const MATCH_BYTES: u64 = 8;

pub(super) struct Matching {
    pub(super) rmat: Rmat,
    /// Edges as they were drawn, computed.
    edges: Place,
    pub(super) partners: Array<u32>,
    matches: Place,
}

impl Algorithm for Matching {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = VERTEX_BYTES + MATCH_BYTES / 2;
        let bytes = spec.size("size") - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, EDGE_BYTES, seed);
        Self {
            rmat,
            edges: space.place(rmat.edges(), EDGE_BYTES),
            partners: space.array(vec![NONE; rmat.vertices() as usize], VERTEX_BYTES),
            matches: space.place(rmat.vertices() / 2, MATCH_BYTES),
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        loop {
            self.find(t).await;
            self.partners.fill(t, |_| NONE).await;
            t.jump();
        }
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
