//! Allocation of long runs of contiguous memory: free runs first, then runs that compaction can
//! empty (Linux: `alloc_contig_range`).

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::{Frame, HoleSet};

use super::{Core, Kernel, migration};
use crate::memory::{BLOCK_ORDER, FRAME_BYTES, Owner, Run, WantedRun};
use crate::space::{Departure, RegionPlace, index_of, pages_of, regions_of};
use crate::{OsError, OtherUse};

/// Number of frames in a 2MB block.
const BLOCK_FRAMES: u64 = 1 << BLOCK_ORDER;

/// Address space and 2MB region of each movable 2MB page, by number of the page's 2MB block of frames.
type LargePages = BTreeMap<u64, RegionPlace>;

/// Frames of a contiguous run that are allocated so far, by number of their 2MB block.
type Taken = BTreeMap<u64, HoleSet>;

/// Result of one step of slow compaction towards a free run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// A run of the requested length is free.
    Free,
    /// Frames were migrated, and more must follow.
    Nearer,
    /// No migration can free a run of the requested length.
    Impossible,
}

/// A request for a contiguous run of 2MB blocks.
#[derive(Clone, Debug)]
pub(super) struct RunRequest {
    /// Length of the run, in 2MB blocks.
    pub blocks: u64,
    /// Largest number of faulty frames that the run may contain.
    pub faulty_frames: u64,
    /// True if the run with the fewest movable frames is emptied when no run is free.
    pub compacts: bool,
    /// Range of frames that must contain the run; `None` for all memory.
    pub within: Option<Range<u64>>,
}

impl RunRequest {
    /// Request for a run of `blocks` free 2MB blocks at any address, without compaction.
    pub(super) const fn free(blocks: u64) -> Self {
        Self { blocks, faulty_frames: 0, compacts: false, within: None }
    }
}

impl Core {
    /// Allocates a run of 2MB blocks as requested. Fails if there is none, or if free memory and page cache
    /// would fall below the high watermark.
    pub(super) fn take_run(&mut self, request: &RunRequest) -> Result<Run, OsError> {
        let (blocks, most_blocks) = (request.blocks, most_run_blocks(self));
        let longest = if blocks > most_blocks {
            // No run can be that long: search for the longest one, to report it.
            self.try_run(&RunRequest { blocks: u64::MAX, ..request.clone() })
        } else {
            self.try_run(request)
        };
        longest.map_err(|longest| OsError::NoContiguousMemory {
            asked_bytes: blocks * BLOCK_FRAMES * FRAME_BYTES,
            longest_bytes: longest.min(most_blocks * BLOCK_FRAMES) * FRAME_BYTES,
        })
    }

    /// Like [`Self::take_run`], but an error contains the length of the longest run in frames.
    fn try_run(&mut self, request: &RunRequest) -> Result<Run, u64> {
        let &RunRequest { blocks, faulty_frames, compacts, ref within } = request;
        let (none, within) = (LargePages::new(), within.clone());
        let wanted = WantedRun { blocks, faulty_frames, moves: false, within, large_pages: &none };
        let longest = match self.memory.find_run(&wanted) {
            Ok(run) => {
                self.memory.take_free_frames(run.blocks.clone());
                return Ok(run);
            }
            Err(longest) => longest,
        };
        if !compacts {
            return Err(longest);
        }
        let large_pages = movable_large_pages(self, true);
        let wanted = WantedRun { moves: true, large_pages: &large_pages, ..wanted };
        self.compaction.counts.blocks_scanned += self.memory.blocks();
        match self.memory.find_run(&wanted)? {
            run if self.empty_run(&run, &large_pages) => Ok(run),
            _ => Err(longest),
        }
    }

    /// Moves up to `frames` frames out of the run that is cheapest to empty. The emptied frames are
    /// freed. If nothing else allocates them, the next step continues with the same run.
    pub(super) fn approach_run(&mut self, request: &RunRequest, frames: u64) -> Approach {
        let (blocks, within) = (request.blocks, request.within.clone());
        let large_pages = movable_large_pages(self, true);
        let faulty_frames = request.faulty_frames;
        let wanted =
            WantedRun { blocks, faulty_frames, moves: true, within, large_pages: &large_pages };
        if blocks > most_run_blocks(self) {
            return Approach::Impossible;
        }
        if self.memory.find_run(&WantedRun { moves: false, ..wanted.clone() }).is_ok() {
            return Approach::Free;
        }
        self.compaction.counts.blocks_scanned += self.memory.blocks();
        let Ok(run) = self.memory.find_run(&wanted) else { return Approach::Impossible };
        let is_nearer = self.empty_part(&run, frames, &large_pages);
        match self.memory.find_run(&WantedRun { moves: false, ..wanted }) {
            Ok(_) => Approach::Free,
            Err(_) if is_nearer => Approach::Nearer,
            Err(_) => Approach::Impossible,
        }
    }

