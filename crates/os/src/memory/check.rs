//! Consistency check of physical memory: its records must agree with each other and with the frames
//! that address spaces use.

use std::collections::{BTreeMap, HashMap};

use perforate_types::{Frame, HoleSet, SpaceId, VirtualPage};

use super::{BLOCK_ORDER, Owner, PhysicalMemory};

/// A page of an address space.
type Place = (SpaceId, VirtualPage);

/// Uses of a frame, counted again for the consistency check.
#[derive(Clone, Copy, Default)]
pub(crate) struct FrameUse {
    /// Number of pages that map the frame.
    mappings: u32,
    /// Page that maps the frame by a separate 4KB entry, if any.
    entry: Option<Place>,
    /// True if the frame has a user other than a page: a table node, a reservation, the rest of the
    /// system.
    held: bool,
}

/// Second count of all frames and swap slots in use, for the consistency check.
#[derive(Default)]
pub struct Recount {
    blocks: BTreeMap<u64, Vec<FrameUse>>,
    /// 2MB pages with holes that map each physical 2MB block, by number of the block's first frame; counted
    /// again from the page tables.
    holed: HashMap<u64, Vec<Place>>,
    /// Number of pages that refer to each swap slot.
    pub(crate) slots: BTreeMap<u64, u64>,
}

impl Recount {
    fn of(&mut self, frame: Frame) -> &mut FrameUse {
        let size = 1 << BLOCK_ORDER;
        let block = self.blocks.entry(frame.number() >> BLOCK_ORDER);
        let frames = block.or_insert_with(|| vec![FrameUse::default(); size]);
        &mut frames[frame.number() as usize % size]
    }

    /// Counts a mapping of the frame: by a separate 4KB entry of page `entry`, or in place in a
    /// larger page if `None`.
    pub fn map(&mut self, frame: Frame, entry: Option<Place>) {
        let known = self.of(frame);
        known.mappings += 1;
        known.entry = known.entry.or(entry);
    }

    /// Counts in-place mappings of these frames of a block.
    pub fn map_in_place(&mut self, block: Frame, subpages: &HoleSet) {
        subpages.iter().for_each(|index| self.map(block.add(index as u64), None));
    }

    /// Counts the 2MB page with holes at `page` as a mapping of the block.
    pub fn map_holed(&mut self, block: Frame, space: SpaceId, page: VirtualPage) {
        self.holed.entry(block.number()).or_default().push((space, page));
    }

    /// Counts a frame that is used exclusively by something other than a page.
    ///
    /// # Errors
    /// If the frame was already counted this way.
    pub fn hold(&mut self, frame: Frame) -> Result<(), String> {
        match std::mem::replace(&mut self.of(frame).held, true) {
            true => Err(format!("{frame:?} is held twice")),
            false => Ok(()),
        }
    }

    /// Every frame counted as in use, in ascending order.
    fn frames(&self) -> impl Iterator<Item = (Frame, FrameUse)> + '_ {
        self.blocks.iter().flat_map(|(number, frames)| {
            let frames = frames.iter().enumerate();
            let used = frames.filter(|(_, known)| known.held || known.mappings > 0);
            used.map(move |(index, &known)| {
                (Frame::new((number << BLOCK_ORDER) + index as u64), known)
            })
        })
    }
}

impl PhysicalMemory {
    /// Compares the records of this memory with `recount`, which contains all uses except those of the rest
    /// of the system. An error describes the first difference.
    pub(crate) fn check(&self, mut recount: Recount) -> Result<(), String> {
        let others = self.others.all_frames().map(|(_, _, frame)| frame);
        let retired = self.owners.iter().filter(|(_, owner)| *owner == Owner::Retired);
        let retired: Vec<Frame> = retired.map(|(frame, _)| frame).collect();
        expect("retired frames", self.retired_frames, retired.len() as u64)?;
        others.chain(retired).try_for_each(|frame| recount.hold(frame))?;
        if let Some(residents) = &self.residents {
            residents.all_frames().try_for_each(|frame| recount.hold(frame))?;
        }
        let mut references = 0;
        let mut frames = self.top_table_frames(|_| true) + self.zones.free_frames();
        for (frame, known) in recount.frames() {
            self.check_frame(frame, known).map_err(|wrong| format!("{frame:?} {wrong}"))?;
            references += u64::from(known.mappings.saturating_sub(1));
            frames += 1;
        }
        expect("frames in all", self.memory_bytes / super::FRAME_BYTES, frames)?;
        expect("references", self.references.total(), references)?;
        self.check_owners(&mut recount)?;
        let blocks = (0..self.usable_frames().div_ceil(1 << BLOCK_ORDER)).map(|number| {
            self.zones.free_in_pageblock(Frame::new(number << BLOCK_ORDER)).count() as u64
        });
        expect("free frames", self.zones.free_frames(), blocks.sum())?;
        self.zones.check_index()?;
        self.swap.check(&recount.slots)?;
        self.check_holed(recount.holed)
    }

    fn check_frame(&self, frame: Frame, known: FrameUse) -> Result<(), String> {
        if self.zones.is_free(frame) {
            return Err("is in use and free".into());
        }
        if known.held {
            let alone = known.mappings == 0 && !self.references.is_shared(frame);
            return if alone { Ok(()) } else { Err("is held and mapped".into()) };
        }
        let shared = self.references.is_shared(frame);
        if shared != (known.mappings > 1) {
            return Err(format!("has {} mappings, shared: {shared}", known.mappings));
        }
        let owner = known.entry.map(|(space, page)| Owner::Page(space, page));
        let recorded = self.owners.get(frame);
        if !shared && recorded != owner && !self.owners_stale {
            return Err(format!("belongs to {owner:?}, recorded is {recorded:?}"));
        }
        Ok(())
    }

    /// Checks the reverse map: every frame that it gives to a page is mapped, and every other recorded frame
    /// has the recorded user. An error describes the first difference.
    fn check_owners(&self, recount: &mut Recount) -> Result<(), String> {
        for (frame, owner) in self.owners.iter() {
            let known = *recount.of(frame);
            let fits = match owner {
                Owner::Page(..) => known.mappings > 0,
                Owner::Other(..) | Owner::Retired => known.held,
            };
            if !fits {
                return Err(format!("{frame:?} is recorded as {owner:?} and is not"));
            }
        }
        for (number, usage, frame) in self.others.all_frames() {
            if self.owners.get(frame) != Some(Owner::Other(usage, number)) {
                return Err(format!("{frame:?} of {usage:?} {number} is recorded otherwise"));
            }
        }
        Ok(())
    }

    fn check_holed(&self, mut counted: HashMap<u64, Vec<Place>>) -> Result<(), String> {
        let mut known = self.holed.clone();
        known.values_mut().chain(counted.values_mut()).for_each(|users| users.sort_unstable());
        if known == counted { Ok(()) } else { Err("blocks of pages with holes differ".into()) }
    }
}

/// Compares a recorded value with the recounted one.
///
/// # Errors
/// Names the value and both numbers if they differ.
pub fn expect<T: PartialEq + std::fmt::Debug>(
    name: &str,
    recorded: T,
    counted: T,
) -> Result<(), String> {
    if recorded == counted {
        return Ok(());
    }
    Err(format!("{name}: {recorded:?} recorded, {counted:?} counted"))
}
