//! Miss-ratio curves: misses of TLBs of every number of entries, from one pass.
//!
//! TLBs of a curve are fully associative, replace the least recently used entry, and hold pages of one size.
//!
//! Long traces are sampled in space (SHARDS; Waldspurger et al., FAST 2015): of all blocks, those that a hash selects
//! are followed, one in `N`, and depths among them stand for `N` times that depth. Misses of a TLB with
//! [`COUNTED_ENTRIES`] entries, and first touches, are counted for all blocks; those that are followed tell which
//! share of these misses more entries save. So a few blocks with many accesses, which such a TLB holds, make no error,
//! whether they are followed or not.

mod followers;

use std::sync::atomic::AtomicBool;

use perforate_trace::Source;

use crate::collect::{Memory, collect};
use crate::miss_ratio::followers::{Follower, follow};
use crate::{AdviceError, PageOrder, Progress};

/// Largest number of entries for which all misses are counted if blocks are sampled: at least as many as the
/// first-level TLBs of all machines that come with the program.
pub const COUNTED_ENTRIES: usize = 128;
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

    /// True if the block with this hash is followed.
    fn follows(self, hash: u32) -> bool {
        hash & (self.0 - 1) == 0
    }
}

/// Misses of TLBs for one page size, by number of entries.
#[derive(Clone, Debug, PartialEq)]
pub struct MissRatioCurve {
    /// Size of the pages that the TLBs hold.
    pub order: PageOrder,
    /// Share of the blocks that were followed.
    pub sampling: Sampling,
    /// Accesses that were found at least so deep in the stack, by depth: all, or up to [`COUNTED_ENTRIES`] if blocks are
    /// sampled. During the pass: exactly so deep.
    counted: Vec<u64>,
    /// Accesses that were found deeper than that.
    deeper: u64,
    /// Deeper accesses to followed blocks that were found at least so deep among followed blocks, by group of blocks and
    /// depth. During the pass: exactly so deep.
    sampled: Vec<Vec<u64>>,
    /// First touches of blocks.
    first: u64,
}

impl MissRatioCurve {
    fn new(order: PageOrder, sampling: Sampling) -> Self {
        let sampled = vec![Vec::new(); GROUPS];
        Self { order, sampling, counted: Vec::new(), deeper: 0, sampled, first: 0 }
    }

    /// Number of first accesses to pages, which miss in a TLB of any size.
    pub fn first_touches(&self) -> u64 {
        self.first
    }

    /// Largest number of entries that saves a miss.
    pub fn most_entries(&self) -> usize {
        let deepest = self.sampled.iter().map(Vec::len).max().unwrap_or(0);
        match self.deeper {
            0 => self.counted.len(),
            _ => (deepest * self.sampling.0 as usize).max(COUNTED_ENTRIES),
        }
    }

    /// Number of misses that are not first touches, with this many entries. An estimate if it has an error.
    pub fn misses(&self, entries: usize) -> u64 {
        let counted = self.counted.get(entries).copied().unwrap_or(0);
        counted + (self.deeper as f64 * self.share_left(entries)).round() as u64
    }

    /// Share of the misses of [`COUNTED_ENTRIES`] entries that this many leave; 0 if none was of a followed block.
    fn share_left(&self, entries: usize) -> f64 {
        if entries <= COUNTED_ENTRIES {
            return 1.0;
        }
        let missed: f64 = self.sampled.iter().map(|depths| self.missed(depths, entries)).sum();
        if missed == 0.0 { 0.0 } else { missed / self.all_sampled() }
    }

    /// Misses of all followed blocks with [`COUNTED_ENTRIES`] entries.
    fn all_sampled(&self) -> f64 {
        self.sampled.iter().map(|depths| self.missed(depths, 0)).sum()
    }

    /// Misses of a group of followed blocks. Between two multiples of the sampled share, linear.
    fn missed(&self, depths: &[u64], entries: usize) -> f64 {
        let each = self.sampling.0 as usize;
        let below = |depth: usize| depths.get(depth).copied().unwrap_or(0) as f64;
        let (whole, part) = (entries / each, entries % each);
        let share = part as f64 / each as f64;
        below(whole) * (1.0 - share) + below(whole + 1) * share
    }

