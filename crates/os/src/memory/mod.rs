//! Physical memory of the machine: free frames, reference counts, and frames that the rest of the
//! system uses.

mod block;
mod buddy;
mod check;
mod contiguous;
mod free_index;
mod layout;
mod migrate_type;
mod number_set;
mod others;
mod owners;
mod pageblock;
mod pressure;
mod references;
mod residents;
mod runs;
mod swap;
mod zones;

use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;

use perforate_types::{Frame, HoleSet, PageSize, SpaceId, VirtualPage};

use crate::OsError;
pub(crate) use block::BlockContents;
pub use buddy::Buddy;
pub use check::{Recount, expect};
pub(crate) use contiguous::{Run, WantedRun};
pub use free_index::FreeIndex;
pub(crate) use layout::FrameLayout;
pub use layout::IoGap;
pub use migrate_type::MigrateType;
pub use others::OtherUse;
use others::Others;
pub(crate) use owners::Owner;
use owners::Owners;
pub use pressure::Pressure;
use pressure::Watermarks;
use references::References;
use residents::Residents;
pub(crate) use swap::Swap;
pub use zones::{Zone, ZoneLayout, Zones};

/// Size of a frame in bytes.
pub(crate) const FRAME_BYTES: u64 = 4096;
/// Order of a 2MB block.
pub(crate) const BLOCK_ORDER: u32 = 9;

/// A physical 2MB block for one virtual region for which the option `fragmentation` generates holes. Data of
/// other owners occupy the frames of the holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Number of the virtual 2MB region for which the holes were generated.
    pub region: u64,
    /// First frame of the 2MB block.
    pub block: Frame,
}

/// Physical memory with its allocator and reference counts.
pub struct PhysicalMemory {
    memory_bytes: u64,
    /// Ranges of frames that have memory, in ascending order.
    present: Vec<Range<u64>>,
    /// Frames that can still be hot-added.
    addable: Range<u64>,
    /// First frame of hot-added memory.
    added_from: u64,
    end_frame: u64,
    zones: Zones,
    references: References,
    owners: Owners,
    /// True if a shared frame lost a mapping, so that its recorded owner may be stale.
    owners_stale: bool,
    others: Others,
    /// Frames of the snapshot that still hold their content; `None` without a snapshot.
    residents: Option<Residents>,
    watermarks: Watermarks,
    pressure: Pressure,
    /// Swap space for pages that have no frame.
    pub(crate) swap: Swap,
    retired_frames: u64,
    top_table: TopTable,
    /// Frames of the hole bitmap or flat table that is reserved at the top of memory.
    top_frames: Range<u64>,
    foreign_frames: u64,
    /// Holes that the option `fragmentation` made in physical 2MB blocks: first frame of block, indices of
    /// holes.
    drawn_holes: Vec<(Frame, HoleSet)>,
    /// Physical 2MB blocks with generated holes that no address space uses at present, by virtual region. The
    /// next mapping of the region reuses them.
    parked: HashMap<u64, Vec<Frame>>,
    /// Virtual 2MB pages with holes that map each physical 2MB block, by number of the block's first frame.
    holed: HashMap<u64, Vec<(SpaceId, VirtualPage)>>,
}

/// Table that hardware reads at a fixed physical address, for which the kernel reserves the top of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TopTable {
    #[default]
    None,
    /// Hole bitmap: one bit for each possible frame (P §IV).
    HoleBitmap,
    /// Flat table with an 8-byte entry for each page of a guest (D §X).
    Flat { pages: u64 },
}

impl TopTable {
    /// Number of frames that the hole bitmap or flat table takes in a memory that ends at `end_frame`.
    fn frames(self, end_frame: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::HoleBitmap => end_frame.div_ceil(8 * FRAME_BYTES),
            Self::Flat { pages } => (8 * pages).div_ceil(FRAME_BYTES),
        }
    }

    pub(crate) fn is_hole_bitmap(self) -> bool {
        self == Self::HoleBitmap
    }

    pub(crate) fn is_flat(self) -> bool {
        matches!(self, Self::Flat { .. })
    }
}

