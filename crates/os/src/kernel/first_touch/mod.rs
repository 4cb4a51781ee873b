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

use perforate_types::{Counters, Permissions, SpaceId};

use super::sharing::SharedMemory;
use super::{Core, KernelConfig, folios};
use crate::space::{Area, region_of};
use crate::{HugePageRule, Orders, OsError, PageLayout, Policy};
use block::Blocks;
use huge::HugePages;
use injected::InjectedFragments;
use laid_out::LaidOutPages;
pub use laid_out::layout_counters;

/// First touch of a page that is not mapped.
#[derive(Clone, Copy)]
pub struct Touch {
    /// Address space of the touched page.
    pub space: SpaceId,
    /// Number of the touched page (address ÷ 4KB).
    pub page: u64,
    /// The memory area (VMA) that contains the touched page.
    pub area: Area,
}

impl Touch {
    /// Page-table permissions of the touched page's memory area; none for user mode if it is PROT_NONE.
    pub fn permissions(&self) -> Permissions {
        self.area.attributes.effective()
    }

    /// Number of the 2MB region of the page.
    pub fn region(&self) -> u64 {
        region_of(self.page)
    }

    /// Page sizes (orders) that the memory area, the mappings around the touched page and the policy allow
    /// for it.
    pub(super) fn orders(&self, core: &Core) -> Result<Orders, OsError> {
        core.orders_at_touch(self.space, self.page, &self.area)
    }
}

/// Answer of one backer (mechanism that maps memory) for a touched page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backed {
    /// The page is mapped.
    Yes,
    /// The backer mapped nothing, so the next backer is tried.
    No,
}

/// Backer: a mechanism that maps memory, at first touches or in advance.
pub trait Backer: Any + Send {
    /// Maps the touched page, and possibly more pages around it. Returns [`Backed::No`] if the backer
    /// cannot.
    ///
    /// # Errors
    /// If memory is out, or the program or configuration requests something impossible.
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError>;

    /// True if the backer may map a page of this memory area in a 2MB region that has 4KB entries already.
    fn maps_beside_pages(&self, _area: &Area) -> bool {
        true
    }

    /// Notifies the backer of memory areas in `pages` that were created, moved here, extended or protected.
    fn note_areas(&mut self, _space: SpaceId, _pages: &Range<u64>) {}

    /// True if the backer has memory to map before the program touches that memory.
    fn has_work(&self) -> bool {
        false
    }

    /// Maps a bounded amount of memory before the program touches that memory.
    fn proceed(&mut self, _core: &mut Core) -> Result<(), OsError> {
        Ok(())
    }

    /// Notifies the backer that the address space was destroyed; its number may be reused.
    fn forget(&mut self, _space: SpaceId) {}

    /// Writes the backer's counters to `out`.
    fn counters(&self, _core: &Core, _out: &mut Counters) {}
}

impl Core {
    /// Takes the frames at the holes that the option `fragmentation` generates for these physical 2MB blocks
    /// (frame number ÷ 512). Each block gets its holes only once.
    pub fn inject_fragmentation(&mut self, blocks: Range<u64>) {
        let Some(fragmentation) = self.config.fragmentation else { return };
        let seed = self.config.seed;
        self.memory.inject_holes(blocks, |block| fragmentation.holes(seed, block));
    }

    /// Makes frames that the present operation maps from now on count as cleared (anonymous memory).
    pub fn clear_new_frames(&mut self) {
        self.ledger.clears = true;
    }
}

/// All backers (mechanisms that map memory on first touches), in the order in which they are tried.
pub(super) struct Backers {
    list: Vec<Box<dyn Backer>>,
}

impl Backers {
    /// Makes the list of backers that the policy and the format of the page tables require.
    pub(super) fn new(config: &KernelConfig, policy: &dyn Policy) -> Self {
        let mut list: Vec<Box<dyn Backer>> = vec![Box::new(SharedMemory)];
        list.extend(policy.backers());
        // Level-2 entries are either gap-tolerant or map 2MB pages (G §3.7).
        if config.tables.gap_tolerance.is_none() {
            if let Some(layout) = policy.rule::<PageLayout>() {
                list.push(Box::new(LaidOutPages::new(layout.clone())));
            }
            let for_all = policy.rule::<HugePageRule>().is_some();
            if for_all || policy.maps_large() {
                list.push(Box::new(HugePages { for_all }));
            }
            list.push(Box::new(InjectedFragments::new(policy)));
            if policy.maps_large() {
                list.push(Box::new(Blocks::new(policy)));
            }
        }
        list.push(Box::new(SmallEntries));
        Self { list }
    }

    /// Maps an unmapped page in the largest size that policy and memory allow.
    pub(super) fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<(), OsError> {
        for backer in &mut self.list {
            if backer.back(core, touch)? == Backed::Yes {
                return Ok(());
            }
        }
        unreachable!("the last backer maps the page or memory is out")
    }

    /// True if each further page of this memory area in a 2MB region with 4KB entries is mapped alone.
    pub(super) fn map_singly(&self, core: &Core, area: &Area) -> bool {
        !folios::are_possible(core, &area.attributes)
            && !self.list.iter().any(|backer| backer.maps_beside_pages(area))
    }

    /// Notifies all backers of memory areas in `pages` that were created, moved here, extended or protected.
    pub(super) fn note_areas(&mut self, space: SpaceId, pages: &Range<u64>) {
        self.list.iter_mut().for_each(|backer| backer.note_areas(space, pages));
    }

    /// True if a backer has memory to map before the program touches that memory.
    pub(super) fn have_work(&self) -> bool {
        self.list.iter().any(|backer| backer.has_work())
    }

    /// Lets the first backer with such work map a bounded amount of memory before the program touches it.
    pub(super) fn proceed(&mut self, core: &mut Core) -> Result<(), OsError> {
        let working = self.list.iter_mut().find(|backer| backer.has_work());
        working.map_or(Ok(()), |backer| backer.proceed(core))
    }

    /// Notifies all backers that the address space was destroyed.
    pub(super) fn forget(&mut self, space: SpaceId) {
        self.list.iter_mut().for_each(|backer| backer.forget(space));
    }

    /// Writes the counters of all backers to `out`.
    pub(super) fn counters(&self, core: &Core, out: &mut Counters) {
        self.list.iter().for_each(|backer| backer.counters(core, out));
    }

    /// Returns the backer of type `B`. Makes it with `make` and adds it if the list has none.
    pub(super) fn find_or_add<B: Backer>(&mut self, make: impl FnOnce() -> B) -> &mut B {
        let is_wanted = |backer: &dyn Backer| (backer as &dyn Any).is::<B>();
        let known = self.list.iter().position(|backer| is_wanted(backer.as_ref()));
        let place = known.unwrap_or_else(|| {
            // The last backer accepts every touch, so the new backer goes before it.
            let place = self.list.len() - 1;
            self.list.insert(place, Box::new(make()));
            place
        });
        let backer: &mut dyn Any = &mut *self.list[place];
        backer.downcast_mut().expect("found by its type")
    }
}

/// Backer (mechanism that maps memory on first touches) of 4KB entries, for folios and single pages; tried
/// last.
struct SmallEntries;

impl Backer for SmallEntries {
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        folios::map(core, touch)?;
        Ok(Backed::Yes)
    }

    // Folios, if any are possible, are asked about apart.
    fn maps_beside_pages(&self, _: &Area) -> bool {
        false
    }
}
