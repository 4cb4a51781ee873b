//! Memory pressure: watermarks, and reclaim of memory that the rest of the system uses.

use std::ops::Range;

use perforate_types::Frame;

use super::others::OtherUse;
use super::owners::{Owner, RESIDENT};
use super::{FRAME_BYTES, MigrateType, PhysicalMemory};
use crate::OsError;

/// Numbers of free frames at which reclaim starts and ends. Linux has watermarks for each zone;
/// here one pair applies to all memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watermarks {
    /// Number of free frames below which an allocation reclaims memory first.
    pub(super) low_frames: u64,
    /// Number of free frames at which reclaim ends.
    pub(super) high_frames: u64,
}

impl Watermarks {
    /// Watermarks of a memory of `frames` frames by Linux's defaults: min is 4·√(memory in KB) KB
    /// (`min_free_kbytes`), at most 256MB; low and high are 5/4 and 3/2 of min.
    pub(super) fn of(frames: u64) -> Self {
        let memory_kilobytes = frames * FRAME_BYTES / 1024;
        let min_kilobytes = (16 * memory_kilobytes).isqrt().min(262_144);
        let min_frames = min_kilobytes * 1024 / FRAME_BYTES;
        Self { low_frames: min_frames * 5 / 4, high_frames: min_frames * 3 / 2 }
    }
}

/// Totals of reclaim under memory pressure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Number of times that memory was freed because fewer frames than the low watermark were free.
    pub reclaims: u64,
    /// Number of page-cache frames dropped under memory pressure.
    pub page_cache_frames: u64,
    /// Number of slab frames freed under memory pressure.
    pub slab_frames: u64,
}

impl PhysicalMemory {
    /// Allocates an aligned run of 2^order frames. Drops page cache and slab first if memory is
    /// short, or if no free run is large enough.
    pub(super) fn allocate(&mut self, order: u32, kind: MigrateType) -> Result<Frame, OsError> {
        if self.is_short() {
            self.reclaim();
        }
        loop {
            if let Some(frame) = self.zones.allocate(order, kind) {
                return Ok(frame);
            }
            if !self.reclaim_oldest() {
                return Err(self.exhausted(FRAME_BYTES << order));
            }
        }
    }

    /// Allocates adjacent frames for pages of a program, at most `most`: the ones that successive allocations of single
    /// frames would return. `None` if some of these would reclaim memory first.
    pub(crate) fn allocate_singles(&mut self, most: u64) -> Option<Range<u64>> {
        if self.zones.free_frames() < self.watermarks.low_frames + most {
            return None;
        }
        self.zones.allocate_singles(most, MigrateType::Movable)
    }

