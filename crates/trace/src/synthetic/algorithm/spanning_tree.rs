//! A minimum spanning forest of an undirected R-MAT graph: Kruskal's algorithm over edges sorted by
//! weight, with union-find and path halving.
//!
//! Sorting belongs to the initialisation. No two weights are equal: the edge of rank r is that
//! which a random permutation says, and its weight grows with r.

use super::array::{Array, FILL, Filling, Place, Space};
use super::code::{Block, Code, Op, compare, conditional, integer, jump, load, store};
use super::graph::VERTEX_BYTES;
use super::machine::Machine;
use super::rmat::Rmat;
use super::source::Running;
use super::{Algorithm, SLACK_BYTES, size};
use crate::synthetic::random::{Permutation, Random};
use crate::synthetic::registry::Workload;
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const SPANNING_TREE: Workload = Workload {
    name: "mst",
    summary: "minimum spanning forest of an undirected R-MAT graph, Kruskal (paper G's MST)",
    parameters: &[size("bytes of edges, sorted edges and the forest, 1M to 64G (paper G: 13G)")],
    host_bytes: |spec| spec.size("size") / 100,
    build: Running::<SpanningTree>::boxed,
};

const NUMBER_BYTES: u64 = 8;
const WEIGHT_BYTES: u64 = 8;
/// An edge: two vertices and a weight.
const EDGE_BYTES: u64 = 2 * VERTEX_BYTES + WEIGHT_BYTES;
/// What was sorted, as in the benchmark suite: copies of edges with their numbers.
const SORTED_BYTES: u64 = EDGE_BYTES + NUMBER_BYTES;

const CURSOR: u8 = 10;
const NUMBER: u8 = 11;
const FIRST: u8 = 12;
const SECOND: u8 = 13;
const PARENT: u8 = 14;
const LOWER: u8 = 16;
const HIGHER: u8 = 17;
const TREE: u8 = 20;
const LAST: u8 = 21;

const BLOCKS: &[&[Op]] = &[
    // TAKE: the next edge's vertices
    &[load(FIRST, &[CURSOR]), load(SECOND, &[CURSOR])],
    // FIND_FIRST: taken: the first is a root
    &[load(PARENT, &[FIRST]), compare(&[PARENT, FIRST]), conditional()],
    // HALVE_FIRST: it gets its grandparent as its parent, and is looked at next
    &[load(PARENT, &[PARENT]), store(&[PARENT, FIRST]), integer(FIRST, &[PARENT]), jump()],
    // FIND_SECOND: taken: the second is a root
    &[load(PARENT, &[SECOND]), compare(&[PARENT, SECOND]), conditional()],
    // HALVE_SECOND: as above
    &[load(PARENT, &[PARENT]), store(&[PARENT, SECOND]), integer(SECOND, &[PARENT]), jump()],
    // TEST: taken: both have the same root
    &[compare(&[FIRST, SECOND]), conditional()],
    // UNITE: the higher root gets the lower as its parent, and the edge's number is noted
    &[
        integer(LOWER, &[FIRST, SECOND]),
        integer(HIGHER, &[FIRST, SECOND]),
        store(&[LOWER, HIGHER]),
        load(NUMBER, &[CURSOR]),
        store(&[NUMBER, TREE]),
        integer(TREE, &[TREE]),
    ],
    // NEXT: taken: another edge
    &[integer(CURSOR, &[CURSOR]), compare(&[CURSOR, LAST]), conditional()],
    // RESET: every vertex becomes its own parent
    FILL,
    // BEGIN: at the first edge again
    &[integer(CURSOR, &[]), integer(TREE, &[]), jump()],
];
const TAKE: Block = 0;
const FIND: [Block; 2] = [1, 3];
const HALVE: [Block; 2] = [2, 4];
const TEST: Block = 5;
const UNITE: Block = 6;
const NEXT: Block = 7;
const RESET: Block = 8;
const BEGIN: Block = 9;

pub(super) struct SpanningTree {
    pub(super) rmat: Rmat,
    /// Edges in order of weight, computed.
    sorted: Place,
    permutation: Permutation,
    parents: Array<u32>,
    /// Edges of the forest.
    tree: Place,
    tree_edges: u64,
    /// Sum of the ranks of the forest's edges.
    pub(super) weight: u64,
    cursor: u64,
    filling: Filling,
}

impl Algorithm for SpanningTree {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = VERTEX_BYTES + NUMBER_BYTES;
        let bytes = spec.size("size") - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, EDGE_BYTES + SORTED_BYTES, seed);
        // The graph as it was before sorting; the forest is found without it.
        space.place(rmat.edges(), EDGE_BYTES);
        Self {
            rmat,
            sorted: space.place(rmat.edges(), SORTED_BYTES),
            permutation: Permutation::new(rmat.edges(), &mut Random::new(!seed)),
            parents: space.array((0..rmat.vertices() as u32).collect(), VERTEX_BYTES),
            tree: space.place(rmat.vertices(), NUMBER_BYTES),
            tree_edges: 0,
            weight: 0,
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
            self.cursor += 1;
            machine.run(NEXT, !self.is_done());
        } else if self.filling.step(&mut self.parents, RESET, machine, |vertex| vertex as u32) {
            machine.run(BEGIN, true);
            (self.cursor, self.tree_edges, self.weight) = (0, 0, 0);
        }
    }
}

impl SpanningTree {
    #[inline]
    fn edge(&mut self, machine: &mut Machine) {
        self.sorted.read_part(self.cursor, 0, VERTEX_BYTES, machine);
        self.sorted.read_part(self.cursor, VERTEX_BYTES, VERTEX_BYTES, machine);
        let (first, second) = self.rmat.edge(self.number(self.cursor));
        machine.run(TAKE, false);
        let first = self.find(first, 0, machine);
        let second = self.find(second, 1, machine);
        machine.run(TEST, first == second);
        if first == second {
            return;
        }
        self.parents.store(first.max(second).into(), first.min(second), machine);
        self.sorted.read_part(self.cursor, EDGE_BYTES, NUMBER_BYTES, machine);
        self.tree.write(self.tree_edges, machine);
        self.tree_edges += 1;
        self.weight += self.cursor;
        machine.run(UNITE, false);
    }

    fn find(&mut self, vertex: u32, side: usize, machine: &mut Machine) -> u32 {
        let mut vertex = vertex;
        loop {
            let parent = self.parents.load(vertex.into(), machine);
            machine.run(FIND[side], parent == vertex);
            if parent == vertex {
                return vertex;
            }
            let grandparent = self.parents.load(parent.into(), machine);
            self.parents.store(vertex.into(), grandparent, machine);
            machine.run(HALVE[side], true);
            vertex = grandparent;
        }
    }

    /// The edge of a rank.
    pub(super) fn number(&self, rank: u64) -> u64 {
        self.permutation.apply(rank)
    }

    /// Whether a forest has just become complete.
    pub(super) fn is_done(&self) -> bool {
        self.cursor == self.rmat.edges()
    }
}
