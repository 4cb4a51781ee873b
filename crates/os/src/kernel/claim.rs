//! Makes 2MB pages from partly used blocks: movable frames are migrated, and fixed frames become
//! holes if the policy accepts them (P §III.A, §VI). A block without fixed frames is the result of
//! ordinary direct compaction.

use perforate_types::{Frame, HoleSet};

use super::Core;
use super::deferral::Deferral;
use crate::BlockUse;
use crate::memory::BLOCK_ORDER;

/// Usable frames that a search for a 2MB block demands: 384 of 512 first, which allows the 25 % of holes of P
/// §III.C, then fewer. Blocks with fewer holes are therefore taken first.
const LEAST_USABLE: [u64; 4] = [384, 256, 128, 1];

/// State of one kind of search for a partly used 2MB block: backoff, and the block at which the next search
/// continues, so that consecutive searches visit different blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// Exponential backoff after searches that visited all 2MB blocks of memory and found no usable one.
    deferral: Deferral,
    next_block: u64,
    /// Index into [`LEAST_USABLE`] of the demand that the last block taken met and the next search begins
    /// with.
    bound: usize,
    /// Number of blocks visited since the search last began with the strictest demand.
    visited: u64,
}

/// State of the searches for 2MB blocks to claim.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClaimCursor {
    /// Search that counts movable frames of a block as usable, because they will be migrated.
    direct: Search,
    /// Search that counts only free frames of a block as usable, because nothing will be migrated.
    in_place: Search,
}

impl ClaimCursor {
    fn search(&mut self, direct: bool) -> &mut Search {
        if direct { &mut self.direct } else { &mut self.in_place }
    }

    /// Ends the backoff of both searches, because new blocks may be available.
    pub(super) fn end_deferral(&mut self) {
        self.direct.deferral.reset();
        self.in_place.deferral.reset();
    }
}

impl Search {
    /// Returns the index in [`LEAST_USABLE`] of the first demand to try. Restarts with the strictest one
    /// after a round over all `blocks`, because blocks with fewer holes may exist again.
    fn first_bound(&mut self, blocks: u64) -> usize {
        if self.visited >= blocks {
            (self.visited, self.bound) = (0, 0);
        }
        self.bound
    }

    fn next_block(&mut self, blocks: u64) -> Frame {
        let block = Frame::new(self.next_block << BLOCK_ORDER);
        self.next_block = (self.next_block + 1) % blocks;
        self.visited += 1;
        block
    }
}

/// A 2MB block taken for a program, which owns all frames of the block except those in `holes`.
pub(super) struct ClaimedBlock {
    pub block: Frame,
    pub holes: HoleSet,
}

impl Core {
    /// Allocates a 2MB block for a 2MB page: a free one, or a partly used one with holes that the policy
    /// accepts. `advised` is true in memory areas with MADV_HUGEPAGE. `None` if no block was found.
    pub(super) fn claim_block(&mut self, advised: bool) -> Option<ClaimedBlock> {
        if let Some(block) = self.memory.allocate_block() {
            return Some(ClaimedBlock { block, holes: HoleSet::EMPTY });
        }
        if self.config.defrag.wakes(advised) {
            self.compaction.kcompactd.wake();
        }
        let direct = self.config.defrag.is_direct(advised);
        if !self.may_claim(direct) {
            return None;
        }
        let blocks = self.memory.blocks();
        let first_bound = self.compaction.claims.search(direct).first_bound(blocks);
        for (bound, &least_usable) in LEAST_USABLE.iter().enumerate().skip(first_bound) {
            for _ in 0..blocks {
                let block = self.compaction.claims.search(direct).next_block(blocks);
                let claimed = self.try_claim(block, direct, least_usable);
                if claimed.is_some() {
                    let search = self.compaction.claims.search(direct);
                    search.deferral.reset();
                    search.bound = bound;
                    return claimed;
                }
            }
            self.compaction.claims.search(direct).visited = 0;
        }
        self.compaction.claims.search(direct).bound = 0;
        self.compaction.claims.search(direct).deferral.failed();
        None
    }

