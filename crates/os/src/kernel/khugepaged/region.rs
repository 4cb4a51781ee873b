//! Regions of 4KB pages that may become 2MB pages, and their contents.

use perforate_types::{HoleSet, Permissions, SpaceId};

use super::super::Core;
use super::KhugepagedConfig;
use crate::memory::complement;
use crate::space::{AddressSpace, Area, Entries, Mapping, Pages, Region, pages_of};
use crate::{OrderPurpose, Orders};

/// Reason why khugepaged does not promote a 2MB region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// More pages of the 2MB region are absent than `max_ptes_none` allows.
    Absent,
    /// More pages of the 2MB region are swapped out than `max_ptes_swap` allows.
    Swapped,
    /// More pages of the 2MB region have a shared frame than `max_ptes_shared` allows.
    Shared,
    /// Permissions of a page and of its memory area differ, not counting write permission.
    Permissions,
    /// The option `fragmentation` generates holes for the region.
    Injected,
    /// No suitable 2MB block of frames was found for any promotion that the policy supports.
    NoBlock,
    /// The policy chose none of the possible promotions.
    Policy,
    /// Memory ran out during the promotion.
    Memory,
}

/// State of the 512 pages of a 2MB region: mapped, shared, swapped, and their page-table entries.
pub(super) struct Census {
    /// Permissions of the region's memory area.
    pub permissions: Permissions,
    /// Indices of the region's pages that are mapped.
    pub mapped: HoleSet,
    /// Indices of the mapped pages whose frame other pages also map.
    pub shared: HoleSet,
    /// Indices of the region's pages that are swapped out.
    pub swapped: HoleSet,
    /// Page-table entries of the region's 4KB pages.
    pub entries: Entries,
}

impl Census {
    /// Indices of the region's pages that have neither a frame nor a swap slot.
    pub(super) fn absent(&self) -> HoleSet {
        complement(&self.mapped.union(&self.swapped))
    }

    /// True if the 2MB region has not changed between the two censuses: permissions and sets of mapped,
    /// shared and swapped pages are equal. Frames may differ.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let sets = |census: &Self| (census.mapped, census.shared, census.swapped);
        sets(self) == sets(other) && self.permissions == other.permissions
    }
}

/// Checks khugepaged's limits (`max_ptes_*`) for a 2MB region. An error is the limit that is exceeded.
pub(super) fn check_limits(limits: &KhugepagedConfig, census: &Census) -> Result<(), Refusal> {
    let exceeds = |pages: &HoleSet, most: u64| pages.count() as u64 > most;
    match () {
        () if exceeds(&census.absent(), limits.max_ptes_none.get()) => Err(Refusal::Absent),
        () if exceeds(&census.swapped, limits.max_ptes_swap.get()) => Err(Refusal::Swapped),
        () if exceeds(&census.shared, limits.max_ptes_shared.get()) => Err(Refusal::Shared),
        () => Ok(()),
    }
}

/// Checks permissions and generated fragmentation of a 2MB region. An error is the reason why the region cannot
/// become a 2MB page.
pub(super) fn check(core: &Core, number: u64, census: &Census) -> Result<(), Refusal> {
    // Copy-on-write pages lack write permission; their other permissions must be the area's.
    let differs = census.mapped.iter().any(|index| {
        let own = census.entries[index].permissions();
        Permissions { write: census.permissions.write, ..own } != census.permissions
    });
    match () {
        () if differs => Err(Refusal::Permissions),
        () if core.is_fragmented(number) => Err(Refusal::Injected),
        () => Ok(()),
    }
}

/// True if 4KB pages map the 2MB region and it may become a 2MB page.
pub(super) fn may_promote(core: &Core, space: &AddressSpace, number: u64) -> bool {
    promotable_pages(core, space, number).is_some()
}

/// 4KB pages of a 2MB region that may become a 2MB page, and the region's memory area. `None` if it may not.
fn promotable_pages<'a>(
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

/// Examines the pages of a 2MB region that may become a 2MB page; `None` if the region may not.
pub(super) fn census(core: &Core, id: SpaceId, number: u64) -> Option<Census> {
    let space = core.space(id).ok()?;
    let (pages, area) = promotable_pages(core, space, number)?;
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
