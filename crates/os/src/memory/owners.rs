//! Reverse map: owners of allocated frames whose content can be moved or freed.
//!
//! A frame without a record is free, or holds content that cannot be moved: nodes of page tables, unmovable
//! data of generated fragmentation, parts of a large page.

mod records;

use perforate_types::{Frame, HoleSet, SpaceId, VirtualPage};

use super::PhysicalMemory;
use super::migrate_type::PAGEBLOCK_FRAMES;
use super::others::OtherUse;
use records::Records;
pub(crate) use records::RecordsOfBlock;

/// Number of neighbouring pageblocks whose owner records are stored together.
const GROUP: usize = 1024;
const FRAMES: usize = PAGEBLOCK_FRAMES as usize;

/// Number of the allocation to which all snapshot frames belong, because a snapshot does not record
/// which frames were allocated together.
pub(super) const RESIDENT: u64 = (1 << (u64::BITS - NUMBER_SHIFT)) - 1;

/// Owner of a frame, as the reverse map records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A 4KB page or a hole of a program: the page that was mapped to the frame last. For a frame
    /// with several mappings, this page may be unmapped while another remains; see
    /// [`PhysicalMemory::take_owners_stale`].
    Page(SpaceId, VirtualPage),
    /// An allocation of the rest of the system: its usage and its number.
    Other(OtherUse, u64),
    /// No owner: the frame is faulty and never used again.
    Retired,
}

const KIND_BITS: u32 = 2;
const PAGE: u64 = 1;
const OTHER: u64 = 2;
const RETIRED: u64 = 3;
const SPACE_SHIFT: u32 = 48;
/// Number of bits of an encoded owner that hold the usage, above the bits of the kind.
const USE_BITS: u32 = 3;
const NUMBER_SHIFT: u32 = KIND_BITS + USE_BITS;
/// Number of bits of a page number that an encoded owner stores. The highest one distinguishes the halves of
/// the address space.
const PAGE_BITS: u32 = 36;
const PAGE_MASK: u64 = (1 << PAGE_BITS) - 1;
/// Number of bits of a full page number.
const ALL_PAGE_BITS: u32 = 52;

/// Encodes an [`Owner`] in one nonzero word; 0 means no owner.
fn encode(owner: Owner) -> u64 {
    match owner {
        Owner::Page(space, page) => {
            u64::from(space.0) << SPACE_SHIFT | (page.number() & PAGE_MASK) << KIND_BITS | PAGE
        }
        Owner::Other(usage, number) => number << NUMBER_SHIFT | (usage as u64) << KIND_BITS | OTHER,
        Owner::Retired => RETIRED,
    }
}

fn decode(word: u64) -> Option<Owner> {
    match word & ((1 << KIND_BITS) - 1) {
        PAGE => {
            let space = SpaceId((word >> SPACE_SHIFT) as u16);
            Some(Owner::Page(space, page_of(word >> KIND_BITS & PAGE_MASK)))
        }
        OTHER => {
            let usage = OtherUse::ALL[(word >> KIND_BITS) as usize & ((1 << USE_BITS) - 1)];
            Some(Owner::Other(usage, word >> NUMBER_SHIFT))
        }
        RETIRED => Some(Owner::Retired),
        _ => None,
    }
}

/// Restores a page number from its stored bits by sign extension: addresses are canonical.
fn page_of(kept: u64) -> VirtualPage {
    let above = u64::BITS - PAGE_BITS;
    let extended = ((kept << above) as i64 >> above) as u64;
    VirtualPage::new(extended & ((1 << ALL_PAGE_BITS) - 1))
}

/// Owner records of a group of neighbouring pageblocks; `None` for a pageblock without records.
type Group = [Option<Records>; GROUP];

/// Reverse map: recorded owners of frames, indexed by frame number.
#[derive(Default)]
pub(super) struct Owners {
    groups: Vec<Option<Box<Group>>>,
}

fn split(frame: Frame) -> (usize, usize, usize) {
    let number = (frame.number() / PAGEBLOCK_FRAMES) as usize;
    (number / GROUP, number % GROUP, (frame.number() % PAGEBLOCK_FRAMES) as usize)
}

impl Owners {
    /// Owner of the frame; `None` if none is recorded.
    pub(super) fn get(&self, frame: Frame) -> Option<Owner> {
        let (.., index) = split(frame);
        decode(self.pageblock(frame)?.get(index))
    }

    fn pageblock(&self, frame: Frame) -> Option<&Records> {
        let (group, block, _) = split(frame);
        self.groups.get(group)?.as_ref()?[block].as_ref()
    }

