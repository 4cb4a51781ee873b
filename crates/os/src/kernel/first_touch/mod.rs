//! First touches: an ordered list of backers is asked to map a page where nothing is mapped.
//!
//! Each backer is one mechanism that can map memory, with the state it keeps for that. The first
//! that maps the page ends the search; the last one, 4KB pages, always does, or memory is out. The
//! list is made from policy and page tables when the kernel boots, in [`Backers::new`].

mod block;
mod huge;
mod injected;
mod laid_out;

use std::any::Any;
use std::ops::Range;

use perforate_types::{Counters, Frame, Permissions, SpaceId, Update};

use super::compaction::Compaction;
use super::contiguous::RunRequest;
use super::sharing::SharedMemory;
use super::{Core, KernelConfig, contiguous, contiguous_backing, single_page};
use crate::memory::{FRAME_BYTES, PhysicalMemory};
use crate::space::{AddressSpace, Area, Attributes, Effects, region_of, regions_of};
use crate::{HugePageRule, Orders, OsError, PageLayout, Policy, TableFormat};
use block::Blocks;
use huge::HugePages;
use injected::InjectedFragments;
use laid_out::LaidOutPages;
pub use laid_out::layout_counters;

/// The state that backers act on besides their own.
pub struct Context<'a> {
    /// Memory and address spaces.
    pub(super) core: &'a mut Core,
    /// Makes contiguous memory.
    pub(super) compaction: &'a mut Compaction,
}

/// The first touch of a page where nothing is mapped.
#[derive(Clone, Copy)]
pub struct Touch {
    /// The address space.
    pub space: SpaceId,
    /// The page.
    pub page: u64,
    /// The area it lies in.
    pub area: Area,
}

impl Touch {
    /// Permissions of its area.
    pub fn permissions(&self) -> Permissions {
        self.area.attributes.effective()
    }

    /// Its 2MB region.
    pub fn region(&self) -> u64 {
        region_of(self.page)
    }

    /// The orders that may back the page, as far as its area, what is mapped around it and the policy
    /// are concerned.
    pub(super) fn orders(&self, core: &Core) -> Result<Orders, OsError> {
        core.orders_at_touch(self.space, self.page, &self.area)
    }
}

/// Answer of a backer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backed {
    /// The page is mapped.
    Yes,
    /// Nothing was mapped; the next backer is asked.
    No,
}

/// A mechanism that maps memory, at first touches or in advance.
pub trait Backer: Any + Send {
    /// Maps the page, and what else it maps with it, if it can.
    ///
    /// # Errors
    /// If memory is out, or what the program or configuration asks for is impossible.
    fn back(
        &mut self,
        context: &mut Context<'_>,
        touch: &Touch,
        updates: &mut Vec<Update>,
    ) -> Result<Backed, OsError>;

    /// Areas in these pages were made, moved there, grew or got other permissions.
    fn note_areas(&mut self, _space: SpaceId, _pages: &Range<u64>) {}

    /// Whether it has something to do in advance of touches.
    fn has_work(&self) -> bool {
        false
    }

    /// Does a part of what it has to do in advance of touches.
    ///
    /// # Errors
    /// If there is no such address space.
    fn proceed(
        &mut self,
        _context: &mut Context<'_>,
        _updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        Ok(())
    }

    /// The address space is gone; its number may be used again.
    fn forget(&mut self, _space: SpaceId) {}

    /// Writes its figures.
    fn counters(&self, _core: &Core, _out: &mut Counters) {}
}

