//! Compaction: what is movable in a block is moved to frames elsewhere, so that the block becomes
//! whole or has holes only where something stays.

use perforate_types::{Frame, HoleSet, Update};

use super::claim::ClaimCursor;
use super::deferral::Deferral;
use super::{Core, migration, patching};
use crate::memory::{BLOCK_ORDER, BlockContents};

/// Figures of compaction and of the claiming of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionCounts {
    /// Blocks looked at.
    pub blocks_scanned: u64,
    /// Frames whose contents were looked at: those of blocks that could not be told at a glance.
    pub frames_scanned: u64,
    /// Frames whose contents were copied elsewhere.
    pub frames_migrated: u64,
    /// Blocks that became whole by it.
    pub blocks_emptied: u64,
    /// Blocks taken with holes.
    pub blocks_perforated: u64,
}

/// Compaction, and the claiming of blocks and runs for which it makes room.
#[derive(Default)]
pub(super) struct Compaction {
    pub(super) counts: CompactionCounts,
    pub(super) claims: ClaimCursor,
    pub(super) kcompactd: Kcompactd,
}

/// State of kcompactd.
#[derive(Default)]
pub(super) struct Kcompactd {
    /// Whether it was woken since it ran last.
    is_awake: bool,
    /// Passes that emptied nothing.
    fruitless: Deferral,
}

impl Kcompactd {
    /// A fault found no whole block.
    pub(super) fn wake(&mut self) {
        self.is_awake |= self.fruitless.is_due();
    }
}

impl Compaction {
    /// Compacts the whole memory if a fault has woken kcompactd since its last pass, and passes that
    /// emptied nothing do not defer this one.
    pub(super) fn kcompactd_pass(
        &mut self,
        core: &mut Core,
        updates: &mut Vec<Update>,
    ) -> CompactionCounts {
        if !std::mem::take(&mut self.kcompactd.is_awake) {
            return CompactionCounts::default();
        }
        let done = self.compact(core, updates);
        if done.blocks_emptied > 0 {
            self.kcompactd.fruitless.reset();
        } else {
            self.kcompactd.fruitless.failed();
        }
        done
    }

    /// Empties blocks in which nothing stays into free frames of others, from the lowest address on.
    pub(super) fn compact(
        &mut self,
        core: &mut Core,
        updates: &mut Vec<Update>,
    ) -> CompactionCounts {
        let before = self.counts;
        migration::refresh_owners(core);
        for number in 0..core.memory.blocks() {
            let block = Frame::new(number << BLOCK_ORDER);
            self.counts.blocks_scanned += 1;
            if patching::patch_block(core, block, updates) > 0 {
                continue;
            }
            let usable = core.memory.at_most_usable(block);
            let free = core.memory.zones().free_in_pageblock(block);
            let is_candidate =
                usable == HoleSet::SUBPAGES as u64 && !free.is_empty() && free != HoleSet::FULL;
            if !is_candidate {
                continue;
            }
            self.note_frames_scanned(core);
            let contents = core.memory.contents(block);
            if contents.fixed.is_empty() && self.evacuate(core, block, &contents, updates) {
                self.counts.blocks_emptied += 1;
                core.memory.free(block, BLOCK_ORDER);
            }
        }
        self.claims.end_deferral();
        core.ledger.send();
        let after = self.counts;
        CompactionCounts {
            blocks_scanned: after.blocks_scanned - before.blocks_scanned,
            frames_scanned: after.frames_scanned - before.frames_scanned,
            frames_migrated: after.frames_migrated - before.frames_migrated,
            blocks_emptied: after.blocks_emptied - before.blocks_emptied,
            blocks_perforated: after.blocks_perforated - before.blocks_perforated,
        }
    }

    /// The frames of a block were looked at one by one.
    pub(super) fn note_frames_scanned(&mut self, core: &mut Core) {
        let frames = HoleSet::SUBPAGES as u64;
        self.counts.frames_scanned += frames;
        core.ledger.scanned(frames);
    }

    /// A block that others used in part was taken but for `holes`.
    pub(super) fn note_block_taken(&mut self, holes: &HoleSet) {
        if holes.is_empty() {
            self.counts.blocks_emptied += 1;
        } else {
            self.counts.blocks_perforated += 1;
        }
    }

    /// Moves all that is movable out of the block and takes its free and moved frames. Where that
    /// fails half-way, what was taken is free again and `false` is returned.
    pub(super) fn evacuate(
        &mut self,
        core: &mut Core,
        block: Frame,
        contents: &BlockContents,
        updates: &mut Vec<Update>,
    ) -> bool {
        // No whole block is broken up for it: that would be moving the problem.
        let needed = contents.movable.count() as u64;
        if core.memory.small_free_frames() < needed + contents.free.count() as u64 {
            return false;
        }
        core.memory.take_frames(block, &contents.free);
        let mut taken = contents.free;
        for index in contents.movable.iter() {
            let frame = block.add(index as u64);
            if !migration::migrate(core, frame, updates) || !core.memory.take(frame) {
                core.memory.free_frames_of(block, &taken);
                return false;
            }
            taken.insert(index);
            self.counts.frames_migrated += 1;
        }
        true
    }
}
