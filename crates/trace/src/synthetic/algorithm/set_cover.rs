//! Set cover, approximately: greedy, with sets in buckets by size.
//!
//! The sets are the neighbours of the vertices of a directed R-MAT graph, the elements its
//! vertices. A set is in the bucket of the power of two below its number of uncovered elements when
//! it was last counted. Sets of the highest bucket are counted anew: one that still belongs there
//! is chosen and its elements are covered, another falls to its bucket. A neighbour that is named
//! twice counts twice.

use super::array::{Array, FILL, Filling, Place, Space};
use super::code::{Block, Code, Op, compare, conditional, integer, jump, load, store};
use super::graph::{Graph, OFFSET_BYTES, VERTEX_BYTES};
use super::machine::Machine;
use super::rmat::Rmat;
use super::source::Running;
use super::{Algorithm, SLACK_BYTES, size};
use crate::synthetic::registry::Workload;
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const SET_COVER: Workload = Workload {
    name: "set-cover",
    summary: "approximate set cover, sets of a directed R-MAT graph (paper G's setCover)",
    parameters: &[size("bytes of sets, buckets and flags, 1M to 64G (paper G: 7.8G)")],
    host_bytes: |spec| spec.size("size"),
    build: Running::<SetCover>::boxed,
};

/// The end of a bucket's list.
const NONE: u32 = u32::MAX;
/// One for each power of two that a size can have.
const BUCKETS: usize = 40;

const BUCKET: u8 = 10;
const THRESHOLD: u8 = 11;
const SET: u8 = 12;
const LINK: u8 = 13;
const START: u8 = 14;
const END: u8 = 15;
const EDGE: u8 = 16;
const COUNT: u8 = 17;
const ELEMENT: u8 = 18;
const COVERED: u8 = 19;
const TARGET: u8 = 20;
const CHOSEN: u8 = 21;
const LAST: u8 = 22;

const BLOCKS: &[&[Op]] = &[
    // TAKE: the first set of the bucket; taken: there is none
    &[load(SET, &[BUCKET]), compare(&[SET]), conditional()],
    // UNLINK: it leaves the bucket, and its elements' range is loaded
    &[
        load(LINK, &[SET]),
        store(&[LINK, BUCKET]),
        load(START, &[SET]),
        load(END, &[SET]),
        integer(EDGE, &[START]),
        integer(COUNT, &[]),
    ],
    // COUNT: an element, one more if it is not covered; taken: another element
    &[
        load(ELEMENT, &[EDGE]),
        integer(EDGE, &[EDGE]),
        load(COVERED, &[ELEMENT]),
        integer(COVERED, &[COVERED]),
        integer(COUNT, &[COUNT, COVERED]),
        compare(&[EDGE, END]),
        conditional(),
    ],
    // JUDGE: taken: too few for this bucket
    &[compare(&[COUNT, THRESHOLD]), conditional()],
    // CHOOSE: the set is noted
    &[store(&[SET, CHOSEN]), integer(CHOSEN, &[CHOSEN]), integer(EDGE, &[START])],
    // COVER: an element is covered; taken: another element
    &[
        load(ELEMENT, &[EDGE]),
        store(&[ELEMENT]),
        integer(EDGE, &[EDGE]),
        compare(&[EDGE, END]),
        conditional(),
    ],
    // COVERED_ALL
    &[jump()],
    // DROP: taken: no element is left to cover
    &[compare(&[COUNT]), conditional()],
    // FALL: the set joins a lower bucket
    &[
        integer(TARGET, &[COUNT]),
        load(LINK, &[TARGET]),
        store(&[LINK, SET]),
        store(&[SET, TARGET]),
        jump(),
    ],
    // LOWER: the next bucket; taken: it is the last or above
    &[
        integer(BUCKET, &[BUCKET]),
        integer(THRESHOLD, &[THRESHOLD]),
        compare(&[BUCKET]),
        conditional(),
    ],
    // CLEAR: nothing is covered
    FILL,
    // SORT: the next set's size; taken: it is empty
    &[
        load(START, &[SET]),
        load(END, &[SET]),
        integer(COUNT, &[START, END]),
        compare(&[COUNT]),
        conditional(),
    ],
    // JOIN: it joins its bucket
    &[integer(TARGET, &[COUNT]), load(LINK, &[TARGET]), store(&[LINK, SET]), store(&[SET, TARGET])],
    // SORT_NEXT: taken: another set
    &[integer(SET, &[SET]), compare(&[SET, LAST]), conditional()],
    // BEGIN: at the highest bucket
    &[integer(BUCKET, &[]), integer(THRESHOLD, &[]), integer(CHOSEN, &[]), jump()],
];
const TAKE: Block = 0;
const UNLINK: Block = 1;
const COUNT_ONE: Block = 2;
const JUDGE: Block = 3;
const CHOOSE: Block = 4;
const COVER: Block = 5;
const COVERED_ALL: Block = 6;
const DROP: Block = 7;
const FALL: Block = 8;
const LOWER: Block = 9;
const CLEAR: Block = 10;
const SORT: Block = 11;
const JOIN: Block = 12;
const SORT_NEXT: Block = 13;
const BEGIN: Block = 14;

enum State {
    Take,
    Count,
    Cover,
    Clear,
    Sort,
}

