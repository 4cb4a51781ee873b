//! First touches: maps a page for the first time by asking an ordered list of backers.
//!
//! Each backer is one mechanism that can map memory, with the state that it needs. The first backer
//! that maps the page ends the search. The last backer, 4KB pages, always maps the page unless
//! memory is out. [`Backers::new`] makes the list from the policy and the page tables at boot.

mod block;
mod huge;
mod injected;
mod laid_out;

use std::any::Any;
use std::ops::Range;

use perforate_types::{Counters, Frame, Permissions, SpaceId};

use super::compaction::Compaction;
use super::contiguous::RunRequest;
use super::sharing::SharedMemory;
use super::{Core, KernelConfig, contiguous, contiguous_backing, single_page};
use crate::memory::{FRAME_BYTES, PhysicalMemory};
use crate::space::{AddressSpace, Area, Attributes, SpaceMut, region_of, regions_of};
use crate::{HugePageRule, Orders, OsError, PageLayout, Policy, TableFormat};
use block::Blocks;
use huge::HugePages;
use injected::InjectedFragments;
use laid_out::LaidOutPages;
pub use laid_out::layout_counters;

/// State that backers act on besides their own.
pub struct Context<'a> {
    /// Memory and address spaces.
    pub(super) core: &'a mut Core,
    /// Compaction, which makes contiguous memory.
    pub(super) compaction: &'a mut Compaction,
}

/// First touch of a page that is not mapped.
#[derive(Clone, Copy)]
pub struct Touch {
    /// Address space of the touch.
    pub space: SpaceId,
    /// Number of the touched page (address ÷ 4KB).
    pub page: u64,
    /// The area that contains the page.
    pub area: Area,
}

impl Touch {
    /// Effective permissions of the area.
    pub fn permissions(&self) -> Permissions {
        self.area.attributes.effective()
    }

    /// Number of the 2MB region of the page.
    pub fn region(&self) -> u64 {
        region_of(self.page)
    }

    /// The orders that may back the page: allowed by its area, by the mappings around it and by the
    /// policy.
    pub(super) fn orders(&self, core: &Core) -> Result<Orders, OsError> {
        core.orders_at_touch(self.space, self.page, &self.area)
    }
}

/// Answer of a backer to a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backed {
    /// The page is mapped.
    Yes,
    /// Nothing was mapped; the next backer is asked.
    No,
}

/// A mechanism that maps memory, at first touches or in advance.
pub trait Backer: Any + Send {
    /// Maps the page if the backer can, and possibly more pages with it.
    ///
    /// # Errors
    /// If memory is out, or the program or configuration requests something impossible.
    fn back(&mut self, context: &mut Context<'_>, touch: &Touch) -> Result<Backed, OsError>;

    /// Notifies the backer that areas in these pages were made, moved there, extended or protected.
    fn note_areas(&mut self, _space: SpaceId, _pages: &Range<u64>) {}

    /// True if the backer has memory to map in advance of touches.
    fn has_work(&self) -> bool {
        false
    }

    /// Does a part of the backer's work in advance of touches.
    fn proceed(&mut self, _context: &mut Context<'_>) -> Result<(), OsError> {
        Ok(())
    }

    /// Notifies the backer that the address space was destroyed; its number may be used again.
    fn forget(&mut self, _space: SpaceId) {}

    /// Writes the counters of the backer.
    fn counters(&self, _core: &Core, _out: &mut Counters) {}
}

impl Context<'_> {
    /// The address space with this number.
    pub fn space(&self, id: SpaceId) -> Result<&AddressSpace, OsError> {
        self.core.space(id)
    }

    /// An address space to be changed, with the state that changes with it.
    pub fn space_mut(&mut self, id: SpaceId) -> Result<SpaceMut<'_>, OsError> {
        self.core.space_mut(id)
    }

    /// Physical memory of the machine.
    pub fn memory(&mut self) -> &mut PhysicalMemory {
        &mut self.core.memory
    }

    /// The format of the page tables that the kernel was configured with.
    pub fn tables(&self) -> TableFormat {
        self.core.config.tables
    }

    /// True if the program's advice and the policy allow mappings larger than 4KB in an area.
    pub fn wants_large(&self, attributes: &Attributes) -> bool {
        self.core.wants_large(attributes)
    }

    /// True if fragmentation is injected.
    pub fn is_fragmented(&self) -> bool {
        self.core.config.fragmentation.is_some()
    }

    /// Draws injected fragmentation for these physical 2MB blocks, by number, once for each block.
    pub fn inject_fragmentation(&mut self, blocks: Range<u64>) {
        let Some(fragmentation) = self.core.config.fragmentation else { return };
        let seed = self.core.config.seed;
        self.core.memory.inject_holes(blocks, |block| fragmentation.holes(seed, block));
    }

    /// Takes contiguous frames for `pages`, congruent with the pages modulo 2MB, with at most
    /// `faulty_frames` faulty frames among them. With `compacts`, movable frames are migrated if
    /// there is no free run.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn take_run(
        &mut self,
        pages: &Range<u64>,
        faulty_frames: u64,
        compacts: bool,
    ) -> Result<Range<u64>, OsError> {
        let Context { core, compaction } = self;
        let blocks = regions_of(pages);
        // Memory present at boot has no whole block for a region that injected fragmentation
        // covers.
        let fits = pages.end - pages.start <= core.config.memory_bytes / FRAME_BYTES;
        let is_fragmented = fits && core.is_any_fragmented(blocks.clone());
        let wanted = RunRequest {
            blocks: blocks.end - blocks.start,
            faulty_frames,
            compacts: compacts && !is_fragmented,
            within: is_fragmented.then(|| core.memory.hot_added()),
        };
        let run = compaction.take_run(core, &wanted)?;
        Ok(contiguous::keep_for(core, &run, pages))
    }

    /// Frees the frames of a run that was taken, except faulty ones.
    pub fn give_back_run(&mut self, frames: Range<u64>) {
        contiguous::free_good_frames(self.core, frames);
    }

    /// The faulty frames among the given ones.
    pub fn faulty_frames(&self, frames: &Range<u64>) -> Vec<Frame> {
        self.core.memory.retired_within(frames)
    }

    /// True if too little memory is free to back anything in advance.
    pub fn is_memory_short(&self) -> bool {
        contiguous_backing::is_memory_short(self.core)
    }

    /// Number of pages that the whole memory can hold.
    pub fn memory_pages(&self) -> u64 {
        self.core.config.memory_bytes / FRAME_BYTES
    }

    /// Number of frees so far. A search for free memory that failed will fail again until it
    /// changes.
    pub fn releases(&self) -> u64 {
        self.core.memory.zones().releases()
    }

    /// Marks the memory that this operation maps from now on as anonymous, so that its frames count
    /// as cleared.
    pub fn clear_new_frames(&mut self) {
        self.core.ledger.clears = true;
    }

    /// Maps unmapped pages from the start of `pages` on, as many as contiguous frames exist for,
    /// and returns their number. With `large`, uses 2MB pages if possible. Maps none if memory is
    /// short or injected fragmentation covers the first page.
    ///
    /// # Errors
    /// If memory for tables runs out, or there is no such address space.
    pub fn back_in_advance(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        (permissions, large): (Permissions, bool),
    ) -> Result<u64, OsError> {
        contiguous_backing::back_longest(self, id, pages, (permissions, large))
    }
}

