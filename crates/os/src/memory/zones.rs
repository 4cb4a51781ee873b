//! Zones: ranges of physical memory with separate free lists, as in Linux.

use perforate_config::Size;
use perforate_types::{Frame, HoleSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FreeIndex;
use super::buddy::Buddy;
use super::migrate_type::MigrateType;
use super::{BLOCK_ORDER, FRAME_BYTES};
use crate::ZoneRange;

/// Division of memory into zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", try_from = "ZoneOptions")]
pub enum ZoneLayout {
    /// One zone, `Normal`.
    #[default]
    Single,
    /// Zones of x86-64 Linux: `DMA` below 16MB, `DMA32` below 4GB, `Normal` above; without those that begin
    /// beyond the memory.
    X86,
    /// Zones below `Normal` of these sizes, multiples of 4MB; 0 for none.
    Sizes {
        /// Size of zone `DMA` in bytes. It begins at address 0.
        dma_bytes: u64,
        /// Size of zone `DMA32` in bytes. It begins at the end of `DMA`.
        dma32_bytes: u64,
    },
}

/// Options of [`ZoneLayout`]: `x86`, or `dma=16M,dma32=2G`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ZoneOptions {
    /// One zone, or those of x86-64 Linux.
    #[serde(alias = "single", alias = "x86")]
    layout: Option<NamedLayout>,
    /// Size of zone DMA, from address 0.
    dma: Option<Size>,
    /// Size of zone DMA32, above it.
    dma32: Option<Size>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum NamedLayout {
    Single,
    X86,
}

impl TryFrom<ZoneOptions> for ZoneLayout {
    type Error = &'static str;

    fn try_from(options: ZoneOptions) -> Result<Self, &'static str> {
        let bytes = |size: Option<Size>| size.unwrap_or_default().bytes();
        match options {
            ZoneOptions { layout: None, dma: None, dma32: None } => {
                Err("expected single, x86 or sizes such as dma=16M,dma32=2G")
            }
            ZoneOptions { layout: None, dma, dma32 } => {
                Ok(Self::Sizes { dma_bytes: bytes(dma), dma32_bytes: bytes(dma32) })
            }
            ZoneOptions { layout: Some(_), dma: Some(_), .. }
            | ZoneOptions { layout: Some(_), dma32: Some(_), .. } => {
                Err("single and x86 have no sizes of their own")
            }
            ZoneOptions { layout: Some(NamedLayout::Single), .. } => Ok(Self::Single),
            ZoneOptions { layout: Some(NamedLayout::X86), .. } => Ok(Self::X86),
        }
    }
}

impl ZoneLayout {
    /// Alignment of zones in bytes: a free block of the largest order.
    const ALIGNMENT_BYTES: u64 = FRAME_BYTES << Buddy::MAX_ORDER;

    /// Names of the zones below `Normal`, and the end address of each.
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

    /// Checks that a memory of `memory_bytes` bytes can be divided into these zones.
    ///
    /// # Errors
    /// Names the problem.
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

/// One zone of physical memory.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Linux's name of the zone.
    pub name: &'static str,
    /// Free frames of the zone.
    pub buddy: Buddy,
}

/// Free frames of a machine, by memory zone. An allocation tries the highest zone first, as Linux does for
/// program memory.
pub struct Zones {
    /// Memory zones in ascending order of address, without gaps.
    zones: Vec<Zone>,
    /// Index of free memory that a mechanism, such as gap-tolerant superpages, maintains.
    index: Option<Box<dyn FreeIndex>>,
    /// Number of calls so far that freed frames.
    releases: u64,
}

