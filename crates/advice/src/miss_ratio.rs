//! Miss-ratio curves: misses of TLBs of every number of entries, from one pass.
//!
//! TLBs of a curve are fully associative, replace the least recently used entry, and hold pages of one size.
//!
//! Long traces are sampled in space (SHARDS; Waldspurger et al., FAST 2015): of all blocks, those that a
//! hash selects are followed, one in `N`. Depths among them stand for `N` times that depth, and misses for
//! `N` times as many.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use perforate_trace::Source;

use crate::collect::{Listener, Mark, Memory, Reference, collect};
use crate::lru_stack::{Depth, LruStack};
use crate::page_id::BitSet;
use crate::{AdviceError, MeasuredPart, PageOrder, Progress};

/// Number of groups of sampled blocks, from whose differences the error is estimated.
const GROUPS: usize = 32;
/// Number of standard errors in half an interval of 95 %: Student's t for 31 degrees of freedom.
const STANDARD_ERRORS: f64 = 2.04;

/// Share of blocks that a curve follows: one in this many, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling(u32);

impl Sampling {
    /// Share of 1: all blocks are followed.
    pub const ALL: Self = Self(1);
    /// Largest denominator of the share.
    pub const MAXIMUM: u32 = 1 << 16;

    /// One block in `blocks`; `None` unless that is a power of two up to [`Self::MAXIMUM`].
    pub fn one_in(blocks: u32) -> Option<Self> {
        (blocks.is_power_of_two() && blocks <= Self::MAXIMUM).then_some(Self(blocks))
    }

    /// Number of blocks of which one is followed.
    pub const fn blocks(self) -> u32 {
        self.0
    }
}

/// Misses of TLBs for one page size, by number of entries.
#[derive(Clone, Debug, PartialEq)]
pub struct MissRatioCurve {
    /// Size of the pages that the TLBs hold.
    pub order: PageOrder,
    /// Share of the blocks that were followed.
    pub sampling: Sampling,
    /// Accesses that were found at least so deep among the blocks followed, by group of blocks and depth.
    /// During the pass: exactly so deep.
    depths: Vec<Vec<u64>>,
    /// First touches of the blocks followed, by group.
    first: Vec<u64>,
}

impl MissRatioCurve {
    /// Number of first accesses to pages, which miss in a TLB of any size. Estimated if blocks are sampled.
    pub fn first_touches(&self) -> u64 {
        self.first.iter().sum::<u64>() * u64::from(self.sampling.0)
    }

    /// Largest number of entries that saves a miss.
    pub fn most_entries(&self) -> usize {
        let deepest = self.depths.iter().map(Vec::len).max().unwrap_or(0);
        deepest * self.sampling.0 as usize
    }

    /// Number of misses that are not first touches, with this many entries.
    pub fn misses(&self, entries: usize) -> u64 {
        let all = self.depths.iter().map(|depths| self.misses_of(depths, entries)).sum::<f64>();
        (all * f64::from(self.sampling.0)).round() as u64
    }

    /// Misses of a group of blocks. Between two multiples of the sampled share, linear.
    fn misses_of(&self, depths: &[u64], entries: usize) -> f64 {
        let each = self.sampling.0 as usize;
        let below = |depth: usize| depths.get(depth).copied().unwrap_or(0) as f64;
        let (whole, part) = (entries / each, entries % each);
        let share = part as f64 / each as f64;
        below(whole) * (1.0 - share) + below(whole + 1) * share
    }

    /// Half of the 95 % interval of [`Self::misses`]; 0 if all blocks were followed.
    ///
    /// The error has two parts. Blocks that were followed have more or fewer misses than the others; that
    /// shows in the differences between groups of them. And the blocks above one in the stack are counted
    /// by a sample: `n` sampled blocks stand for `N × (n ± √n)`.
    pub fn error(&self, entries: usize) -> u64 {
        if self.sampling == Sampling::ALL {
            return 0;
        }
        let each = f64::from(self.sampling.0);
        let of_groups: Vec<f64> =
            self.depths.iter().map(|depths| self.misses_of(depths, entries) * each).collect();
        let groups = of_groups.len() as f64;
        let mean = of_groups.iter().sum::<f64>() / groups;
        let squares: f64 = of_groups.iter().map(|misses| (misses - mean).powi(2)).sum();
        let counted = STANDARD_ERRORS * (squares * groups / (groups - 1.0)).sqrt();
        let sampled = entries as f64 / each;
        let around = STANDARD_ERRORS * (sampled.sqrt() + 1.0) * each;
        let fewer = self.misses((entries as f64 - around).max(0.0) as usize);
        let more = self.misses((entries as f64 + around) as usize);
        let middle = self.misses(entries);
        let by_depth = fewer.abs_diff(middle).max(middle.abs_diff(more)) as f64;
        counted.hypot(by_depth).round() as u64
    }

