//! A maximal matching of an undirected R-MAT graph: greedy, edges in the random order of their
//! list.

use super::array::{Array, FILL, Filling, Place, Space};
use super::code::{Block, Code, Op, compare, conditional, integer, jump, load, store};
use super::graph::VERTEX_BYTES;
use super::machine::Machine;
use super::rmat::Rmat;
use super::source::Running;
use super::{Algorithm, SLACK_BYTES, size};
use crate::synthetic::registry::Workload;
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const MATCHING: Workload = Workload {
    name: "matching",
    summary: "maximal matching of an undirected R-MAT graph (paper G's matching)",
    parameters: &[size("bytes of edges, partners and matches, 1M to 64G (paper G: 6.2G)")],
    host_bytes: |spec| spec.size("size") / 20,
    build: Running::<Matching>::boxed,
};

/// A vertex without a partner.
const NONE: u32 = u32::MAX;
/// An edge: two vertices.
const EDGE_BYTES: u64 = 2 * VERTEX_BYTES;
/// A matched edge: its number.
const MATCH_BYTES: u64 = 8;

const CURSOR: u8 = 10;
const FIRST: u8 = 11;
const SECOND: u8 = 12;
const PARTNER: u8 = 13;
const MATCHES: u8 = 14;
const LAST: u8 = 15;

const BLOCKS: &[&[Op]] = &[
    // TAKE: an edge's vertices; taken: they are the same
    &[
        load(FIRST, &[CURSOR]),
        load(SECOND, &[CURSOR]),
        integer(CURSOR, &[CURSOR]),
        compare(&[FIRST, SECOND]),
        conditional(),
    ],
    // LOOK_FIRST: taken: the first has a partner
    &[load(PARTNER, &[FIRST]), compare(&[PARTNER]), conditional()],
    // LOOK_SECOND: taken: the second has a partner
    &[load(PARTNER, &[SECOND]), compare(&[PARTNER]), conditional()],
    // MATCH: they are partners, and the edge is noted
    &[
        store(&[SECOND, FIRST]),
        store(&[FIRST, SECOND]),
        store(&[CURSOR, MATCHES]),
        integer(MATCHES, &[MATCHES]),
    ],
    // NEXT: taken: another edge
    &[compare(&[CURSOR, LAST]), conditional()],
    // CLEAR: all partners
    FILL,
    // BEGIN: at the first edge again
    &[integer(CURSOR, &[]), integer(MATCHES, &[]), jump()],
];
const TAKE: Block = 0;
const LOOK_FIRST: Block = 1;
const LOOK_SECOND: Block = 2;
const MATCH: Block = 3;
const NEXT: Block = 4;
const CLEAR: Block = 5;
const BEGIN: Block = 6;

pub(super) struct Matching {
    pub(super) rmat: Rmat,
    /// Edges as they were drawn, computed.
    edges: Place,
    pub(super) partners: Array<u32>,
    matches: Place,
    match_count: u64,
    cursor: u64,
    filling: Filling,
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
            match_count: 0,
            cursor: 0,
            filling: Filling::default(),
        }
    }

    fn code(&self) -> Code {
        Code::new(BLOCKS)
    }

    #[inline]
    fn step(&mut self, machine: &mut Machine) {
        if !self.is_done() {
            self.edge(machine);
            machine.run(NEXT, !self.is_done());
        } else if self.filling.step(&mut self.partners, CLEAR, machine, |_| NONE) {
            machine.run(BEGIN, true);
            (self.cursor, self.match_count) = (0, 0);
        }
    }
}

impl Matching {
    #[inline]
    fn edge(&mut self, machine: &mut Machine) {
        self.edges.read_part(self.cursor, 0, VERTEX_BYTES, machine);
        self.edges.read_part(self.cursor, VERTEX_BYTES, VERTEX_BYTES, machine);
        let (first, second) = self.rmat.edge(self.cursor);
        self.cursor += 1;
        machine.run(TAKE, first == second);
        if first == second {
            return;
        }
        for (vertex, look) in [(first, LOOK_FIRST), (second, LOOK_SECOND)] {
            let has_partner = self.partners.load(vertex.into(), machine) != NONE;
            machine.run(look, has_partner);
            if has_partner {
                return;
            }
        }
        self.partners.store(first.into(), second, machine);
        self.partners.store(second.into(), first, machine);
        self.matches.write(self.match_count, machine);
        self.match_count += 1;
        machine.run(MATCH, false);
    }

    /// Whether a matching has just become maximal.
    pub(super) fn is_done(&self) -> bool {
        self.cursor == self.rmat.edges()
    }
}
