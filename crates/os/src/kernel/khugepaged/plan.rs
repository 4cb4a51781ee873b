//! The ways to make a region a 2MB page, priced for the policy.

use std::collections::BTreeMap;

use perforate_types::{Frame, HoleSet, PageSize};

use super::super::Core;
use super::super::deferral::Deferral;
use super::super::first_touch::Context;
use super::Khugepaged;
use super::region::{Census, Refusal};
use crate::memory::{BLOCK_ORDER, BlockContents, complement};
use crate::{Promotion, PromotionChoices, PromotionPrice};

/// A way that was found.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub promotion: Promotion,
    pub source: Source,
    pub price: PromotionPrice,
}

/// Where its block comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A free one.
    Free,
    /// One that others use in part, which is made of this; what is movable is moved away.
    Used(Frame, BlockContents),
    /// The one in which the region's pages lie; these free frames of it are taken.
    Own(Frame, HoleSet),
}

/// Where a search for blocks goes on, and whether one is worth while.
#[derive(Clone, Copy, Default)]
pub(super) struct Search {
    next_block: u64,
    deferral: Deferral,
}

impl Khugepaged {
    /// The way that the policy chooses.
    pub(super) fn plan(
        &mut self,
        context: &mut Context<'_>,
        census: &Census,
    ) -> Result<Plan, Refusal> {
        let promotions = context.core.policy.promotions();
        // With a whole block at hand, one that leaves holes is not worth its search.
        let is_whole =
            promotions.contains(&Promotion::Collapse) && context.core.memory.has_free_block();
        let plans: Vec<Plan> = promotions
            .iter()
            .filter_map(|promotion| match promotion {
                Promotion::Collapse => self.plan_collapse(context, census),
                Promotion::PunchAround if is_whole => None,
                Promotion::PunchAround => self.plan_around(context, census),
                Promotion::PunchInPlace => plan_in_place(context.core, census),
            })
            .collect();
        if plans.is_empty() {
            return Err(Refusal::NoBlock);
        }
        let plan = |promotion| plans.iter().find(|plan| plan.promotion == promotion);
        let price = |promotion| plan(promotion).map(|plan| plan.price);
        let choices = PromotionChoices {
            pages_absent: census.absent().count() as u64,
            pages_shared: census.shared.count() as u64,
            collapse: price(Promotion::Collapse),
            punch_around: price(Promotion::PunchAround),
            punch_in_place: price(Promotion::PunchInPlace),
        };
        context.core.policy.promote(&choices).and_then(plan).copied().ok_or(Refusal::Policy)
    }

    fn plan_collapse(&mut self, context: &mut Context<'_>, census: &Census) -> Option<Plan> {
        let source = if context.core.memory.has_free_block() {
            Source::Free
        } else if self.config.defrag {
            self.find_block(context, Promotion::Collapse)?
        } else {
            return None;
        };
        Some(copying(Promotion::Collapse, source, census))
    }

    fn plan_around(&mut self, context: &mut Context<'_>, census: &Census) -> Option<Plan> {
        let one_hole = [0].into_iter().collect();
        if !context.core.accepts(&one_hole) {
            return None;
        }
        let source = self.find_block(context, Promotion::PunchAround)?;
        Some(copying(Promotion::PunchAround, source, census))
    }

    /// The first block from where the last search ended that suits the promotion.
    fn find_block(&mut self, context: &mut Context<'_>, promotion: Promotion) -> Option<Source> {
        if !self.search(promotion).deferral.is_due() {
            return None;
        }
        let (first, blocks) = (self.search(promotion).next_block, context.core.memory.blocks());
        for step in 0..blocks {
            let number = (first + step) % blocks;
            let block = Frame::new(number << BLOCK_ORDER);
            context.compaction.counts.blocks_scanned += 1;
            if let Some(contents) = self.usable(context, block, promotion) {
                // The next search begins behind it: should it not be had after all, others are
                // tried first.
                let next_block = (number + 1) % blocks;
                *self.search(promotion) = Search { next_block, ..Search::default() };
                return Some(Source::Used(block, contents));
            }
        }
        self.search(promotion).deferral.failed();
        None
    }