impl PhysicalMemory {
    /// Creates a memory of `memory_bytes` bytes without gaps; see [`Self::with_layout`].
    #[cfg(test)]
    pub(crate) fn new(memory_bytes: u64, zones: ZoneLayout) -> Result<Self, OsError> {
        Self::with_layout(memory_bytes, TopTable::None, zones, FrameLayout::default())
    }

    /// Creates a memory of `memory_bytes` bytes, with room at its top for a hole bitmap or flat table.
    pub(crate) fn with_layout(
        memory_bytes: u64,
        top_table: TopTable,
        zones: ZoneLayout,
        layout: FrameLayout,
    ) -> Result<Self, OsError> {
        let invalid = |reason| OsError::InvalidMemory { memory_bytes, reason };
        let frames = memory_bytes / FRAME_BYTES;
        if !memory_bytes.is_multiple_of(FRAME_BYTES) {
            return Err(invalid("not a multiple of 4096 bytes"));
        }
        if memory_bytes > 1 << 52 || layout.hot_add_bytes > 1 << 52 {
            return Err(invalid("physical addresses have 52 bits, at most 4096 TB"));
        }
        zones.check(memory_bytes).map_err(invalid)?;
        let (present, addable) = layout.place(frames).map_err(invalid)?;
        let boot_end = present.last().map_or(0, |range| range.end);
        let end_frame = if addable.is_empty() { boot_end } else { addable.end };
        let top_frames = top_table.frames(end_frame);
        let last_frames = present.last().map_or(0, |range| range.end - range.start);
        // The first page needs four table nodes (one of them a pair of frames) and a frame.
        if last_frames < top_frames || frames < top_frames + 8 {
            return Err(invalid(match top_table {
                TopTable::Flat { .. } => "too small for the flat table of the guest's memory",
                _ => "too small to map a single page; 64KB is the least",
            }));
        }
        let top_frames = boot_end - top_frames..boot_end;
        let usable = if addable.is_empty() { top_frames.start } else { end_frame };
        let mut zones = Zones::new(usable, zones);
        let absent = layout::gaps(&present, end_frame);
        // If no memory can be added, the table lies beyond all zones.
        let reserved = (!addable.is_empty()).then(|| top_frames.clone());
        absent.into_iter().chain(reserved).for_each(|range| zones.take_range(range));
        Ok(Self::over(zones, present, addable, end_frame, top_table, top_frames))
    }

    /// Creates a memory with the given zones and address ranges, and with frames reserved at its top for a
    /// hole bitmap or flat table.
    fn over(
        zones: Zones,
        present: Vec<Range<u64>>,
        addable: Range<u64>,
        end_frame: u64,
        top_table: TopTable,
        top_frames: Range<u64>,
    ) -> Self {
        let frames: u64 = present.iter().map(|range| range.end - range.start).sum();
        Self {
            memory_bytes: frames * FRAME_BYTES,
            present,
            added_from: addable.start,
            addable,
            end_frame,
            zones,
            references: References::default(),
            owners: Owners::default(),
            owners_stale: false,
            others: Others::default(),
            residents: None,
            watermarks: Watermarks::of(frames - (top_frames.end - top_frames.start)),
            pressure: Pressure::default(),
            swap: Swap::default(),
            retired_frames: 0,
            top_table,
            top_frames,
            foreign_frames: 0,
            drawn_holes: Vec::new(),
            parked: HashMap::new(),
            holed: HashMap::new(),
        }
    }

    /// Sets the size of the swap space in bytes.
    pub(crate) fn set_swap_bytes(&mut self, bytes: u64) {
        self.swap = Swap::new(bytes);
    }

    /// Size of the memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// First frame of the hole bitmap or flat table at the top of memory; `None` unless `is_wanted` for its
    /// kind.
    pub(crate) fn top_table(&self, is_wanted: fn(TopTable) -> bool) -> Option<Frame> {
        is_wanted(self.top_table).then(|| Frame::new(self.top_frames.start))
    }

