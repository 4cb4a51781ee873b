//! Memory pressure: watermarks, and reclaim of memory that the rest of the system uses.

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
