//! Shared mappings (MAP_SHARED): all mappings of one page of a shared object use one frame.
//!
//! Areas record their object and its position, and fork copies areas; there are no other records. A
//! touch of an unmapped page searches the other areas of the object (Linux: `i_mmap`) and uses the
//! frame that one of them maps. There is no page cache: memory that is unmapped everywhere is lost,
//! and the next touch allocates new memory.
//!
//! A 2MB page, ordinary or perforated, is shared as one page if the addresses are congruent modulo
//! 2MB and policy and program allow it. From then on each address space has separate holes.

mod join;
mod share;

use std::ops::Range;

use perforate_types::{Frame, HoleSet, SpaceId, VirtualPage};

use super::{Core, Kernel};
use crate::memory::complement;
use crate::space::{AddressSpace, Area, SharedObject, page_at, region_of, subpages_of};

pub(super) use join::{SharedMemory, join_hole};

/// Position of a page of shared memory (MAP_SHARED): shared object, and number of the page in that object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedPlace {
    /// Number of the shared object, which one mmap created.
    pub object: u64,
    /// Number of the page in the shared object; modulo 2⁶⁴ if a mapping reaches below its first page.
    pub page: u64,
}

/// Part of another mapping of a shared object, found for some pages by [`elsewhere`]. Page p of these pages
/// and page p + `distance` of the other mapping are the same page of the object.
struct Elsewhere {
    space: SpaceId,
    pages: Range<u64>,
    distance: i64,
}

impl Elsewhere {
    /// True if both parts belong to one mapping: the address spaces and distances are equal.
    fn is_same_mapping(&self, other: &Self) -> bool {
        (self.space, self.distance) == (other.space, other.distance)
    }
}

/// Counter of the shared objects that MAP_SHARED mappings have created.
#[derive(Default)]
pub(super) struct SharedObjects {
    created: u64,
}

impl SharedObjects {
    /// Creates the shared object of a new MAP_SHARED mapping whose first page is `base`.
    pub(super) fn make(&mut self, base: u64) -> SharedObject {
        self.created += 1;
        SharedObject { id: self.created, base }
    }
}

impl Kernel {
    /// Shared object of a page, and the page's number in that object. `None` for private memory and outside
    /// all areas.
    pub fn shared_place(&self, space: SpaceId, page: VirtualPage) -> Option<SharedPlace> {
        let object = object_at(&self.core, space, page.number())?;
        Some(SharedPlace { object: object.id, page: object.page_at(page.number()) })
    }
}

fn object_at(core: &Core, space: SpaceId, page: u64) -> Option<SharedObject> {
    core.space(space).ok()?.areas.find(page)?.attributes.object
}

/// Parts of other mappings that map the same shared memory as `pages` in address space `id`.
fn elsewhere(core: &Core, id: SpaceId, object: SharedObject, pages: &Range<u64>) -> Vec<Elsewhere> {
    let mut found = Vec::new();
    for (slot, space) in core.spaces.iter().enumerate() {
        let Some(space) = space else { continue };
        let space_id = SpaceId(slot as u16);
        for area in space.areas.of_object(object.id) {
            let base = area.attributes.object.map_or(object.base, |other_object| other_object.base);
            let distance = base.wrapping_sub(object.base) as i64;
            let start = (pages.start as i64 + distance).max(area.start as i64);
            let end = (pages.end as i64 + distance).min(area.end as i64);
            if start < end && (space_id != id || distance != 0) {
                let pages = start as u64..end as u64;
                found.push(Elsewhere { space: space_id, pages, distance });
            }
        }
    }
    found
}

/// Other virtual pages mapped to the same shared memory as `page` of address space `id`: (address space,
/// page number).
pub(super) fn mapped_elsewhere(core: &Core, id: SpaceId, page: u64) -> Vec<(SpaceId, u64)> {
    let Some(object) = object_at(core, id, page) else { return Vec::new() };
    let parts = elsewhere(core, id, object, &(page..page + 1)).into_iter();
    parts
        .map(|part| (part.space, part.pages.start))
        .filter(|&(space, other_page)| frame_at(core, space, other_page).is_some())
        .collect()
}

fn frame_at(core: &Core, space: SpaceId, page: u64) -> Option<Frame> {
    core.space(space).ok()?.frame_of(page)
}

/// Frame that another mapping uses for a page of shared memory; `None` if no other mapping has one.
pub(super) fn frame_elsewhere(core: &Core, id: SpaceId, page: u64) -> Option<Frame> {
    let &(space, other_page) = mapped_elsewhere(core, id, page).first()?;
    frame_at(core, space, other_page)
}

/// True if other mappings have frames for any of these pages of a shared memory area. A newly allocated large
/// page would then wrongly be separate memory.
pub(super) fn others_map_any(core: &Core, id: SpaceId, area: &Area, pages: &Range<u64>) -> bool {
    let Some(object) = area.attributes.object else { return false };
    elsewhere(core, id, object, pages)
        .iter()
        .any(|part| core.space(part.space).is_ok_and(|space| space.maps_any(&part.pages)))
}

impl AddressSpace {
    /// True if the address space maps any of these pages.
    fn maps_any(&self, pages: &Range<u64>) -> bool {
        let has_frame = |page| self.frame_of(page).is_some();
        !self.wide_within(pages).is_empty()
            || self.regions_within(pages).into_iter().any(|number| {
                subpages_of(pages, number).iter().any(|index| has_frame(page_at(number, index)))
            })
    }

    /// True if hole `page` and the sub-pages that its 2MB page maps in place are both shared or both private
    /// memory. Otherwise fork and writes would have to treat the two differently.
    pub fn is_shared_as_in_place(&self, page: u64) -> bool {
        let is_shared =
            |page| self.areas.find(page).is_some_and(|area| area.attributes.is_shared());
        let number = region_of(page);
        let holes = self.holed(number).map_or(HoleSet::FULL, |holed| holed.holes);
        let in_place = complement(&holes);
        let first = in_place.iter().next().map(|index| page_at(number, index));
        first.is_none_or(|first| is_shared(first) == is_shared(page))
    }
}
