//! First touches: what is mapped where nothing was, with the page size that policy and memory
//! allow, and the frame of a hole.

use perforate_types::{HoleSet, Permissions, SpaceId, Update};

use super::claim::ClaimedBlock;
use super::{FirstTouch, Kernel};
use crate::memory::{Fragment, complement};
use crate::space::{
    Area, Attributes, Huge, HugePages, Large, Mechanism, Present, gigabyte_of, page_at, pages_of,
    pages_of_gigabyte, region_of, regions_of,
};
use crate::{BlockUse, HoleAllocation, OsError};

impl Kernel {
    /// Maps a page where nothing is mapped, with the size that policy and memory allow.
    pub(super) fn bring_in(
        &mut self,
        id: SpaceId,
        page: u64,
        area: Area,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        if area.attributes.is_shared() && self.join_shared(id, page, area, updates)? {
            return Ok(());
        }
        if self.begin_segment(id, &area, updates)? && self.space(id)?.in_segment(page) {
            return Ok(());
        }
        let permissions = area.attributes.effective();
        let number = region_of(page);
        if self.config.tables.gap_tolerance.is_some() {
            return match self.bring_in_superpage(id, page, &area, updates)? {
                true => Ok(()),
                false => self.map_frame(id, page, permissions, updates),
            };
        }
        if !self.may_be_large(id, number, &area)? {
            return self.map_frame(id, page, permissions, updates);
        }
        if self.policy.wants_huge() && self.bring_in_huge(id, page, area, updates)? {
            return Ok(());
        }
        if !area.spans(&pages_of(number)) {
            return self.map_frame(id, page, permissions, updates);
        }
        let seed = self.config.seed;
        match self.config.fragmentation.and_then(|f| f.holes(seed, number)) {
            None => self.bring_in_whole(id, page, area, updates),
            Some(holes) => match self.policy.use_block(&holes) {
                BlockUse::Perforated(when) if self.config.tables.shadow_directories => {
                    match self.memory.allocate_fragment(number, &holes) {
                        Some(fragment) => {
                            self.bring_in_perforated(id, fragment, permissions, when, updates)?;
                            self.fill_hole(id, page, permissions, updates)
                        }
                        None => self.map_frame(id, page, permissions, updates),
                    }
                }
                _ => {
                    let fragment = self.memory.occupy_fragment(number, &holes);
                    let result = self.map_frame(id, page, permissions, updates);
                    match (fragment, &result) {
                        (Some(fragment), Ok(())) => {
                            self.parts(id, updates)?.0.set_fragment(number, fragment);
                        }
                        (Some(fragment), Err(_)) => self.memory.park(fragment),
                        (None, _) => {}
                    }
                    result
                }
            },
        }
    }

    /// Whether pages of 2MB or more may back a region's first touch, as far as program and policy
    /// are concerned.
    pub(super) fn may_be_large(
        &self,
        id: SpaceId,
        number: u64,
        area: &Area,
    ) -> Result<bool, OsError> {
        let space = self.space(id)?;
        // What is swapped comes back as 4KB pages.
        let region = pages_of(number);
        let untouched = space.region(number).is_none()
            && !space.meets_segment(&region)
            && !space.any_swapped(region);
        Ok(untouched && self.wants_large(&area.attributes))
    }

    /// Whether pages of 2MB or more may back memory, as far as its area and the policy are
    /// concerned.
    pub(super) fn wants_large(&self, attributes: &Attributes) -> bool {
        attributes.eligible() && (attributes.is_advised() || !self.policy.needs_advice())
    }

    /// A 1GB page, if the area spans it, nothing is mapped in it, none of its regions is
    /// fragmented and contiguous memory can be had.
    fn bring_in_huge(
        &mut self,
        id: SpaceId,
        page: u64,
        area: Area,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        let number = gigabyte_of(page);
        let pages = pages_of_gigabyte(number);
        let regions = regions_of(&pages);
        let seed = self.config.seed;
        if !area.spans(&pages)
            || !self.space(id)?.is_gigabyte_empty(page)
            || self.space(id)?.meets_segment(&pages)
            || self.others_map_any(id, &area, &pages)
            || self
                .config
                .fragmentation
                .is_some_and(|f| regions.clone().any(|region| f.holes(seed, region).is_some()))
        {
            return Ok(false);
        }
        let Some(run) = self.memory.allocate_huge() else { return Ok(false) };
        let (space, mut effects) = self.parts(id, updates)?;
        let huge = Huge { run, permissions: area.attributes.effective() };
        let result = HugePages.map(space, pages.start, Box::new(huge), &mut effects);
        match &result {
            Ok(()) => self.ledger.bring_in(FirstTouch::Huge),
            Err(_) => self.memory.free_huge(run),
        }
        result.map(|()| true)
    }

