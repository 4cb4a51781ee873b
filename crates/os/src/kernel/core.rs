//! State shared by all parts of the kernel: physical memory, address spaces, the contents of their
//! pages, and the account of all work.
//!
//! Operations without state between calls are free functions on the core, in modules named after
//! the operation. Parts with state (compaction, reclaim, same-page merging, …) are separate
//! components that own their state.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_types::{Frame, HoleSet, SpaceId, Update};

use super::compaction::Compaction;
use super::contents::PageContents;
use super::counters::{FaultCounts, Peak};
use super::folios::Folios;
use super::levels::Levels;
use super::reclaim::Reclaim;
use super::{KernelConfig, Ledger, SpacePage, SpaceRegion, sharing};
use crate::memory::{FRAME_BYTES, PhysicalMemory};
use crate::space::{
    AddressSpace, Area, Attributes, LargePageAdvice, Overlay, SpaceMut, gigabyte_of, index_of,
    pages_of, pages_of_gigabyte, region_of,
};
use crate::{
    BlockUse, FolioSizes, Fragmentation, HugePageRule, OrderPurpose, OrderRequest, Orders, OsError,
    OtherUse, PageLayout, Policy, TableFormat,
};

/// State shared by all parts of the kernel.
pub struct Core {
    /// Configuration that the kernel was made from.
    pub config: KernelConfig,
    /// The policy that chooses page sizes.
    pub(super) policy: Box<dyn Policy>,
    /// Physical memory of the machine.
    pub memory: PhysicalMemory,
    /// Updates (mapping changes, table writes, shootdowns), in order, since the caller last drained the list.
    pub(super) updates: Vec<Update>,
    /// Address spaces, indexed by their number; `None` for a number that is free.
    pub(super) spaces: Vec<Option<Box<AddressSpace>>>,
    /// State of compaction, and of the searches for partly used 2MB blocks to claim.
    pub(super) compaction: Compaction,
    /// State of the reclaim of program memory.
    pub(super) reclaim: Reclaim,
    /// Content identity of each page; equal for equal contents.
    pub(super) contents: PageContents,
    /// Counts of the work that the kernel has done, and shootdowns not sent yet.
    pub(super) ledger: Ledger,
    /// Sizes of folios (16KB to 1MB) that first touches map, and counts of them.
    pub(super) folios: Folios,
    /// Number of page faults of each kind.
    pub(super) faults: FaultCounts,
    /// Number of mapped 4KB pages, in all and by large pages, at the moment when most memory was mapped.
    pub(super) peak: Peak,
    /// Maximum over the run of each kind of memory use (mapped, swapped, …); `None` before the first sample.
    pub(super) most: Option<Levels>,
    /// Frames of shadow page tables, which belong to no address space.
    pub(super) own_tables: BTreeSet<Frame>,
    /// Number of sub-pages punched since boot when demotion last ran. A greater number now means that 2MB
    /// pages got holes since and must be checked.
    pub(super) concluded_punches: u64,
}

impl Core {
    /// Creates a core without address spaces.
    pub(super) fn new(
        config: KernelConfig,
        policy: Box<dyn Policy>,
        memory: PhysicalMemory,
    ) -> Self {
        let ledger = Ledger::default();
        let folios = Folios::new(&config, policy.as_ref());
        Self {
            config,
            policy,
            memory,
            updates: Vec::new(),
            spaces: Vec::new(),
            compaction: Compaction::default(),
            reclaim: Reclaim::default(),
            contents: PageContents::default(),
            folios,
            ledger,
            faults: FaultCounts::default(),
            peak: Peak::default(),
            most: None,
            own_tables: BTreeSet::new(),
            concluded_punches: 0,
        }
    }

    /// Creates an empty address space that belongs to no process.
    pub(super) fn create_space(&mut self) -> Result<SpaceId, OsError> {
        let format = self.policy.table_format(self.config.tables, &self.memory);
        self.create_space_with(format)
    }