    /// Number of frames of the hole bitmap or flat table at the top of memory; 0 unless `is_wanted` for its
    /// kind.
    pub(crate) fn top_table_frames(&self, is_wanted: fn(TopTable) -> bool) -> u64 {
        let frames = self.top_frames.end - self.top_frames.start;
        if is_wanted(self.top_table) { frames } else { 0 }
    }

    /// Number of frames that the option `fragmentation` occupies with unmovable data at generated holes.
    pub(crate) fn foreign_frames(&self) -> u64 {
        self.foreign_frames
    }

    /// Memory zones with their free frames.
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Allocates a frame for a page of a program.
    pub fn allocate_page(&mut self) -> Result<Frame, OsError> {
        self.allocate_pages(0)
    }

    /// Allocates an aligned run of 2^order frames for pages of a program.
    pub(crate) fn allocate_pages(&mut self, order: u32) -> Result<Frame, OsError> {
        self.allocate(order, MigrateType::Movable)
    }

    /// True if an aligned run of 2^order frames is free.
    pub(crate) fn has_free(&self, order: u32) -> bool {
        (order..=Buddy::MAX_ORDER).any(|order| self.zones.free_blocks(order) > 0)
    }

    /// Allocates an aligned run of 2^order frames for nodes of page tables.
    pub(crate) fn allocate_nodes(&mut self, order: u32) -> Result<Frame, OsError> {
        self.allocate(order, MigrateType::Unmovable)
    }

    /// True if a whole 2MB block is free.
    pub(crate) fn has_free_block(&self) -> bool {
        self.has_free(BLOCK_ORDER)
    }

    /// Installs `index`, which must be empty, as the mechanism's own index of free memory.
    pub(crate) fn set_free_index(&mut self, index: Box<dyn FreeIndex>) {
        self.zones.set_index(index);
    }

    /// True if the frame is free.
    pub fn is_free(&self, frame: Frame) -> bool {
        self.zones.is_free(frame)
    }

    /// The mechanism's own index of free memory, if it has type `T`.
    pub fn free_index<T: FreeIndex>(&self) -> Option<&T> {
        (self.zones.index()? as &dyn Any).downcast_ref()
    }

    /// The mechanism's own index of free memory, mutably, if it has type `T`.
    pub fn free_index_mut<T: FreeIndex>(&mut self) -> Option<&mut T> {
        (self.zones.index_mut()? as &mut dyn Any).downcast_mut()
    }

    /// Frames of the zones in allocation order: highest zone first.
    pub fn zone_frames(&self) -> impl Iterator<Item = Range<u64>> {
        self.zones.iter().rev().map(|zone| zone.buddy.range())
    }

    /// Allocates these frames, all of which must be free.
    pub fn take_range(&mut self, frames: Range<u64>) {
        self.zones.take_range(frames);
    }

    /// Fragments physical 2MB blocks, given by number: allocates the frames at their `holes` permanently, as
    /// far as they are free.
    pub(crate) fn inject_holes(
        &mut self,
        blocks: Range<u64>,
        holes: impl Fn(u64) -> Option<HoleSet>,
    ) {
        let end = self.zone_frames().next().map_or(0, |frames| frames.end) >> BLOCK_ORDER;
        for number in blocks.start..blocks.end.min(end) {
            let block = Frame::new(number << BLOCK_ORDER);
            let holes = holes(number).unwrap_or(HoleSet::EMPTY);
            let taken: HoleSet =
                holes.iter().filter(|&index| self.zones.take(block.add(index as u64))).collect();
            if !taken.is_empty() {
                self.foreign_frames += taken.count() as u64;
                self.drawn_holes.push((block, taken));
            }
        }
    }

    /// Holes that [`Self::inject_holes`] allocated: first frame of the block, and indices of the
    /// holes.
    pub(crate) fn drawn_holes(&self) -> &[(Frame, HoleSet)] {
        &self.drawn_holes
    }

