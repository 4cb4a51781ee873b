//! Graphs as compressed sparse rows.

use super::rmat::Rmat;
use crate::program::{Array, Space, Tracer, Value};

/// Bytes of an entry of `offsets`.
pub(super) const OFFSET_BYTES: u64 = 8;
/// Bytes of a vertex number.
pub(super) const VERTEX_BYTES: u64 = 4;

/// The neighbours of all vertices, one after the other.
pub(super) struct Graph {
    /// Where the neighbours of each vertex begin; one more entry for the end of the last.
    pub(super) offsets: Array<u64>,
    pub(super) neighbours: Array<u32>,
}

impl Graph {
    /// The edges of an R-MAT graph at the vertices they leave.
    pub(super) fn directed(rmat: &Rmat, space: &mut Space) -> Self {
        let mut offsets = Vec::with_capacity(rmat.vertices() as usize + 1);
        let mut neighbours = Vec::with_capacity(rmat.edges() as usize);
        offsets.push(0);
        rmat.for_each_row(|_, columns| {
            neighbours.extend_from_slice(columns);
            offsets.push(neighbours.len() as u64);
        });
        Self::new(offsets, neighbours, space)
    }

    /// The edges of an R-MAT graph at both ends, without those from a vertex to itself. Counting
    /// sort; the edges are drawn twice instead of kept.
    pub(super) fn undirected(rmat: &Rmat, space: &mut Space) -> Self {
        let mut offsets = vec![0; rmat.vertices() as usize + 1];
        for_each_end(rmat, |vertex, _| offsets[vertex as usize] += 1);
        let mut sum = 0;
        for offset in &mut offsets {
            sum += *offset;
            *offset = sum;
        }
        // Each offset is an end now, and a beginning once its vertex has all its neighbours.
        let mut neighbours = vec![0; sum as usize];
        for_each_end(rmat, |vertex, neighbour| {
            let place = &mut offsets[vertex as usize];
            *place -= 1;
            neighbours[*place as usize] = neighbour;
        });
        Self::new(offsets, neighbours, space)
    }

    pub(super) fn new(offsets: Vec<u64>, neighbours: Vec<u32>, space: &mut Space) -> Self {
        Self {
            offsets: space.array(offsets, OFFSET_BYTES),
            neighbours: space.array(neighbours, VERTEX_BYTES),
        }
    }

    pub(super) fn vertices(&self) -> u64 {
        self.offsets.values().len() as u64 - 1
    }

    /// Loads where the neighbours of a vertex begin and end.
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

/// Groups of columns whose edges are visited together.
const GROUPS: usize = 256;
/// Edges of a group that wait before they are visited.
const WAITING: usize = 1 << 14;

/// Visits both ends of every edge between two vertices: vertex and neighbour. Rows come in order;
/// columns are at random, so they wait until there are many that lie close together, or most visits
/// would miss the caches of the computer that simulates.
fn for_each_end(rmat: &Rmat, mut visit: impl FnMut(u32, u32)) {
    let shift = rmat.vertices().ilog2().saturating_sub(GROUPS.ilog2());
    let mut groups = vec![Vec::new(); GROUPS];
    rmat.for_each_row(|row, columns| {
        for &column in columns.iter().filter(|&&column| column != row) {
            visit(row, column);
            let group = &mut groups[(column >> shift) as usize];
            group.push((column, row));
            if group.len() == WAITING {
                group.drain(..).for_each(|(column, row)| visit(column, row));
            }
        }
    });
    groups.into_iter().flatten().for_each(|(column, row)| visit(column, row));
}
