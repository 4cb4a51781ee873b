//! Shared mappings (MAP_SHARED): whoever maps a page of an object maps the same frame.
//!
//! Areas say what they map of which object, and fork copies areas; that is all there is to know.
//! A touch where nothing is mapped looks through the other areas of the object (Linux: `i_mmap`)
//! and takes the frame that one of them has. There is no page cache: memory that nobody maps any
//! more is gone, and begins anew with the next touch.
//!
//! A 2MB page, ordinary or perforated, is joined as one where the addresses are congruent and
//! policy and program allow it; the holes are each space's own from then on (P-2).

use std::ops::Range;

use perforate_types::{Frame, HoleSet, PageSize, Permissions, SpaceId, Update, VirtualPage};

use super::{FirstTouch, Kernel};
use crate::OsError;
use crate::memory::complement;
use crate::space::{
    AddressSpace, Area, Effects, GIGABYTE_PAGES, Large, Mapping, Present, REGION_PAGES,
    SharedObject, first_of, gigabyte_of, index_of, page_at, pages_of, pages_of_gigabyte, region_of,
    subpages_of,
};

/// What a page of a shared mapping is a page of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedPlace {
    /// Number of the shared mapping that made the memory.
    pub object: u64,
    /// Page of that memory; modulo 2⁶⁴ where a mapping reaches below its first page.
    pub page: u64,
}

/// A part of an object that an area maps: `pages` there, `distance` pages above those here.
struct Elsewhere {
    space: SpaceId,
    pages: Range<u64>,
    distance: i64,
}

impl Elsewhere {
    /// Whether both are parts of the object as one address space maps it at one place.
    fn is_same_mapping(&self, other: &Self) -> bool {
        (self.space, self.distance) == (other.space, other.distance)
    }
}

/// What a 2MB mapping holds of an object.
struct SharedBlock {
    block: Frame,
    /// Sub-pages that are not in place.
    holes: HoleSet,
    /// Those of them that are mapped, to which frames.
    moved: Vec<(usize, Frame)>,
}

impl Kernel {
    /// The object of a new shared mapping whose first page is `base`.
    pub(super) fn new_object(&mut self, base: u64) -> SharedObject {
        self.shared_objects += 1;
        SharedObject { id: self.shared_objects, base }
    }

    /// What a page of shared memory is a page of; `None` for private memory and where there is no
    /// area.
    pub fn shared_place(&self, space: SpaceId, page: VirtualPage) -> Option<SharedPlace> {
        let object = self.object_at(space, page.number())?;
        Some(SharedPlace { object: object.id, page: object.page_at(page.number()) })
    }

    fn object_at(&self, space: SpaceId, page: u64) -> Option<SharedObject> {
        self.space(space).ok()?.areas.find(page)?.attributes.object
    }

