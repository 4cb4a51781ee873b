//! Stacks of several page sizes that follow one pass over a trace, each on a thread of its own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::PageOrder;
use crate::collect::{Listener, Mark, Reference, References};
use crate::latest_stack::LatestStack;
use crate::lru_stack::{Depth, LruStack};
use crate::miss_ratio::{COUNTED_ENTRIES, GROUPS, MissRatioCurve, Sampling};
use crate::page_id::BitSet;

/// Number of references that threads get at a time, in 64 KB.
const BATCH: usize = 1 << 14;
/// Number of batches that the pass may be ahead of a thread.
const BATCHES_AHEAD: usize = 4;

/// Blocks in the order of their last use.
enum Stacks {
    All(LruStack),
    Sampled { latest: LatestStack<COUNTED_ENTRIES>, followed: LruStack },
}

/// Stacks of one page size, and the curve that they make.
pub(super) struct Follower {
    pub(super) curve: MissRatioCurve,
    stacks: Stacks,
    /// Blocks that were touched, and not unmapped since.
    seen: BitSet,
    /// Block of the previous access, which is at the top of the stack.
    latest: u32,
}

impl Follower {
    pub(super) fn new(order: PageOrder, sampling: Sampling) -> Self {
        let stacks = match sampling {
            Sampling::ALL => Stacks::All(LruStack::new()),
            _ => Stacks::Sampled { latest: LatestStack::new(), followed: LruStack::new() },
        };
        let curve = MissRatioCurve::new(order, sampling);
        Self { curve, stacks, seen: BitSet::default(), latest: u32::MAX }
    }

    #[inline]
    fn access(&mut self, block: u32) {
        if block == self.latest {
            // At depth 0, where every TLB hits.
            return;
        }
        self.latest = block;
        let depth = match &mut self.stacks {
            Stacks::All(all) => all.access(block),
            Stacks::Sampled { latest, .. } => latest.access(block),
        };
        let is_deeper = depth == Depth::Absent && !self.seen.insert(block as usize);
        match depth {
            Depth::Below(depth) => count(&mut self.curve.counted, depth),
            Depth::Absent if is_deeper => self.curve.deeper += 1,
            Depth::Absent => self.curve.first += 1,
        }
        let Stacks::Sampled { followed, .. } = &mut self.stacks else { return };
        let hash = hash(block);
        if self.curve.sampling.follows(hash)
            && let Depth::Below(depth) = followed.access(block)
            && is_deeper
        {
            count(&mut self.curve.sampled[hash as usize >> 16 & (GROUPS - 1)], depth);
        }
    }

    fn forget(&mut self, ids: &Range<u32>) {
        let order = self.curve.order.0;
        self.latest = u32::MAX;
        let blocks = (ids.start >> order) as usize..((ids.end - 1) >> order) as usize + 1;
        let present: Vec<usize> = self.seen.within(blocks).collect();
        for block in present {
            match &mut self.stacks {
                Stacks::All(all) => all.invalidate(block as u32),
                Stacks::Sampled { latest, followed } => {
                    latest.invalidate(block as u32);
                    followed.invalidate(block as u32);
                }
            }
            self.seen.remove(block);
        }
    }

    /// Hears references, and marks between them.
    fn hear(&mut self, batch: &References) {
        let order = self.curve.order;
        for (references, mark) in batch.parts() {
            for reference in references {
                self.access(reference.id().block(order));
            }
            match mark {
                Some(Mark::Forget(ids)) => self.forget(ids),
                Some(Mark::StartMeasuring) => self.start_measuring(),
                Some(Mark::Touched(_) | Mark::Switch) | None => {}
            }
        }
    }

    fn start_measuring(&mut self) {
        self.curve = MissRatioCurve::new(self.curve.order, self.curve.sampling);
    }
}

/// Counts an access at a depth.
#[inline]
fn count(depths: &mut Vec<u64>, depth: usize) {
    if depth >= depths.len() {
        depths.resize(depth + 1, 0);
    }
    depths[depth] += 1;
}

/// Mixes the bits of a block's number.
#[inline]
fn hash(block: u32) -> u32 {
    let mixed = (u64::from(block) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

/// Listener that passes references on to the threads of all followers.
pub(super) struct Broadcast {
    batch: References,
    threads: Vec<SyncSender<Arc<References>>>,
}

impl Broadcast {
    fn send(&mut self) {
        let batch = Arc::new(std::mem::take(&mut self.batch));
        for thread in &self.threads {
            thread.send(batch.clone()).expect("a follower listens until the pass ends");
        }
    }
}

impl Listener for Broadcast {
    const WANTS_ALL: bool = false;

    #[inline]
    fn hear(&mut self, reference: Reference) -> bool {
        if !reference.is_fetch() {
            self.batch.list.push(reference);
            if self.batch.list.len() == BATCH {
                self.send();
            }
        }
        true
    }

    fn mark(&mut self, mark: Mark) {
        self.batch.mark(mark);
    }
}

/// Runs a pass whose references all followers hear. Returns the followers, and what the pass returned.
pub(super) fn follow<R>(
    followers: Vec<Follower>,
    pass: impl FnOnce(&mut Broadcast) -> R,
) -> (Vec<Follower>, R) {
    thread::scope(|scope| {
        let mut broadcast = Broadcast { batch: References::default(), threads: Vec::new() };
        let mut running = Vec::new();
        for mut follower in followers {
            let (thread, batches) = sync_channel::<Arc<References>>(BATCHES_AHEAD);
            broadcast.threads.push(thread);
            running.push(scope.spawn(move || {
                batches.iter().for_each(|batch| follower.hear(&batch));
                follower
            }));
        }
        let result = pass(&mut broadcast);
        broadcast.send();
        drop(broadcast);
        let followers =
            running.into_iter().map(|thread| thread.join().expect("no follower panics"));
        (followers.collect(), result)
    })
}