    fn bring_in_whole(
        &mut self,
        id: SpaceId,
        page: u64,
        area: Area,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let permissions = area.attributes.effective();
        let claimed = match self.policy.use_block(&HoleSet::EMPTY) {
            BlockUse::Large => self.claim_block(area.attributes.is_advised(), updates),
            BlockUse::Pages | BlockUse::Perforated(_) => None,
        };
        let Some(ClaimedBlock { block, holes }) = claimed else {
            return self.map_frame(id, page, permissions, updates);
        };
        let number = region_of(page);
        let when = match self.policy.use_block(&holes) {
            BlockUse::Perforated(when) if !holes.is_empty() => Some(when),
            _ => None,
        };
        let large = Large { block, permissions };
        if let Err(error) = self.map_block(id, number, large, &holes, updates) {
            self.memory.free_frames_of(block, &complement(&holes));
            return Err(error);
        }
        if when == Some(HoleAllocation::Eager) && !self.policy.reserves() {
            self.fill_holes(id, number, &holes, permissions, updates)?;
        }
        self.fill_hole(id, page, permissions, updates)
    }

    /// Maps a block except for `holes`, as an ordinary 2MB page if there are none. A policy that
    /// reserves keeps it without mapping anything yet.
    fn map_block(
        &mut self,
        id: SpaceId,
        number: u64,
        large: Large,
        holes: &HoleSet,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let reserves = self.policy.reserves();
        let in_place = complement(holes);
        let (space, mut effects) = self.parts(id, updates)?;
        let brought_in = if reserves {
            space.reserve(number, large, in_place, &mut effects)?;
            FirstTouch::Perforated { in_place: 0 }
        } else if holes.is_empty() {
            space.map_large(number, large.block, large.permissions, &mut effects)?;
            FirstTouch::Large
        } else {
            space.perforate(number, large, *holes, &mut effects)?;
            FirstTouch::Perforated { in_place: in_place.count() as u64 }
        };
        effects.ledger.bring_in(brought_in);
        Ok(())
    }

    fn fill_holes(
        &mut self,
        id: SpaceId,
        number: u64,
        holes: &HoleSet,
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        for index in holes.iter() {
            self.fill_hole(id, page_at(number, index), permissions, updates)?;
        }
        Ok(())
    }

    fn bring_in_perforated(
        &mut self,
        id: SpaceId,
        fragment: Fragment,
        permissions: Permissions,
        when: HoleAllocation,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let Fragment { region, block } = fragment;
        let fragmentation = self.config.fragmentation.expect("there are fragments");
        let holes = fragmentation.holes(self.config.seed, region).expect("fragmented");
        let large = Large { block, permissions };
        if let Err(error) = self.map_block(id, region, large, &holes, updates) {
            self.memory.release_block(block, &complement(&holes));
            self.memory.park(fragment);
            return Err(error);
        }
        self.parts(id, updates)?.0.set_fragment(region, fragment);
        // The program is not going to touch holes that it has no data at.
        let fills = when == HoleAllocation::Eager && !self.policy.reserves();
        if fills && fragmentation.allocated {
            self.fill_holes(id, region, &holes, permissions, updates)?;
        }
        Ok(())
    }

    pub(super) fn map_frame(
        &mut self,
        id: SpaceId,
        page: u64,
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let (space, mut effects) = self.parts(id, updates)?;
        let frame = effects.memory.allocate_page()?;
        if let Err(error) = space.map_page(page, frame, permissions, &mut effects) {
            effects.memory.free(frame, 0);
            return Err(error);
        }
        effects.ledger.bring_in(FirstTouch::Page);
        Ok(())
    }

    /// Gives an unallocated hole a frame, in place if that one is to be had (the hole is patched
    /// then); does nothing where `page` is not one.
    pub(super) fn fill_hole(
        &mut self,
        id: SpaceId,
        page: u64,
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        if self.space(id)?.areas.any_shared() && self.join_hole(id, page, permissions, updates)? {
            return Ok(());
        }
        let (space, mut effects) = self.parts(id, updates)?;
        if space.find(page) != Some(Present::Vacant) {
            return Ok(());
        }
        let detacher = space.detacher(page).expect("the page was detached");
        if !detacher.fill_in_place(space, page, permissions, &mut effects) {
            let frame = effects.memory.allocate_page()?;
            detacher.fill(space, page, frame, permissions, &mut effects);
        }
        effects.ledger.bring_in(FirstTouch::Hole);
        Ok(())
    }
}