    /// True if a search for a partly used block can succeed and the backoff after failed searches is over.
    /// `direct` is true if the fault may migrate frames.
    fn may_claim(&mut self, direct: bool) -> bool {
        let one_hole = [0].into_iter().collect();
        let perforates = matches!(self.policy.use_block(&one_hole), BlockUse::WithHoles(_));
        (direct || perforates) && self.compaction.claims.search(direct).deferral.is_due()
    }

    /// Allocates the block if it has at least `least_usable` usable frames and the policy accepts its
    /// unusable frames as holes. Free frames are usable; with `moves`, movable frames are too, and are
    /// migrated.
    fn try_claim(&mut self, block: Frame, moves: bool, least_usable: u64) -> Option<ClaimedBlock> {
        self.compaction.counts.blocks_scanned += 1;
        let usable = if moves {
            self.memory.at_most_usable(block)
        } else {
            self.memory.zones().free_in_pageblock(block).count() as u64
        };
        if usable < least_usable {
            return None;
        }
        self.note_frames_scanned();
        let contents = self.memory.contents(block);
        let holes = if moves { contents.fixed } else { contents.fixed.union(&contents.movable) };
        if !self.accepts(&holes) || (moves && !self.evacuate(block, &contents)) {
            return None;
        }
        if !moves {
            self.memory.take_frames(block, &contents.free);
        }
        self.note_block_taken(&holes);
        Some(ClaimedBlock { block, holes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_begins_with_the_strictest_demand_after_each_round() {
        let mut search = Search { bound: 2, ..Search::default() };
        for _ in 0..3 {
            for block in 0..4 {
                assert_eq!(search.first_bound(4), 2, "block {block}");
                assert_eq!(search.next_block(4), Frame::new(block << BLOCK_ORDER));
            }
            assert_eq!(search.first_bound(4), 0);
            search.bound = 2;
        }
    }

    struct Holes;

    impl crate::Policy for Holes {
        fn name(&self) -> &'static str {
            "holes"
        }

        fn use_block(&self, holes: &HoleSet) -> BlockUse {
            if holes.is_empty() {
                BlockUse::Large
            } else {
                BlockUse::WithHoles(crate::HoleAllocation::Lazy)
            }
        }
    }

    /// A search goes on with the demand that the last one ended with, and with the next block.
    #[test]
    fn a_demand_that_no_block_met_is_not_made_again_in_a_round() {
        let tables = crate::TableFormat { shadow_directories: true, ..Default::default() };
        let config = crate::KernelConfig { tables, ..crate::KernelConfig::new((8 << 20) + 4096) };
        let mut kernel = crate::Kernel::new(config, Box::new(Holes)).unwrap();
        let core = &mut kernel.core;
        // In each of four blocks, 300 frames are free: at least 256, and fewer than 384.
        (0..4).for_each(|block| core.memory.take_range(block * 512..block * 512 + 212));
        let mut found = Vec::new();
        for _ in 0..5 {
            let claimed = core.claim_block(false);
            let block = claimed.map(|it| (it.block.number() / 512, it.holes.count()));
            found.push((block, core.compaction.counts.blocks_scanned));
        }
        let expected = [
            (Some((0, 212)), 5),
            (Some((1, 212)), 6),
            (Some((2, 212)), 7),
            (Some((3, 212)), 8),
            // A new round makes all four demands of all blocks.
            (None, 8 + 16),
        ];
        assert_eq!(found, expected);
        assert_eq!((core.compaction.counts.blocks_perforated, core.free_frames()), (4, 0));
        // A search in vain is deferred.
        assert!(core.claim_block(false).is_none());
        assert_eq!(core.compaction.counts.blocks_scanned, 24);
        assert!(core.claim_block(false).is_none());
        assert_eq!(core.compaction.counts.blocks_scanned, 40);
    }
}
