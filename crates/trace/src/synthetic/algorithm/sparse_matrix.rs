//! A sparse matrix, whose places are the edges of an R-MAT graph, times a dense vector or matrix.

use super::array::{Array, Place, Space};
use super::code::{Block, Code, Op, compare, conditional, float, integer, jump, load, store};
use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::machine::Machine;
use super::rmat::Rmat;
use super::source::Running;
use super::{Algorithm, SLACK_BYTES, size};
use crate::synthetic::random::Random;
use crate::synthetic::registry::{Parameter, ParameterKind, Workload};
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const SPARSE_MATRIX: Workload = Workload {
    name: "spmv",
    summary: "sparse matrix (an R-MAT graph) times a dense vector or matrix (paper G's SPMV)",
    parameters: &[
        size("bytes of matrix, factor and product, 1M to 64G (paper G: 7.3G)"),
        Parameter {
            name: "columns",
            kind: ParameterKind::Between(1, MOST_COLUMNS),
            default: "1",
            help: "columns of the dense factor, 1 to 8: 1 is the benchmark suite's vector",
        },
    ],
    host_bytes: |spec| spec.size("size") / 2,
    build: Running::<SparseMatrix>::boxed,
};

/// As many sums stay in registers.
const MOST_COLUMNS: u64 = 8;
/// Bytes of a number.
const NUMBER_BYTES: u64 = 8;

const ROW: u8 = 10;
const EDGE: u8 = 11;
const END: u8 = 12;
const COLUMN: u8 = 13;
const VALUE: u8 = 14;
const FACTOR: u8 = 15;
const LAST: u8 = 16;
/// The first of the sums.
const SUM: u8 = 30;

const BEGIN_ROW: Block = 0;
const MULTIPLY: Block = 1;
const END_ROW: Block = 2;
const BEGIN: Block = 3;

pub(super) struct SparseMatrix {
    pub(super) graph: Graph,
    /// Values of the matrix, computed.
    values: Place,
    /// The dense factor, row by row, computed.
    factor: Place,
    pub(super) product: Array<f64>,
    columns: u64,
    seed: u64,
    row: u64,
    edge: u64,
    end: u64,
    sums: [f64; MOST_COLUMNS as usize],
    in_row: bool,
}

impl Algorithm for SparseMatrix {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        let columns = spec.size("columns");
        let vertex_bytes = OFFSET_BYTES + 2 * columns * NUMBER_BYTES;
        let bytes = spec.size("size") - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, VERTEX_BYTES + NUMBER_BYTES, seed);
        let graph = Graph::directed(&rmat, space);
        let numbers = rmat.vertices() * columns;
        Self {
            graph,
            values: space.place(rmat.edges(), NUMBER_BYTES),
            factor: space.place(numbers, NUMBER_BYTES),
            product: space.array(vec![0.0; numbers as usize], NUMBER_BYTES),
            columns,
            seed,
            row: 0,
            edge: 0,
            end: 0,
            sums: Default::default(),
            in_row: false,
        }
    }

    fn code(&self) -> Code {
        let sums = SUM..SUM + self.columns as u8;
        // BEGIN_ROW: the range of its places; taken: it has none
        let mut begin = vec![load(EDGE, &[ROW]), load(END, &[ROW])];
        begin.extend(sums.clone().map(|sum| float(sum, &[])));
        begin.extend([compare(&[EDGE, END]), conditional()]);
        // MULTIPLY: a place's column and value; taken: another place
        let mut multiply = vec![load(COLUMN, &[EDGE]), load(VALUE, &[EDGE])];
        for sum in sums.clone() {
            multiply.extend([
                load(FACTOR, &[COLUMN]),
                float(FACTOR, &[FACTOR, VALUE]),
                float(sum, &[sum, FACTOR]),
            ]);
        }
        multiply.extend([integer(EDGE, &[EDGE]), compare(&[EDGE, END]), conditional()]);
        // END_ROW: the sums are stored; taken: another row
        let mut end: Vec<Op> = sums.map(|sum| store(&[sum, ROW])).collect();
        end.extend([integer(ROW, &[ROW]), compare(&[ROW, LAST]), conditional()]);
        // BEGIN: at the first row again
        Code::new(&[&begin, &multiply, &end, &[integer(ROW, &[]), jump()]])
    }

    #[inline]
    fn step(&mut self, machine: &mut Machine) {
        if self.in_row {
            self.multiply(machine);
        } else {
            self.begin_row(machine);
        }
    }
}

impl SparseMatrix {
    fn begin_row(&mut self, machine: &mut Machine) {
        (self.edge, self.end) = self.graph.load_range(self.row as u32, machine);
        self.sums = Default::default();
        let empty = self.edge == self.end;
        machine.run(BEGIN_ROW, empty);
        self.in_row = true;
        if empty {
            self.end_row(machine);
        }
    }

    #[inline]
    fn multiply(&mut self, machine: &mut Machine) {
        let column = u64::from(self.graph.neighbours.load(self.edge, machine));
        self.values.read(self.edge, machine);
        let value = self.value(self.edge);
        for number in 0..self.columns {
            let place = column * self.columns + number;
            self.factor.read(place, machine);
            self.sums[number as usize] += value * self.factor(place);
        }
        self.edge += 1;
        let more = self.edge < self.end;
        machine.run(MULTIPLY, more);
        if !more {
            self.end_row(machine);
        }
    }

    fn end_row(&mut self, machine: &mut Machine) {
        for number in 0..self.columns {
            let sum = self.sums[number as usize];
            self.product.store(self.row * self.columns + number, sum, machine);
        }
        self.row += 1;
        let more = self.row < self.graph.vertices();
        machine.run(END_ROW, more);
        if !more {
            machine.run(BEGIN, true);
            self.row = 0;
        }
        self.in_row = false;
    }

    /// The value at a place of the matrix: a whole number from 0 to 255.
    #[inline]
    pub(super) fn value(&self, place: u64) -> f64 {
        number(self.seed.wrapping_add(place))
    }

    /// A number of the dense factor, as above.
    #[inline]
    pub(super) fn factor(&self, place: u64) -> f64 {
        number((!self.seed).wrapping_sub(place))
    }

    /// Whether a product has just become complete.
    #[cfg(test)]
    pub(super) fn is_done(&self) -> bool {
        self.row == 0 && !self.in_row
    }
}

#[inline]
fn number(seed: u64) -> f64 {
    (Random::new(seed).next() >> 56) as f64
}
