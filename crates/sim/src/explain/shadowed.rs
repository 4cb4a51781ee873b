//! Descriptions of shadow page-table entries: the mappings of guest and host that an entry
//! combines.

use perforate_mmu::{Dimension, SidebandTlb};
use perforate_schemes::gap_tolerant::GapTolerantRadix;
use perforate_schemes::perforated::{PerforatedPage, PerforatedRadix};
use perforate_schemes::shadow::Shadow;
use perforate_types::{GuestFrame, PageSize, SpaceId, VirtualAddress, VirtualPage};

use crate::System;

/// Describes the mappings that the shadow entry of an address combines. `None` without shadow
/// tables, or if guest or host do not map the address.
pub(super) fn origin(system: &System, address: VirtualAddress) -> Option<String> {
    let shadow: &Shadow = system.mmu().dimension().part()?;
    let (space, page) = (system.kernel().current(), address.page());
    let guest = shadow.guest_leaf(space, page)?;
    let host = shadow.host_leaf(GuestFrame::new(guest.frame_of(page).number()))?;
    let mapping = if shadow.is_in_guest_tables(space, page) {
        in_tables(shadow.guest(), space, page).unwrap_or(size_name(guest.size))
    } else {
        shadow.guest().sideband_tlb().map_or("unit", SidebandTlb::name)
    };
    let hole = if is_hole(shadow.guest(), space, page) { "a hole in " } else { "" };
    let host = size_name(host.size);
    Some(format!("made of {hole}the guest's {mapping} over a {host} of the host"))
}

/// Describes the guest's mapping in words if it is a gap-tolerant superpage or a perforated page;
/// `None` for an ordinary page.
fn in_tables(guest: &dyn Dimension, space: SpaceId, page: VirtualPage) -> Option<&'static str> {
    if let Some(tables) = guest.part::<GapTolerantRadix>() {
        return tables.look_at_superpage(space, page).map(|_| "gap-tolerant superpage");
    }
    perforated_around(guest, space, page).map(|_| "perforated page")
}

fn is_hole(guest: &dyn Dimension, space: SpaceId, page: VirtualPage) -> bool {
    let found = perforated_around(guest, space, page);
    found.is_some_and(|found| found.holes.contains(page.index_in(PageSize::Size2M)))
}

fn perforated_around(
    guest: &dyn Dimension,
    space: SpaceId,
    page: VirtualPage,
) -> Option<PerforatedPage> {
    let pages = guest.part::<PerforatedRadix>()?.perforated_pages();
    let first = page.align_down(PageSize::Size2M);
    pages.into_iter().find(|found| (found.space, found.page) == (space, first))
}

const fn size_name(size: PageSize) -> &'static str {
    match size {
        PageSize::Size4K => "4KB page",
        PageSize::Size2M => "2MB page",
        PageSize::Size1G => "1GB page",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_names_by_size() {
        let names = PageSize::ALL.map(size_name);
        assert_eq!(names, ["4KB page", "2MB page", "1GB page"]);
    }
}