    /// Empties blocks of a run until `frames` frames were moved. The run's free frames are
    /// allocated meanwhile, so that no frame moves within the run. Returns true if any frame was
    /// moved.
    fn empty_part(&mut self, run: &Run, frames: u64, large_pages: &LargePages) -> bool {
        let numbered = |number| Frame::new(number << BLOCK_ORDER);
        let before = self.compaction.counts.frames_migrated;
        let free_of = |core: &Core, number| core.memory.zones().free_in_pageblock(numbered(number));
        let held: u64 = run.blocks.clone().map(|number| free_of(self, number).count() as u64).sum();
        self.memory.drop_page_cache(held + frames.min(run.movable_frames));
        let mut taken: Taken =
            run.blocks.clone().map(|number| (number, free_of(self, number))).collect();
        self.memory.take_free_frames(run.blocks.clone());
        for number in run.blocks.clone() {
            if self.compaction.counts.frames_migrated - before >= frames {
                break;
            }
            let of_block = taken.get_mut(&number).expect("a block of the run");
            let large_page = large_pages.get(&number).copied();
            if !self.empty_block(number, large_page, of_block) {
                break;
            }
        }
        for (&number, frames) in &taken {
            self.memory.free_frames_of(numbered(number), frames);
        }
        self.compaction.counts.frames_migrated > before
    }

    /// Allocates all frames of a run that is partly in use, and migrates the contents of its used frames to
    /// frames outside. On failure, frees the frames it allocated and returns false.
    fn empty_run(&mut self, run: &Run, large_pages: &LargePages) -> bool {
        let numbered = |number| Frame::new(number << BLOCK_ORDER);
        let mut taken = Taken::new();
        for number in run.blocks.clone() {
            taken.insert(number, self.memory.zones().free_in_pageblock(numbered(number)));
        }
        let free_inside: usize = taken.values().map(HoleSet::count).sum();
        let needed = run.movable_frames + free_inside as u64;
        self.memory.drop_page_cache(needed);
        let has_room = self.free_frames() >= needed;
        // Dropping page cache may have freed more frames of the run.
        for (&number, free) in &mut taken {
            *free = self.memory.zones().free_in_pageblock(numbered(number));
        }
        self.memory.take_free_frames(run.blocks.clone());
        let is_empty = has_room
            && run.blocks.clone().all(|number| {
                let of_block = taken.get_mut(&number).expect("a block of the run");
                self.empty_block(number, large_pages.get(&number).copied(), of_block)
            });
        if !is_empty {
            for (&number, frames) in &taken {
                self.memory.free_frames_of(numbered(number), frames);
            }
        }
        is_empty
    }

    /// Migrates the contents of 2MB block `number` to other blocks. Allocates the emptied frames and adds
    /// their indices to `taken`, which then has all frames of the block except faulty ones. Returns false on
    /// failure.
    fn empty_block(
        &mut self,
        number: u64,
        large_page: Option<RegionPlace>,
        taken: &mut HoleSet,
    ) -> bool {
        let block = Frame::new(number << BLOCK_ORDER);
        if *taken == HoleSet::FULL {
            return true;
        }
        if let Some(place) = large_page
            && self.move_large_page(place)
        {
            self.memory.take_frames(block, &HoleSet::FULL);
            *taken = HoleSet::FULL;
            return true;
        }
        self.note_frames_scanned();
        for index in 0..HoleSet::SUBPAGES {
            let frame = block.add(index as u64);
            if taken.contains(index) || self.memory.owner(frame) == Some(Owner::Retired) {
                continue;
            }
            // Memory pressure may have dropped this frame's content while other frames were moved.
            if !self.memory.take(frame) {
                if !migration::migrate(self, frame) || !self.memory.take(frame) {
                    return false;
                }
                self.compaction.counts.frames_migrated += 1;
            }
            taken.insert(index);
        }
        self.compaction.counts.blocks_emptied += 1;
        true
    }

