//! Making 2MB pages out of blocks that others use in part: what can be moved is moved away, what
//! stays becomes holes, if the policy accepts that (P §III.A, §VI). A block in which nothing
//! stays is what direct compaction would make.

use perforate_types::{Frame, HoleSet, Update};

use super::Core;
use super::compaction::Compaction;
use super::deferral::Deferral;
use crate::BlockUse;
use crate::memory::BLOCK_ORDER;

/// Blocks with fewer holes are taken first: these are the least usable frames of a block, one
/// bound after the other. The first is P §III.C's 25 % of holes.
const LEAST_USABLE: [u64; 4] = [384, 256, 128, 1];

/// Where a search for blocks goes on, so that no block is looked at again too soon.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// Searches of all blocks in vain.
    deferral: Deferral,
    next_block: u64,
    /// Place in [`LEAST_USABLE`] of the bound that has been met last.
    bound: usize,
    /// Blocks looked at since better ones were looked for.
    looked_at: u64,
}

/// The searches for blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClaimCursor {
    /// For blocks whose contents are moved.
    direct: Search,
    /// For blocks in which everything stays.
    in_place: Search,
}

impl ClaimCursor {
    fn search(&mut self, direct: bool) -> &mut Search {
        if direct { &mut self.direct } else { &mut self.in_place }
    }

    /// There may be blocks now where none were found before.
    pub(super) fn end_deferral(&mut self) {
        self.direct.deferral.reset();
        self.in_place.deferral.reset();
    }
}

impl Search {
    /// The bound to begin with: after a round over all `blocks` there may be better ones again.
    fn first_bound(&mut self, blocks: u64) -> usize {
        if self.looked_at >= blocks {
            (self.looked_at, self.bound) = (0, 0);
        }
        self.bound
    }

    fn next_block(&mut self, blocks: u64) -> Frame {
        let block = Frame::new(self.next_block << BLOCK_ORDER);
        self.next_block = (self.next_block + 1) % blocks;
        self.looked_at += 1;
        block
    }
}

/// A block taken for a program: all its frames but the holes are the taker's.
pub(super) struct ClaimedBlock {
    pub block: Frame,
    pub holes: HoleSet,
}

impl Compaction {
    /// A block for a 2MB page of a program, whole or with holes as the policy accepts them.
    /// `advised`: the program asked for large pages there.
    pub(super) fn claim_block(
        &mut self,
        core: &mut Core,
        advised: bool,
        updates: &mut Vec<Update>,
    ) -> Option<ClaimedBlock> {
        if let Some(block) = core.memory.allocate_block() {
            return Some(ClaimedBlock { block, holes: HoleSet::EMPTY });
        }
        if core.config.defrag.wakes(advised) {
            self.kcompactd.wake();
        }
        let direct = core.config.defrag.is_direct(advised);
        if !self.may_claim(core, direct) {
            return None;
        }
        let blocks = core.memory.blocks();
        let first_bound = self.claims.search(direct).first_bound(blocks);
        for (bound, &least_usable) in LEAST_USABLE.iter().enumerate().skip(first_bound) {
            for _ in 0..blocks {
                let block = self.claims.search(direct).next_block(blocks);
                let claimed = self.try_claim(core, block, direct, least_usable, updates);
                if claimed.is_some() {
                    let search = self.claims.search(direct);
                    search.deferral.reset();
                    search.bound = bound;
                    return claimed;
                }
            }
            self.claims.search(direct).looked_at = 0;
        }
        self.claims.search(direct).bound = 0;
        self.claims.search(direct).deferral.failed();
        None
    }

    /// Whether a search can find anything at all and is not deferred.
    fn may_claim(&mut self, core: &mut Core, direct: bool) -> bool {
        let one_hole = [0].into_iter().collect();
        let perforates = matches!(core.policy.use_block(&one_hole), BlockUse::WithHoles(_));
        (direct || perforates) && self.claims.search(direct).deferral.is_due()
    }

    /// Takes the block if it has at least so many usable frames and the policy accepts what stays
    /// in it as holes.
    fn try_claim(
        &mut self,
        core: &mut Core,
        block: Frame,
        moves: bool,
        least_usable: u64,
        updates: &mut Vec<Update>,
    ) -> Option<ClaimedBlock> {
        self.counts.blocks_scanned += 1;
        let usable = if moves {
            core.memory.at_most_usable(block)
        } else {
            core.memory.zones().free_in_pageblock(block).count() as u64
        };
        if usable < least_usable {
            return None;
        }
        self.note_frames_scanned(core);
        let contents = core.memory.contents(block);
        let holes = if moves { contents.fixed } else { contents.fixed.union(&contents.movable) };
        if !core.accepts(&holes) || (moves && !self.evacuate(core, block, &contents, updates)) {
            return None;
        }
        if !moves {
            core.memory.take_frames(block, &contents.free);
        }
        self.note_block_taken(&holes);
        Some(ClaimedBlock { block, holes })
    }
}