    /// Creates an empty address space with page tables of `format`.
    pub(super) fn create_space_with(&mut self, format: TableFormat) -> Result<SpaceId, OsError> {
        let free = self.spaces.iter().position(Option::is_none).unwrap_or(self.spaces.len());
        let id = SpaceId(u16::try_from(free).map_err(|_| OsError::TooManySpaces)?);
        // Without a hole rule, a 2MB page is split when a part of it changes.
        let holes = self.policy.hole_rule().map(|rule| rule.pages());
        let space = AddressSpace::new(id, format, holes);
        if free == self.spaces.len() {
            self.spaces.push(None);
        }
        self.spaces[free] = Some(Box::new(space));
        self.contents.add_space(id);
        Ok(id)
    }

    /// The address space with this number.
    pub fn space(&self, space: SpaceId) -> Result<&AddressSpace, OsError> {
        match self.spaces.get(usize::from(space.0)) {
            Some(Some(found)) => Ok(found),
            _ => Err(OsError::UnknownSpace { space }),
        }
    }

    /// All address spaces in use, in ascending order of number.
    pub fn live_spaces(&self) -> impl Iterator<Item = &AddressSpace> {
        self.spaces.iter().flatten().map(|space| &**space)
    }

    /// Mutable access to an address space, together with the physical memory, updates and work counts that
    /// change with it.
    pub fn space_mut(&mut self, id: SpaceId) -> Result<SpaceMut<'_>, OsError> {
        let Self { spaces, memory, updates, ledger, .. } = self;
        match spaces.get_mut(usize::from(id.0)) {
            Some(Some(space)) => Ok(SpaceMut { space, memory, updates, ledger }),
            _ => Err(OsError::UnknownSpace { space: id }),
        }
    }

    /// First 2MB region with mapped pages, from the given one on. Scanners visit regions in this order: by
    /// address space, then by address.
    pub(super) fn next_region(&self, (id, number): SpaceRegion) -> Option<SpaceRegion> {
        let first = usize::from(id.0);
        (first..self.spaces.len()).find_map(|slot| {
            let from = if slot == first { number } else { 0 };
            let found = self.spaces[slot].as_ref()?.next_region(from)?;
            Some((SpaceId(slot as u16), found))
        })
    }

    /// True if a context switch to or from the address space loads or saves registers of its overlay (a
    /// direct segment).
    pub(super) fn has_registers(&self, space: SpaceId) -> bool {
        self.space(space).ok().and_then(AddressSpace::overlay).is_some_and(Overlay::is_in_registers)
    }

    /// Address space and page of a frame that an overlay (a direct segment), and no page-table entry, maps.
    /// `None` if there is none.
    pub(super) fn kept_page(&self, frame: Frame) -> Option<SpacePage> {
        (0..self.spaces.len()).find_map(|slot| {
            let id = SpaceId(slot as u16);
            let overlay = self.space(id).ok()?.overlay()?;
            Some((id, overlay.page_of(frame)?))
        })
    }

    /// Number of free frames.
    pub(super) fn free_frames(&self) -> u64 {
        self.memory.zones().free_frames()
    }

    /// Counts a page among the distinct touched pages, unless it was counted before.
    pub(super) fn touch(&mut self, space: SpaceId, page: u64) {
        if let Some(Some(space)) = self.spaces.get_mut(usize::from(space.0)) {
            let set = space.touched.get_or_default(region_of(page));
            self.faults.touched_pages += u64::from(set.insert(index_of(page)));
        }
    }

    /// Counts sub-pages of a 2MB region among the distinct touched pages, except those counted before.
    pub(super) fn touch_subpages(&mut self, space: SpaceId, number: u64, subpages: &HoleSet) {
        if let Some(Some(space)) = self.spaces.get_mut(usize::from(space.0)) {
            let set = space.touched.get_or_default(number);
            let before = set.count();
            *set = set.union(subpages);
            self.faults.touched_pages += (set.count() - before) as u64;
        }
    }

    /// True if the attributes of a memory area and the policy allow pages of 2MB or more.
    pub fn wants_large(&self, attributes: &Attributes) -> bool {
        attributes.eligible() && self.policy.wants_large(attributes)
    }

    /// Page sizes (orders) that may back the first touch of a page: those that its memory area, the mappings
    /// around it and the policy allow.
    pub(super) fn orders_at_touch(
        &self,
        id: SpaceId,
        page: u64,
        area: &Area,
    ) -> Result<Orders, OsError> {
        if !self.fits_large(id, page, area)? {
            return Ok(Orders::BASE);
        }
        let space = self.space(id)?;
        let gigabyte = pages_of_gigabyte(gigabyte_of(page));
        let large = Orders::BASE.with(Orders::LARGE);
        let fits_huge = area.spans(&gigabyte)
            && (self.has_huge_pages() || area.attributes.wants_order(Orders::HUGE))
            && space.is_gigabyte_empty(page)
            && !space.is_claimed(&gigabyte)
            && !sharing::others_map_any(self, id, area, &gigabyte);
        let offered = if fits_huge { large.with(Orders::HUGE) } else { large };
        Ok(self.orders(area, page, OrderPurpose::Fault, offered))
    }

    /// True if the memory area and the mappings around a page leave room for a 2MB page, whatever the policy
    /// is.
    pub(super) fn fits_large(&self, id: SpaceId, page: u64, area: &Area) -> Result<bool, OsError> {
        let (space, region) = (self.space(id)?, pages_of(region_of(page)));
        // Swapped pages are read back as 4KB pages.
        Ok(area.spans(&region)
            && space.region(region_of(page)).is_none()
            && !space.any_held_elsewhere(&region))
    }

    /// True if the policy ever maps 1GB pages.
    fn has_huge_pages(&self) -> bool {
        let policy = &self.policy;
        policy.rule::<HugePageRule>().is_some() || policy.rule::<PageLayout>().is_some()
    }

    /// Order of the folios that the program asked for in a memory area; `None` if it asked for none, or if the
    /// policy maps no pages larger than 4KB.
    pub(super) fn wanted_folio(&self, attributes: &Attributes) -> Option<u32> {
        match attributes.large_pages {
            LargePageAdvice::Order(order) if FolioSizes::ORDERS.contains(&order) => {
                self.policy.maps_large().then_some(order)
            }
            _ => None,
        }
    }

    /// Page sizes (orders) that the policy selects for `page` of a memory area; a subset of `offered`.
    pub(super) fn orders(
        &self,
        area: &Area,
        page: u64,
        purpose: OrderPurpose,
        offered: Orders,
    ) -> Orders {
        if !area.attributes.eligible() || self.wanted_folio(&area.attributes).is_some() {
            return Orders::BASE;
        }
        let memory = &self.memory;
        self.policy.orders_for(&OrderRequest { area, page, purpose, offered, memory })
    }

    /// True if the policy accepts a 2MB page with these holes.
    pub(super) fn accepts(&self, holes: &HoleSet) -> bool {
        match self.policy.use_block(holes) {
            BlockUse::Pages => false,
            BlockUse::Large => true,
            BlockUse::WithHoles(_) => self.config.tables.shadow_directories,
        }
    }

    /// Holes that the option `fragmentation` generates for a 2MB region; `None` if it generates none.
    pub(super) fn injected_holes(&self, number: u64) -> Option<HoleSet> {
        self.config.fragmentation?.holes(self.config.seed, number)
    }

    /// True if the option `fragmentation` generates holes in this 2MB region.
    pub(super) fn is_fragmented(&self, region: u64) -> bool {
        self.config.fragmentation.is_some_and(|it| it.has_holes(self.config.seed, region))
    }

    /// True if the option `fragmentation` generates holes in any of these 2MB regions.
    pub(super) fn is_any_fragmented(&self, mut regions: Range<u64>) -> bool {
        self.config.fragmentation.is_some() && regions.any(|region| self.is_fragmented(region))
    }

    /// Adds to an out-of-memory error the memory size that would suffice. The estimate is the current use
    /// plus, for every unmapped page of a memory area, its frame and its share of tables and of the rest of
    /// the system's frames.
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
        // Faulty frames and frames of the rest of the system grow in number with the memory.
        let others = OtherUse::ALL.into_iter().map(|usage| self.memory.other_frames(usage));
        let lost_bytes = (self.memory.retired_frames() + others.sum::<u64>()) * FRAME_BYTES;
        let usable_share = 1.0 - (lost_bytes as f64 / memory_bytes as f64).min(0.999);
        let needed_bytes = used_bytes - lost_bytes + more_bytes as u64 + asked_bytes + (8 << 20);
        let enough_bytes = ((needed_bytes as f64 / usable_share) as u64 + (1 << 20)) >> 20 << 20;
        OsError::OutOfMemory { asked_bytes, free_bytes, memory_bytes, enough_bytes }
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;
    use perforate_types::{Backing, Permissions, ProgramEvent, VirtualAddress};

    use super::*;
    use crate::{BasePages, Kernel};

    const MB: u64 = 1 << 20;

    /// A kernel of 64MB with 16MB that no program has touched.
    fn kernel(fragmentation: Option<&str>) -> Kernel {
        let fragmentation = fragmentation.map(|text| read(text).unwrap());
        let config = KernelConfig { fragmentation, ..KernelConfig::new(64 * MB) };
        let mut kernel = Kernel::new(config, Box::new(BasePages)).unwrap();
        let map = ProgramEvent::Map {
            start: VirtualAddress::new(1 << 30),
            length: 16 * MB,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        };
        kernel.event(&map).unwrap();
        kernel
    }

    /// Size of memory that suffices, in MB, where 32MB of 64MB are free and a frame is asked for.
    fn enough(kernel: &Kernel) -> u64 {
        let error = OsError::OutOfMemory {
            asked_bytes: 4096,
            free_bytes: 32 * MB,
            memory_bytes: 64 * MB,
            enough_bytes: 0,
        };
        match kernel.core.with_estimate(error) {
            OsError::OutOfMemory { asked_bytes: 4096, free_bytes, memory_bytes, enough_bytes } => {
                assert_eq!((free_bytes, memory_bytes), (32 * MB, 64 * MB));
                assert!(enough_bytes.is_multiple_of(MB));
                enough_bytes / MB
            }
            error => panic!("{error}"),
        }
    }

    #[test]
    fn what_suffices_is_what_is_used_and_what_is_untouched() {
        // 32 used, 16 × 1.02 = 16.32 untouched, a frame, 8 to spare: 56.32 and 1, rounded down.
        assert_eq!(enough(&kernel(None)), 57);
        // Others' data take 12.5 % of the memory that is touched: 32 + 18.36 + 8 + 1.
        assert_eq!(enough(&kernel(Some("portion=50%,holes=25%,clustered"))), 59);
        // A quarter of the memory is of no use: (32 − 16 + 16.32 + 8) ÷ 0.75 = 53.76, and 1.
        let mut spoilt = kernel(None);
        spoilt.core.memory.add_other(OtherUse::Kernel, 2048, 0).unwrap();
        spoilt.core.memory.add_other(OtherUse::PageCache, 1024, 0).unwrap();
        (0..1024).for_each(|frame| assert!(spoilt.core.memory.retire(Frame::new(frame))));
        assert_eq!(enough(&spoilt), 54);
        let other = OsError::TooManySpaces;
        assert_eq!(spoilt.core.with_estimate(other.clone()), other);
    }

    #[test]
    fn slots_of_address_spaces_are_used_again() {
        let mut kernel = kernel(None);
        let made = [(); 3].map(|()| kernel.create_space().unwrap().0);
        assert_eq!(made, [1, 2, 3]);
        kernel.destroy_space(SpaceId(2)).unwrap();
        let gone = OsError::UnknownSpace { space: SpaceId(2) };
        assert_eq!(kernel.destroy_space(SpaceId(2)), Err(gone));
        assert_eq!([(); 2].map(|()| kernel.create_space().unwrap().0), [2, 4]);
    }
}