    /// Allocates a whole 2MB block for pages of a program.
    pub(crate) fn allocate_block(&mut self) -> Option<Frame> {
        self.allocate_folio(BLOCK_ORDER)
    }

    /// Allocates an aligned block of 2^order frames for pages of a program; `None` if none is free.
    pub(crate) fn allocate_folio(&mut self, order: u32) -> Option<Frame> {
        self.zones.allocate(order, MigrateType::Movable)
    }

    /// Retires a faulty frame permanently. Returns false if the frame is not free.
    pub(crate) fn retire(&mut self, frame: Frame) -> bool {
        let taken = self.zones.take(frame);
        if taken {
            self.owners.set(frame, Owner::Retired);
            self.retired_frames += 1;
        }
        taken
    }

    /// Number of the first frame above all zones. Only a hole bitmap or flat table can lie from there on.
    pub(crate) fn usable_frames(&self) -> u64 {
        self.zones.iter().next_back().map_or(0, |zone| zone.buddy.range().end)
    }

    /// Retires faulty frames before memory is used. Frames of the hole bitmap or flat table count as good,
    /// because firmware that knows the faults would place the table elsewhere.
    pub(crate) fn retire_all(&mut self, faulty: &[u64]) {
        let usable = self.usable_frames();
        for &frame in faulty.iter().filter(|&&frame| frame < usable) {
            self.retire(Frame::new(frame));
        }
    }

    /// Number of retired frames.
    pub(crate) fn retired_frames(&self) -> u64 {
        self.retired_frames
    }

    /// Allocates an aligned 1GB run of frames; `None` if none is free.
    pub(crate) fn allocate_huge(&mut self) -> Option<Frame> {
        self.zones.allocate_run(PageSize::Size1G.pages())
    }

    /// Frees a run of 2^order frames that has a single owner, such as a table node.
    pub fn free(&mut self, frame: Frame, order: u32) {
        self.owners.clear(frame, 1 << order);
        self.zones.free(frame, order);
    }

    /// Frees an aligned 1GB run.
    pub(crate) fn free_huge(&mut self, frame: Frame) {
        for block in blocks_of_huge(frame) {
            self.owners.clear(block, 1 << BLOCK_ORDER);
        }
        self.zones.free_run(frame, PageSize::Size1G.pages());
    }

    /// Allocates exactly `frame`. Returns false if it is not free.
    pub fn take(&mut self, frame: Frame) -> bool {
        self.zones.take(frame)
    }

    /// Adds a reference to `frame`, for a further mapping.
    pub fn share(&mut self, frame: Frame) {
        self.references.add(frame);
    }

    /// Adds a reference to each frame of the block in `subpages`.
    pub fn share_block(&mut self, block: Frame, subpages: &HoleSet) {
        for index in subpages.iter() {
            self.references.add(block.add(index as u64));
        }
    }

    /// Adds a reference to each frame of a 1GB run.
    pub(crate) fn share_huge(&mut self, run: Frame) {
        for block in blocks_of_huge(run) {
            self.share_block(block, &HoleSet::FULL);
        }
    }

    /// True if `frame` has several mappings.
    pub fn is_shared(&self, frame: Frame) -> bool {
        self.references.is_shared(frame)
    }

    /// True if any of these frames of the block has several mappings.
    pub fn any_shared(&self, block: Frame, subpages: &HoleSet) -> bool {
        self.references.has_shared(block)
            && subpages.iter().any(|index| self.is_shared(block.add(index as u64)))
    }

    /// Drops a reference to `frame`. Dropping the last one frees the frame.
    pub fn release(&mut self, frame: Frame) {
        if self.references.remove(frame) {
            self.free(frame, 0);
        } else if !self.references.is_shared(frame) {
            self.owners_stale = true;
        }
    }

    /// Drops a reference to each frame of the block in `subpages`.
    pub fn release_block(&mut self, block: Frame, subpages: &HoleSet) {
        if !self.references.has_shared(block) {
            self.free_frames_of(block, subpages);
            return;
        }
        for index in subpages.iter() {
            self.release(block.add(index as u64));
        }
    }

