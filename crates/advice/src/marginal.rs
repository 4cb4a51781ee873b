//! Simulations of many configurations: the gain of each choice alone, and of the best choices together.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use perforate_mmu::TlbConfig;
use serde::Serialize;

use crate::collect::{Memory, PageCounts, References};
use crate::filter::{PossibleOrders, filtered};
use crate::page_id::{PageId, PageIds};
use crate::tlbs::{PageSizes, Tlbs, Walk, WalkCounts};
use crate::{AdviceError, Choice, PageOrder, PieceUse};

/// Largest number of points of a gain curve.
pub(crate) const MAXIMUM_POINTS: usize = 64;
/// Choices that save a smaller share of all walks are left out: 1/100,000.
const SMALLEST_GAIN: u64 = 100_000;

/// Effect of one choice alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChoiceGain {
    /// Piece, and page size of its memory.
    #[serde(flatten)]
    pub choice: Choice,
    /// Page walks of the whole program with this choice and 4KB pages elsewhere.
    pub walks: u64,
    /// Resident memory beyond that with 4KB pages, in bytes.
    pub additional_bytes: u64,
}

/// Simulations of one trace on one machine.
pub(crate) struct Simulations<'a> {
    pub(crate) tlb: &'a TlbConfig,
    pub(crate) ids: &'a PageIds,
    pub(crate) gigabytes: &'a [u64],
    pub(crate) threads: usize,
    /// Set to end the simulations early.
    pub(crate) stop: &'a AtomicBool,
}

impl Simulations<'_> {
    fn tlbs(&self) -> Tlbs<'_> {
        Tlbs::new(self.tlb, self.gigabytes, self.stop)
    }

    /// The result of simulations, unless they were stopped: what they counted until then is none.
    fn unless_stopped<T>(&self, result: T) -> Result<T, AdviceError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(AdviceError::Stopped),
            false => Ok(result),
        }
    }

    /// Simulates 4KB pages everywhere. Returns the walks of the measured part, and those by page.
    pub(crate) fn base_walks(
        &self,
        references: &References,
    ) -> Result<(WalkCounts, PageCounts), AdviceError> {
        let mut walks = PageCounts::default();
        let counts = self.tlbs().run(references, &PageSizes::base(self.ids), |walk| match walk {
            Walk::To(id) => walks.add(id, 1),
            Walk::Start => walks = PageCounts::default(),
        });
        self.unless_stopped((counts, walks))
    }

    /// The references that can change a TLB with these page sizes.
    pub(crate) fn filtered(
        &self,
        references: &References,
        possible: &PossibleOrders,
    ) -> Result<References, AdviceError> {
        self.unless_stopped(filtered(references, &self.tlbs(), possible))
    }

    /// Simulates all configurations, which `make` makes from their numbers, several at a time.
    pub(crate) fn run_all(
        &self,
        references: &References,
        count: usize,
        make: &(dyn Fn(usize) -> PageSizes + Sync),
        on_progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<WalkCounts>, AdviceError> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let mut results = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count || self.stop.load(Ordering::Relaxed) {
                    return results;
                }
                let counts = self.tlbs().run(references, &make(number), |_| {});
                results.push((number, counts));
                on_progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        let mut results = std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            for other in others {
                all.extend(other.join().expect("a simulation does not panic"));
            }
            all
        });
        results.sort_by_key(|(number, _)| *number);
        self.unless_stopped(results.into_iter().map(|(_, counts)| counts).collect())
    }
}

/// Additional resident memory of a range of pages with these page sizes, in bytes: a page is resident as soon as
/// 4KB of it are touched.
pub(crate) fn additional_bytes(memory: &Memory, ids: &[Range<u32>], sizes: &PageSizes) -> u64 {
    let of = |ids: &Range<u32>| {
        let (mut touched, mut resident, mut last) = (0_u64, 0_u64, None);
        for id in memory.touched.within(ids.start as usize..ids.end as usize) {
            let order = sizes.order(PageId(id as u32));
            let page = Some((id >> order.0, order));
            touched += 1;
            if page != last {
                resident += 1 << order.0;
                last = page;
            }
        }
        resident - touched
    };
    ids.iter().map(of).sum::<u64>() * PageOrder::BASE.bytes()
}

