//! Compaction: migrates the movable frames of a block to other blocks, so that the block becomes
//! free, or can be a 2MB page with holes only at fixed frames.

use perforate_types::{Frame, HoleSet};

use super::claim::ClaimCursor;
use super::deferral::Deferral;
use super::{Core, migration, patching};
use crate::memory::{BLOCK_ORDER, BlockContents};

crate::fieldwise! {
    /// Counts of compaction, and of 2MB blocks claimed for large pages although partly used.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CompactionCounts {
        /// Number of 2MB blocks that compaction and searches for blocks visited.
        pub blocks_scanned: u64,
        /// Number of frames examined one by one, in blocks whose per-block counts did not rule the
        /// block out.
        pub frames_scanned: u64,
        /// Number of frames whose contents were migrated.
        pub frames_migrated: u64,
        /// Number of 2MB blocks that were emptied.
        pub blocks_emptied: u64,
        /// Number of 2MB blocks allocated for perforated pages although some of their frames were in use.
        pub blocks_perforated: u64,
    }
}

/// State of compaction: counts, searches for blocks to empty or to claim with holes, and kcompactd.
#[derive(Default)]
pub(super) struct Compaction {
    pub(super) counts: CompactionCounts,
    pub(super) claims: ClaimCursor,
    pub(super) kcompactd: Kcompactd,
}

/// State of kcompactd between its passes.
#[derive(Default)]
pub(super) struct Kcompactd {
    /// True if kcompactd was woken since it last ran.
    is_awake: bool,
    /// Backoff after passes that emptied no block.
    fruitless: Deferral,
}

impl Kcompactd {
    /// Wakes kcompactd, because a page fault found no wholly free 2MB block.
    pub(super) fn wake(&mut self) {
        self.is_awake |= self.fruitless.is_due();
    }
}

impl Core {
    /// Compacts the whole memory if a fault has woken kcompactd since its last pass. After passes
    /// that emptied no block, some wake-ups are ignored.
    pub(super) fn kcompactd_pass(&mut self) -> CompactionCounts {
        if !std::mem::take(&mut self.compaction.kcompactd.is_awake) {
            return CompactionCounts::default();
        }
        let done = self.compact();
        if done.blocks_emptied > 0 {
            self.compaction.kcompactd.fruitless.reset();
        } else {
            self.compaction.kcompactd.fruitless.failed();
        }
        done
    }

    /// Empties 2MB blocks without unmovable frames into free frames of other blocks, lowest address first.
    pub(super) fn compact(&mut self) -> CompactionCounts {
        let before = self.compaction.counts;
        migration::refresh_owners(self);
        for number in 0..self.memory.blocks() {
            let block = Frame::new(number << BLOCK_ORDER);
            self.compaction.counts.blocks_scanned += 1;
            if patching::patch_block(self, block) > 0 {
                continue;
            }
            let usable = self.memory.at_most_usable(block);
            let free = self.memory.zones().free_in_pageblock(block);
            let is_candidate =
                usable == HoleSet::SUBPAGES as u64 && !free.is_empty() && free != HoleSet::FULL;
            if !is_candidate {
                continue;
            }
            self.note_frames_scanned();
            let contents = self.memory.contents(block);
            if contents.fixed.is_empty() && self.evacuate(block, &contents) {
                self.compaction.counts.blocks_emptied += 1;
                self.memory.free(block, BLOCK_ORDER);
            }
        }
        self.compaction.claims.end_deferral();
        self.ledger.send();
        self.compaction.counts - before
    }

    /// Counts the 512 frames of one 2MB block as examined one by one.
    pub(super) fn note_frames_scanned(&mut self) {
        let frames = HoleSet::SUBPAGES as u64;
        self.compaction.counts.frames_scanned += frames;
        self.ledger.scanned(frames);
    }

    /// Counts a partly used 2MB block that a program got: as perforated if it has `holes`, else as emptied.
    pub(super) fn note_block_taken(&mut self, holes: &HoleSet) {
        if holes.is_empty() {
            self.compaction.counts.blocks_emptied += 1;
        } else {
            self.compaction.counts.blocks_perforated += 1;
        }
    }

    /// Migrates all movable frames out of the block, and takes its free and emptied frames. On
    /// failure, frees the frames it took and returns false.
    pub(super) fn evacuate(&mut self, block: Frame, contents: &BlockContents) -> bool {
        // Whole free blocks are not split to receive the contents: that would lose a 2MB block to
        // gain one.
        let needed = contents.movable.count() as u64;
        if self.memory.small_free_frames() < needed + contents.free.count() as u64 {
            return false;
        }
        self.memory.take_frames(block, &contents.free);
        let mut taken = contents.free;
        for index in contents.movable.iter() {
            let frame = block.add(index as u64);
            if !migration::migrate(self, frame) || !self.memory.take(frame) {
                self.memory.free_frames_of(block, &taken);
                return false;
            }
            taken.insert(index);
            self.compaction.counts.frames_migrated += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BasePages, Kernel, KernelConfig, OtherUse};

    /// A pass that empties a block ends the deferral: the next pass in vain is the first one again.
    #[test]
    fn success_makes_kcompactd_forget_its_failures() {
        let config = KernelConfig::new(64 << 20);
        let mut kernel = Kernel::new(config, Box::new(BasePages)).unwrap();
        let core = &mut kernel.core;
        // Two blocks of page cache, each half full.
        let numbers: Vec<u64> =
            (0..1024).map(|_| core.memory.add_other(OtherUse::PageCache, 1, 0).unwrap()).collect();
        for number in numbers.into_iter().step_by(2) {
            core.memory.remove_other(number);
        }
        assert_eq!(core.kcompactd_pass(), CompactionCounts::default(), "nobody woke it");
        core.compaction.kcompactd.fruitless.failed();
        let mut passes = Vec::new();
        for _ in 0..6 {
            core.compaction.kcompactd.wake();
            let done = core.kcompactd_pass();
            passes.push((done.blocks_scanned, done.blocks_emptied, done.frames_migrated));
        }
        let (asleep, in_vain) = ((0, 0, 0), (32, 0, 0));
        let expected = [asleep, (32, 1, 256), in_vain, asleep, in_vain, asleep];
        assert_eq!(passes, expected);
    }
}
