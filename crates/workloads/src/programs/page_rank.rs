//! Workload `pagerank`: PageRank of a directed R-MAT graph.
//!
//! Each iteration sums up the contributions of the incoming neighbours of each vertex, which are random reads.
//! Then it computes the contribution of each vertex: its score divided by the number of its outgoing edges. So
//! does the program of the GAP benchmark suite (Beamer et al., 2015).

use perforate_config::BoundedSize;

use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::rmat::Rmat;
use super::{Algorithm, Data, DataSize, SLACK_BYTES};
use crate::registry::Registered;
use crate::traced::{Array, Space, Tracer, Value};

data_options! { PageRankOptions:
    /// Size of the graph and the scores; 69G in Mitosis.
    size;
}

/// Size of a score in bytes.
const SCORE_BYTES: u64 = 4;
/// Share of a score that comes from the neighbours.
const DAMPING: f32 = 0.85;

/// Program of the workload `pagerank`.
pub(crate) struct PageRank {
    /// Incoming neighbours of each vertex.
    pub(super) graph: Graph,
    /// Number of outgoing edges of each vertex.
    pub(super) degrees: Array<u32>,
    pub(super) scores: Array<f32>,
    contributions: Array<f32>,
}

impl Registered for PageRank {
    const NAME: &'static str = "pagerank";
    const SUMMARY: &'static str = "PageRank of a directed R-MAT graph (PageRank in Mitosis)";
    const EXAMPLE: &'static str = "pagerank:size=4G";
    type Options = PageRankOptions;

    fn host_bytes(options: &PageRankOptions) -> u64 {
        options.data_bytes()
    }
}

impl Algorithm for PageRank {
    fn new(options: &PageRankOptions, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = OFFSET_BYTES + VERTEX_BYTES + 2 * SCORE_BYTES;
        let bytes = options.data_bytes() - SLACK_BYTES;
        let graph = Graph::directed(&Rmat::filling(bytes, vertex_bytes, VERTEX_BYTES, seed), space);
        let vertices = graph.vertices() as usize;
        let mut degrees = vec![0; vertices];
        for &neighbour in graph.neighbours.values() {
            degrees[neighbour as usize] += 1;
        }
        let score = 1.0 / vertices as f32;
        let contributions = degrees.iter().map(|&degree| contribution(score, degree)).collect();
        Self {
            graph,
            degrees: space.array(degrees, VERTEX_BYTES),
            scores: space.array(vec![score; vertices], SCORE_BYTES),
            contributions: space.array(contributions, SCORE_BYTES),
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        self.iterate(t).await;
        t.jump();
    }
}

impl PageRank {
    /// Computes new scores from the present contributions, and new contributions.
    pub(super) async fn iterate(&mut self, t: &mut Tracer) {
        let base = (1.0 - DAMPING) / self.graph.vertices() as f32;
        let mut vertex = t.integer((), 0_u32);
        loop {
            let sum = self.sum_of_neighbours(t, vertex).await;
            let score = t.float(sum, base + DAMPING * *sum);
            let old = self.scores.load(t, vertex);
            t.float((score, old), ());
            self.scores.store(t, vertex, score);
            vertex = t.integer(vertex, *vertex + 1);
            if !t.branch(u64::from(*vertex) < self.graph.vertices(), vertex) {
                break;
            }
        }
        self.share_scores(t).await;
    }

    /// Computes what each vertex contributes to the score of each of its neighbours.
    async fn share_scores(&mut self, t: &mut Tracer) {
        let mut vertex = t.integer((), 0_u32);
        loop {
            let score = self.scores.load(t, vertex);
            let degree = self.degrees.load(t, vertex);
            let share = t.divide((score, degree), contribution(*score, *degree));
            self.contributions.store(t, vertex, share);
            vertex = t.integer(vertex, *vertex + 1);
            t.pause().await;
            if !t.branch(u64::from(*vertex) < self.graph.vertices(), vertex) {
                break;
            }
        }
    }

    /// Sums up the contributions of a vertex's incoming neighbours.
    async fn sum_of_neighbours(&self, t: &mut Tracer, vertex: Value<u32>) -> Value<f32> {
        let (mut edge, end) = self.graph.load_range(t, vertex);
        let mut sum = t.float((), 0.0);
        let mut is_done = t.branch(*edge == *end, (edge, end));
        while !is_done {
            let neighbour = self.graph.neighbours.load(t, edge);
            let contribution = self.contributions.load(t, neighbour);
            sum = t.float((sum, contribution), *sum + *contribution);
            edge = t.integer(edge, *edge + 1);
            t.pause().await;
            is_done = !t.branch(*edge < *end, (edge, end));
        }
        sum
    }
}

/// Contribution of a vertex to the score of each of its neighbours. A vertex without neighbours has no reader.
fn contribution(score: f32, degree: u32) -> f32 {
    score / degree.max(1) as f32
}