pub(super) struct SetCover {
    pub(super) graph: Graph,
    pub(super) covered: Array<u8>,
    /// First set of each bucket.
    buckets: Array<u32>,
    /// The set after each in its bucket.
    links: Array<u32>,
    /// The sets that were chosen.
    chosen: Place,
    pub(super) chosen_count: u64,
    bucket: usize,
    set: u32,
    start: u64,
    edge: u64,
    end: u64,
    count: u64,
    filling: Filling,
    state: State,
}

impl Algorithm for SetCover {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        let vertex_bytes = OFFSET_BYTES + 1 + 2 * VERTEX_BYTES;
        let bytes = spec.size("size") - SLACK_BYTES;
        let rmat = Rmat::filling(bytes, vertex_bytes, VERTEX_BYTES, seed);
        let graph = Graph::directed(&rmat, space);
        let sets = graph.vertices() as usize;
        let mut cover = Self {
            covered: space.array(vec![0; sets], 1),
            buckets: space.array(vec![NONE; BUCKETS], VERTEX_BYTES),
            links: space.array(vec![NONE; sets], VERTEX_BYTES),
            chosen: space.place(sets as u64, VERTEX_BYTES),
            chosen_count: 0,
            bucket: BUCKETS - 1,
            set: 0,
            start: 0,
            edge: 0,
            end: 0,
            count: 0,
            filling: Filling::default(),
            state: State::Take,
            graph,
        };
        cover.sort_all();
        cover
    }

    fn code(&self) -> Code {
        Code::new(BLOCKS)
    }

    #[inline]
    fn step(&mut self, machine: &mut Machine) {
        match self.state {
            State::Take => self.take(machine),
            State::Count => self.count(machine),
            State::Cover => self.cover(machine),
            State::Clear => {
                if self.filling.step(&mut self.covered, CLEAR, machine, |_| 0) {
                    self.set = 0;
                    self.state = State::Sort;
                }
            }
            State::Sort => self.sort(machine),
        }
    }
}

/// The bucket of a size.
fn bucket_of(size: u64) -> usize {
    size.ilog2() as usize
}

impl SetCover {
    /// Puts all sets into their buckets, as the initialisation does.
    fn sort_all(&mut self) {
        let offsets = self.graph.offsets.values();
        for (set, range) in offsets.windows(2).enumerate().filter(|(_, range)| range[0] < range[1])
        {
            let first = &mut self.buckets.values_mut()[bucket_of(range[1] - range[0])];
            self.links.values_mut()[set] = std::mem::replace(first, set as u32);
        }
    }

    fn take(&mut self, machine: &mut Machine) {
        self.set = self.buckets.load(self.bucket as u64, machine);
        machine.run(TAKE, self.set == NONE);
        if self.set == NONE {
            return self.lower(machine);
        }
        let link = self.links.load(self.set.into(), machine);
        self.buckets.store(self.bucket as u64, link, machine);
        (self.start, self.end) = self.graph.load_range(self.set, machine);
        machine.run(UNLINK, false);
        (self.edge, self.count) = (self.start, 0);
        self.state = State::Count;
    }

    fn lower(&mut self, machine: &mut Machine) {
        let more = self.bucket > 0;
        machine.run(LOWER, more);
        if more {
            self.bucket -= 1;
        } else {
            self.state = State::Clear;
        }
    }

    #[inline]
    fn count(&mut self, machine: &mut Machine) {
        let element = self.graph.neighbours.load(self.edge, machine);
        self.count += u64::from(1 - self.covered.load(element.into(), machine));
        self.edge += 1;
        let more = self.edge < self.end;
        machine.run(COUNT_ONE, more);
        if !more {
            self.judge(machine);
        }
    }

    fn judge(&mut self, machine: &mut Machine) {
        let too_few = self.count < 1 << self.bucket;
        machine.run(JUDGE, too_few);
        if !too_few {
            self.chosen.write(self.chosen_count, machine);
            self.chosen_count += 1;
            machine.run(CHOOSE, false);
            self.edge = self.start;
            self.state = State::Cover;
            return;
        }
        self.state = State::Take;
        machine.run(DROP, self.count == 0);
        if self.count > 0 {
            self.join(machine);
            machine.run(FALL, true);
        }
    }

    /// The accesses that put the set into the bucket of its count.
    fn join(&mut self, machine: &mut Machine) {
        let bucket = bucket_of(self.count) as u64;
        let link = self.buckets.load(bucket, machine);
        self.links.store(self.set.into(), link, machine);
        self.buckets.store(bucket, self.set, machine);
    }

    #[inline]
    fn cover(&mut self, machine: &mut Machine) {
        let element = self.graph.neighbours.load(self.edge, machine);
        self.covered.store(element.into(), 1, machine);
        self.edge += 1;
        let more = self.edge < self.end;
        machine.run(COVER, more);
        if !more {
            machine.run(COVERED_ALL, true);
            self.state = State::Take;
        }
    }

    fn sort(&mut self, machine: &mut Machine) {
        let (start, end) = self.graph.load_range(self.set, machine);
        self.count = end - start;
        machine.run(SORT, self.count == 0);
        if self.count > 0 {
            self.join(machine);
            machine.run(JOIN, false);
        }
        self.set += 1;
        let more = u64::from(self.set) < self.graph.vertices();
        machine.run(SORT_NEXT, more);
        if !more {
            machine.run(BEGIN, true);
            (self.bucket, self.chosen_count) = (BUCKETS - 1, 0);
            self.state = State::Take;
        }
    }

    /// Whether a cover has just become complete.
    #[cfg(test)]
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Clear)
    }
}