    /// True if fewer frames are free than the low watermark, so that an allocation reclaims memory first.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.zones.free_frames() < self.watermarks.low_frames
    }

    /// High watermark: number of free frames at which reclaim ends.
    pub(crate) fn high_watermark(&self) -> u64 {
        self.watermarks.high_frames
    }

    /// Number of frames of page cache and slab that can be dropped.
    pub(crate) fn reclaimable_frames(&self) -> u64 {
        let reclaimable = OtherUse::ALL.into_iter().filter(|usage| usage.is_reclaimable());
        reclaimable.map(|usage| self.droppable_frames(usage)).sum()
    }

    /// Drops page cache, then slab, until the high watermark is reached.
    pub(crate) fn reclaim(&mut self) {
        let mut reclaimed = false;
        while self.zones.free_frames() < self.watermarks.high_frames && self.reclaim_oldest() {
            reclaimed = true;
        }
        self.pressure.reclaims += u64::from(reclaimed);
    }

    /// Frees the oldest allocation of page cache, or of slab if no page cache is left. Returns false if there
    /// is neither.
    fn reclaim_oldest(&mut self) -> bool {
        let mut reclaimable = OtherUse::ALL.into_iter().filter(|usage| usage.is_reclaimable());
        let Some(usage) = reclaimable.find(|&usage| self.droppable_frames(usage) > 0) else {
            return false;
        };
        let frames = self.drop_oldest(usage);
        match usage {
            OtherUse::PageCache => self.pressure.page_cache_frames += frames,
            _ => self.pressure.slab_frames += frames,
        }
        true
    }

    /// Drops page cache, oldest first, until `free_frames` frames are free.
    pub(crate) fn drop_page_cache(&mut self, free_frames: u64) {
        while self.zones.free_frames() < free_frames {
            if self.drop_oldest(OtherUse::PageCache) == 0 {
                return;
            }
        }
    }

    /// Number of frames allocated for `usage` that can be dropped.
    fn droppable_frames(&self, usage: OtherUse) -> u64 {
        let residents = self.residents.as_ref().map_or(0, |known| known.recorded_frames(usage));
        self.others.frames(usage) + residents
    }

    /// Frees the oldest allocation for `usage`, and returns its number of frames. Memory of a snapshot
    /// counts as oldest.
    fn drop_oldest(&mut self, usage: OtherUse) -> u64 {
        match self.drop_resident(usage) {
            0 => self.others.oldest(usage).map_or(0, |oldest| self.remove_other(oldest)),
            frames => frames,
        }
    }

    /// Totals of reclaim under memory pressure.
    pub(crate) fn pressure(&self) -> Pressure {
        self.pressure
    }

    /// Allocates `pieces` runs of 2^order frames for the rest of the system (not a simulated program), and
    /// returns the number of the allocation.
    ///
    /// # Errors
    /// If memory runs out; nothing is allocated then.
    pub(crate) fn add_other(
        &mut self,
        usage: OtherUse,
        pieces: u64,
        order: u32,
    ) -> Result<u64, OsError> {
        let number = self.others.next();
        let mut frames = Vec::with_capacity((pieces << order) as usize);
        for _ in 0..pieces {
            match self.allocate(order, usage.migrate_type()) {
                Ok(first) => frames.extend((0..1 << order).map(|index| first.add(index))),
                Err(error) => {
                    frames.into_iter().for_each(|frame| self.free(frame, 0));
                    return Err(error);
                }
            }
        }
        for &frame in &frames {
            self.owners.set(frame, Owner::Other(usage, number));
        }
        let added_number = self.others.add(usage, frames);
        debug_assert_eq!(added_number, number);
        Ok(number)
    }

    /// Frees an allocation of the rest of the system, and returns its number of frames.
    ///
    /// # Panics
    /// If there is no allocation with this number.
    pub(crate) fn remove_other(&mut self, number: u64) -> u64 {
        let other = self.others.remove(number).expect("it exists");
        for &frame in &other.frames {
            self.free(frame, 0);
        }
        other.frames.len() as u64
    }

    /// Frees the oldest allocation for `usage`, which must have a single frame, and returns the
    /// frame. `None` if there is no allocation.
    pub(crate) fn remove_oldest_frame(&mut self, usage: OtherUse) -> Option<Frame> {
        let oldest = self.others.oldest(usage)?;
        let frame = self.others.first_frame(oldest);
        self.remove_other(oldest);
        frame
    }

    /// First frame of the allocation with this number.
    pub(crate) fn other_frame(&self, number: u64) -> Option<Frame> {
        self.others.first_frame(number)
    }

    /// Number of the oldest allocation for `usage` from `number` on. If none of these exist, the
    /// oldest one of all; `None` if there is none.
    pub(crate) fn other_from(&self, usage: OtherUse, number: u64) -> Option<u64> {
        self.others.from(usage, number)
    }

    /// Number that the next allocation of the rest of the system will have.
    pub(crate) fn next_other(&self) -> u64 {
        self.others.next()
    }

    /// Number of frames that the rest of the system has allocated for `usage`.
    pub(crate) fn other_frames(&self, usage: OtherUse) -> u64 {
        let residents = self.residents.as_ref().map_or(0, |known| known.frames(usage));
        self.others.frames(usage) + residents
    }

    /// Migrates a frame of the rest of the system. Returns false if it cannot be moved or no frame
    /// is free.
    pub(crate) fn move_other(&mut self, usage: OtherUse, number: u64, from: Frame) -> bool {
        if !usage.is_movable() {
            return false;
        }
        let Some(to) = self.zones.allocate(0, MigrateType::Movable) else { return false };
        let number = if number == RESIDENT {
            self.residents.as_mut().expect("it is one of them").leave(from);
            self.others.add(usage, vec![to])
        } else {
            self.others.replace(number, from, to);
            number
        };
        self.owners.set(to, Owner::Other(usage, number));
        self.free(from, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZoneLayout;

    fn memory() -> PhysicalMemory {
        PhysicalMemory::new(64 << 20, ZoneLayout::Single).expect("valid")
    }

    /// Leaves this number of frames free.
    fn leave_free(memory: &mut PhysicalMemory, frames: u64) {
        while memory.zones.free_frames() > frames {
            memory.zones.allocate(0, MigrateType::Movable).expect("one is free");
        }
    }

    /// Linux's `min_free_kbytes` is 4·√KB, and at most 256MB.
    #[test]
    fn watermarks_grow_with_the_root_of_memory() {
        for (frames, low_frames, high_frames) in [
            (0, 0, 0),
            (1024, 80, 96),
            (16_384, 320, 384),
            (1 << 28, 40_960, 49_152),
            (1 << 30, 81_920, 98_304),
            (1 << 32, 81_920, 98_304),
        ] {
            assert_eq!(Watermarks::of(frames), Watermarks { low_frames, high_frames }, "{frames}");
        }
    }

    #[test]
    fn page_cache_goes_before_slab_and_the_oldest_first() {
        let mut memory = memory();
        let slab = memory.add_other(OtherUse::Slab, 100, 0).unwrap();
        let oldest = memory.add_other(OtherUse::PageCache, 100, 0).unwrap();
        memory.add_other(OtherUse::Kernel, 100, 0).unwrap();
        let newest = memory.add_other(OtherUse::PageCache, 60, 0).unwrap();
        assert_eq!(memory.reclaimable_frames(), 260);
        let reclaims = |memory: &PhysicalMemory| {
            let Pressure { reclaims, page_cache_frames, slab_frames } = memory.pressure();
            (reclaims, page_cache_frames, slab_frames)
        };
        // 320 is not short of the low watermark; 319 is, and reclaim goes on up to 384.
        leave_free(&mut memory, 320);
        assert!(!memory.is_short());
        leave_free(&mut memory, 319);
        assert!(memory.is_short());
        memory.allocate(0, MigrateType::Movable).unwrap();
        assert_eq!((memory.zones.free_frames(), reclaims(&memory)), (418, (1, 100, 0)));
        assert!(memory.other_frame(oldest).is_none() && memory.other_frame(newest).is_some());
        leave_free(&mut memory, 384);
        memory.reclaim();
        assert_eq!(reclaims(&memory), (1, 100, 0), "enough is free");
        leave_free(&mut memory, 300);
        memory.reclaim();
        assert_eq!((memory.zones.free_frames(), reclaims(&memory)), (460, (2, 160, 100)));
        assert!(memory.other_frame(slab).is_none());
        leave_free(&mut memory, 300);
        memory.reclaim();
        assert_eq!(reclaims(&memory), (2, 160, 100), "kernel data stay");
        let kernel = OtherUse::ALL.map(|usage| memory.other_frames(usage));
        assert_eq!(kernel, [0, 0, 0, 100, 0, 0]);
    }

    #[test]
    fn page_cache_is_dropped_up_to_what_is_wanted() {
        let mut memory = memory();
        for _ in 0..3 {
            memory.add_other(OtherUse::PageCache, 10, 0).unwrap();
        }
        memory.add_other(OtherUse::Slab, 10, 0).unwrap();
        let free = memory.zones.free_frames();
        memory.drop_page_cache(free);
        assert_eq!(memory.zones.free_frames(), free);
        memory.drop_page_cache(free + 1);
        assert_eq!(memory.zones.free_frames(), free + 10);
        memory.drop_page_cache(u64::MAX);
        assert_eq!(memory.zones.free_frames(), free + 30);
        assert_eq!(memory.other_frames(OtherUse::Slab), 10);
        assert_eq!(memory.pressure(), Pressure::default(), "nothing was short");
    }

    #[test]
    fn an_allocation_that_does_not_fit_leaves_nothing_behind() {
        let mut memory = memory();
        memory.add_other(OtherUse::Kernel, 8, 2).unwrap();
        let free = memory.zones.free_frames();
        assert_eq!(free, 16_384 - 32);
        let error = memory.add_other(OtherUse::Anonymous, free / 4 + 1, 2).unwrap_err();
        let asked_bytes = 16_384;
        let expected = OsError::OutOfMemory {
            asked_bytes,
            free_bytes: 0,
            memory_bytes: 64 << 20,
            enough_bytes: (64 << 20) + asked_bytes,
        };
        assert_eq!(error, expected);
        assert_eq!(memory.zones.free_frames(), free);
        assert_eq!(memory.other_frames(OtherUse::Anonymous), 0);
        assert_eq!(memory.add_other(OtherUse::Anonymous, 1, 0), Ok(1), "the number is not used up");
    }

    #[test]
    fn only_movable_memory_moves_and_keeps_its_number() {
        let mut memory = memory();
        for (usage, moves) in [
            (OtherUse::Anonymous, true),
            (OtherUse::PageCache, true),
            (OtherUse::Slab, false),
            (OtherUse::Kernel, false),
            (OtherUse::Balloon, false),
            (OtherUse::Pinned, false),
        ] {
            let number = memory.add_other(usage, 3, 0).unwrap();
            let from = memory.other_frame(number).unwrap();
            let free = memory.zones.free_frames();
            assert_eq!(memory.move_other(usage, number, from), moves, "{usage:?}");
            let now = memory.other_frame(number).unwrap();
            assert_eq!((now != from, memory.is_free(from)), (moves, moves), "{usage:?}");
            assert_eq!(memory.owner(now), Some(Owner::Other(usage, number)));
            assert_eq!((memory.zones.free_frames(), memory.other_frames(usage)), (free, 3));
        }
        // From a number on, the oldest; behind the last one, the oldest of all.
        let next = memory.next_other();
        assert_eq!(next, 6);
        memory.add_other(OtherUse::Slab, 1, 0).unwrap();
        let from = |number| memory.other_from(OtherUse::Slab, number);
        assert_eq!([0, 2, 3, 6, 7].map(from), [Some(2), Some(2), Some(6), Some(6), Some(2)]);
        assert_eq!(memory.remove_oldest_frame(OtherUse::Balloon).map(|_| ()), Some(()));
        assert_eq!(memory.remove_oldest_frame(OtherUse::Balloon), None);
    }
}
