//! The kernel's interfaces to perforated pages.

use std::ops::Range;

use perforate_os::OsError;
use perforate_os::mechanism::{
    AddressSpace, Attributes, Detacher, Effects, Entries, Extent, HoledPages, Large, Mechanism,
    Part, Present, REGION_PAGES, allowed, index_of, page_at, region_of, subpages_of,
};
use perforate_types::{Frame, HoleSet, Permissions};

use super::acts::{
    copy_perforated, existing_perforated, map_hole, move_perforated, patch, perforate,
    protect_perforated, protect_perforated_part, punch, remap_hole, report_perforated, unmap_hole,
    unmap_perforated,
};
use super::demotion::demote;
use super::page::PerforatedPage;
use super::reservation::{self, keep_reserved, release_reserved};
use crate::perforated::HOLE_BRANCH;

/// Mechanism of perforated pages. It also detaches single pages from ordinary 2MB pages, by
/// punching (P §VI).
pub(crate) struct PerforatedPages;

impl Mechanism for PerforatedPages {
    fn map(
        &self,
        space: &mut AddressSpace,
        first: u64,
        extent: Box<dyn Extent>,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let page = extent.downcast::<PerforatedPage>();
        let large = Large { block: page.block, permissions: page.permissions };
        perforate(space, region_of(first), large, page.holes, effects)
    }

    fn unmap(
        &self,
        space: &mut AddressSpace,
        first: u64,
        effects: &mut Effects<'_>,
    ) -> Box<dyn Extent> {
        Box::new(unmap_perforated(space, region_of(first), effects))
    }

    fn protect(
        &self,
        space: &mut AddressSpace,
        first: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        protect_perforated(space, region_of(first), permissions, effects);
    }

    fn break_up(
        &self,
        space: &mut AddressSpace,
        first: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        demote(space, region_of(first), effects)?;
        effects.work().large_pages_split += 1;
        Ok(())
    }

    fn drop_subpages(
        &self,
        space: &mut AddressSpace,
        first: u64,
        subpages: &HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<Part, OsError> {
        let number = region_of(first);
        release_reserved(space, number, subpages, effects);
        for index in subpages.iter() {
            let page = page_at(number, index);
            let frame = match space.find(page) {
                Some(Present::InPlace(..)) => punch(space, page, effects)?,
                Some(Present::Detached(..)) => unmap_hole(space, page, effects),
                _ => continue,
            };
            effects.memory.release(frame);
        }
        Ok(Part::Done)
    }

    fn protect_part(
        &self,
        space: &mut AddressSpace,
        first: u64,
        pages: &Range<u64>,
        attributes: &Attributes,
        effects: &mut Effects<'_>,
    ) -> Result<Part, OsError> {
        let number = region_of(first);
        let subpages = subpages_of(pages, number);
        if subpages == HoleSet::FULL {
            let shared = space.extent(first).is_shared(effects.memory);
            protect_perforated(space, number, allowed(attributes, shared), effects);
        }
        protect_perforated_part(space, number, &subpages, attributes, effects)?;
        Ok(Part::Done)
    }

    fn copy_to(
        &self,
        space: &mut AddressSpace,
        first: u64,
        child: &mut AddressSpace,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        copy_perforated(space, region_of(first), child, effects)
    }

    fn moves_as_one(&self, _space: &AddressSpace, _first: u64, target: u64) -> bool {
        target.is_multiple_of(REGION_PAGES)
    }

    fn move_to(
        &self,
        space: &mut AddressSpace,
        first: u64,
        target: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        move_perforated(space, region_of(first), region_of(target), effects)
    }

    fn detacher(&self, _space: &AddressSpace) -> Option<&'static dyn Detacher> {
        Some(&Self)
    }
}

impl Detacher for PerforatedPages {
    fn detach(
        &self,
        space: &mut AddressSpace,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Result<Frame, OsError> {
        punch(space, page, effects)
    }

    fn attach(
        &self,
        space: &mut AddressSpace,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Option<Frame> {
        patch(space, page, effects)
    }

    fn place_of(&self, space: &AddressSpace, page: u64) -> Frame {
        existing_perforated(space, region_of(page)).in_place(index_of(page))
    }

    fn fill(
        &self,
        space: &mut AddressSpace,
        page: u64,
        frame: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        map_hole(space, page, frame, permissions, effects);
    }

    fn fill_in_place(
        &self,
        space: &mut AddressSpace,
        page: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> bool {
        reservation::fill_in_place(space, page, permissions, effects)
    }

    fn vacate(&self, space: &mut AddressSpace, page: u64, effects: &mut Effects<'_>) -> Frame {
        unmap_hole(space, page, effects)
    }

    fn refill(
        &self,
        space: &mut AddressSpace,
        page: u64,
        frame: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Frame {
        remap_hole(space, page, frame, permissions, effects)
    }
}

impl HoledPages for PerforatedPages {
    fn map_around(
        &self,
        space: &mut AddressSpace,
        number: u64,
        large: Large,
        holes: HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        perforate(space, number, large, holes, effects)
    }

    fn reserve(
        &self,
        space: &mut AddressSpace,
        number: u64,
        large: Large,
        reserved: HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        perforate(space, number, large, HoleSet::FULL, effects)?;
        keep_reserved(space, number, reserved);
        Ok(())
    }

    fn replace_pages(
        &self,
        space: &mut AddressSpace,
        number: u64,
        large: Large,
        holes: HoleSet,
        node: Frame,
        effects: &mut Effects<'_>,
    ) -> Entries {
        let page = Box::new(PerforatedPage::new(large, holes, node));
        let entries = space.take_pages(number, page, effects);
        space.add_node(number, node, HOLE_BRANCH, effects);
        report_perforated(space, number, large, holes, effects);
        entries
    }

    fn take_place(&self, space: &mut AddressSpace, page: u64, effects: &mut Effects<'_>) -> bool {
        reservation::take_in_place(space, page, effects)
    }

    fn release_reserved(
        &self,
        space: &mut AddressSpace,
        number: u64,
        subpages: &HoleSet,
        effects: &mut Effects<'_>,
    ) -> u64 {
        release_reserved(space, number, subpages, effects)
    }
}