impl Zones {
    /// Creates memory zones for `frames` frames, all free, divided according to `layout`.
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
        Self { zones, index: None, releases: 0 }
    }

    /// Creates memory zones with these ranges of frames, all free.
    pub(crate) fn over(ranges: &[ZoneRange]) -> Self {
        let zone = |zone: &ZoneRange| {
            let buddy = Buddy::over(zone.frames.clone());
            Zone { name: zone.name, buddy }
        };
        Self { zones: ranges.iter().map(zone).collect(), index: None, releases: 0 }
    }

    /// Sets the migrate type of a 2MB block without free frames.
    pub(crate) fn set_migrate_type(&mut self, block: Frame, kind: MigrateType) {
        self.of_mut(block).set_migrate_type(block, kind);
    }

    /// The zones, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Zone> {
        self.zones.iter()
    }

    /// Number of free frames in all zones.
    pub fn free_frames(&self) -> u64 {
        self.iter().map(|zone| zone.buddy.free_frames()).sum()
    }

    /// Number of calls so far that freed frames. While it stays constant, no frame has become free.
    pub fn releases(&self) -> u64 {
        self.releases
    }

    /// Number of free blocks of exactly this order in all zones.
    ///
    /// # Panics
    /// If `order` is above [`Buddy::MAX_ORDER`].
    pub fn free_blocks(&self, order: u32) -> u64 {
        self.iter().map(|zone| zone.buddy.free_blocks(order)).sum()
    }

    /// Number of runs of wholly free 4MB blocks, and number of partly free pageblocks, in all zones.
    pub fn pieces(&self) -> (usize, usize) {
        let pieces = self.iter().map(|zone| zone.buddy.pieces());
        pieces.fold((0, 0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1))
    }

    /// True if the frame is free.
    pub fn is_free(&self, frame: Frame) -> bool {
        self.of(frame).is_free(frame)
    }

    /// Indices of the free frames of the 2MB block around a frame.
    pub fn free_in_pageblock(&self, frame: Frame) -> HoleSet {
        self.of(frame).free_in_pageblock(frame)
    }

    /// Allocates an aligned block of 2^order frames for content of migrate type `kind`.
    pub(crate) fn allocate(&mut self, order: u32, kind: MigrateType) -> Option<Frame> {
        let found =
            self.zones.iter_mut().rev().find_map(|zone| zone.buddy.allocate(order, kind))?;
        self.taken(found, 1 << order);
        Some(found)
    }

    /// Allocates adjacent frames, at most `most`: the ones that successive calls of [`Self::allocate`] for single
    /// frames would return.
    pub(crate) fn allocate_singles(
        &mut self,
        most: u64,
        kind: MigrateType,
    ) -> Option<std::ops::Range<u64>> {
        let mut zones = self.zones.iter_mut().rev();
        let found = zones.find_map(|zone| zone.buddy.allocate_singles(most, kind))?;
        self.taken(Frame::new(found.start), found.end - found.start);
        Some(found)
    }

    /// Sets the 2MB block around a frame aside, so that its frames are allocated last, or returns the block
    /// to normal use if `aside` is false.
    pub(crate) fn set_aside(&mut self, block: Frame, aside: bool) {
        self.of_mut(block).set_aside(block, aside);
    }

    /// Number of frames that were allocated from blocks set aside, because nothing else was free.
    pub(crate) fn taken_from_aside(&self) -> u64 {
        self.zones.iter().map(|zone| zone.buddy.taken_from_aside()).sum()
    }

    /// Allocates a free aligned run of `frames` frames, a multiple of 1024.
    pub(crate) fn allocate_run(&mut self, frames: u64) -> Option<Frame> {
        let found = self.zones.iter_mut().rev().find_map(|zone| zone.buddy.allocate_run(frames))?;
        self.taken(found, frames);
        Some(found)
    }

    /// Frees the block of 2^order frames at `frame`.
    pub(crate) fn free(&mut self, frame: Frame, order: u32) {
        self.of_mut(frame).free(frame, order);
        self.freed(frame, 1 << order);
    }

    /// Frees a run of `frames` frames, a multiple of 1024.
    pub(crate) fn free_run(&mut self, frame: Frame, frames: u64) {
        self.of_mut(frame).free_run(frame, frames);
        self.freed(frame, frames);
    }

    /// Allocates all free frames of these 2MB blocks, by number. The blocks must be in one zone.
    pub(crate) fn take_blocks(&mut self, numbers: std::ops::Range<u64>) {
        let first = Frame::new(numbers.start << BLOCK_ORDER);
        self.of_mut(first).take_pageblocks(numbers.clone());
        self.taken(first, (numbers.end - numbers.start) << BLOCK_ORDER);
    }

    /// Allocates these frames, all of which must be free.
    pub(crate) fn take_range(&mut self, frames: std::ops::Range<u64>) {
        let block = 1 << BLOCK_ORDER;
        self.taken(Frame::new(frames.start), frames.end - frames.start);
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

    /// Allocates exactly this frame. Returns false if it is not free.
    pub(crate) fn take(&mut self, frame: Frame) -> bool {
        let was_free = self.of_mut(frame).take(frame);
        if was_free {
            self.taken(frame, 1);
        }
        was_free
    }

    /// Installs a mechanism's empty index of free memory, and fills it with the free memory.
    pub(crate) fn set_index(&mut self, mut index: Box<dyn FreeIndex>) {
        let order = index.block_order();
        for zone in &self.zones {
            for (first, frames) in zone.buddy.free_runs() {
                index.freed(first.number() >> order..(first.number() + frames) >> order);
            }
            for (first, free) in zone.buddy.partly_free() {
                let blocks = first.number() >> order..(first.number() >> order) + (512 >> order);
                let usable = |block: &u64| is_block_in(&free, *block << order, order);
                blocks.filter(usable).for_each(|block| index.freed(block..block + 1));
            }
        }
        self.index = Some(index);
    }

    /// The mechanism's index of free memory, if there is one.
    pub(crate) fn index(&self) -> Option<&dyn FreeIndex> {
        self.index.as_deref()
    }

    /// The mechanism's index of free memory, mutably, if there is one.
    pub(crate) fn index_mut(&mut self) -> Option<&mut (dyn FreeIndex + 'static)> {
        self.index.as_deref_mut()
    }

    /// Checks that the mechanism's index of free memory agrees with the free frames.
    pub(crate) fn check_index(&self) -> Result<(), String> {
        let Some(index) = &self.index else { return Ok(()) };
        let end = self.zones.last().map_or(0, |zone| zone.buddy.range().end);
        let frames = 1 << index.block_order();
        index.check(&|block| {
            block.number() + frames <= end
                && (0..frames).all(|index| self.is_free(block.add(index)))
        })
    }

    #[inline]
    fn taken(&mut self, first: Frame, frames: u64) {
        if let Some(index) = self.index.as_mut().filter(|_| frames > 0) {
            index.taken(first.number()..first.number() + frames);
        }
    }

    /// Counts a call that freed frames, and notifies the mechanism's index of blocks now wholly free.
    #[inline]
    fn freed(&mut self, first: Frame, frames: u64) {
        self.releases += 1;
        let Some(order) = self.index.as_ref().map(|index| index.block_order()) else { return };
        let block = first.number() >> order;
        let blocks = if frames >= 1 << order {
            block..(first.number() + frames) >> order
        } else if is_block_in(&self.free_in_pageblock(first), block << order, order) {
            block..block + 1
        } else {
            return;
        };
        self.index.as_mut().expect("kept").freed(blocks);
    }

    fn of(&self, frame: Frame) -> &Buddy {
        &self.zones[self.place(frame)].buddy
    }

    fn of_mut(&mut self, frame: Frame) -> &mut Buddy {
        let place = self.place(frame);
        &mut self.zones[place].buddy
    }

    /// Index of the zone that contains the frame: the last zone that does not start after the frame.
    fn place(&self, frame: Frame) -> usize {
        let starts_behind = |zone: &Zone| zone.buddy.range().start > frame.number();
        self.zones.iter().rposition(|zone| !starts_behind(zone)).expect("the first starts at 0")
    }
}