    /// Number of wholly free 2MB blocks.
    pub(crate) fn whole_free_blocks(&self) -> u64 {
        let orders = BLOCK_ORDER..=Buddy::MAX_ORDER;
        orders.map(|order| self.zones.free_blocks(order) << (order - BLOCK_ORDER)).sum()
    }

    /// Number of free frames in blocks smaller than 2MB.
    pub(crate) fn small_free_frames(&self) -> u64 {
        (0..BLOCK_ORDER).map(|order| self.zones.free_blocks(order) << order).sum()
    }

    /// True if any frame of a 1GB run has several mappings.
    pub(crate) fn any_shared_huge(&self, run: Frame) -> bool {
        blocks_of_huge(run).any(|block| self.references.has_shared(block))
    }

    /// Drops a reference to each frame of a 1GB run.
    pub(crate) fn release_huge(&mut self, run: Frame) {
        if !self.any_shared_huge(run) {
            self.free_huge(run);
            return;
        }
        for block in blocks_of_huge(run) {
            self.release_block(block, &HoleSet::FULL);
        }
    }

    /// Allocates a physical 2MB block for virtual 2MB region `region`, for which the option `fragmentation`
    /// generates `holes`. Unmovable data of other owners occupy the holes. The other frames belong to the
    /// caller. `None` if no block is free.
    ///
    /// If a block of an earlier mapping of the region has all its other frames free, it is reused. Otherwise
    /// the unmovable data count as moved to the new block, so that mapping and unmapping a region repeatedly
    /// does not use up memory.
    pub(crate) fn allocate_fragment(&mut self, region: u64, holes: &HoleSet) -> Option<Fragment> {
        let parked = self.parked.get(&region).cloned().unwrap_or_default();
        for (place, &block) in parked.iter().enumerate() {
            if self.take_all(block, &complement(holes)) {
                self.unpark(region, place);
                return Some(Fragment { region, block });
            }
        }
        let block = self.allocate_block()?;
        if let Some(&old) = parked.first() {
            self.unpark(region, 0);
            self.release_block(old, holes);
        } else {
            self.foreign_frames += holes.count() as u64;
        }
        Some(Fragment { region, block })
    }

    /// Like [`Self::allocate_fragment`], but frees all frames of the block except the holes.
    pub(crate) fn occupy_fragment(&mut self, region: u64, holes: &HoleSet) -> Option<Fragment> {
        if let Some(&block) = self.parked.get(&region).and_then(|blocks| blocks.first()) {
            self.unpark(region, 0);
            return Some(Fragment { region, block });
        }
        let fragment = self.allocate_fragment(region, holes)?;
        self.release_block(fragment.block, &complement(holes));
        Some(fragment)
    }

    /// Stores a physical 2MB block with generated holes for the next mapping of its virtual region. The
    /// frames of the holes stay occupied.
    pub(crate) fn park(&mut self, fragment: Fragment) {
        self.parked.entry(fragment.region).or_default().push(fragment.block);
    }

