//! Graphs in compressed sparse row format.

use super::grouped::Grouped;
use super::kept::{self, Edges, Recipe};
use super::rmat::Rmat;
use crate::traced::{Constants, Space, Tracer, Value};

/// Size of an entry of [`Graph::offsets`] in bytes.
pub(super) const OFFSET_BYTES: u64 = 8;
/// Size of a vertex number in bytes.
pub(super) const VERTEX_BYTES: u64 = 4;

/// Graph in compressed sparse row format: the neighbours of all vertices are in one array.
pub(super) struct Graph {
    /// Index of each vertex's first neighbour; the last entry is the end of the last vertex's
    /// neighbours.
    pub(super) offsets: Constants<u64>,
    pub(super) neighbours: Constants<u32>,
}

impl Graph {
    /// Makes a graph in which each edge of an R-MAT graph is stored at its start vertex.
    pub(super) fn directed(rmat: &Rmat, space: &mut Space) -> Self {
        let recipe = Recipe::Rmat { rmat: *rmat, is_undirected: false };
        Self::new(kept::edges(recipe, || directed_edges(rmat)), space)
    }

    /// Makes a graph in which each edge of an R-MAT graph is stored at both of its vertices, without
    /// self-loops.
    pub(super) fn undirected(rmat: &Rmat, space: &mut Space) -> Self {
        let recipe = Recipe::Rmat { rmat: *rmat, is_undirected: true };
        Self::new(kept::edges(recipe, || undirected_edges(rmat)), space)
    }

    pub(super) fn new(edges: Edges, space: &mut Space) -> Self {
        Self {
            offsets: space.constants(edges.offsets, OFFSET_BYTES),
            neighbours: space.constants(edges.neighbours, VERTEX_BYTES),
        }
    }

    pub(super) fn vertices(&self) -> u64 {
        self.offsets.values().len() as u64 - 1
    }

    /// Loads the range of a vertex's neighbours: index of the first, and index after the last.
    #[inline]
    pub(super) fn load_range(
        &self,
        t: &mut Tracer,
        vertex: Value<u32>,
    ) -> (Value<u64>, Value<u64>) {
        let start = self.offsets.load(t, vertex);
        (start, self.offsets.load(t, vertex.map(|vertex| vertex + 1)))
    }
}

/// Computes offsets and neighbours of a directed graph.
fn directed_edges(rmat: &Rmat) -> (Vec<u64>, Vec<u32>) {
    let mut offsets = Vec::with_capacity(rmat.vertices() as usize + 1);
    let mut neighbours = Vec::with_capacity(rmat.edges() as usize);
    offsets.push(0);
    rmat.for_each_row(|_, columns| {
        neighbours.extend_from_slice(columns);
        offsets.push(neighbours.len() as u64);
    });
    (offsets, neighbours)
}

/// Computes offsets and neighbours of an undirected graph, by counting sort. The edges are generated twice
/// rather than stored.
fn undirected_edges(rmat: &Rmat) -> (Vec<u64>, Vec<u32>) {
    let mut offsets = vec![0; rmat.vertices() as usize + 1];
    for_each_end(rmat, |vertex, _| offsets[vertex as usize] += 1);
    let mut sum = 0;
    for offset in &mut offsets {
        sum += *offset;
        *offset = sum;
    }
    // Each offset is now the end of its range, and becomes the start when all neighbours are placed.
    let mut neighbours = vec![0; sum as usize];
    for_each_end(rmat, |vertex, neighbour| {
        let place = &mut offsets[vertex as usize];
        *place -= 1;
        neighbours[*place as usize] = neighbour;
    });
    (offsets, neighbours)
}

/// Calls `visit` with vertex and neighbour for both ends of every edge between two vertices. Rows come in
/// order. Columns are random, so their visits are grouped.
fn for_each_end(rmat: &Rmat, mut visit: impl FnMut(u32, u32)) {
    let mut of_columns = Grouped::new(rmat.vertices(), &mut visit);
    rmat.for_each_row(|row, columns| {
        for &column in columns.iter().filter(|&&column| column != row) {
            of_columns.visit(row, column);
            of_columns.add(column, row);
        }
    });
    of_columns.finish();
}
