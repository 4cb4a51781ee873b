//! Layout of the physical address space: the I/O gap of x86-64, and hot-added memory.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FRAME_BYTES, PhysicalMemory};
use crate::OsError;

/// Alignment of hot-added memory in frames: a free block of the largest order.
const HOT_ADD_ALIGNMENT: u64 = 1024;

/// The part of the physical address space below 4GB that x86-64 reserves for devices (D §IV).
/// Memory that does not fit below the gap lies at 4GB and above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "IoGapPreset")]
pub struct IoGap {
    /// First byte of the gap, a multiple of 4096.
    pub start_bytes: u64,
    /// First address after the gap, a multiple of 4MB.
    pub end_bytes: u64,
    /// Amount of memory that stays below the gap in bytes, a multiple of 4096. The rest is
    /// unplugged and added again at the end of memory (D §IV, §VI.C). `None`: everything that fits
    /// below the gap stays.
    pub kept_bytes: Option<u64>,
}

/// Names of I/O gaps in options.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum IoGapPreset {
    /// Gap of a PC: 3GB to 4GB.
    Pc,
    /// Gap of a PC with most of the memory below it moved to the end of memory: 256MB stay.
    Reclaimed,
}

impl From<IoGapPreset> for IoGap {
    fn from(preset: IoGapPreset) -> Self {
        match preset {
            IoGapPreset::Pc => Self::PC,
            IoGapPreset::Reclaimed => Self::RECLAIMED,
        }
    }
}

impl IoGap {
    /// The gap of a PC: 3GB to 4GB.
    pub const PC: Self = Self { start_bytes: 3 << 30, end_bytes: 4 << 30, kept_bytes: None };

    /// Gap of a PC with most of the memory below it moved: 256MB remain, enough to boot Linux (D
    /// §VI.C).
    pub const RECLAIMED: Self = Self { kept_bytes: Some(256 << 20), ..Self::PC };

    fn check(&self) -> Result<(), &'static str> {
        let kept = self.kept_bytes.unwrap_or(self.start_bytes);
        match self {
            _ if self.start_bytes == 0 || kept == 0 => Err("nothing lies below the I/O gap"),
            _ if self.start_bytes >= self.end_bytes => Err("the I/O gap ends before it begins"),
            _ if kept > self.start_bytes => Err("more is kept below the I/O gap than fits"),
            _ if !(self.start_bytes | kept).is_multiple_of(FRAME_BYTES)
                || !self.end_bytes.is_multiple_of(HOT_ADD_ALIGNMENT * FRAME_BYTES) =>
            {
                Err("the I/O gap begins at a multiple of 4096 and ends at a multiple of 4M")
            }
            _ => Ok(()),
        }
    }
}

/// Layout of the physical address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameLayout {
    /// I/O gap; `None` if memory has no gap.
    pub io_gap: Option<IoGap>,
    /// Room for hot-added memory in the address space, above all other memory, in bytes.
    pub hot_add_bytes: u64,
}

impl FrameLayout {
    /// Computes the runs of frames that have memory at boot, for a memory of `frames` frames, and
    /// the range of frames that can be hot-added. An error says why the layout is impossible.
    pub(crate) fn place(&self, frames: u64) -> Result<(Vec<Range<u64>>, Range<u64>), &'static str> {
        let mut present: Vec<Range<u64>> = std::iter::once(0..frames).collect();
        if let Some(gap) = &self.io_gap {
            gap.check()?;
            let below = gap.kept_bytes.unwrap_or(gap.start_bytes) / FRAME_BYTES;
            if below < frames {
                let end = gap.end_bytes / FRAME_BYTES;
                present = vec![0..below, end..end + (frames - below)];
            }
        }
        if !self.hot_add_bytes.is_multiple_of(FRAME_BYTES) {
            return Err("memory to be added is a multiple of 4096 bytes");
        }
        let end = present.last().map_or(0, |range| range.end);
        let start = end.next_multiple_of(HOT_ADD_ALIGNMENT);
        Ok((present, start..start + self.hot_add_bytes / FRAME_BYTES))
    }
}