/// Use of a range of pages.
pub(crate) fn use_of(memory: &Memory, ids: &[Range<u32>]) -> PieceUse {
    let mut touched_blocks = vec![0_u64; usize::from(PageOrder::HUGE.0) + 1];
    for ids in ids {
        let mut last: Option<usize> = None;
        for id in memory.touched.within(ids.start as usize..ids.end as usize) {
            // A block is new if the page and the one before differ in a bit of the block's number.
            let new = last.map_or(usize::BITS, |last| usize::BITS - (last ^ id).leading_zeros());
            touched_blocks.iter_mut().take(new as usize).for_each(|blocks| *blocks += 1);
            last = Some(id);
        }
    }
    PieceUse {
        accesses: ids.iter().map(|ids| memory.accesses.sum(ids)).sum(),
        touched_blocks,
        pages_copied: ids.iter().map(|ids| memory.copied.sum(ids)).sum(),
    }
}

/// Choices of the curve, the best first. For each piece, only choices on the convex hull of walks saved over
/// memory remain, so that each saves less for a byte than the one before; it replaces that one.
pub(crate) fn ranked(gains: &[ChoiceGain], base: u64) -> Vec<Choice> {
    let mut by_piece: HashMap<usize, Vec<(u64, u64, Choice)>> = HashMap::new();
    for gain in gains {
        let saved = base.saturating_sub(gain.walks);
        if saved * SMALLEST_GAIN > base {
            let choices = by_piece.entry(gain.choice.piece).or_default();
            choices.push((gain.additional_bytes, saved, gain.choice));
        }
    }
    let mut steps: Vec<(f64, Choice)> = Vec::new();
    for mut choices in by_piece.into_values() {
        choices
            .sort_by_key(|&(bytes, saved, choice)| (bytes, std::cmp::Reverse(saved), choice.order));
        let (mut bytes, mut saved) = (0, 0);
        loop {
            let gain = |&&(more, walks, _): &&(u64, u64, Choice)| {
                (walks - saved) as f64 / (more.saturating_sub(bytes).max(4096)) as f64
            };
            let left = choices.iter().filter(|(_, walks, _)| *walks > saved);
            let Some(&next) = left.max_by(|one, other| gain(one).total_cmp(&gain(other))) else {
                break;
            };
            steps.push((gain(&&next), next.2));
            (bytes, saved) = (next.0, next.1);
        }
    }
    steps.sort_by(|(one, first), (other, second)| {
        other.total_cmp(one).then((first.piece, first.order).cmp(&(second.piece, second.order)))
    });
    steps.into_iter().map(|(_, choice)| choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(piece: usize, order: u8, saved: u64, pages: u64) -> ChoiceGain {
        let choice = Choice { piece, order: PageOrder(order) };
        ChoiceGain { choice, walks: 1_000_000 - saved, additional_bytes: pages * 4096 }
    }

    /// Choices of one piece are replaced by larger ones that save less for each byte more; one off that line is
    /// left out, and so is one that saves nothing.
    #[test]
    fn choices_are_ranked_by_what_they_save_for_their_memory() {
        let gains = [
            gain(0, 4, 4_000, 1),
            gain(0, 6, 4_100, 3),
            gain(0, 9, 8_000, 5),
            gain(1, 9, 6_000, 2),
            gain(2, 9, 9, 0),
            gain(3, 9, 50, 0),
        ];
        let found: Vec<_> =
            ranked(&gains, 1_000_000).iter().map(|it| (it.piece, it.order.0)).collect();
        // Walks saved a page: 4,000; 3,000; 1,000, as 4 pages more save 4,000; 50, as if no page were one.
        assert_eq!(found, [(0, 4), (1, 9), (0, 9), (3, 9)]);
    }

    #[test]
    fn ranks_do_not_depend_on_the_order_of_choices() {
        // Equal gains for a byte, equal memory, equal savings: every tie there can be.
        let mut gains = vec![
            gain(0, 2, 1_000, 1),
            gain(0, 4, 2_000, 2),
            gain(0, 5, 2_000, 2),
            gain(0, 6, 2_500, 3),
            gain(0, 9, 3_000, 4),
            gain(1, 4, 1_000, 1),
            gain(1, 9, 500, 1),
        ];
        let expected = ranked(&gains, 1_000_000);
        for _ in 0..gains.len() {
            gains.rotate_left(1);
            assert_eq!(ranked(&gains, 1_000_000), expected);
            gains.reverse();
            assert_eq!(ranked(&gains, 1_000_000), expected);
            gains.reverse();
        }
    }
}
