//! Compaction: what is movable in a block is moved to frames elsewhere, so that the block becomes
//! whole or has holes only where something stays.

use perforate_types::{Frame, HoleSet, SpaceId, Update};

use super::Kernel;
use super::deferral::Deferral;
use crate::memory::{BLOCK_ORDER, BlockContents, Owner};

/// What compaction and the claiming of blocks did.
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

impl Kernel {
    /// Compaction and claims so far.
    pub fn compaction(&self) -> CompactionCounts {
        self.compaction
    }

    /// Background compaction of the whole memory, if a fault has woken kcompactd since its last
    /// pass. After passes that emptied nothing it sleeps through some calls for it, as faults do without
    /// their searches.
    pub fn kcompactd_pass(&mut self, updates: &mut Vec<Update>) -> CompactionCounts {
        if !std::mem::take(&mut self.kcompactd.is_awake) {
            return CompactionCounts::default();
        }
        let done = self.compact(updates);
        if done.blocks_emptied > 0 {
            self.kcompactd.fruitless.reset();
        } else {
            self.kcompactd.fruitless.failed();
        }
        done
    }

    /// Background compaction (Linux: kcompactd): once over all blocks from the lowest address on,
    /// those in which nothing stays are emptied into free frames of others, as long as there are
    /// enough outside wholly free 2MB blocks. Holes of perforated pages are patched on the way.
    ///
    /// Linux ends where its two scanners meet. It also moves single pages out of blocks that
    /// cannot be emptied; that makes no 2MB block and is left out.
    pub fn compact(&mut self, updates: &mut Vec<Update>) -> CompactionCounts {
        let before = self.compaction;
        self.refresh_owners();
        for number in 0..self.memory.blocks() {
            let block = Frame::new(number << BLOCK_ORDER);
            self.compaction.blocks_scanned += 1;
            if self.patch_block(block, updates) > 0 {
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
            if contents.fixed.is_empty() && self.evacuate(block, &contents, updates) {
                self.compaction.blocks_emptied += 1;
                self.memory.free(block, BLOCK_ORDER);
            }
        }
        self.claims.end_deferral();
        self.ledger.send();
        let after = self.compaction;
        CompactionCounts {
            blocks_scanned: after.blocks_scanned - before.blocks_scanned,
            frames_scanned: after.frames_scanned - before.frames_scanned,
            frames_migrated: after.frames_migrated - before.frames_migrated,
            blocks_emptied: after.blocks_emptied - before.blocks_emptied,
            blocks_perforated: after.blocks_perforated - before.blocks_perforated,
        }
    }

    /// The frames of a block were looked at one by one.
    pub(super) fn note_frames_scanned(&mut self) {
        let frames = HoleSet::SUBPAGES as u64;
        self.compaction.frames_scanned += frames;
        self.note_scan(frames);
    }

    /// A block that others used in part was taken but for `holes`.
    pub(super) fn note_block_taken(&mut self, holes: &HoleSet) {
        if holes.is_empty() {
            self.compaction.blocks_emptied += 1;
        } else {
            self.compaction.blocks_perforated += 1;
        }
    }

    /// Moves all that is movable out of the block and takes its free and moved frames. Where that
    /// fails half-way, what was taken is free again and `false` is returned.
    pub(super) fn evacuate(
        &mut self,
        block: Frame,
        contents: &BlockContents,
        updates: &mut Vec<Update>,
    ) -> bool {
        // No whole block is broken up for it: that would be moving the problem.
        let needed = contents.movable.count() as u64;
        if self.memory.small_free_frames() < needed + contents.free.count() as u64 {
            return false;
        }
        self.memory.take_frames(block, &contents.free);
        let mut taken = contents.free;
        for index in contents.movable.iter() {
            let frame = block.add(index as u64);
            if !self.migrate(frame, updates) || !self.memory.take(frame) {
                self.memory.free_frames_of(block, &taken);
                return false;
            }
            taken.insert(index);
            self.compaction.frames_migrated += 1;
        }
        true
    }

    /// Records anew what frames hold, if a frame may have lost the one of its mappings that was
    /// recorded: after a fork, mostly. Page faults do without, as all mappings are looked through.
    pub(super) fn refresh_owners(&mut self) {
        if self.memory.take_owners_left() {
            for space in self.spaces.iter().flatten() {
                space.record_owners(&mut self.memory);
            }
        }
    }

    /// Copies what the frame holds to another frame; the frame is free then. Returns whether it
    /// could be done.
    pub(super) fn migrate(&mut self, frame: Frame, updates: &mut Vec<Update>) -> bool {
        let is_moved = match self.memory.owner(frame) {
            Some(Owner::Other(usage, number)) => self.memory.move_other(usage, number, frame),
            Some(Owner::Page(space, page)) => {
                !self.memory.is_shared(frame)
                    && self.migrate_page(space, page.number(), frame, updates)
            }
            Some(Owner::Retired) | None => false,
        };
        self.note_migration(u64::from(is_moved));
        is_moved
    }

    /// Copies what `page` maps by an entry of its own, if that is still `from`.
    fn migrate_page(
        &mut self,
        id: SpaceId,
        page: u64,
        from: Frame,
        updates: &mut Vec<Update>,
    ) -> bool {
        let Ok((space, mut effects)) = self.parts(id, updates) else { return false };
        let permissions = match space.find(page) {
            Some(present) if present.has_own_entry() && present.frame() == Some(from) => {
                present.permissions()
            }
            _ => return false,
        };
        let Ok(to) = effects.memory.allocate_page() else { return false };
        let old = space.remap(page, to, permissions, &mut effects);
        effects.memory.release(old);
        true
    }
}