    /// The other parts of areas that map what `pages` of `id` are pages of.
    fn elsewhere(&self, id: SpaceId, object: SharedObject, pages: &Range<u64>) -> Vec<Elsewhere> {
        let mut found = Vec::new();
        for (slot, space) in self.spaces.iter().enumerate() {
            let Some(space) = space else { continue };
            let space_id = SpaceId(slot as u16);
            for area in space.areas.of_object(object.id) {
                let base = area.attributes.object.map_or(object.base, |there| there.base);
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

    /// Other pages that map what `page` of `id` is a page of.
    pub(super) fn mapped_elsewhere(&self, id: SpaceId, page: u64) -> Vec<(SpaceId, u64)> {
        let Some(object) = self.object_at(id, page) else { return Vec::new() };
        let parts = self.elsewhere(id, object, &(page..page + 1)).into_iter();
        parts
            .map(|part| (part.space, part.pages.start))
            .filter(|&(space, there)| self.frame_at(space, there).is_some())
            .collect()
    }

    fn frame_at(&self, space: SpaceId, page: u64) -> Option<Frame> {
        self.space(space).ok()?.find(page)?.frame()
    }

    /// The frame that others have for a page of shared memory.
    pub(super) fn frame_elsewhere(&self, id: SpaceId, page: u64) -> Option<Frame> {
        let &(space, there) = self.mapped_elsewhere(id, page).first()?;
        self.frame_at(space, there)
    }

    /// Whether anything of these pages of a shared area is mapped by others: a new large page
    /// there would be memory of its own.
    pub(super) fn others_map_any(&self, id: SpaceId, area: &Area, pages: &Range<u64>) -> bool {
        let Some(object) = area.attributes.object else { return false };
        self.elsewhere(id, object, pages)
            .iter()
            .any(|part| self.space(part.space).is_ok_and(|space| space.maps_any(&part.pages)))
    }

    /// Maps an untouched page of shared memory as far as others map it already. Returns whether
    /// the page is mapped now; if not, it may be brought in as private memory is.
    pub(super) fn join_shared(
        &mut self,
        id: SpaceId,
        page: u64,
        area: Area,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        let permissions = area.attributes.effective();
        let number = region_of(page);
        let region = pages_of(number);
        let may_be_large = self.may_be_large(id, number, &area)? && area.spans(&region);
        if may_be_large && self.join_large(id, page, &area, updates)? {
            return Ok(true);
        }
        let Some(frame) = self.frame_elsewhere(id, page) else {
            let stays_small = may_be_large && self.others_map_any(id, &area, &region);
            if stays_small {
                self.map_frame(id, page, permissions, updates)?;
            }
            return Ok(stays_small);
        };
        let (space, mut effects) = self.parts(id, updates)?;
        space.map_page(page, frame, permissions, &mut effects)?;
        effects.memory.share(frame);
        effects.ledger.join(FirstTouch::Page);
        self.receive_content(id, page);
        self.faults.shared_memory += 1;
        Ok(true)
    }

    /// Maps the 2MB or 1GB page around `page` that others map, if there is one at a congruent
    /// address.
    fn join_large(
        &mut self,
        id: SpaceId,
        page: u64,
        area: &Area,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        let Some(object) = area.attributes.object else { return Ok(false) };
        let permissions = area.attributes.effective();
        let number = region_of(page);
        let region = pages_of(number);
        let parts = self.elsewhere(id, object, &region);
        for part in &parts {
            if part.distance.rem_euclid(REGION_PAGES as i64) != 0 {
                continue;
            }
            if let Some(run) = self.huge_to_join(id, page, area, part)? {
                self.join_huge(id, page, run, permissions, updates)?;
                let gigabyte = pages_of_gigabyte(gigabyte_of(page));
                let parts = self.elsewhere(id, object, &gigabyte);
                self.receive_contents(id, &parts, part);
                return Ok(true);
            }
            let there = region_of(part.pages.start);
            let of_object = parts
                .iter()
                .filter(|other| other.is_same_mapping(part))
                .fold(HoleSet::EMPTY, |sum, part| sum.union(&subpages_of(&part.pages, there)));
            let block = self.space(part.space)?.shared_block(there, &of_object);
            let Some(block) = block.filter(|block| self.accepts(&block.holes)) else { continue };
            let (space, mut effects) = self.parts(id, updates)?;
            space.map_shared_block(number, &block, permissions, &mut effects)?;
            self.receive_contents(id, &parts, part);
            self.faults.shared_memory += 1;
            self.fill_hole(id, page, permissions, updates)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// What `id` now maps as `like` does has the contents there.
    fn receive_contents(&mut self, id: SpaceId, parts: &[Elsewhere], like: &Elsewhere) {
        for part in parts.iter().filter(|part| part.is_same_mapping(like)) {
            let first = part.pages.start.wrapping_add_signed(-part.distance);
            self.contents.copy(part.space, part.pages.clone(), id, first);
        }
    }

    /// The first frame of the 1GB page that translates `part`, if it can be mapped around `page`.
    fn huge_to_join(
        &self,
        id: SpaceId,
        page: u64,
        area: &Area,
        part: &Elsewhere,
    ) -> Result<Option<Frame>, OsError> {
        let fits = part.distance.rem_euclid(GIGABYTE_PAGES as i64) == 0
            && area.spans(&pages_of_gigabyte(gigabyte_of(page)))
            && self.space(id)?.is_gigabyte_empty(page);
        let present = self.space(part.space)?.find(part.pages.start);
        Ok(match present {
            Some(Present::Huge(frame, _)) if fits => Some(frame.align_down(PageSize::Size1G)),
            _ => None,
        })
    }

    fn join_huge(
        &mut self,
        id: SpaceId,
        page: u64,
        run: Frame,
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let (space, mut effects) = self.parts(id, updates)?;
        space.map_huge(gigabyte_of(page), run, permissions, &mut effects)?;
        effects.memory.share_huge(run);
        effects.ledger.join(FirstTouch::Huge);
        self.faults.shared_memory += 1;
        Ok(())
    }

    /// Gives an unallocated hole in shared memory the frame that others have for it, and returns
    /// whether there was one. Where that is the frame in place, the hole is patched.
    pub(super) fn join_hole(
        &mut self,
        id: SpaceId,
        page: u64,
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        if self.space(id)?.find(page) != Some(Present::EmptyHole) {
            return Ok(false);
        }
        let Some(frame) = self.frame_elsewhere(id, page) else { return Ok(false) };
        let (space, mut effects) = self.parts(id, updates)?;
        let perforated = space.perforated(region_of(page)).expect("it has a hole");
        let is_in_place = frame == perforated.in_place(index_of(page));
        effects.memory.share(frame);
        if is_in_place && perforated.permissions == permissions && space.is_shared_as_in_place(page)
        {
            space.patch(page, &mut effects);
        } else {
            space.map_hole(page, frame, permissions, &mut effects);
        }
        self.receive_content(id, page);
        self.faults.shared_memory += 1;
        Ok(true)
    }

    /// Maps the 2MB page at `page` of `from` in `to` as well, at the same address, each space
    /// with its own holes from then on (P-2). What was private there becomes shared memory
    /// (MAP_SHARED) of both.
    ///
    /// # Errors
    /// If there is no 2MB page at `page`, something is mapped there in `to`, a private page there
    /// still waits for its copy on write, or memory runs out.
    pub fn share(
        &mut self,
        from: SpaceId,
        page: VirtualPage,
        to: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.note_peak();
        let result = self.share_region(from, page, to, updates);
        self.conclude(updates);
        result.map_err(|error| self.with_estimate(error))
    }

    fn share_region(
        &mut self,
        from: SpaceId,
        page: VirtualPage,
        to: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let number = region_of(page.number());
        let pages = pages_of(number);
        let permissions = match self.space(from)?.region(number).map(|region| &region.mapping) {
            Some(Mapping::Large(large)) => large.permissions,
            Some(Mapping::Perforated(perforated)) => perforated.permissions,
            _ => return Err(OsError::NotLarge { space: from, page }),
        };
        let target = self.space(to)?;
        let mapped = target.region(number).is_some() || target.find(page.number()).is_some();
        if from == to || mapped || !target.areas.within(pages.clone()).is_empty() {
            return Err(OsError::Occupied { space: to, page });
        }
        self.swap_region_in(from, number, updates)?;
        self.unmerge(from, pages.clone(), updates)?;
        if let Some(page) = self.waits_for_copy(from, &pages)? {
            return Err(OsError::CopyOnWrite { space: from, page: VirtualPage::new(page) });
        }
        if let Some(block) = self.space(from)?.shared_block(number, &HoleSet::FULL) {
            let (target, mut effects) = self.parts(to, updates)?;
            target.map_shared_block(number, &block, permissions, &mut effects)?;
        }
        self.contents.copy(from, pages.clone(), to, pages.start);
        let object = self.new_object(pages.start);
        let (source, _) = self.parts(from, updates)?;
        source.areas.change(pages.clone(), |attributes| {
            attributes.object = attributes.object.or(Some(object));
        });
        let areas = source.areas.within(pages.clone());
        let (target, _) = self.parts(to, updates)?;
        for area in areas {
            target.areas.insert(area.pages(), area.attributes);
        }
        // Areas of one 2MB page may allow different things.
        let result = self.protect_range(to, pages.clone(), updates);
        if result.is_err() {
            self.unmap_area(to, pages, updates)?;
        }
        result
    }

    /// The first private page whose frame others map as well: it stays read-only until a write
    /// copies it, so it cannot be shared for good.
    fn waits_for_copy(&self, id: SpaceId, pages: &Range<u64>) -> Result<Option<u64>, OsError> {
        let space = self.space(id)?;
        let private = space.areas.within(pages.clone()).into_iter();
        let mut private = private.filter(|area| !area.attributes.is_shared());
        Ok(private.find_map(|area| {
            area.pages()
                .find(|&page| self.frame_at(id, page).is_some_and(|f| self.memory.is_shared(f)))
        }))
    }
}

impl AddressSpace {
    /// Whether any of these pages is mapped.
    fn maps_any(&self, pages: &Range<u64>) -> bool {
        let has_frame = |page| self.find(page).is_some_and(|present| present.frame().is_some());
        !self.huge_within(pages).is_empty()
            || self.regions_within(pages).into_iter().any(|number| {
                subpages_of(pages, number).iter().any(|index| has_frame(page_at(number, index)))
            })
    }

    /// The block behind a region that a 2MB or 1GB page translates, with its sub-pages in
    /// `wanted`; `None` if none of them is in place. Holes that differ in permissions only are
    /// this space's alone (P Fig. 1).
    fn shared_block(&self, number: u64, wanted: &HoleSet) -> Option<SharedBlock> {
        let unwanted = complement(wanted);
        let Some(perforated) = self.perforated(number) else {
            let first = self.find(first_of(number));
            let Some(Present::Large(block, _) | Present::Huge(block, _)) = first else {
                return None;
            };
            let some = *wanted != HoleSet::EMPTY;
            return some.then_some(SharedBlock { block, holes: unwanted, moved: Vec::new() });
        };
        let frame_of = |index: usize| {
            let entry = perforated.entries[index];
            entry.is_present().then(|| entry.frame())
        };
        let is_moved = |&index: &usize| frame_of(index) != Some(perforated.in_place(index));
        let holes: HoleSet = perforated.holes.iter().filter(is_moved).collect();
        let moved = holes.iter().filter(|&index| wanted.contains(index));
        let moved = moved.filter_map(|index| Some((index, frame_of(index)?))).collect();
        let holes = holes.union(&unwanted);
        (holes != HoleSet::FULL).then_some(SharedBlock { block: perforated.block, holes, moved })
    }

    /// Maps what another mapping holds of an object, where nothing is mapped.
    fn map_shared_block(
        &mut self,
        number: u64,
        shared: &SharedBlock,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let &SharedBlock { block, holes, ref moved } = shared;
        if holes.is_empty() {
            self.map_large(number, block, permissions, effects)?;
            effects.ledger.join(FirstTouch::Large);
        } else {
            self.perforate(number, Large { block, permissions }, holes, effects)?;
            effects.ledger.join(FirstTouch::Perforated { in_place: 0 });
        }
        effects.memory.share_block(block, &complement(&holes));
        for &(index, frame) in moved {
            self.map_hole(page_at(number, index), frame, permissions, effects);
            effects.memory.share(frame);
        }
        Ok(())
    }

    /// Whether hole `page` is as shared or private as what its 2MB page has in place: fork and
    /// writes treat all of that alike.
    pub(crate) fn is_shared_as_in_place(&self, page: u64) -> bool {
        let is_shared =
            |page| self.areas.find(page).is_some_and(|area| area.attributes.is_shared());
        let number = region_of(page);
        let holes = self.perforated(number).map_or(HoleSet::FULL, |perforated| perforated.holes);
        let in_place = complement(&holes);
        let first = in_place.iter().next().map(|index| page_at(number, index));
        first.is_none_or(|first| is_shared(first) == is_shared(page))
    }
}