    /// Half of the 95 % interval of [`Self::misses`]; `None` if they were counted.
    ///
    /// The error has two parts. More entries save more or fewer misses of the followed blocks than of the others; that
    /// shows in the differences between groups of them, as the error of a ratio. And the blocks above one in the stack
    /// are counted by a sample: `n` sampled blocks stand for `N × (n ± √n)`.
    pub fn error(&self, entries: usize) -> Option<u64> {
        if self.sampling == Sampling::ALL || entries <= COUNTED_ENTRIES {
            return None;
        }
        let all = self.all_sampled();
        if all == 0.0 {
            return Some(self.deeper);
        }
        let share = self.share_left(entries);
        let residual =
            |depths: &Vec<u64>| self.missed(depths, entries) - share * self.missed(depths, 0);
        let groups = GROUPS as f64;
        let squares: f64 = self.sampled.iter().map(|depths| residual(depths).powi(2)).sum();
        let by_share = STANDARD_ERRORS * (squares * groups / (groups - 1.0)).sqrt();
        let each = f64::from(self.sampling.0);
        let around = STANDARD_ERRORS * ((entries as f64 / each).sqrt() + 1.0) * each;
        let fewer = self.misses((entries as f64 - around).max(COUNTED_ENTRIES as f64) as usize);
        let more = self.misses((entries as f64 + around) as usize);
        let middle = self.misses(entries);
        let by_depth = fewer.abs_diff(middle).max(middle.abs_diff(more)) as f64;
        Some((by_share * self.deeper as f64 / all).hypot(by_depth).round() as u64)
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
        for depths in self.sampled.iter_mut().chain([&mut self.counted]) {
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

/// Makes the curves of a trace for these page sizes, each with its share of blocks. Data accesses only;
/// entries have tags, so that a switch to another process keeps them. Uses a thread for each page size.
///
/// # Errors
/// [`AdviceError`] for a damaged trace, or one with accesses everywhere.
pub fn miss_ratio_curves(
    source: &mut dyn Source,
    sizes: &[(PageOrder, Sampling)],
    on_progress: &mut dyn FnMut(Progress),
) -> Result<MissRatioCurves, AdviceError> {
    let followers = sizes.iter().map(|&(order, sampling)| Follower::new(order, sampling));
    let (followers, memory) = follow(followers.collect(), |broadcast| {
        collect(source, 0, broadcast, &AtomicBool::new(false), on_progress)
    });
    let Memory { data_accesses, instructions, .. } = memory?;
    let curves = followers.into_iter().map(|follower| follower.curve.sum_up()).collect();
    Ok(MissRatioCurves { curves, accesses: data_accesses, instructions })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 64 blocks one is followed. 1,000 accesses are deeper than what is counted; of the 100 to followed blocks, 60
    /// were found at depth 3 or more, 20 at depth 4. Ten were found at counted depths.
    #[test]
    fn deeper_misses_are_shared_out_as_those_of_the_sample() {
        let sampling = Sampling::one_in(64).unwrap();
        let mut curve = MissRatioCurve::new(PageOrder::BASE, sampling);
        curve.counted = vec![10, 5, 2];
        (curve.deeper, curve.first) = (1000, 7);
        curve.sampled[3] = vec![100, 100, 100, 60, 20];
        let misses = [0, 1, 2, 3, 128, 129, 160, 192, 224, 256, 288, 319, 320, 400];
        let misses = misses.map(|entries| curve.misses(entries));
        let expected = [1010, 1005, 1002, 1000, 1000, 994, 800, 600, 400, 200, 100, 3, 0, 0];
        assert_eq!(misses, expected);
        assert_eq!((curve.first_touches(), curve.most_entries()), (7, 320));
        assert_eq!((curve.entries_for(400), curve.entries_for(1004)), (224, 2));
        assert_eq!((curve.error(128), curve.error(129).is_some()), (None, true));
    }

    #[test]
    fn without_a_followed_block_all_deeper_misses_are_uncertain() {
        let sampling = Sampling::one_in(4).unwrap();
        let curve = MissRatioCurve { deeper: 50, ..MissRatioCurve::new(PageOrder::BASE, sampling) };
        assert_eq!((curve.misses(128), curve.error(128)), (50, None));
        assert_eq!((curve.misses(129), curve.error(129)), (0, Some(50)));
        assert_eq!(curve.most_entries(), 128);
    }
}