/// True if all frames of the block of `order` at frame `first` are in `free`, the set of free
/// frames in its 2MB block.
fn is_block_in(free: &HoleSet, first: u64, order: u32) -> bool {
    let index = first as usize % HoleSet::SUBPAGES;
    let frames = !0_u64 >> (64 - (1 << order)) << (index % 64);
    free.words()[index / 64] & frames == frames
}

#[cfg(test)]
mod tests {
    use perforate_config::read;

    use super::*;

    #[test]
    fn layouts_are_read_by_name_or_by_sizes() {
        let sizes = |dma_bytes, dma32_bytes| Ok(ZoneLayout::Sizes { dma_bytes, dma32_bytes });
        let own = Err("single and x86 have no sizes of their own");
        for (text, expected) in [
            ("single", Ok(ZoneLayout::Single)),
            ("x86", Ok(ZoneLayout::X86)),
            ("dma=16M,dma32=2G", sizes(16 << 20, 2 << 30)),
            ("dma=16M", sizes(16 << 20, 0)),
            ("dma32=2G", sizes(0, 2 << 30)),
            ("x86,dma=16M", own),
            ("x86,dma32=16M", own),
            ("single,dma32=16M", own),
            ("default", Err("expected single, x86 or sizes such as dma=16M,dma32=2G")),
        ] {
            let found = read::<ZoneLayout>(text).map_err(|error| error.to_string());
            match expected {
                Ok(layout) => assert_eq!(found, Ok(layout), "{text}"),
                Err(reason) => assert!(found.clone().unwrap_err().contains(reason), "{found:?}"),
            }
        }
        assert_eq!(ZoneLayout::default(), ZoneLayout::Single);
    }