    fn search(&mut self, promotion: Promotion) -> &mut Search {
        match promotion {
            Promotion::Collapse => &mut self.whole,
            Promotion::PunchAround | Promotion::PunchInPlace => &mut self.holed,
        }
    }

    /// Contents of the block, if it suits and there is room for what has to move.
    fn usable(
        &mut self,
        context: &mut Context<'_>,
        block: Frame,
        promotion: Promotion,
    ) -> Option<BlockContents> {
        let empties = promotion == Promotion::Collapse;
        let usable = context.core.memory.at_most_usable(block);
        if usable == 0 || (empties && usable < HoleSet::SUBPAGES as u64) {
            return None;
        }
        context.compaction.note_frames_scanned(context.core);
        let mut contents = context.core.memory.contents(block);
        if !self.config.defrag {
            contents.fixed = contents.fixed.union(&contents.movable);
            contents.movable = HoleSet::EMPTY;
        }
        let holes = &contents.fixed;
        let suits = if empties {
            holes.is_empty()
        } else {
            !holes.is_empty() && context.core.accepts(holes)
        };
        let needed = (contents.movable.count() + contents.free.count()) as u64;
        (suits && needed <= context.core.memory.small_free_frames()).then_some(contents)
    }
}

/// In the block in which most of the region's pages lie, those at their own place stay, and
/// absent pages get the frames that are free there.
fn plan_in_place(core: &Core, census: &Census) -> Option<Plan> {
    let block = home_of(census)?;
    // A block that somebody else maps with holes is theirs to patch.
    if block.number() >> BLOCK_ORDER >= core.memory.blocks()
        || !core.memory.holed_pages_of(block).is_empty()
    {
        return None;
    }
    let free = core.memory.zones().free_in_pageblock(block);
    let filled: HoleSet = census.absent().iter().filter(|&index| free.contains(index)).collect();
    let holes = complement(&at_own_place(census, block).union(&filled));
    let price =
        PromotionPrice { frames_zeroed: filled.count() as u64, holes, ..PromotionPrice::default() };
    let source = Source::Own(block, filled);
    let plan = Plan { promotion: Promotion::PunchInPlace, source, price };
    core.accepts(&holes).then_some(plan)
}

/// A plan that copies pages into a block with the holes that its source leaves.
fn copying(promotion: Promotion, source: Source, census: &Census) -> Plan {
    let (holes, frames_migrated) = match source {
        Source::Used(_, contents) => (contents.fixed, contents.movable.count() as u64),
        Source::Free | Source::Own(..) => (HoleSet::EMPTY, 0),
    };
    let outside = |pages: HoleSet| pages.iter().filter(|&index| !holes.contains(index)).count();
    let price = PromotionPrice {
        frames_copied: outside(census.mapped) as u64,
        frames_migrated,
        frames_zeroed: outside(census.absent()) as u64,
        holes,
    };
    Plan { promotion, source, price }
}

/// The pages of the region that lie at their own place in the block and are nobody else's.
fn at_own_place(census: &Census, block: Frame) -> HoleSet {
    let is_there = |&index: &usize| {
        census.entries[index].frame() == block.add(index as u64) && !census.shared.contains(index)
    };
    census.mapped.iter().filter(is_there).collect()
}

/// The block in which more than half of the region's pages lie at their own place.
fn home_of(census: &Census) -> Option<Frame> {
    let mut pages_by_block: BTreeMap<u64, usize> = BTreeMap::new();
    for index in census.mapped.iter().filter(|&index| !census.shared.contains(index)) {
        let frame = census.entries[index].frame();
        if frame.index_in(PageSize::Size2M) == index {
            *pages_by_block.entry(frame.align_down(PageSize::Size2M).number()).or_default() += 1;
        }
    }
    let most = pages_by_block.into_iter().max_by_key(|&(_, pages)| pages);
    let (block, _) = most.filter(|&(_, pages)| 2 * pages > census.mapped.count())?;
    Some(Frame::new(block))
}
