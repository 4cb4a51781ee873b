//! Making 2MB pages out of blocks that others use in part: what can be moved is moved away, what
//! stays becomes holes, if the policy accepts that (P §III.A, §VI). A block in which nothing
//! stays is what direct compaction would make.

use perforate_types::{Frame, HoleSet, SpaceId, Update};
use serde::{Deserialize, Serialize};

use super::Kernel;
use super::deferral::Deferral;
use crate::BlockUse;
use crate::memory::{BLOCK_ORDER, BlockContents, Owner};
use crate::space::Present;

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

/// What a page fault does for a 2MB page when no whole block is free (Linux:
/// `transparent_hugepage/defrag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defrag {
    /// Nothing is moved; a block is perforated only if its frames are free or stay.
    #[default]
    Never,
    /// Direct compaction only in areas that the program advised (MADV_HUGEPAGE).
    Madvise,
    /// Direct compaction in advised areas; elsewhere kcompactd is woken.
    #[serde(rename = "defer+madvise")]
    DeferMadvise,
    /// kcompactd is woken, and the fault goes without.
    Defer,
    /// Direct compaction: movable contents of a suitable block are copied elsewhere.
    Always,
}

impl Defrag {
    /// All modes.
    pub const ALL: [Self; 5] =
        [Self::Always, Self::Defer, Self::DeferMadvise, Self::Madvise, Self::Never];

    /// Linux's name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Defer => "defer",
            Self::DeferMadvise => "defer+madvise",
            Self::Madvise => "madvise",
            Self::Never => "never",
        }
    }

    /// The mode of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether a fault moves contents itself, in an area that is advised or not.
    const fn is_direct(self, advised: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Madvise | Self::DeferMadvise => advised,
            Self::Never | Self::Defer => false,
        }
    }

    /// Whether any fault wakes kcompactd.
    pub const fn wakes_kcompactd(self) -> bool {
        self.wakes(false) || self.wakes(true)
    }

    /// Whether a fault wakes kcompactd.
    const fn wakes(self, advised: bool) -> bool {
        match self {
            Self::Defer => true,
            Self::DeferMadvise => !advised,
            Self::Never | Self::Madvise | Self::Always => false,
        }
    }
}

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
    /// Whether kcompactd was woken since it ran last.
    kcompactd_woken: bool,
    /// Passes of kcompactd that emptied nothing.
    kcompactd: Deferral,
}

impl ClaimCursor {
    fn search(&mut self, direct: bool) -> &mut Search {
        if direct { &mut self.direct } else { &mut self.in_place }
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

impl Kernel {
    /// Compaction and claims so far.
    pub fn compaction(&self) -> CompactionCounts {
        self.compaction
    }

    /// A block for a 2MB page of a program, whole or with holes as the policy accepts them.
    /// `advised`: the program asked for large pages there.
    pub(super) fn claim_block(
        &mut self,
        advised: bool,
        updates: &mut Vec<Update>,
    ) -> Option<ClaimedBlock> {
        if let Some(block) = self.memory.allocate_block() {
            return Some(ClaimedBlock { block, holes: HoleSet::EMPTY });
        }
        if self.config.defrag.wakes(advised) && self.claims.kcompactd.is_due() {
            self.claims.kcompactd_woken = true;
        }
        let direct = self.config.defrag.is_direct(advised);
        if !self.may_claim(direct) {
            return None;
        }
        let blocks = self.memory.blocks();
        let first_bound = self.claims.search(direct).first_bound(blocks);
        for (bound, &least_usable) in LEAST_USABLE.iter().enumerate().skip(first_bound) {
            for _ in 0..blocks {
                let block = self.claims.search(direct).next_block(blocks);
                let claimed = self.try_claim(block, direct, least_usable, updates);
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
    fn may_claim(&mut self, direct: bool) -> bool {
        let one_hole = [0].into_iter().collect();
        let perforates = matches!(self.policy.use_block(&one_hole), BlockUse::Perforated(_));
        (direct || perforates) && self.claims.search(direct).deferral.is_due()
    }

    /// Takes the block if it has at least so many usable frames and the policy accepts what stays
    /// in it as holes.
    fn try_claim(
        &mut self,
        block: Frame,
        moves: bool,
        least_usable: u64,
        updates: &mut Vec<Update>,
    ) -> Option<ClaimedBlock> {
        self.compaction.blocks_scanned += 1;
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
        if !self.accepts(&holes) || (moves && !self.evacuate(block, &contents, updates)) {
            return None;
        }
        if !moves {
            self.memory.take_frames(block, &contents.free);
        }
        *if holes.is_empty() {
            &mut self.compaction.blocks_emptied
        } else {
            &mut self.compaction.blocks_perforated
        } += 1;
        Some(ClaimedBlock { block, holes })
    }

    /// Whether the policy makes a 2MB page with these holes.
    pub(super) fn accepts(&self, holes: &HoleSet) -> bool {
        match self.policy.use_block(holes) {
            BlockUse::Pages => false,
            BlockUse::Large => true,
            BlockUse::Perforated(_) => self.config.tables.shadow_directories,
        }
    }

    /// What runs beside the programs, to be called now and then: kcompactd, if a fault has woken it.
    /// After passes that emptied nothing it sleeps through some calls for it, as faults do without
    /// their searches.
    pub fn background_pass(&mut self, updates: &mut Vec<Update>) -> CompactionCounts {
        if !std::mem::take(&mut self.claims.kcompactd_woken) {
            return CompactionCounts::default();
        }
        let done = self.compact(updates);
        if done.blocks_emptied > 0 {
            self.claims.kcompactd.reset();
        } else {
            self.claims.kcompactd.failed();
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
        self.claims.direct.deferral.reset();
        self.claims.in_place.deferral.reset();
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
            self.note_migration(1);
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
        match self.memory.owner(frame) {
            Some(Owner::Other(usage, number)) => self.memory.move_other(usage, number, frame),
            Some(Owner::Page(space, page)) => {
                !self.memory.is_shared(frame)
                    && self.migrate_page(space, page.number(), frame, updates)
            }
            Some(Owner::Retired) | None => false,
        }
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
        let (permissions, is_hole) = match space.find(page) {
            Some(Present::Page(frame, permissions)) if frame == from => (permissions, false),
            Some(Present::Hole(frame, permissions)) if frame == from => (permissions, true),
            _ => return false,
        };
        let Ok(to) = effects.memory.allocate_page() else { return false };
        let old = if is_hole {
            space.remap_hole(page, to, permissions, &mut effects)
        } else {
            space.remap_page(page, to, permissions, &mut effects)
        };
        effects.memory.release(old);
        true
    }
}