impl Context<'_> {
    /// An address space.
    ///
    /// # Errors
    /// If there is no such address space.
    pub fn space(&self, id: SpaceId) -> Result<&AddressSpace, OsError> {
        self.core.space(id)
    }

    /// An address space to be changed, and what is changed with it.
    ///
    /// # Errors
    /// If there is no such address space.
    pub fn parts<'a>(
        &'a mut self,
        id: SpaceId,
        updates: &'a mut Vec<Update>,
    ) -> Result<(&'a mut AddressSpace, Effects<'a>), OsError> {
        self.core.parts(id, updates)
    }

    /// Physical memory.
    pub fn memory(&mut self) -> &mut PhysicalMemory {
        &mut self.core.memory
    }

    /// The format of the page tables.
    pub fn tables(&self) -> TableFormat {
        self.core.config.tables
    }

    /// Whether more than 4KB may be mapped as one in an area, as far as the program's advice and the
    /// policy are concerned.
    pub fn wants_large(&self, attributes: &Attributes) -> bool {
        self.core.wants_large(attributes)
    }

    /// Whether fragmentation is injected.
    pub fn is_fragmented(&self) -> bool {
        self.core.config.fragmentation.is_some()
    }

    /// Injected fragmentation is drawn for these physical 2MB blocks, by number, each once.
    pub fn inject_fragmentation(&mut self, blocks: Range<u64>) {
        let Some(fragmentation) = self.core.config.fragmentation else { return };
        let seed = self.core.config.seed;
        self.core.memory.inject_holes(blocks, |block| fragmentation.holes(seed, block));
    }

    /// Takes contiguous frames for `pages`, congruent with them modulo 2MB, that nobody has, and at
    /// most so many of them faulty. With `compacts`, what is movable goes elsewhere if there is no
    /// free run.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn take_run(
        &mut self,
        pages: &Range<u64>,
        faulty_frames: u64,
        compacts: bool,
        updates: &mut Vec<Update>,
    ) -> Result<Range<u64>, OsError> {
        let Context { core, compaction } = self;
        let blocks = regions_of(pages);
        // No whole block of the memory that was there at boot can be had for a region that injected
        // fragmentation covers.
        let fits = pages.end - pages.start <= core.config.memory_bytes / FRAME_BYTES;
        let is_fragmented = fits && core.is_any_fragmented(blocks.clone());
        let wanted = RunRequest {
            blocks: blocks.end - blocks.start,
            faulty_frames,
            compacts: compacts && !is_fragmented,
            within: is_fragmented.then(|| core.memory.hot_added()),
        };
        let run = compaction.take_run(core, &wanted, updates)?;
        Ok(contiguous::keep_for(core, &run, pages))
    }

    /// Gives back frames of a run that was taken, but for faulty ones.
    pub fn give_back_run(&mut self, frames: Range<u64>) {
        contiguous::free_good_frames(self.core, frames);
    }

    /// The faulty frames among these.
    pub fn faulty_frames(&self, frames: &Range<u64>) -> Vec<Frame> {
        self.core.memory.retired_within(frames)
    }

    /// Whether so little memory is free that nothing is backed in advance.
    pub fn is_memory_short(&self) -> bool {
        contiguous_backing::is_memory_short(self.core)
    }

    /// Pages that all of the memory would hold.
    pub fn memory_pages(&self) -> u64 {
        self.core.config.memory_bytes / FRAME_BYTES
    }

    /// How often memory was given back so far: a search that found none is in vain until it changes.
    pub fn releases(&self) -> u64 {
        self.core.memory.zones().releases()
    }

    /// What is brought in from now on in this operation is anonymous memory, whose frames are
    /// cleared.
    pub fn clear_new_frames(&mut self) {
        self.core.ledger.clears = true;
    }

    /// Maps as many pages from the start of `pages` on, where nothing is mapped, as there are
    /// contiguous frames for; returns how many. With `large`, by 2MB pages where they can be. None
    /// where memory is short, or injected fragmentation covers the first.
    ///
    /// # Errors
    /// If memory for tables runs out, or there is no such address space.
    pub fn back_in_advance(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        (permissions, large): (Permissions, bool),
        updates: &mut Vec<Update>,
    ) -> Result<u64, OsError> {
        contiguous_backing::back_longest(self, id, pages, (permissions, large), updates)
    }
}

/// All backers, in the order in which they are asked.
pub(super) struct Backers {
    list: Vec<Box<dyn Backer>>,
}

impl Backers {
    /// The backers that policy and page tables call for.
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

    /// Maps a page where nothing is mapped, with the size that policy and memory allow.
    pub(super) fn back(
        &mut self,
        context: &mut Context<'_>,
        touch: &Touch,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        for backer in &mut self.list {
            if backer.back(context, touch, updates)? == Backed::Yes {
                return Ok(());
            }
        }
        unreachable!("the last backer maps the page or memory is out")
    }

    /// Areas in these pages were made, moved there, grew or got other permissions.
    pub(super) fn note_areas(&mut self, space: SpaceId, pages: &Range<u64>) {
        self.list.iter_mut().for_each(|backer| backer.note_areas(space, pages));
    }

    /// Whether there is something to do in advance of touches.
    pub(super) fn have_work(&self) -> bool {
        self.list.iter().any(|backer| backer.has_work())
    }

    /// Does a part of what is to be done in advance of touches.
    pub(super) fn proceed(
        &mut self,
        context: &mut Context<'_>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let working = self.list.iter_mut().find(|backer| backer.has_work());
        working.map_or(Ok(()), |backer| backer.proceed(context, updates))
    }

    /// The address space is gone.
    pub(super) fn forget(&mut self, space: SpaceId) {
        self.list.iter_mut().for_each(|backer| backer.forget(space));
    }

    /// Writes the figures of all backers.
    pub(super) fn counters(&self, core: &Core, out: &mut Counters) {
        self.list.iter().for_each(|backer| backer.counters(core, out));
    }

    /// The backer of this type; one that is made now if there is none.
    pub(super) fn find_or_add<B: Backer>(&mut self, make: impl FnOnce() -> B) -> &mut B {
        let is_wanted = |backer: &dyn Backer| (backer as &dyn Any).is::<B>();
        let known = self.list.iter().position(|backer| is_wanted(backer.as_ref()));
        let place = known.unwrap_or_else(|| {
            // Before the last, which never lets another one be asked.
            let place = self.list.len() - 1;
            self.list.insert(place, Box::new(make()));
            place
        });
        let backer: &mut dyn Any = &mut *self.list[place];
        backer.downcast_mut().expect("found by its type")
    }
}

/// 4KB pages.
struct SinglePages;

impl Backer for SinglePages {
    fn back(
        &mut self,
        context: &mut Context<'_>,
        touch: &Touch,
        updates: &mut Vec<Update>,
    ) -> Result<Backed, OsError> {
        single_page::map(context.core, touch.space, touch.page, touch.permissions(), updates)?;
        Ok(Backed::Yes)
    }
}
