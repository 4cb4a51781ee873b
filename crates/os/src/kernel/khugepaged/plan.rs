//! Plans for promoting a region to a 2MB page, with the costs that the policy compares.

use std::collections::BTreeMap;

use perforate_types::{Frame, HoleSet, PageSize};

use super::super::Core;
use super::super::deferral::Deferral;
use super::Khugepaged;
use super::region::{Census, Refusal};
use crate::memory::{BLOCK_ORDER, BlockContents, complement};
use crate::{Promotion, PromotionChoices, PromotionPrice};

/// A possible promotion of a 2MB region: method, origin of the 2MB block, and cost.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub promotion: Promotion,
    pub source: Source,
    pub price: PromotionPrice,
}

/// Origin of the 2MB block of frames for a planned promotion.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A free 2MB block.
    Free,
    /// A partly used block (its first frame and its contents); its movable frames are migrated.
    Used(Frame, BlockContents),
    /// The block that already holds pages of the region in place (its first frame), and its free frames, by
    /// index, for absent pages.
    Own(Frame, HoleSet),
}

/// State of the searches for a usable 2MB block: number of the next block to examine, and backoff.
#[derive(Clone, Copy, Default)]
pub(super) struct Search {
    next_block: u64,
    deferral: Deferral,
}

impl Khugepaged {
    /// Lists the possible promotions of a 2MB region and lets the policy choose one.
    pub(super) fn plan(&mut self, core: &mut Core, census: &Census) -> Result<Plan, Refusal> {
        let promotions = core.policy.promotions();
        // If a whole block is available, a search for a block with holes is not worth its cost.
        let is_whole = promotions.contains(&Promotion::Collapse) && core.memory.has_free_block();
        let plans: Vec<Plan> = promotions
            .iter()
            .filter_map(|promotion| match promotion {
                Promotion::Collapse => self.plan_collapse(core, census),
                Promotion::PunchAround if is_whole => None,
                Promotion::PunchAround => self.plan_around(core, census),
                Promotion::PunchInPlace => plan_in_place(core, census),
            })
            .collect();
        if plans.is_empty() {
            return Err(Refusal::NoBlock);
        }
        let plan = |promotion| plans.iter().find(|plan| plan.promotion == promotion);
        let mut prices = [None; 3];
        plans.iter().for_each(|plan| prices[plan.promotion as usize] = Some(plan.price));
        let choices = PromotionChoices {
            pages_absent: census.absent().count() as u64,
            pages_shared: census.shared.count() as u64,
            prices,
        };
        core.policy.promote(&choices).and_then(plan).copied().ok_or(Refusal::Policy)
    }

    fn plan_collapse(&mut self, core: &mut Core, census: &Census) -> Option<Plan> {
        let source = if core.memory.has_free_block() {
            Source::Free
        } else if self.config.defrag {
            self.find_block(core, Promotion::Collapse)?
        } else {
            return None;
        };
        Some(copying(Promotion::Collapse, source, census))
    }

    fn plan_around(&mut self, core: &mut Core, census: &Census) -> Option<Plan> {
        let one_hole = [0].into_iter().collect();
        if !core.accepts(&one_hole) {
            return None;
        }
        let source = self.find_block(core, Promotion::PunchAround)?;
        Some(copying(Promotion::PunchAround, source, census))
    }

    /// First 2MB block of frames suitable for the promotion, searching from the end of the last search on.
    fn find_block(&mut self, core: &mut Core, promotion: Promotion) -> Option<Source> {
        if !self.search(promotion).deferral.is_due() {
            return None;
        }
        let (first, blocks) = (self.search(promotion).next_block, core.memory.blocks());
        for step in 0..blocks {
            let number = (first + step) % blocks;
            let block = Frame::new(number << BLOCK_ORDER);
            core.compaction.counts.blocks_scanned += 1;
            if let Some(contents) = self.usable(core, block, promotion) {
                // The next search begins after this block, so that other blocks are tried first if
                // it cannot be taken.
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

    /// Contents of a partly used 2MB block, if the block suits the promotion and there is room for the frames
    /// to migrate. `None` otherwise.
    fn usable(
        &mut self,
        core: &mut Core,
        block: Frame,
        promotion: Promotion,
    ) -> Option<BlockContents> {
        let needs_empty = promotion == Promotion::Collapse;
        let usable = core.memory.at_most_usable(block);
        if usable == 0 || (needs_empty && usable < HoleSet::SUBPAGES as u64) {
            return None;
        }
        core.note_frames_scanned();
        let mut contents = core.memory.contents(block);
        if !self.config.defrag {
            contents.fixed = contents.fixed.union(&contents.movable);
            contents.movable = HoleSet::EMPTY;
        }
        let holes = &contents.fixed;
        let suits =
            if needs_empty { holes.is_empty() } else { !holes.is_empty() && core.accepts(holes) };
        let needed = (contents.movable.count() + contents.free.count()) as u64;
        (suits && needed <= core.memory.small_free_frames()).then_some(contents)
    }
}

/// Plans a promotion that keeps a 2MB region's pages in place, in the block that holds most of these pages.
/// Absent pages get free frames of the block. `None` if that is not possible.
fn plan_in_place(core: &Core, census: &Census) -> Option<Plan> {
    let block = majority_block(census)?;
    // A block that another region maps with holes is reserved for that region.
    if block.number() >> BLOCK_ORDER >= core.memory.blocks()
        || !core.memory.holed_pages_of(block).is_empty()
    {
        return None;
    }
    let free = core.memory.zones().free_in_pageblock(block);
    let filled: HoleSet = census.absent().iter().filter(|&index| free.contains(index)).collect();
    let holes = complement(&in_place_pages(census, block).union(&filled));
    let price =
        PromotionPrice { frames_zeroed: filled.count() as u64, holes, ..PromotionPrice::default() };
    let source = Source::Own(block, filled);
    let plan = Plan { promotion: Promotion::PunchInPlace, source, price };
    core.accepts(&holes).then_some(plan)
}

/// Plan to copy the pages of a 2MB region into block `source`, whose unmovable frames become holes.
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

/// Pages of a 2MB region whose frames are in place in the block and not shared.
fn in_place_pages(census: &Census, block: Frame) -> HoleSet {
    let is_in_place = |&index: &usize| {
        census.entries[index].frame() == block.add(index as u64) && !census.shared.contains(index)
    };
    census.mapped.iter().filter(is_in_place).collect()
}

/// The 2MB block that holds more than half of a region's mapped pages in place; `None` if none does.
fn majority_block(census: &Census) -> Option<Frame> {
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
