//! Workload `set-cover`: approximate set cover, greedy, with sets in buckets by size.
//!
//! The sets are the neighbours of the vertices of a directed R-MAT graph; the elements are its
//! vertices. A set's bucket is the largest power of two up to its number of uncovered elements at its
//! last count. Sets of the highest bucket are counted again: a set that still belongs there is chosen
//! and its elements are covered; any other set moves to its new bucket. A neighbour that occurs twice
//! counts twice.

use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::rmat::Rmat;
use super::{Algorithm, Data, DataOptions, SLACK_BYTES};
use crate::registry::Registered;
use crate::traced::{Array, Place, Space, Tracer, Value};

/// Marker of the end of a bucket's list of sets.
const NONE: u32 = u32::MAX;
/// Number of buckets: one for each power of two that the size of a set can have.
const BUCKETS: u64 = 40;

pub(crate) struct SetCover {
    pub(super) graph: Graph,
    pub(super) covered: Array<u8>,
    /// First set in the list of each bucket.
    buckets: Array<u32>,
    /// For each set, the next set in the list of its bucket.
    links: Array<u32>,
    /// Array of the chosen sets, in the order of their choice.
    chosen: Place,
    pub(super) chosen_count: u64,
}

impl Registered for SetCover {
    const NAME: &'static str = "set-cover";
    const SUMMARY: &'static str =
        "approximate set cover on a directed R-MAT graph (setCover in paper G: 7.8G)";
    const EXAMPLE: &'static str = "set-cover:size=4G";
    type Options = DataOptions;

    fn host_bytes(options: &DataOptions) -> u64 {
        options.data_bytes()
    }
}

impl Algorithm for SetCover {
    fn new(options: &DataOptions, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = OFFSET_BYTES + 1 + 2 * VERTEX_BYTES;
        let bytes = options.data_bytes() - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, VERTEX_BYTES, seed);
        let graph = Graph::directed(&rmat, space);
        let sets = graph.vertices() as usize;
        let mut cover = Self {
            covered: space.array(vec![0; sets], 1),
            buckets: space.array(vec![NONE; BUCKETS as usize], VERTEX_BYTES),
            links: space.array(vec![NONE; sets], VERTEX_BYTES),
            chosen: space.place(sets as u64, VERTEX_BYTES),
            chosen_count: 0,
            graph,
        };
        cover.put_all();
        cover
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        self.cover_all(t).await;
        self.start_over(t).await;
        t.jump();
    }
}

/// Bucket of a set with `size` uncovered elements.
fn bucket_of(size: u64) -> u64 {
    u64::from(size.ilog2())
}

/// A set, with its elements as a range of the graph's edges.
#[derive(Clone, Copy)]
struct Set {
    number: Value<u32>,
    start: Value<u64>,
    end: Value<u64>,
}

impl SetCover {
    /// Puts each set into the bucket for its size. This is part of the initialisation, so no instructions are
    /// recorded.
    fn put_all(&mut self) {
        let offsets = self.graph.offsets.values();
        for (set, range) in offsets.windows(2).enumerate().filter(|(_, range)| range[0] < range[1])
        {
            let bucket = bucket_of(range[1] - range[0]) as usize;
            let first = &mut self.buckets.values_mut()[bucket];
            self.links.values_mut()[set] = std::mem::replace(first, set as u32);
        }
    }

    pub(super) async fn cover_all(&mut self, t: &mut Tracer) {
        let mut bucket = t.integer((), BUCKETS - 1);
        let mut threshold = t.integer((), 1_u64 << (BUCKETS - 1));
        let mut chosen = t.integer((), 0_u64);
        loop {
            let set = self.buckets.load(t, bucket);
            if t.branch(*set == NONE, set) {
                let is_last = *bucket == 0;
                bucket = t.integer(bucket, bucket.saturating_sub(1));
                threshold = t.integer(threshold, *threshold / 2);
                if !t.branch(!is_last, bucket) {
                    break;
                }
                continue;
            }
            let set = self.unlink(t, bucket, set);
            let count = self.count_uncovered(t, set);
            t.pause().await;
            if !t.branch(*count < *threshold, (count, threshold)) {
                self.chosen.store(t, chosen, set.number);
                chosen = t.integer(chosen, *chosen + 1);
                self.cover(t, set);
                t.jump();
                t.pause().await;
            } else if !t.branch(*count == 0, count) {
                self.join(&mut t.inlined(), set.number, count);
                t.jump();
            }
        }
        self.chosen_count = *chosen;
    }

    /// Removes the first set from the list of its bucket, and returns the set.
    fn unlink(&mut self, t: &mut Tracer, bucket: Value<u64>, number: Value<u32>) -> Set {
        let link = self.links.load(t, number);
        self.buckets.store(t, bucket, link);
        let (start, end) = self.graph.load_range(&mut t.inlined(), number);
        Set { number, start, end }
    }

    /// Counts the elements of a set that are not covered yet.
    fn count_uncovered(&self, t: &mut Tracer, set: Set) -> Value<u64> {
        let mut edge = t.integer(set.start, *set.start);
        let mut count = t.integer((), 0);
        t.align();
        loop {
            let element = self.graph.neighbours.load(t, edge);
            edge = t.integer(edge, *edge + 1);
            let covered = self.covered.load(t, element);
            let uncovered = t.integer(covered, u64::from(1 - *covered));
            count = t.integer((count, uncovered), *count + *uncovered);
            if !t.branch(*edge < *set.end, (edge, set.end)) {
                return count;
            }
        }
    }

    /// Marks the elements of a set as covered.
    fn cover(&mut self, t: &mut Tracer, set: Set) {
        let mut edge = t.integer(set.start, *set.start);
        t.align();
        loop {
            let element = self.graph.neighbours.load(t, edge);
            self.covered.store(t, element, Value::constant(1));
            edge = t.integer(edge, *edge + 1);
            if !t.branch(*edge < *set.end, (edge, set.end)) {
                return;
            }
        }
    }

    /// Puts a set with `count` uncovered elements into its bucket.
    fn join(&mut self, t: &mut Tracer, set: Value<u32>, count: Value<u64>) {
        let bucket = t.integer(count, bucket_of(*count));
        let link = self.buckets.load(t, bucket);
        self.links.store(t, set, link);
        self.buckets.store(t, bucket, set);
    }

    /// Marks all elements as uncovered, and puts all sets into their buckets.
    pub(super) async fn start_over(&mut self, t: &mut Tracer) {
        self.covered.fill(t, |_| 0).await;
        let mut set = Value::constant(0_u32);
        loop {
            let (start, end) = self.graph.load_range(&mut t.inlined(), set);
            let count = t.integer((start, end), *end - *start);
            if !t.branch(*count == 0, count) {
                self.join(&mut t.inlined(), set, count);
            }
            set = t.integer(set, *set + 1);
            t.pause().await;
            if !t.branch(u64::from(*set) < self.graph.vertices(), set) {
                break;
            }
        }
    }
}