/// All backers, in the order in which they are asked.
pub(super) struct Backers {
    list: Vec<Box<dyn Backer>>,
}

impl Backers {
    /// Makes the backers that policy and page tables require.
    pub(super) fn new(config: &KernelConfig, policy: &dyn Policy) -> Self {
        let mut list: Vec<Box<dyn Backer>> = vec![Box::new(SharedMemory)];
        list.extend(policy.backers());
        // Level-2 entries are either gap-tolerant or map 2MB pages (G §3.7).
        if config.tables.gap_tolerance.is_none() {
            if let Some(layout) = policy.rule::<PageLayout>() {
                list.push(Box::new(LaidOutPages::new(layout.clone())));
            }
            if policy.rule::<HugePageRule>().is_some() {
                list.push(Box::new(HugePages));
            }
            if config.fragmentation.is_some() {
                list.push(Box::new(InjectedFragments::new(policy)));
            }
            if policy.maps_large() {
                list.push(Box::new(Blocks::new(policy)));
            }
        }
        list.push(Box::new(SinglePages));
        Self { list }
    }

    /// Maps a page that is not mapped, with the size that policy and memory allow.
    pub(super) fn back(&mut self, context: &mut Context<'_>, touch: &Touch) -> Result<(), OsError> {
        for backer in &mut self.list {
            if backer.back(context, touch)? == Backed::Yes {
                return Ok(());
            }
        }
        unreachable!("the last backer maps the page or memory is out")
    }

    /// Notifies all backers that areas in these pages were made, moved there, extended or
    /// protected.
    pub(super) fn note_areas(&mut self, space: SpaceId, pages: &Range<u64>) {
        self.list.iter_mut().for_each(|backer| backer.note_areas(space, pages));
    }

    /// True if a backer has memory to map in advance of touches.
    pub(super) fn have_work(&self) -> bool {
        self.list.iter().any(|backer| backer.has_work())
    }

    /// Does a part of the first busy backer's work in advance of touches.
    pub(super) fn proceed(&mut self, context: &mut Context<'_>) -> Result<(), OsError> {
        let working = self.list.iter_mut().find(|backer| backer.has_work());
        working.map_or(Ok(()), |backer| backer.proceed(context))
    }

    /// Notifies all backers that the address space was destroyed.
    pub(super) fn forget(&mut self, space: SpaceId) {
        self.list.iter_mut().for_each(|backer| backer.forget(space));
    }

    /// Writes the counters of all backers.
    pub(super) fn counters(&self, core: &Core, out: &mut Counters) {
        self.list.iter().for_each(|backer| backer.counters(core, out));
    }

    /// The backer of type `B`, made by `make` if it is missing.
    pub(super) fn find_or_add<B: Backer>(&mut self, make: impl FnOnce() -> B) -> &mut B {
        let is_wanted = |backer: &dyn Backer| (backer as &dyn Any).is::<B>();
        let known = self.list.iter().position(|backer| is_wanted(backer.as_ref()));
        let place = known.unwrap_or_else(|| {
            // Before the last backer, which never passes a touch on.
            let place = self.list.len() - 1;
            self.list.insert(place, Box::new(make()));
            place
        });
        let backer: &mut dyn Any = &mut *self.list[place];
        backer.downcast_mut().expect("found by its type")
    }
}

/// Maps single 4KB pages.
struct SinglePages;

impl Backer for SinglePages {
    fn back(&mut self, context: &mut Context<'_>, touch: &Touch) -> Result<Backed, OsError> {
        single_page::map(context.core, touch.space, touch.page, touch.permissions())?;
        Ok(Backed::Yes)
    }
}
