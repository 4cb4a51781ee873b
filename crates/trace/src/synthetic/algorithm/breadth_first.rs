//! Breadth-first search on a directed R-MAT graph, one search after the other.

use super::array::{Array, FILL, Filling, Space};
use super::code::{Block, Code, Op, compare, conditional, integer, jump, load, multiply, store};
use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::machine::Machine;
use super::rmat::Rmat;
use super::source::Running;
use super::{Algorithm, SLACK_BYTES, size};
use crate::synthetic::random::Random;
use crate::synthetic::registry::Workload;
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const BREADTH_FIRST: Workload = Workload {
    // A bundled trace is called bfs.
    name: "rmat-bfs",
    summary: "breadth-first searches of a directed R-MAT graph (paper G's BFS)",
    parameters: &[size("bytes of the graph and the search's arrays, 1M to 64G (paper G: 7.4G)")],
    host_bytes: |spec| spec.size("size"),
    build: Running::<BreadthFirst>::boxed,
};

/// A vertex that has not been reached.
const NONE: u32 = u32::MAX;

const VERTEX: u8 = 10;
const HEAD: u8 = 11;
const TAIL: u8 = 12;
const EDGE: u8 = 13;
const END: u8 = 14;
const NEIGHBOUR: u8 = 15;
const PARENT: u8 = 16;
const STATE: u8 = 17;

const BLOCKS: &[&[Op]] = &[
    // TAKE: the next vertex of the queue and the range of its neighbours; taken: it has none
    &[
        load(VERTEX, &[HEAD]),
        integer(HEAD, &[HEAD]),
        load(EDGE, &[VERTEX]),
        load(END, &[VERTEX]),
        compare(&[EDGE, END]),
        conditional(),
    ],
    // LOOK: a neighbour and its parent; taken: it was reached before
    &[
        load(NEIGHBOUR, &[EDGE]),
        integer(EDGE, &[EDGE]),
        load(PARENT, &[NEIGHBOUR]),
        compare(&[PARENT]),
        conditional(),
    ],
    // REACH: its parent is set, and it joins the queue
    &[store(&[VERTEX, NEIGHBOUR]), store(&[NEIGHBOUR, TAIL]), integer(TAIL, &[TAIL])],
    // MORE: taken: another neighbour
    &[compare(&[EDGE, END]), conditional()],
    // NEXT: taken: another vertex
    &[compare(&[HEAD, TAIL]), conditional()],
    // CLEAR: all parents, for the next search
    FILL,
    // BEGIN: a random vertex is its own parent and the only one in the queue
    &[
        integer(STATE, &[STATE]),
        multiply(VERTEX, &[STATE]),
        integer(VERTEX, &[VERTEX]),
        store(&[VERTEX, VERTEX]),
        integer(HEAD, &[]),
        store(&[VERTEX, HEAD]),
        integer(TAIL, &[HEAD]),
        jump(),
    ],
];
const TAKE: Block = 0;
const LOOK: Block = 1;
const REACH: Block = 2;
const MORE: Block = 3;
const NEXT: Block = 4;
const CLEAR: Block = 5;
const BEGIN: Block = 6;

enum State {
    Vertex,
    Edge,
    Clear,
    Begin,
}

pub(super) struct BreadthFirst {
    pub(super) graph: Graph,
    pub(super) parents: Array<u32>,
    queue: Array<u32>,
    head: u64,
    tail: u64,
    vertex: u32,
    edge: u64,
    end: u64,
    filling: Filling,
    random: Random,
    state: State,
}

impl Algorithm for BreadthFirst {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = OFFSET_BYTES + 2 * VERTEX_BYTES;
        let bytes = spec.size("size") - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, VERTEX_BYTES, seed);
        Self::on(Graph::directed(&rmat, space), seed, space)
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
                if self.filling.step(&mut self.parents, CLEAR, machine, |_| NONE) {
                    self.state = State::Begin;
                }
            }
            State::Begin => self.begin(machine),
        }
    }
}

impl BreadthFirst {
    /// Searches of a given graph.
    pub(super) fn on(graph: Graph, seed: u64, space: &mut Space) -> Self {
        let vertices = graph.vertices() as usize;
        Self {
            graph,
            parents: space.array(vec![NONE; vertices], VERTEX_BYTES),
            queue: space.array(vec![0; vertices], VERTEX_BYTES),
            head: 0,
            tail: 0,
            vertex: 0,
            edge: 0,
            end: 0,
            filling: Filling::default(),
            random: Random::new(!seed),
            state: State::Begin,
        }
    }

    fn begin(&mut self, machine: &mut Machine) {
        let root = self.random.below(self.graph.vertices()) as u32;
        self.parents.store(root.into(), root, machine);
        self.queue.store(0, root, machine);
        (self.head, self.tail) = (0, 1);
        machine.run(BEGIN, true);
        self.state = State::Vertex;
    }

    fn take(&mut self, machine: &mut Machine) {
        self.vertex = self.queue.load(self.head, machine);
        self.head += 1;
        (self.edge, self.end) = self.graph.load_range(self.vertex, machine);
        let lonely = self.edge == self.end;
        machine.run(TAKE, lonely);
        self.state = State::Edge;
        if lonely {
            self.next(machine);
        }
    }

    #[inline]
    fn look(&mut self, machine: &mut Machine) {
        let neighbour = self.graph.neighbours.load(self.edge, machine);
        self.edge += 1;
        let reached = self.parents.load(neighbour.into(), machine) != NONE;
        machine.run(LOOK, reached);
        if !reached {
            self.parents.store(neighbour.into(), self.vertex, machine);
            self.queue.store(self.tail, neighbour, machine);
            self.tail += 1;
            machine.run(REACH, false);
        }
        let more = self.edge < self.end;
        machine.run(MORE, more);
        if !more {
            self.next(machine);
        }
    }

    fn next(&mut self, machine: &mut Machine) {
        let more = self.head < self.tail;
        machine.run(NEXT, more);
        self.state = if more { State::Vertex } else { State::Clear };
    }

    /// Whether a search has just ended.
    #[cfg(test)]
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Clear)
    }
}