    /// Copies a 2MB page to another whole block, which frees its old block. If no block is free,
    /// splits the page into 4KB pages and returns false.
    fn move_large_page(&mut self, (id, number): RegionPlace) -> bool {
        let to = self.memory.allocate_block();
        let Ok(space) = &mut self.space_mut(id) else { return false };
        let Some(to) = to else {
            // If the split fails too, the frames have no owners and count as unmovable.
            let _ = space.split_large(number, &HoleSet::FULL);
            return false;
        };
        let pages = pages_of(number);
        if space.leave_overlay(&pages, Departure::Remapped).is_err() {
            space.memory.free(to, BLOCK_ORDER);
            return false;
        }
        let from = space.move_large(number, to);
        space.memory.free(from, BLOCK_ORDER);
        self.ledger.migrated(BLOCK_FRAMES);
        self.compaction.counts.frames_migrated += BLOCK_FRAMES;
        true
    }
}

impl Core {
    /// Allocates contiguous frames for `pages`. The first frame has the same offset in its 2MB block as the
    /// first page in its 2MB region. At most `faulty_frames` of the frames are faulty. With `compacts`,
    /// movable frames are migrated if no run is free.
    ///
    /// # Errors
    /// If no such run can be found.
    pub fn take_run_for(
        &mut self,
        pages: &Range<u64>,
        faulty_frames: u64,
        compacts: bool,
    ) -> Result<Range<u64>, OsError> {
        let blocks = regions_of(pages);
        // In memory present at boot, a region with generated fragmentation has no whole block.
        let fits = pages.end - pages.start <= self.config.memory_bytes / FRAME_BYTES;
        let is_fragmented = fits && self.is_any_fragmented(blocks.clone());
        let wanted = RunRequest {
            blocks: blocks.end - blocks.start,
            faulty_frames,
            compacts: compacts && !is_fragmented,
            within: is_fragmented.then(|| self.memory.hot_added()),
        };
        let run = self.take_run(&wanted)?;
        Ok(keep_for(self, &run, pages))
    }

    /// Frees frames of a run from [`Self::take_run_for`], except faulty ones.
    pub fn give_back_run(&mut self, frames: Range<u64>) {
        let mut start = frames.start;
        for faulty in self.memory.retired_within(&frames) {
            self.memory.free_range(start..faulty.number());
            start = faulty.number() + 1;
        }
        self.memory.free_range(start..frames.end);
    }
}

impl Kernel {
    /// Length in bytes of the longest free run. With `compacts`, also considers runs that
    /// compaction can empty, if there is room for their data.
    pub fn longest_run_bytes(&mut self, compacts: bool) -> u64 {
        let core = &mut self.core;
        let large_pages = movable_large_pages(core, compacts);
        let blocks = u64::MAX; // Longer than there can be.
        let (moves, within) = (compacts, None);
        let wanted =
            WantedRun { blocks, faulty_frames: 0, moves, within, large_pages: &large_pages };
        core.memory.find_run(&wanted).map_or_else(|frames| frames * FRAME_BYTES, |_| 0)
    }

    /// Slow compaction (D §IV): moves up to `frames` frames out of the run of 2MB blocks that is
    /// cheapest to empty. Repeated calls end with a free run of `run_frames` frames.
    pub fn approach_run(&mut self, run_frames: u64, frames: u64) -> Approach {
        let request = RunRequest::free(run_frames.div_ceil(BLOCK_FRAMES));
        let approach = self.core.approach_run(&request, frames);
        self.core.ledger.send();
        approach
    }
}

/// Selects the frames of an allocated run that `pages` will use, and frees all frames before and after. The
/// first selected frame has the same offset in its 2MB block as the first page in its 2MB region.
pub(super) fn keep_for(core: &mut Core, run: &Run, pages: &Range<u64>) -> Range<u64> {
    let first = run.first().number() + index_of(pages.start) as u64;
    let frames = first..first + (pages.end - pages.start);
    core.give_back_run(run.frames().start..frames.start);
    core.give_back_run(frames.end..run.frames().end);
    frames
}

/// Length in 2MB blocks of the longest run that can be taken without going below the high
/// watermark, counting page cache as free.
fn most_run_blocks(core: &Core) -> u64 {
    let page_cache = core.memory.other_frames(OtherUse::PageCache);
    let frames = core.free_frames() + page_cache;
    frames.saturating_sub(core.memory.high_watermark()) / BLOCK_FRAMES
}

/// Movable 2MB pages that exactly one page-table entry maps; empty if `moves` is false.
fn movable_large_pages(core: &mut Core, moves: bool) -> LargePages {
    if !moves {
        return LargePages::new();
    }
    migration::refresh_owners(core);
    let pages = core.live_spaces().flat_map(|space| space.movable_large_pages());
    let alone = pages.filter(|&(block, _)| !core.memory.any_shared(block, &HoleSet::FULL));
    alone.map(|(block, place)| (block.number() >> BLOCK_ORDER, place)).collect()
}
