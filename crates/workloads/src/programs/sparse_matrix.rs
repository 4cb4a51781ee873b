//! Workload `spmv`: a sparse matrix, whose nonzeros are the edges of an R-MAT graph, times a dense
//! vector or matrix.

use perforate_config::{BoundedSize, Count};
use perforate_types::Random;

use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::rmat::Rmat;
use super::{Algorithm, Data, DataSize, SLACK_BYTES};
use crate::registry::Registered;
use crate::traced::{Array, Place, Space, Tracer, Value};

data_options! { SparseMatrixOptions:
    /// Size of matrix, factor and product; 7.3G in paper G.
    size;
    /// Columns of the dense factor; 1 for a vector, as in the benchmark suite.
    columns: Count<1, MOST_COLUMNS> = Count::new(1),
}

/// Maximum number of columns of the dense factor, so that the sums of a row fit in registers.
const MOST_COLUMNS: u64 = 8;
/// Size of a floating-point number in bytes.
const NUMBER_BYTES: u64 = 8;

pub(crate) struct SparseMatrix {
    pub(super) graph: Graph,
    /// Array of the matrix's nonzero values. It has addresses only: the values are computed when they are
    /// loaded.
    values: Place,
    /// Array of the dense factor (the matrix or vector that the sparse matrix is multiplied by), row by row.
    /// It has addresses only: the values are computed when they are loaded.
    factor: Place,
    pub(super) product: Array<f64>,
    columns: u64,
    seed: u64,
}

impl Registered for SparseMatrix {
    const NAME: &'static str = "spmv";
    const SUMMARY: &'static str =
        "sparse matrix (an R-MAT graph) times a dense vector or matrix (SPMV in paper G)";
    const EXAMPLE: &'static str = "spmv:size=4G,columns=4";
    type Options = SparseMatrixOptions;

    fn host_bytes(options: &SparseMatrixOptions) -> u64 {
        options.data_bytes() / 2
    }
}

impl Algorithm for SparseMatrix {
    fn new(options: &SparseMatrixOptions, seed: u64, space: &mut Space) -> Self {
        let columns = options.columns.get();
        let vertex_bytes = OFFSET_BYTES + 2 * columns * NUMBER_BYTES;
        let bytes = options.data_bytes() - SLACK_BYTES;
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
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        self.multiply(t).await;
        t.jump();
    }
}

impl SparseMatrix {
    pub(super) async fn multiply(&mut self, t: &mut Tracer) {
        let mut row = t.integer((), 0_u32);
        loop {
            let sums = self.multiply_row(t, row);
            for (column, &sum) in sums.iter().enumerate().take(self.columns as usize) {
                let t = &mut t.unrolled(column);
                let place = row.map(|row| u64::from(row) * self.columns + column as u64);
                self.product.store(t, place, sum);
            }
            row = t.integer(row, *row + 1);
            t.pause().await;
            if !t.branch(u64::from(*row) < self.graph.vertices(), row) {
                break;
            }
        }
    }

    /// Computes one row of the product.
    fn multiply_row(&self, t: &mut Tracer, row: Value<u32>) -> [Value<f64>; MOST_COLUMNS as usize] {
        let (mut edge, end) = self.graph.load_range(t, row);
        let mut sums = [Value::constant(0.0); MOST_COLUMNS as usize];
        let sums_used = &mut sums[..self.columns as usize];
        for (column, sum) in sums_used.iter_mut().enumerate() {
            *sum = t.unrolled(column).float((), 0.0);
        }
        let mut is_done = t.branch(*edge == *end, (edge, end));
        while !is_done {
            let column = self.graph.neighbours.load(t, edge);
            let value = self.values.load(t, edge, self.value(*edge));
            for (number, sum) in sums_used.iter_mut().enumerate() {
                let t = &mut t.unrolled(number);
                let place = column.map(|column| u64::from(column) * self.columns + number as u64);
                let factor = self.factor.load(t, place, self.factor(*place));
                let product = t.float((factor, value), *factor * *value);
                *sum = t.float((*sum, product), **sum + *product);
            }
            edge = t.integer(edge, *edge + 1);
            is_done = !t.branch(*edge < *end, (edge, end));
        }
        sums
    }

    /// Nonzero value of the sparse matrix at index `place`: a whole number from 0 to 255.
    #[inline]
    pub(super) fn value(&self, place: u64) -> f64 {
        number(self.seed.wrapping_add(place))
    }

    /// Element at index `place` of the dense matrix or vector that the sparse matrix is multiplied by: a
    /// whole number from 0 to 255.
    #[inline]
    pub(super) fn factor(&self, place: u64) -> f64 {
        number((!self.seed).wrapping_sub(place))
    }
}

#[inline]
fn number(seed: u64) -> f64 {
    (Random::new(seed).next() >> 56) as f64
}