    /// Owner records of a pageblock: index in the pageblock and owner of each recorded frame.
    pub(super) fn of_pageblock(&self, block: Frame) -> impl Iterator<Item = (usize, Owner)> + '_ {
        self.pageblock(block).into_iter().flat_map(Records::iter)
    }

    /// Records the owner of a frame, in place of an earlier record.
    pub(super) fn set(&mut self, frame: Frame, owner: Owner) {
        let (group, block, index) = split(frame);
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, || None);
        }
        let group = self.groups[group].get_or_insert_with(|| Box::new([const { None }; GROUP]));
        let word = encode(owner);
        match &mut group[block] {
            Some(records) => records.set(index, word),
            none => *none = Some(Records::one(index, word)),
        }
    }

    /// Clears the owner records of these frames, which lie in one pageblock.
    pub(super) fn clear(&mut self, first: Frame, frames: u64) {
        let (group, place, index) = split(first);
        let Some(Some(group)) = self.groups.get_mut(group) else { return };
        let Some(records) = &mut group[place] else { return };
        records.clear(index..index + frames as usize);
        if records.recorded() == 0 {
            group[place] = None;
        }
    }

    /// All pageblocks with owner records: first frame of each, and index and owner of each recorded frame.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Frame, RecordsOfBlock<'_>)> {
        let groups = self.groups.iter().enumerate();
        groups.filter_map(|(number, group)| Some((number, group.as_ref()?))).flat_map(
            |(group, blocks)| {
                blocks.iter().enumerate().filter_map(move |(place, block)| {
                    let number = (group * GROUP + place) as u64;
                    Some((Frame::new(number * PAGEBLOCK_FRAMES), block.as_ref()?.iter()))
                })
            },
        )
    }

    /// All frames with an owner record, and their owners.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Frame, Owner)> {
        self.blocks().flat_map(|(block, records)| {
            records.map(move |(place, owner)| (block.add(place as u64), owner))
        })
    }

    /// Number of frames in the pageblock around `block` that have a recorded owner.
    pub(super) fn recorded(&self, block: Frame) -> u64 {
        self.pageblock(block).map_or(0, Records::recorded)
    }

    /// Number of retired (faulty) frames in the pageblock around `block`.
    pub(super) fn retired(&self, block: Frame) -> u64 {
        self.pageblock(block).map_or(0, Records::retired)
    }
}

impl PhysicalMemory {
    /// Recorded owner of a frame. Movable, reclaimable and retired frames have a record, other frames none.
    pub(crate) fn owner(&self, frame: Frame) -> Option<Owner> {
        self.owners.get(frame).or_else(|| {
            let usage = self.residents.as_ref()?.record(frame)?;
            Some(Owner::Other(usage, RESIDENT))
        })
    }

    /// Records that `page` of `space` maps this frame by a separate 4KB entry.
    pub fn set_owner(&mut self, frame: Frame, space: SpaceId, page: VirtualPage) {
        self.owners.set(frame, Owner::Page(space, page));
    }

    /// Clears the owner of a frame that no separate 4KB entry maps, because it is in place in a
    /// larger page.
    pub fn forget_owner(&mut self, frame: Frame) {
        self.owners.clear(frame, 1);
    }

    /// Like [`Self::forget_owner`], for each frame in `subpages` of the block that has a single
    /// mapping.
    pub fn forget_owners(&mut self, block: Frame, subpages: &HoleSet) {
        if self.owners.recorded(block) > 0 {
            for index in subpages.iter() {
                let frame = block.add(index as u64);
                if !self.is_shared(frame) {
                    self.forget_owner(frame);
                }
            }
        }
    }

    /// Returns true if owner records may have become stale since the last call, and resets the
    /// flag.
    pub(crate) fn take_owners_stale(&mut self) -> bool {
        std::mem::take(&mut self.owners_stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_and_go() {
        let mut owners = Owners::default();
        let frame = Frame::new((5 << 19) + 77);
        assert_eq!(owners.get(frame), None);
        let page = Owner::Page(SpaceId(65_535), VirtualPage::new((1 << 35) - 1));
        for owner in [page, Owner::Other(OtherUse::Slab, 1 << 50), Owner::Retired] {
            owners.set(frame, owner);
            assert_eq!(owners.get(frame), Some(owner));
            assert_eq!(owners.recorded(frame), 1);
            assert_eq!(owners.retired(frame), u64::from(owner == Owner::Retired));
            assert_eq!(owners.of_pageblock(frame).collect::<Vec<_>>(), [(77, owner)]);
        }
        // The last page of the lower half, and the first and last page of the upper half.
        for page in [(1 << 35) - 1, (1 << 52) - (1 << 35), (1 << 52) - 1] {
            let page = Owner::Page(SpaceId(3), VirtualPage::new(page));
            owners.set(frame, page);
            assert_eq!(owners.get(frame), Some(page));
        }
        owners.clear(frame, 1);
        owners.clear(frame, 1);
        assert_eq!((owners.get(frame), owners.recorded(frame)), (None, 0));
        assert_eq!(owners.retired(frame), 0);
    }
}