    /// Physical 2MB blocks with generated holes that no address space uses at present.
    pub(crate) fn parked_fragments(&self) -> impl Iterator<Item = Fragment> + '_ {
        self.parked.iter().flat_map(|(&region, blocks)| {
            blocks.iter().map(move |&block| Fragment { region, block })
        })
    }

    fn unpark(&mut self, region: u64, place: usize) {
        let blocks = self.parked.get_mut(&region).expect("parked");
        blocks.remove(place);
        if blocks.is_empty() {
            self.parked.remove(&region);
        }
    }

    fn take_all(&mut self, block: Frame, subpages: &HoleSet) -> bool {
        if !subpages.iter().all(|index| self.zones.is_free(block.add(index as u64))) {
            return false;
        }
        self.take_frames(block, subpages);
        true
    }

    /// Records that `page` of `space` maps `block` as a 2MB page with holes. Free frames of the
    /// block are the in-place frames of holes, so they are allocated last.
    pub fn add_holed(&mut self, block: Frame, space: SpaceId, page: VirtualPage) {
        let users = self.holed.entry(block.number()).or_default();
        users.push((space, page));
        if users.len() == 1 {
            self.zones.set_aside(block, true);
        }
    }

    /// Removes the record that `page` of `space` maps `block` as a 2MB page with holes.
    pub fn remove_holed(&mut self, block: Frame, space: SpaceId, page: VirtualPage) {
        let users = self.holed.get_mut(&block.number()).expect("a page with holes");
        users.retain(|&user| user != (space, page));
        if users.is_empty() {
            self.holed.remove(&block.number());
            self.zones.set_aside(block, false);
        }
    }

    /// Number of in-place frames of holes that were allocated for other data because nothing else
    /// was free.
    pub(crate) fn hole_places_taken(&self) -> u64 {
        self.zones.taken_from_aside()
    }

    /// The 2MB pages with holes that are mapped to `block`.
    pub fn holed_pages_of(&self, block: Frame) -> &[(SpaceId, VirtualPage)] {
        self.holed.get(&block.number()).map_or(&[], Vec::as_slice)
    }

    fn exhausted(&self, asked_bytes: u64) -> OsError {
        OsError::OutOfMemory {
            asked_bytes,
            free_bytes: self.zones.free_frames() * FRAME_BYTES,
            memory_bytes: self.memory_bytes,
            enough_bytes: self.memory_bytes + asked_bytes,
        }
    }
}

/// First frames of the 2MB blocks of a 1GB run.
pub(crate) fn blocks_of_huge(run: Frame) -> impl Iterator<Item = Frame> {
    (0..512).map(move |index| run.add(index * PageSize::Size2M.pages()))
}

