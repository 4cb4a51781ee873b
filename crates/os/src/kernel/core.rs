//! The state that every part of the kernel acts on: physical memory, the address spaces in it, the
//! contents of their pages, and the account of all work.
//!
//! Operations that keep no state between calls are free functions on it, in modules named by what
//! they do. What keeps state (compaction, reclaim, same-page merging, …) is a component that owns
//! it, beside the core.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_types::{Frame, HoleSet, SpaceId, Update};

use super::contents::PageContents;
use super::counters::{FaultCounts, Peak};
use super::levels::Levels;
use super::{KernelConfig, Ledger, SpacePage, SpaceRegion, sharing};
use crate::memory::{FRAME_BYTES, PhysicalMemory};
use crate::space::{
    AddressSpace, Area, Attributes, Effects, Overlay, gigabyte_of, index_of, pages_of,
    pages_of_gigabyte, region_of,
};
use crate::{
    BlockUse, Fragmentation, HugePageRule, OrderPurpose, OrderRequest, Orders, OsError, OtherUse,
    PageLayout, Policy, TableFormat,
};

/// The state that every part of the kernel acts on.
pub struct Core {
    /// The configuration of the kernel.
    pub(super) config: KernelConfig,
    /// Which page sizes are wanted.
    pub(super) policy: Box<dyn Policy>,
    /// Physical memory.
    pub(super) memory: PhysicalMemory,
    /// Address spaces by number.
    pub(super) spaces: Vec<Option<Box<AddressSpace>>>,
    /// Contents of pages.
    pub(super) contents: PageContents,
    /// Account of the work.
    pub(super) ledger: Ledger,
    /// Faults by kind.
    pub(super) faults: FaultCounts,
    /// Memory use when most was mapped.
    pub(super) peak: Peak,
    /// The most there was of what comes and goes, as far as it was noted.
    pub(super) most: Option<Levels>,
    /// Frames of tables that belong to no address space.
    pub(super) own_tables: BTreeSet<Frame>,
    /// Sub-pages punched up to the last operation that was concluded.
    pub(super) concluded_punches: u64,
}

impl Core {
    /// A memory without address spaces.
    pub(super) fn new(
        config: KernelConfig,
        policy: Box<dyn Policy>,
        memory: PhysicalMemory,
    ) -> Self {
        let ledger = Ledger::default();
        Self {
            config,
            policy,
            memory,
            spaces: Vec::new(),
            contents: PageContents::default(),
            ledger,
            faults: FaultCounts::default(),
            peak: Peak::default(),
            most: None,
            own_tables: BTreeSet::new(),
            concluded_punches: 0,
        }
    }

    /// An empty address space that belongs to no process.
    pub(super) fn create_space(&mut self) -> Result<SpaceId, OsError> {
        let format = self.policy.table_format(self.config.tables, &self.memory);
        self.create_space_with(format)
    }

    /// An empty address space with tables of this format.
    pub(super) fn create_space_with(&mut self, format: TableFormat) -> Result<SpaceId, OsError> {
        let free = self.spaces.iter().position(Option::is_none).unwrap_or(self.spaces.len());
        let id = SpaceId(u16::try_from(free).map_err(|_| OsError::TooManySpaces)?);
        // Without the rule, 2MB pages of which a part changes are split.
        let holes = self.policy.hole_rule().map(|rule| rule.pages());
        let space = AddressSpace::new(id, format, holes);
        if free == self.spaces.len() {
            self.spaces.push(None);
        }
        self.spaces[free] = Some(Box::new(space));
        self.contents.add_space(id);
        Ok(id)
    }

    /// The address space of this number.
    pub(super) fn space(&self, space: SpaceId) -> Result<&AddressSpace, OsError> {
        match self.spaces.get(usize::from(space.0)) {
            Some(Some(found)) => Ok(found),
            _ => Err(OsError::UnknownSpace { space }),
        }
    }