    /// Smallest number of entries with at most this many misses that are not first touches.
    pub fn entries_for(&self, misses: u64) -> usize {
        let (mut low, mut high) = (0, self.most_entries() + 1);
        while low < high {
            let middle = (low + high) / 2;
            if self.misses(middle) <= misses { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// Replaces the accesses at each depth by those at least that deep.
    fn sum_up(mut self) -> Self {
        for depths in &mut self.depths {
            let mut sum = 0;
            for count in depths.iter_mut().rev() {
                sum += *count;
                *count = sum;
            }
        }
        self
    }
}

/// Curves of a trace, and the totals that they refer to.
pub struct MissRatioCurves {
    /// One curve for each page size asked for.
    pub curves: Vec<MissRatioCurve>,
    /// Number of data accesses that count.
    pub accesses: u64,
    /// Number of instructions that count.
    pub instructions: u64,
}

/// Stack of one page size.
struct Follower {
    curve: MissRatioCurve,
    stack: LruStack,
    /// Block of the previous access, which is at the top of the stack if it is followed.
    latest: u32,
    /// Blocks in the stack whose invalidation must be possible.
    seen: BitSet,
}

/// Followers of all page sizes.
struct Followers(Vec<Follower>);

impl Follower {
    fn new(order: PageOrder, sampling: Sampling) -> Self {
        let groups = if sampling == Sampling::ALL { 1 } else { GROUPS };
        let (depths, first) = (vec![Vec::new(); groups], vec![0; groups]);
        let curve = MissRatioCurve { order, sampling, depths, first };
        Self { curve, stack: LruStack::new(), latest: u32::MAX, seen: BitSet::default() }
    }

    #[inline]
    fn access(&mut self, block: u32) {
        if block == self.latest {
            // At depth 0, where every TLB hits.
            return;
        }
        self.latest = block;
        let group = if self.curve.sampling == Sampling::ALL {
            0
        } else {
            let hash = hash(block);
            if hash & (self.curve.sampling.0 - 1) != 0 {
                return;
            }
            hash as usize >> 16 & (GROUPS - 1)
        };
        match self.stack.access(block) {
            Depth::Below(depth) => {
                let depths = &mut self.curve.depths[group];
                if depth >= depths.len() {
                    depths.resize(depth + 1, 0);
                }
                depths[depth] += 1;
            }
            Depth::Absent => {
                self.curve.first[group] += 1;
                self.seen.insert(block as usize);
            }
        }
    }

    fn forget(&mut self, ids: &Range<u32>) {
        let order = self.curve.order.0;
        self.latest = u32::MAX;
        let blocks = (ids.start >> order) as usize..((ids.end - 1) >> order) as usize + 1;
        let present: Vec<usize> = self.seen.within(blocks).collect();
        for block in present {
            self.stack.invalidate(block as u32);
            self.seen.remove(block);
        }
    }

    fn start_measuring(&mut self) {
        self.curve.depths.iter_mut().for_each(Vec::clear);
        self.curve.first.fill(0);
    }
}

/// Mixes the bits of a block's number.
#[inline]
fn hash(block: u32) -> u32 {
    let mixed = (u64::from(block) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

impl Listener for Followers {
    const WANTS_ALL: bool = false;

    #[inline]
    fn hear(&mut self, reference: Reference) -> bool {
        if !reference.is_fetch() {
            let id = reference.id();
            for follower in &mut self.0 {
                follower.access(id.block(follower.curve.order));
            }
        }
        true
    }

    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::Forget(ids) => self.0.iter_mut().for_each(|follower| follower.forget(&ids)),
            Mark::StartMeasuring => self.0.iter_mut().for_each(Follower::start_measuring),
            Mark::Touched(_) | Mark::Switch => {}
        }
    }
}

/// Makes the curves of a trace for these page sizes, each with its share of blocks. Data accesses only;
/// entries have tags, so that a switch to another process keeps them.
///
/// # Errors
/// [`AdviceError`] for a damaged trace, or one with accesses everywhere.
pub fn miss_ratio_curves(
    source: &mut dyn Source,
    part: MeasuredPart,
    sizes: &[(PageOrder, Sampling)],
    on_progress: &mut dyn FnMut(Progress),
) -> Result<MissRatioCurves, AdviceError> {
    let followers = sizes.iter().map(|&(order, sampling)| Follower::new(order, sampling));
    let mut followers = Followers(followers.collect());
    let Memory { data_accesses, instructions, .. } =
        collect(source, part, &mut followers, &AtomicBool::new(false), on_progress)?;
    let curves = followers.0.into_iter().map(|follower| follower.curve.sum_up()).collect();
    Ok(MissRatioCurves { curves, accesses: data_accesses, instructions })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 4 blocks one is followed: 100 accesses were found in the stack, 60 at depth 1 or more, 20 at depth 2.
    #[test]
    fn misses_between_depths_of_a_sample_lie_on_a_line() {
        let curve = MissRatioCurve {
            order: PageOrder::BASE,
            sampling: Sampling::one_in(4).unwrap(),
            depths: vec![vec![100, 60, 20]],
            first: vec![7],
        };
        let misses = [0, 1, 2, 3, 4, 6, 8, 10, 11, 12, 13].map(|entries| curve.misses(entries));
        assert_eq!(misses, [400, 360, 320, 280, 240, 160, 80, 40, 20, 0, 0]);
        assert_eq!((curve.first_touches(), curve.most_entries()), (28, 12));
    }
}