/// Indices of the 4KB frames of a 2MB block that are not in `holes`.
pub fn complement(holes: &HoleSet) -> HoleSet {
    HoleSet::from_words(holes.words().map(|word| !word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(blocks: u64) -> PhysicalMemory {
        PhysicalMemory::new(blocks << 21, ZoneLayout::Single).expect("valid")
    }

    fn parked(memory: &PhysicalMemory) -> Vec<(u64, u64)> {
        let all = memory.parked_fragments();
        let mut all: Vec<_> = all.map(|it| (it.region, it.block.number() >> 9)).collect();
        all.sort_unstable();
        all
    }

    /// Others' data stay in their frames for the next mapping of a region, and are counted once.
    #[test]
    fn a_region_has_its_fragment_back() {
        let mut memory = memory(8);
        let holes: HoleSet = (0..100).collect();
        let all = 8 * 512;
        let made = memory.allocate_fragment(7, &holes).expect("a block is free");
        assert_eq!((made.region, memory.foreign_frames()), (7, 100));
        assert_eq!(memory.zones.free_frames(), all - 512);
        memory.release_block(made.block, &complement(&holes));
        memory.park(made);
        assert_eq!(parked(&memory), [(7, made.block.number() >> 9)]);
        assert_eq!(memory.zones.free_frames(), all - 100);
        assert_eq!(memory.allocate_fragment(7, &holes), Some(made), "it is as it was");
        assert_eq!((parked(&memory), memory.foreign_frames()), (vec![], 100));
        memory.release_block(made.block, &complement(&holes));
        memory.park(made);
        // A frame in place is in use: the data move to another block.
        assert!(memory.take(made.block.add(300)));
        let moved = memory.allocate_fragment(7, &holes).expect("another block is free");
        assert_ne!(moved.block, made.block);
        assert_eq!((parked(&memory), memory.foreign_frames()), (vec![], 100));
        assert_eq!(memory.zones.free_frames(), all - 512 - 1);
        // Another region needs data of its own.
        let other = memory.occupy_fragment(8, &holes).expect("a third block is free");
        assert_eq!((other.region, memory.foreign_frames()), (8, 200));
        assert_eq!(memory.zones.free_frames(), all - 512 - 1 - 100);
        memory.park(other);
        assert_eq!(memory.occupy_fragment(8, &holes), Some(other), "whatever is in place");
        assert_eq!((parked(&memory), memory.foreign_frames()), (vec![], 200));
        // Of two fragments of a region, the first that is free.
        memory.park(other);
        memory.park(Fragment { region: 8, ..moved });
        assert!(memory.take(other.block.add(511)));
        memory.release_block(moved.block, &complement(&holes));
        let found = memory.allocate_fragment(8, &holes).map(|it| it.block);
        assert_eq!((found, parked(&memory).len()), (Some(moved.block), 1));
    }

    #[test]
    fn holes_are_injected_into_free_frames_of_the_highest_zone() {
        let mut memory = memory(4);
        assert!(memory.take(Frame::new(512)));
        let holes: HoleSet = [0, 5].into_iter().collect();
        memory.inject_holes(1..100, |block| (block != 2).then_some(holes));
        let drawn = [(Frame::new(512), [5].into_iter().collect()), (Frame::new(1536), holes)];
        assert_eq!(memory.drawn_holes(), drawn);
        assert_eq!(memory.foreign_frames(), 3);
        assert_eq!(memory.zones.free_frames(), 4 * 512 - 1 - 3);
    }

    #[test]
    fn faulty_frames_below_the_table_at_the_top_are_retired_once() {
        let mut memory = memory(4);
        memory.retire_all(&[0, 7, 2047, 2048]);
        assert_eq!(memory.retired_frames(), 3);
        memory.retire_all(&[7]);
        assert!(!memory.retire(Frame::new(7)));
        assert_eq!((memory.retired_frames(), memory.zones.free_frames()), (3, 2045));
        assert_eq!(memory.retired_within(&(0..8)), [Frame::new(0), Frame::new(7)]);
        assert_eq!(memory.retired_within(&(1..7)), []);
        assert_eq!(memory.retired_within(&(7..2048)), [Frame::new(7), Frame::new(2047)]);
    }

    #[test]
    fn small_pieces_and_whole_blocks_are_told_apart() {
        let mut memory = memory(8);
        assert_eq!((memory.whole_free_blocks(), memory.small_free_frames()), (8, 0));
        assert!(memory.take(Frame::new(5)));
        assert_eq!((memory.whole_free_blocks(), memory.small_free_frames()), (7, 511));
        assert!(memory.has_free(0) && memory.has_free(10) && memory.has_free_block());
        memory.take_range(1024..8 * 512);
        assert_eq!((memory.whole_free_blocks(), memory.has_free(10)), (1, false));
        assert!(memory.has_free_block());
        memory.take_range(512..1024);
        assert!(!memory.has_free_block() && memory.has_free(8));
        assert_eq!((memory.whole_free_blocks(), memory.small_free_frames()), (0, 511));
    }

    #[test]
    fn pages_with_holes_set_their_block_aside() {
        let mut memory = memory(2);
        let block = Frame::new(0);
        memory.take_range(512..1024);
        assert!(memory.take(block));
        let places = [(SpaceId(0), VirtualPage::new(512)), (SpaceId(1), VirtualPage::new(1024))];
        places.iter().for_each(|&(space, page)| memory.add_holed(block, space, page));
        assert_eq!(memory.holed_pages_of(block), places);
        memory.allocate_page().expect("a place of a hole");
        assert_eq!(memory.hole_places_taken(), 1);
        memory.remove_holed(block, places[0].0, places[0].1);
        assert_eq!(memory.holed_pages_of(block), [places[1]]);
        memory.allocate_page().expect("a place of a hole");
        assert_eq!(memory.hole_places_taken(), 2);
        memory.remove_holed(block, places[1].0, places[1].1);
        memory.allocate_page().expect("an ordinary frame");
        assert_eq!((memory.hole_places_taken(), memory.holed_pages_of(block).len()), (2, 0));
    }
}