    /// All address spaces.
    pub fn live_spaces(&self) -> impl Iterator<Item = &AddressSpace> {
        self.spaces.iter().flatten().map(|space| &**space)
    }

    /// An address space and what operations on it act on besides.
    pub(super) fn parts<'a>(
        &'a mut self,
        space: SpaceId,
        updates: &'a mut Vec<Update>,
    ) -> Result<(&'a mut AddressSpace, Effects<'a>), OsError> {
        let Some(Some(found)) = self.spaces.get_mut(usize::from(space.0)) else {
            return Err(OsError::UnknownSpace { space });
        };
        let (memory, ledger) = (&mut self.memory, &mut self.ledger);
        Ok((found, Effects { memory, updates, ledger }))
    }

    /// Acts on two different address spaces at once.
    pub(super) fn with_two_spaces<T>(
        &mut self,
        first: SpaceId,
        second: SpaceId,
        updates: &mut Vec<Update>,
        act: impl FnOnce(&mut AddressSpace, &mut AddressSpace, &mut Effects<'_>) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.space(first)?;
        let mut taken = self.spaces[usize::from(first.0)].take().expect("found above");
        let result = self
            .parts(second, updates)
            .and_then(|(second, mut effects)| act(&mut taken, second, &mut effects));
        self.spaces[usize::from(first.0)] = Some(taken);
        result
    }

    /// The first mapped 2MB region from this one on, address space after address space: how
    /// scanners go round.
    pub(super) fn next_region(&self, (id, number): SpaceRegion) -> Option<SpaceRegion> {
        let first = usize::from(id.0);
        (first..self.spaces.len()).find_map(|slot| {
            let from = if slot == first { number } else { 0 };
            let found = self.spaces[slot].as_ref()?.next_region(from)?;
            Some((SpaceId(slot as u16), found))
        })
    }

    /// Whether a switch to or from the address space touches registers of its overlay.
    pub(super) fn has_registers(&self, space: SpaceId) -> bool {
        self.space(space).ok().and_then(AddressSpace::overlay).is_some_and(Overlay::is_in_registers)
    }

    /// The address space and page whose overlay keeps this frame.
    pub(super) fn kept_page(&self, frame: Frame) -> Option<SpacePage> {
        (0..self.spaces.len()).find_map(|slot| {
            let id = SpaceId(slot as u16);
            let overlay = self.space(id).ok()?.overlay()?;
            Some((id, overlay.page_of(frame)?))
        })
    }

    /// Physical memory.
    pub fn memory(&self) -> &PhysicalMemory {
        &self.memory
    }

    /// Free memory, in frames.
    pub(super) fn free_frames(&self) -> u64 {
        self.memory.zones().free_frames()
    }

    /// Counts a page as touched.
    pub(super) fn touch(&mut self, space: SpaceId, page: u64) {
        if let Some(Some(space)) = self.spaces.get_mut(usize::from(space.0)) {
            let set = space.touched.get_or_default(region_of(page));
            self.faults.touched_pages += u64::from(set.insert(index_of(page)));
        }
    }

    /// Counts these sub-pages of a region as touched.
    pub(super) fn touch_subpages(&mut self, space: SpaceId, number: u64, subpages: &HoleSet) {
        if let Some(Some(space)) = self.spaces.get_mut(usize::from(space.0)) {
            let set = space.touched.get_or_default(number);
            let before = set.count();
            *set = set.union(subpages);
            self.faults.touched_pages += (set.count() - before) as u64;
        }
    }

    /// Whether pages of 2MB or more may back memory, as far as its area and the policy are
    /// concerned.
    pub(super) fn wants_large(&self, attributes: &Attributes) -> bool {
        attributes.eligible() && self.policy.wants_large(attributes)
    }

    /// The orders that may back the first touch of a page, as far as its area, what is mapped around it
    /// and the policy are concerned.
    pub(super) fn orders_at_touch(
        &self,
        id: SpaceId,
        page: u64,
        area: &Area,
    ) -> Result<Orders, OsError> {
        let space = self.space(id)?;
        let (region, gigabyte) = (pages_of(region_of(page)), pages_of_gigabyte(gigabyte_of(page)));
        // What is swapped comes back as 4KB pages.
        let fits = area.spans(&region)
            && space.region(region_of(page)).is_none()
            && !space.is_claimed(&region)
            && !space.any_swapped(region);
        if !fits {
            return Ok(Orders::BASE);
        }
        let large = Orders::BASE.with(Orders::LARGE);
        let fits_huge = area.spans(&gigabyte)
            && self.has_huge_pages()
            && space.is_gigabyte_empty(page)
            && !space.is_claimed(&gigabyte)
            && !sharing::others_map_any(self, id, area, &gigabyte);
        let offered = if fits_huge { large.with(Orders::HUGE) } else { large };
        Ok(self.orders(area, page, OrderPurpose::Fault, offered))
    }

    /// Whether the policy ever has 1GB pages.
    fn has_huge_pages(&self) -> bool {
        let policy = &self.policy;
        policy.rule::<HugePageRule>().is_some() || policy.rule::<PageLayout>().is_some()
    }

    /// The orders that the policy wants of those offered to an area.
    pub(super) fn orders(
        &self,
        area: &Area,
        page: u64,
        purpose: OrderPurpose,
        offered: Orders,
    ) -> Orders {
        if !area.attributes.eligible() {
            return Orders::BASE;
        }
        let memory = &self.memory;
        self.policy.orders_for(&OrderRequest { area, page, purpose, offered, memory })
    }

    /// Whether the policy makes a 2MB page with these holes.
    pub(super) fn accepts(&self, holes: &HoleSet) -> bool {
        match self.policy.use_block(holes) {
            BlockUse::Pages => false,
            BlockUse::Large => true,
            BlockUse::WithHoles(_) => self.config.tables.shadow_directories,
        }
    }

    /// The holes that injected fragmentation gives a region, if it covers it.
    pub(super) fn injected_holes(&self, number: u64) -> Option<HoleSet> {
        self.config.fragmentation?.holes(self.config.seed, number)
    }

    /// Whether injected fragmentation covers any of these regions.
    pub(super) fn is_any_fragmented(&self, mut regions: Range<u64>) -> bool {
        self.config.fragmentation.is_some()
            && regions.any(|region| self.injected_holes(region).is_some())
    }

    /// Completes an out-of-memory error with a memory size that would do: what is used now, and
    /// for every page of an area that is not mapped yet its frame, its share of foreign frames
    /// and of tables.
    pub(super) fn with_estimate(&self, error: OsError) -> OsError {
        let OsError::OutOfMemory { asked_bytes, free_bytes, memory_bytes, .. } = error else {
            return error;
        };
        let untouched_pages: u64 = self.live_spaces().map(AddressSpace::untouched_pages).sum();
        let share = |fragmentation: Fragmentation| {
            fragmentation.portion.value() * fragmentation.hole_share.value()
        };
        let foreign = self.config.fragmentation.map_or(0.0, share);
        let used_bytes = memory_bytes - free_bytes;
        let more_bytes = (untouched_pages * FRAME_BYTES) as f64 * (1.0 + foreign) * 1.02;
        // Faulty frames and what the rest of the system has grow with the memory.
        let others = OtherUse::ALL.into_iter().map(|usage| self.memory.other_frames(usage));
        let lost_bytes = (self.memory.retired_frames() + others.sum::<u64>()) * FRAME_BYTES;
        let usable_share = 1.0 - (lost_bytes as f64 / memory_bytes as f64).min(0.999);
        let needed_bytes = used_bytes - lost_bytes + more_bytes as u64 + asked_bytes + (8 << 20);
        let enough_bytes = ((needed_bytes as f64 / usable_share) as u64 + (1 << 20)) >> 20 << 20;
        OsError::OutOfMemory { asked_bytes, free_bytes, memory_bytes, enough_bytes }
    }
}