    #[test]
    fn sizes_are_multiples_of_4mb_and_fit_into_memory() {
        let odd = Err("zones are multiples of 4M");
        let large = Err("the zones are larger than the memory");
        for (dma_bytes, dma32_bytes, memory_bytes, expected) in [
            (0, 0, 0, Ok(())),
            (4 << 20, 8 << 20, 12 << 20, Ok(())),
            (4 << 20, 8 << 20, (12 << 20) - 4096, large),
            ((4 << 20) + 4096, 8 << 20, 1 << 30, odd),
            (4 << 20, (8 << 20) - 4096, 1 << 30, odd),
            (u64::MAX - (4 << 20) + 1, 8 << 20, 1 << 30, large),
        ] {
            let layout = ZoneLayout::Sizes { dma_bytes, dma32_bytes };
            assert_eq!(layout.check(memory_bytes), expected, "{layout:?}");
        }
        assert_eq!(ZoneLayout::X86.check(4096), Ok(()));
    }

    #[test]
    fn zones_follow_each_other_up_to_the_end() {
        let zones = |frames, layout| -> Vec<_> {
            let zones = Zones::new(frames, layout);
            zones.iter().map(|zone| (zone.name, zone.buddy.range())).collect()
        };
        let (megabyte, gigabyte) = (256, 1 << 18);
        let x86 = |frames| zones(frames, ZoneLayout::X86);
        assert_eq!(x86(0), [("Normal", 0..0)]);
        assert_eq!(x86(16 * megabyte), [("DMA", 0..4096)]);
        assert_eq!(x86(16 * megabyte + 1), [("DMA", 0..4096), ("DMA32", 4096..4097)]);
        let (low, high) = (("DMA32", 4096..4 * gigabyte), ("Normal", 4 * gigabyte..5 * gigabyte));
        assert_eq!(x86(4 * gigabyte), [("DMA", 0..4096), low.clone()]);
        assert_eq!(x86(5 * gigabyte), [("DMA", 0..4096), low, high]);
        assert_eq!(zones(7, ZoneLayout::Single), [("Normal", 0..7)]);
        let sizes = ZoneLayout::Sizes { dma_bytes: 0, dma32_bytes: 4 << 20 };
        assert_eq!(zones(2048, sizes), [("DMA32", 0..1024), ("Normal", 1024..2048)]);
    }

    #[test]
    fn ranges_and_frees_reach_over_zones() {
        let sizes = ZoneLayout::Sizes { dma_bytes: 4 << 20, dma32_bytes: 4 << 20 };
        let mut zones = Zones::new(4096, sizes);
        zones.take_range(100..3000);
        let free: Vec<u64> = zones.iter().map(|zone| zone.buddy.free_frames()).collect();
        assert_eq!(free, [100, 0, 4096 - 3000]);
        assert_eq!(zones.free_frames(), 1196);
        let of = |frame| zones.is_free(Frame::new(frame));
        assert_eq!([99, 100, 2999, 3000, 4095].map(of), [true, false, false, true, true]);
        let releases = zones.releases();
        zones.free(Frame::new(1023), 0);
        zones.free(Frame::new(1024), 10);
        assert_eq!(zones.releases() - releases, 2);
        let free: Vec<u64> = zones.iter().map(|zone| zone.buddy.free_frames()).collect();
        assert_eq!(free, [101, 1024, 1096]);
        // The highest zone comes first; of the others, the higher one.
        let order = [9, 10, 0].map(|order| zones.allocate(order, MigrateType::Movable));
        let found = order.map(|frame| frame.map(|frame| frame.number() / 1024));
        assert_eq!(found, [Some(3), Some(1), Some(2)]);
        assert_eq!(zones.allocate(10, MigrateType::Movable), None);
    }
}
