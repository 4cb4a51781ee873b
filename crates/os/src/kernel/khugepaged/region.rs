//! Regions that may become 2MB pages, and their contents.

use perforate_types::{HoleSet, Permissions, SpaceId};

use super::super::Core;
use super::Khugepaged;
use crate::memory::complement;
use crate::space::{AddressSpace, Area, Entries, Mapping, Pages, Region, pages_of};
use crate::{OrderPurpose, Orders};

/// Why a region stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// More pages are absent than `max_ptes_none`.
    Absent,
    /// More pages are swapped out than `max_ptes_swap`.
    Swapped,
    /// More pages are shared than `max_ptes_shared`.
    Shared,
    /// A page allows other accesses than its area, writes apart.
    Permissions,
    /// Injected fragmentation covers it.
    Injected,
    /// No way that the policy wants is to be had: no block.
    NoBlock,
    /// The policy wanted none of the ways there were.
    Policy,
    /// Memory was short half-way.
    Memory,
}

impl Refusal {
    /// All reasons.
    pub(super) const ALL: [Self; 8] = [
        Self::Absent,
        Self::Swapped,
        Self::Shared,
        Self::Permissions,
        Self::Injected,
        Self::NoBlock,
        Self::Policy,
        Self::Memory,
    ];

    /// Name of its counter.
    pub(super) const fn counter(self) -> &'static str {
        match self {
            Self::Absent => "khugepaged_refused_absent",
            Self::Swapped => "khugepaged_refused_swapped",
            Self::Shared => "khugepaged_refused_shared",
            Self::Permissions => "khugepaged_refused_permissions",
            Self::Injected => "khugepaged_refused_injected",
            Self::NoBlock => "khugepaged_refused_no_block",
            Self::Policy => "khugepaged_refused_by_policy",
            Self::Memory => "khugepaged_refused_memory",
        }
    }

    /// The same in words.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Absent => "more pages are absent than max_ptes_none",
            Self::Swapped => "more pages are swapped out than max_ptes_swap",
            Self::Shared => "more pages are shared than max_ptes_shared",
            Self::Permissions => "a page allows other accesses than its area, writes apart",
            Self::Injected => "injected fragmentation covers them",
            Self::NoBlock => "no block was to be had in a way that the policy wants",
            Self::Policy => "the policy wanted none of the ways there were",
            Self::Memory => "memory was short half-way",
        }
    }
}

/// Contents of a region that 4KB pages map.
pub(super) struct Census {
    /// Permissions of its area.
    pub permissions: Permissions,
    /// Pages mapped.
    pub mapped: HoleSet,
    /// Those of them whose frame others map as well.
    pub shared: HoleSet,
    /// Pages that are swapped out.
    pub swapped: HoleSet,
    /// The entries.
    pub entries: Entries,
}

impl Census {
    /// Pages without a frame or a place in swap.
    pub(super) fn absent(&self) -> HoleSet {
        complement(&self.mapped.union(&self.swapped))
    }

    /// Whether the same pages are there in the same way, whatever frames they have.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let sets = |census: &Self| (census.mapped, census.shared, census.swapped);
        sets(self) == sets(other) && self.permissions == other.permissions
    }
}

impl Khugepaged {
    /// Whether the knobs and the injected fragmentation let the region be a 2MB page.
    pub(super) fn check_limits(
        &self,
        core: &Core,
        number: u64,
        census: &Census,
    ) -> Result<(), Refusal> {
        let knobs = &self.config;
        let exceeds = |pages: &HoleSet, most: u64| pages.count() as u64 > most;
        let injected = core.injected_holes(number).is_some();
        // Pages that wait for their copy on write are read-only; all else is the area's.
        let differs = census.mapped.iter().any(|index| {
            let own = census.entries[index].permissions();
            Permissions { write: census.permissions.write, ..own } != census.permissions
        });
        match () {
            () if exceeds(&census.absent(), knobs.max_ptes_none.get()) => Err(Refusal::Absent),
            () if exceeds(&census.swapped, knobs.max_ptes_swap.get()) => Err(Refusal::Swapped),
            () if exceeds(&census.shared, knobs.max_ptes_shared.get()) => Err(Refusal::Shared),
            () if differs => Err(Refusal::Permissions),
            () if injected => Err(Refusal::Injected),
            () => Ok(()),
        }
    }
}

/// Whether 4KB pages map a region that may be a 2MB page.
pub(super) fn may_promote(core: &Core, space: &AddressSpace, number: u64) -> bool {
    pages_and_area(core, space, number).is_some()
}

/// The pages of a region that may be a 2MB page, and its area.
fn pages_and_area<'a>(
    core: &Core,
    space: &'a AddressSpace,
    number: u64,
) -> Option<(&'a Pages, Area)> {
    let Region { mapping: Mapping::Pages(pages), .. } = space.region(number)? else {
        return None;
    };
    let region = pages_of(number);
    let area = space.areas.find(region.start)?;
    let fits = !area.attributes.is_shared() && area.spans(&region) && !space.is_claimed(&region);
    let offered = Orders::BASE.with(Orders::LARGE);
    let wanted = || core.orders(&area, region.start, OrderPurpose::Khugepaged, offered);
    (fits && wanted().contains(Orders::LARGE)).then_some((pages, area))
}

/// Contents of a region that may become a 2MB page.
pub(super) fn census(core: &Core, id: SpaceId, number: u64) -> Option<Census> {
    let space = core.space(id).ok()?;
    let (pages, area) = pages_and_area(core, space, number)?;
    let mapped = space.mapped_pages(number);
    let is_shared = |&index: &usize| core.memory.is_shared(pages.entries[index].frame());
    Some(Census {
        permissions: area.attributes.effective(),
        mapped,
        shared: mapped.iter().filter(is_shared).collect(),
        swapped: space.swapped_pages(number),
        entries: pages.entries.clone(),
    })
}