/// Parts of `0..end` outside all `ranges`, which must be in ascending order.
pub(super) fn gaps(ranges: &[Range<u64>], end: u64) -> Vec<Range<u64>> {
    let starts = std::iter::once(0).chain(ranges.iter().map(|range| range.end));
    let ends = ranges.iter().map(|range| range.start).chain([end]);
    starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end).collect()
}

impl PhysicalMemory {
    /// Runs of frames below [`Self::end_frame`] that have no memory at present.
    pub(crate) fn absent(&self) -> Vec<Range<u64>> {
        gaps(&self.present, self.end_frame)
    }

    /// Runs of frames with memory, in ascending order.
    pub(crate) fn present(&self) -> &[Range<u64>] {
        &self.present
    }

    /// First frame number above all present and hot-addable memory.
    pub(crate) fn end_frame(&self) -> u64 {
        self.end_frame
    }

    /// Number of frames that can still be hot-added.
    pub(crate) fn addable_frames(&self) -> u64 {
        self.addable.end - self.addable.start
    }

    /// Frames that were hot-added so far.
    pub(crate) fn hot_added(&self) -> Range<u64> {
        self.added_from..self.addable.start
    }

    /// Hot-adds free frames at the end of memory. Linux hot-adds sections of 128MB; this model
    /// accepts any number of frames.
    ///
    /// # Errors
    /// If there is no room for `frames` frames.
    pub(crate) fn hot_add(&mut self, frames: u64) -> Result<Range<u64>, OsError> {
        if frames > self.addable_frames() {
            let left_bytes = self.addable_frames() * FRAME_BYTES;
            return Err(OsError::NoRoomToAdd { asked_bytes: frames * FRAME_BYTES, left_bytes });
        }
        let added = self.addable.start..self.addable.start + frames;
        self.addable.start = added.end;
        self.memory_bytes += frames * FRAME_BYTES;
        match self.present.last_mut() {
            Some(last) if last.end == added.start => last.end = added.end,
            _ => self.present.push(added.clone()),
        }
        self.free_range(added.clone());
        Ok(added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZoneLayout;
    use crate::memory::TopTable;

    #[test]
    fn frames_are_placed_around_the_gap() {
        let of = |io_gap, gigabytes: u64| {
            let layout = FrameLayout { io_gap, hot_add_bytes: 8 << 20 };
            layout.place(gigabytes << 18).expect("valid")
        };
        let gigabyte = 1 << 18;
        let (present, added) = of(None, 8);
        assert_eq!((present.len(), present[0].clone()), (1, 0..8 * gigabyte));
        assert_eq!(added, 8 * gigabyte..8 * gigabyte + 2048);
        let (present, _) = of(Some(IoGap::PC), 3);
        assert_eq!((present.len(), present[0].clone()), (1, 0..3 * gigabyte), "all fits below");
        let (present, added) = of(Some(IoGap::PC), 8);
        assert_eq!(present, [0..3 * gigabyte, 4 * gigabyte..9 * gigabyte]);
        assert_eq!(added.start, 9 * gigabyte);
        // 256MB are 65536 frames; the other 7.75GB lie from 4GB on.
        let (present, _) = of(Some(IoGap::RECLAIMED), 8);
        assert_eq!(present, [0..65_536, 4 * gigabyte..12 * gigabyte - 65_536]);
        assert_eq!(gaps(&present, 12 * gigabyte)[0], 65_536..4 * gigabyte);
        assert_eq!(gaps(&present, 12 * gigabyte)[1], 12 * gigabyte - 65_536..12 * gigabyte);
    }

    #[test]
    fn impossible_gaps_are_explained() {
        let reason = |start_bytes, end_bytes, kept_bytes| {
            let io_gap = Some(IoGap { start_bytes, end_bytes, kept_bytes });
            FrameLayout { io_gap, hot_add_bytes: 0 }.place(1 << 20).unwrap_err()
        };
        assert_eq!(reason(8 << 20, 4 << 20, None), "the I/O gap ends before it begins");
        assert_eq!(reason(0, 4 << 20, None), "nothing lies below the I/O gap");
        assert!(reason(4 << 20, 8 << 20, Some(5 << 20)).contains("more is kept"));
        assert!(reason(4 << 20, 9 << 20, None).contains("multiple of 4M"));
    }

    /// 4MB of which the frames from 1020 on lie above a gap. Four frames are the flat table of 2048 pages.
    #[test]
    fn a_table_at_the_top_does_not_reach_into_the_gap() {
        let gap = IoGap { start_bytes: 1020 * 4096, end_bytes: 8 << 20, kept_bytes: None };
        let layout = FrameLayout { io_gap: Some(gap), hot_add_bytes: 0 };
        let make = |pages| {
            let table = TopTable::Flat { pages };
            PhysicalMemory::with_layout(4 << 20, table, ZoneLayout::Single, layout)
        };
        let table = make(2048).unwrap().top_table(TopTable::is_flat);
        assert_eq!(table.map(|frame| frame.number()), Some(2048));
        let error = make(2049).err().unwrap().to_string();
        assert!(error.contains("too small for the flat table"), "{error}");
    }

    #[test]
    fn added_memory_is_one_run_at_the_end() {
        // 10MB below a gap of 6MB to 8MB, a bitmap, and room for 16MB.
        let gap = IoGap { start_bytes: 6 << 20, end_bytes: 8 << 20, kept_bytes: None };
        let gap = IoGap { end_bytes: 12 << 20, ..gap };
        let layout = FrameLayout { io_gap: Some(gap), hot_add_bytes: 16 << 20 };
        let zones = ZoneLayout::Single;
        let mut memory = PhysicalMemory::with_layout(10 << 20, TopTable::HoleBitmap, zones, layout)
            .expect("valid");
        // 0–6MB and 12–16MB. 32MB are 8192 frames, whose bits take one frame: the last of the 10MB.
        assert_eq!(memory.end_frame(), 8192);
        assert_eq!(
            memory.top_table(TopTable::is_hole_bitmap).map(|frame| frame.number()),
            Some(4095)
        );
        assert_eq!(memory.zones().free_frames(), 2560 - 1);
        assert_eq!(memory.absent(), [1536..3072, 4096..8192]);
        let is_free = |memory: &PhysicalMemory, frame| {
            memory.zones().is_free(perforate_types::Frame::new(frame))
        };
        let free = [0, 1535, 1536, 3071, 3072, 4094, 4095, 4096];
        let expected = [true, true, false, false, true, true, false, false];
        assert_eq!(free.map(|frame| is_free(&memory, frame)), expected);
        assert_eq!(memory.hot_add(3000), Ok(4096..7096));
        assert_eq!(memory.memory_bytes(), (10 << 20) + 3000 * 4096);
        assert_eq!(memory.zones().free_frames(), 2559 + 3000);
        assert_eq!(memory.absent(), [1536..3072, 7096..8192]);
        assert!(is_free(&memory, 7095) && !is_free(&memory, 7096));
        assert!(matches!(memory.hot_add(1097), Err(OsError::NoRoomToAdd { .. })));
        assert_eq!(memory.hot_add(1096), Ok(7096..8192));
        memory.check(crate::memory::Recount::default()).expect("records agree");
    }

    #[test]
    fn gaps_begin_and_end_at_their_limits() {
        assert_eq!(perforate_config::read("pc"), Ok(IoGap::PC));
        assert_eq!(perforate_config::read("reclaimed"), Ok(IoGap::RECLAIMED));
        assert_eq!((IoGap::PC.start_bytes, IoGap::PC.end_bytes), (3 << 30, 4 << 30));
        assert_eq!(IoGap::RECLAIMED.kept_bytes, Some(256 << 20));
        let nothing = Err("nothing lies below the I/O gap");
        let ends = Err("the I/O gap ends before it begins");
        let odd = Err("the I/O gap begins at a multiple of 4096 and ends at a multiple of 4M");
        let more = Err("more is kept below the I/O gap than fits");
        let megabyte = 1 << 20;
        for (start_bytes, end_bytes, kept_bytes, expected) in [
            (4 * megabyte, 8 * megabyte, None, Ok(())),
            (4096, 4 * megabyte, None, Ok(())),
            (8 * megabyte - 4096, 8 * megabyte, Some(4096), Ok(())),
            (8 * megabyte, 8 * megabyte, None, ends),
            (4 * megabyte, 8 * megabyte, Some(4 * megabyte), Ok(())),
            (4 * megabyte, 8 * megabyte, Some(4 * megabyte + 4096), more),
            (4 * megabyte, 8 * megabyte, Some(0), nothing),
            (0, 8 * megabyte, Some(4096), nothing),
            (4 * megabyte, 8 * megabyte, Some(4095), odd),
            (4095, 8 * megabyte, None, odd),
            (4 * megabyte, 10 * megabyte, None, odd),
        ] {
            let gap = IoGap { start_bytes, end_bytes, kept_bytes };
            assert_eq!(gap.check(), expected, "{gap:?}");
        }
        let kept = IoGap { start_bytes: 4 << 20, end_bytes: 8 << 20, kept_bytes: Some(8192) };
        let place = |frames| FrameLayout { io_gap: Some(kept), hot_add_bytes: 0 }.place(frames);
        assert_eq!(place(2), Ok((vec![0..2; 1], 1024..1024)));
        assert_eq!(place(3), Ok((vec![0..2, 2048..2049], 3072..3072)));
        let odd = FrameLayout { io_gap: None, hot_add_bytes: 4097 };
        assert_eq!(odd.place(1), Err("memory to be added is a multiple of 4096 bytes"));
    }

    #[test]
    fn memory_is_as_small_and_as_large_as_can_be() {
        let make = |bytes, table, hot_add_bytes| {
            let layout = FrameLayout { io_gap: None, hot_add_bytes };
            let made = PhysicalMemory::with_layout(bytes, table, ZoneLayout::Single, layout);
            made.map(|memory| memory.zones().free_frames()).map_err(|error| error.to_string())
        };
        let none = TopTable::None;
        let bits = "physical addresses have 52 bits, at most 4096 TB";
        let small = "too small to map a single page; 64KB is the least";
        let flat = "too small for the flat table of the guest's memory";
        for (bytes, table, hot_add_bytes, expected) in [
            (8 * 4096, none, 0, Ok(8)),
            (7 * 4096, none, 0, Err(small)),
            (9 * 4096, TopTable::HoleBitmap, 0, Ok(8)),
            (8 * 4096, TopTable::HoleBitmap, 0, Err(small)),
            (10 * 4096, TopTable::Flat { pages: 1024 }, 0, Ok(8)),
            (10 * 4096, TopTable::Flat { pages: 1025 }, 0, Err(flat)),
            (8 * 4096 + 1, none, 0, Err("not a multiple of 4096 bytes")),
            (1 << 52, none, 0, Ok(1 << 40)),
            ((1 << 52) + 4096, none, 0, Err(bits)),
            (8 * 4096, none, 1 << 52, Ok(8)),
            (8 * 4096, none, (1 << 52) + 4096, Err(bits)),
            (8 * 4096, none, 1, Err("memory to be added is a multiple of 4096 bytes")),
        ] {
            let expected = expected.map_err(|reason| format!("memory of {bytes} bytes: {reason}"));
            assert_eq!(make(bytes, table, hot_add_bytes), expected);
        }
        // A bit for each frame: 128MB fill a frame of the bitmap.
        let frames = [1, 32_768, 32_769].map(|end| TopTable::HoleBitmap.frames(end));
        assert_eq!(frames, [1, 1, 2]);
        let frames = [1, 512, 513].map(|pages| TopTable::Flat { pages }.frames(7));
        assert_eq!((frames, TopTable::None.frames(7)), ([1, 1, 2], 0));
    }
}
