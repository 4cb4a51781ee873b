//! Zones: ranges of physical memory with free lists of their own.

use perforate_types::{Frame, HoleSet};
use serde::{Deserialize, Serialize};

use super::buddy::Buddy;
use super::migrate_type::MigrateType;
use super::{BLOCK_ORDER, FRAME_BYTES};

/// How memory is divided into zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneLayout {
    /// One zone, `Normal`.
    #[default]
    Single,
    /// Those of x86-64 Linux: `DMA` below 16MB, `DMA32` below 4GB, `Normal`; as far as the memory
    /// goes.
    X86,
    /// Zones below `Normal` of these sizes, multiples of 4MB; 0 for none.
    Sizes {
        /// `DMA`, from address 0.
        dma_bytes: u64,
        /// `DMA32`, above it.
        dma32_bytes: u64,
    },
}

impl ZoneLayout {
    /// Zones begin where free blocks of the largest order do.
    const ALIGNMENT_BYTES: u64 = FRAME_BYTES << Buddy::MAX_ORDER;

    /// Names of the zones below `Normal`, and the first address after each.
    fn ends_bytes(self) -> [(&'static str, u64); 2] {
        let (dma, dma32) = match self {
            Self::Single => (0, 0),
            Self::X86 => (16 << 20, 4 << 30),
            Self::Sizes { dma_bytes, dma32_bytes } => {
                (dma_bytes, dma_bytes.saturating_add(dma32_bytes))
            }
        };
        [("DMA", dma), ("DMA32", dma32)]
    }

    /// Looks whether a memory can be divided so.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(self, memory_bytes: u64) -> Result<(), &'static str> {
        let Self::Sizes { dma_bytes, dma32_bytes } = self else { return Ok(()) };
        if [dma_bytes, dma32_bytes].iter().any(|bytes| bytes % Self::ALIGNMENT_BYTES != 0) {
            return Err("zones are multiples of 4M");
        }
        if dma_bytes.saturating_add(dma32_bytes) > memory_bytes {
            return Err("the zones are larger than the memory");
        }
        Ok(())
    }
}

/// One zone.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Linux's name for it.
    pub name: &'static str,
    /// Its free frames.
    pub buddy: Buddy,
}

/// The free frames of a machine, by zone. An allocation tries the highest zone first, as Linux
/// does for memory of programs.
#[derive(Clone, Debug)]
pub struct Zones {
    /// Lowest first; without gaps.
    zones: Vec<Zone>,
}

impl Zones {
    /// `frames` frames, all free.
    pub(crate) fn new(frames: u64, layout: ZoneLayout) -> Self {
        let mut zones = Vec::new();
        let mut start = 0;
        for (name, end_bytes) in layout.ends_bytes() {
            let end = (end_bytes / FRAME_BYTES).min(frames);
            if start < end {
                zones.push(Zone { name, buddy: Buddy::over(start..end) });
            }
            start = end;
        }
        if start < frames || zones.is_empty() {
            zones.push(Zone { name: "Normal", buddy: Buddy::over(start..frames) });
        }
        Self { zones }
    }

    /// The zones, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Zone> {
        self.zones.iter()
    }

    /// Number of free frames.
    pub fn free_frames(&self) -> u64 {
        self.iter().map(|zone| zone.buddy.free_frames()).sum()
    }

    /// Free blocks of exactly this order.
    ///
    /// # Panics
    /// If `order` is above [`Buddy::MAX_ORDER`].
    pub fn free_blocks(&self, order: u32) -> u64 {
        self.iter().map(|zone| zone.buddy.free_blocks(order)).sum()
    }

    /// Runs of wholly free 4MB blocks, and pageblocks with state, that is, partly free ones.
    pub fn pieces(&self) -> (usize, usize) {
        let pieces = self.iter().map(|zone| zone.buddy.pieces());
        pieces.fold((0, 0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1))
    }

    /// Whether this frame is free.
    pub fn is_free(&self, frame: Frame) -> bool {
        self.of(frame).is_free(frame)
    }

    /// The free frames of the 2MB around a frame, by their place in it.
    pub fn free_in_pageblock(&self, frame: Frame) -> HoleSet {
        self.of(frame).free_in_pageblock(frame)
    }

    /// An aligned block of 2^order frames for contents of this type.
    pub(crate) fn allocate(&mut self, order: u32, kind: MigrateType) -> Option<Frame> {
        self.zones.iter_mut().rev().find_map(|zone| zone.buddy.allocate(order, kind))
    }

    /// A free aligned run of `frames` frames, a multiple of 1024.
    pub(crate) fn allocate_run(&mut self, frames: u64) -> Option<Frame> {
        self.zones.iter_mut().rev().find_map(|zone| zone.buddy.allocate_run(frames))
    }

    /// Gives back the block of 2^order frames at `frame`.
    pub(crate) fn free(&mut self, frame: Frame, order: u32) {
        self.of_mut(frame).free(frame, order);
    }

    /// Gives back a run of `frames` frames, a multiple of 1024.
    pub(crate) fn free_run(&mut self, frame: Frame, frames: u64) {
        self.of_mut(frame).free_run(frame, frames);
    }

    /// Takes all free frames of these 2MB blocks, by number. They lie in one zone.
    pub(crate) fn take_blocks(&mut self, numbers: std::ops::Range<u64>) {
        self.of_mut(Frame::new(numbers.start << BLOCK_ORDER)).take_pageblocks(numbers);
    }

    /// Takes these frames, which are all free.
    pub(crate) fn take_range(&mut self, frames: std::ops::Range<u64>) {
        let block = 1 << BLOCK_ORDER;
        let mut next = frames.start;
        while next < frames.end {
            let place = self.place(Frame::new(next));
            let buddy = &mut self.zones[place].buddy;
            let end = frames.end.min(buddy.range().end);
            let blocks = next / block..end / block;
            if next.is_multiple_of(block) && !blocks.is_empty() {
                next = blocks.end * block;
                buddy.take_pageblocks(blocks);
            } else {
                assert!(buddy.take(Frame::new(next)), "frame was free");
                next += 1;
            }
        }
    }

    /// Takes exactly this frame; returns whether it was free.
    pub(crate) fn take(&mut self, frame: Frame) -> bool {
        self.of_mut(frame).take(frame)
    }

    fn of(&self, frame: Frame) -> &Buddy {
        &self.zones[self.place(frame)].buddy
    }

    fn of_mut(&mut self, frame: Frame) -> &mut Buddy {
        let place = self.place(frame);
        &mut self.zones[place].buddy
    }

    /// The last zone that does not start behind the frame.
    fn place(&self, frame: Frame) -> usize {
        let starts_behind = |zone: &Zone| zone.buddy.range().start > frame.number();
        self.zones.iter().rposition(|zone| !starts_behind(zone)).expect("the first starts at 0")
    }
}
