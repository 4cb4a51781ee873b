//! A maximal independent set of an undirected R-MAT graph: greedy, vertices in random order.

use super::array::{Array, FILL, Filling, Place, Space};
use super::code::{Block, Code, Op, compare, conditional, integer, jump, load, store};
use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::machine::Machine;
use super::rmat::Rmat;
use super::source::Running;
use super::{Algorithm, SLACK_BYTES, size};
use crate::synthetic::random::{Permutation, Random};
use crate::synthetic::registry::Workload;
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const INDEPENDENT_SET: Workload = Workload {
    name: "mis",
    summary: "maximal independent set of an undirected R-MAT graph (paper G's MIS)",
    parameters: &[size("bytes of the graph, order and flags, 1M to 64G (paper G: 7.3G)")],
    host_bytes: |spec| spec.size("size"),
    build: Running::<IndependentSet>::boxed,
};

const UNDECIDED: u8 = 0;
const IN: u8 = 1;
const OUT: u8 = 2;

const CURSOR: u8 = 10;
const VERTEX: u8 = 11;
const FLAG: u8 = 12;
const EDGE: u8 = 13;
const END: u8 = 14;
const NEIGHBOUR: u8 = 15;
const LAST: u8 = 16;

const BLOCKS: &[&[Op]] = &[
    // TAKE: the next vertex in order and its flag; taken: it is decided
    &[
        load(VERTEX, &[CURSOR]),
        integer(CURSOR, &[CURSOR]),
        load(FLAG, &[VERTEX]),
        compare(&[FLAG]),
        conditional(),
    ],
    // JOIN: it is in, and so its neighbours are not; taken: it has none
    &[
        store(&[VERTEX]),
        load(EDGE, &[VERTEX]),
        load(END, &[VERTEX]),
        compare(&[EDGE, END]),
        conditional(),
    ],
    // LOOK: a neighbour and its flag; taken: it is out before
    &[
        load(NEIGHBOUR, &[EDGE]),
        integer(EDGE, &[EDGE]),
        load(FLAG, &[NEIGHBOUR]),
        compare(&[FLAG]),
        conditional(),
    ],
    // REMOVE: it is out
    &[store(&[NEIGHBOUR])],
    // MORE: taken: another neighbour
    &[compare(&[EDGE, END]), conditional()],
    // NEXT: taken: another vertex
    &[compare(&[CURSOR, LAST]), conditional()],
    // CLEAR: all flags
    FILL,
    // BEGIN: at the first vertex again
    &[integer(CURSOR, &[]), jump()],
];
const TAKE: Block = 0;
const JOIN: Block = 1;
const LOOK: Block = 2;
const REMOVE: Block = 3;
const MORE: Block = 4;
const NEXT: Block = 5;
const CLEAR: Block = 6;
const BEGIN: Block = 7;

enum State {
    Vertex,
    Edge,
    Clear,
}

pub(super) struct IndependentSet {
    pub(super) graph: Graph,
    pub(super) flags: Array<u8>,
    /// Vertices in random order, computed.
    order: Place,
    permutation: Permutation,
    cursor: u64,
    edge: u64,
    end: u64,
    filling: Filling,
    state: State,
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
            cursor: 0,
            edge: 0,
            end: 0,
            filling: Filling::default(),
            state: State::Vertex,
        }
    }

    fn code(&self) -> Code {
        Code::new(BLOCKS)
    }

    #[inline]
    fn step(&mut self, machine: &mut Machine) {
        match self.state {
            State::Vertex => self.take(machine),
            State::Edge => self.look(machine),
            State::Clear => {
                if self.filling.step(&mut self.flags, CLEAR, machine, |_| UNDECIDED) {
                    machine.run(BEGIN, true);
                    self.cursor = 0;
                    self.state = State::Vertex;
                }
            }
        }
    }
}

impl IndependentSet {
    fn take(&mut self, machine: &mut Machine) {
        self.order.read(self.cursor, machine);
        let vertex = self.permutation.apply(self.cursor) as u32;
        self.cursor += 1;
        let decided = self.flags.load(vertex.into(), machine) != UNDECIDED;
        machine.run(TAKE, decided);
        if decided {
            return self.next(machine);
        }
        self.flags.store(vertex.into(), IN, machine);
        (self.edge, self.end) = self.graph.load_range(vertex, machine);
        let lonely = self.edge == self.end;
        machine.run(JOIN, lonely);
        self.state = State::Edge;
        if lonely {
            self.next(machine);
        }
    }

    #[inline]
    fn look(&mut self, machine: &mut Machine) {
        let neighbour = self.graph.neighbours.load(self.edge, machine);
        self.edge += 1;
        let decided = self.flags.load(neighbour.into(), machine) != UNDECIDED;
        machine.run(LOOK, decided);
        if !decided {
            self.flags.store(neighbour.into(), OUT, machine);
            machine.run(REMOVE, false);
        }
        let more = self.edge < self.end;
        machine.run(MORE, more);
        if !more {
            self.next(machine);
        }
    }

    fn next(&mut self, machine: &mut Machine) {
        let more = self.cursor < self.graph.vertices();
        machine.run(NEXT, more);
        self.state = if more { State::Vertex } else { State::Clear };
    }

    /// Whether a set has just become maximal.
    #[cfg(test)]
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Clear)
    }
}
