//! The rest of the system's memory, watermarks, and what is reclaimed when memory is short.

use perforate_types::Frame;

use super::others::OtherUse;
use super::owners::{Owner, RESIDENT};
use super::{FRAME_BYTES, MigrateType, PhysicalMemory};
use crate::OsError;

/// Free frames at which reclaim starts and ends (Linux: per-zone watermarks; here for all
/// memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watermarks {
    /// Below this, an allocation reclaims by itself.
    pub(super) low_frames: u64,
    /// Reclaim goes on until this many are free.
    pub(super) high_frames: u64,
}

impl Watermarks {
    /// Linux's defaults: min is 4·√(memory in KB) KB (`min_free_kbytes`), at most 256MB; low and
    /// high are 5/4 and 3/2 of it.
    pub(super) fn of(frames: u64) -> Self {
        let memory_kilobytes = frames * FRAME_BYTES / 1024;
        let min_kilobytes = (16 * memory_kilobytes).isqrt().min(262_144);
        let min_frames = min_kilobytes * 1024 / FRAME_BYTES;
        Self { low_frames: min_frames * 5 / 4, high_frames: min_frames * 3 / 2 }
    }
}

/// What shortage of memory led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Allocations that found less free memory than the low watermark and had it reclaimed.
    pub reclaims: u64,
    /// Frames of page cache dropped.
    pub page_cache_frames: u64,
    /// Frames of slab freed.
    pub slab_frames: u64,
}

impl PhysicalMemory {
    /// An aligned run of 2^order frames; page cache and slab make room if memory is short or, for
    /// more than one frame, in too small pieces.
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

    /// Whether less memory is free than the low watermark.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.zones.free_frames() < self.watermarks.low_frames
    }

    /// Free frames at which reclaim ends.
    pub(crate) fn high_watermark(&self) -> u64 {
        self.watermarks.high_frames
    }

    /// Frames of page cache and slab that can be dropped.
    pub(crate) fn reclaimable_frames(&self) -> u64 {
        let reclaimable = OtherUse::ALL.into_iter().filter(|usage| usage.is_reclaimable());
        reclaimable.map(|usage| self.droppable_frames(usage)).sum()
    }

    /// Drops page cache, then slab, until the high watermark.
    pub(crate) fn reclaim(&mut self) {
        let mut reclaimed = false;
        while self.zones.free_frames() < self.watermarks.high_frames && self.reclaim_oldest() {
            reclaimed = true;
        }
        self.pressure.reclaims += u64::from(reclaimed);
    }

    /// Frees the oldest page cache, or the oldest slab if there is none; returns whether there was
    /// anything.
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

    /// Drops page cache, oldest first, until this many frames are free.
    pub(crate) fn drop_page_cache(&mut self, free_frames: u64) {
        while self.zones.free_frames() < free_frames {
            if self.drop_oldest(OtherUse::PageCache) == 0 {
                return;
            }
        }
    }

    /// Frames of a use that can be dropped, if the use can be.
    fn droppable_frames(&self, usage: OtherUse) -> u64 {
        let residents = self.residents.as_ref().map_or(0, |known| known.recorded_frames(usage));
        self.others.frames(usage) + residents
    }

    /// Gives up the oldest thing of a use; returns its number of frames. What was there when a
    /// snapshot was taken is older than all else.
    fn drop_oldest(&mut self, usage: OtherUse) -> u64 {
        match self.drop_resident(usage) {
            0 => self.others.oldest(usage).map_or(0, |oldest| self.remove_other(oldest)),
            frames => frames,
        }
    }

    /// What shortage of memory led to so far.
    pub(crate) fn pressure(&self) -> Pressure {
        self.pressure
    }

    /// The rest of the system gets `pieces` runs of 2^order frames for something; returns its
    /// number.
    ///
    /// # Errors
    /// If memory runs out; nothing is kept then.
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
        let given = self.others.add(usage, frames);
        debug_assert_eq!(given, number);
        Ok(number)
    }

    /// The rest of the system gives something up; returns its number of frames.
    ///
    /// # Panics
    /// If there is nothing of that number.
    pub(crate) fn remove_other(&mut self, number: u64) -> u64 {
        let other = self.others.remove(number).expect("it exists");
        for &frame in &other.frames {
            self.free(frame, 0);
        }
        other.frames.len() as u64
    }

    /// The only frame of the oldest thing of a use, which is given up.
    pub(crate) fn remove_oldest_frame(&mut self, usage: OtherUse) -> Option<Frame> {
        let oldest = self.others.oldest(usage)?;
        let frame = self.others.first_frame(oldest);
        self.remove_other(oldest);
        frame
    }

    /// The first frame of what has this number.
    pub(crate) fn other_frame(&self, number: u64) -> Option<Frame> {
        self.others.first_frame(number)
    }

    /// The oldest thing of a use that is not older than `number`, else the oldest of all.
    pub(crate) fn other_from(&self, usage: OtherUse, number: u64) -> Option<u64> {
        self.others.from(usage, number)
    }

    /// The number that the next new thing will have.
    pub(crate) fn next_other(&self) -> u64 {
        self.others.next()
    }

    /// Frames that the rest of the system has for a use.
    pub(crate) fn other_frames(&self, usage: OtherUse) -> u64 {
        let residents = self.residents.as_ref().map_or(0, |known| known.frames(usage));
        self.others.frames(usage) + residents
    }

    /// Moves a frame of the rest of the system elsewhere, if it can be moved and there is room;
    /// returns whether it was.
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
