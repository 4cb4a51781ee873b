//! Page faults: first touches, holes, copy-on-write.

use perforate_types::{
    AccessKind, Backing, Frame, HoleSet, PageSize, Permissions, SpaceId, Update,
};

use super::claim::ClaimedBlock;
use super::{FaultOutcome, FirstTouch, Kernel};
use crate::memory::{Fragment, complement};
use crate::space::{
    Area, Attributes, Effects, Large, Present, gigabyte_of, index_of, is_canonical, page_at,
    pages_of, pages_of_gigabyte, region_of, regions_of,
};
use crate::{BlockUse, HoleAllocation, OsError, PartialChange};

/// How far below a stack a touch extends it, in pages: 8MB, Linux's default limit.
const STACK_GROWTH_PAGES: u64 = (8 << 20) >> 12;

impl Kernel {
    pub(super) fn serve(
        &mut self,
        id: SpaceId,
        page: u64,
        kind: AccessKind,
        updates: &mut Vec<Update>,
    ) -> Result<FaultOutcome, OsError> {
        let area = match self.space(id)?.areas.find(page) {
            Some(area) => area,
            None => match self.make_area(id, page, updates)? {
                Some(area) => area,
                None => return Ok(self.refuse()),
            },
        };
        if !area.attributes.effective().allow(kind) {
            return Ok(self.refuse());
        }
        self.ledger.clears = area.attributes.backing != Backing::File;
        let (present, is_open) = self.space(id)?.look_up(page);
        match present {
            None | Some(Present::EmptyHole) if self.swap_in(id, page, area, kind, updates)? => {
                self.ledger.done.faults_swap += 1;
            }
            None => {
                if is_open && !area.attributes.is_shared() {
                    self.map_frame(id, page, area.attributes.effective(), updates)?;
                } else {
                    self.bring_in(id, page, area, updates)?;
                }
                self.faults.page += 1;
                self.ledger.first_touch();
                self.touch(id, page);
            }
            Some(Present::EmptyHole) => {
                self.fill_hole(id, page, area.attributes.effective(), updates)?;
                self.faults.hole += 1;
                self.ledger.done.faults_hole += 1;
                self.touch(id, page);
            }
            Some(present) if kind == AccessKind::Write && !present.permissions().write => {
                self.make_writable(id, page, area.attributes, updates)?;
                self.parts(id, updates)?.0.forget_advice(&(page..page + 1));
                self.note_write(id, page, present);
                self.faults.copy_on_write += 1;
                self.ledger.done.faults_copy_on_write += 1;
            }
            Some(present) if !present.permissions().allow(kind) => {
                // A hole punched with permissions of its own allows less than its area (P Fig. 1).
                return Ok(self.refuse());
            }
            Some(_) => {
                self.faults.spurious += 1;
                self.ledger.done.faults_other += 1;
            }
        }
        Ok(FaultOutcome::Mapped)
    }

    /// The program may not do that.
    #[cold]
    fn refuse(&mut self) -> FaultOutcome {
        self.faults.segmentation += 1;
        self.ledger.done.faults_other += 1;
        FaultOutcome::Segfault
    }

    /// An area for a page that has none: a stack may grow, an implicit area may be made.
    #[cold]
    fn make_area(
        &mut self,
        id: SpaceId,
        page: u64,
        updates: &mut Vec<Update>,
    ) -> Result<Option<Area>, OsError> {
        let implicit_maps = self.config.implicit_maps;
        let (space, _) = self.parts(id, updates)?;
        if !is_canonical(page) {
            return Ok(None);
        }
        let above = space.areas.next_above(page);
        if let Some(stack) = above.filter(|area| area.attributes.backing == Backing::Stack)
            && stack.start - page <= STACK_GROWTH_PAGES
        {
            space.areas.insert(page..stack.start, stack.attributes);
            return Ok(space.areas.find(page));
        }
        if implicit_maps {
            let attributes = Attributes::private(Permissions::ALL, Backing::Anonymous);
            for gap in space.areas.gaps(pages_of(region_of(page))) {
                space.areas.insert(gap, attributes);
            }
        }
        Ok(space.areas.find(page))
    }

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
        let permissions = area.attributes.effective();
        let number = region_of(page);
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
        let untouched = space.region(number).is_none() && !space.any_swapped(region);
        Ok(untouched && self.wants_large(&area.attributes))
    }

    /// Whether pages of 2MB or more may back memory, as far as its area and the policy are concerned.
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
            || self.others_map_any(id, &area, &pages)
            || self
                .config
                .fragmentation
                .is_some_and(|f| regions.clone().any(|region| f.holes(seed, region).is_some()))
        {
            return Ok(false);
        }
        let Some(block) = self.memory.allocate_huge() else { return Ok(false) };
        let (space, mut effects) = self.parts(id, updates)?;
        let result = space.map_huge(number, block, area.attributes.effective(), &mut effects);
        match &result {
            Ok(()) => self.ledger.bring_in(FirstTouch::Huge),
            Err(_) => self.memory.free_huge(block),
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
        if space.find(page) != Some(Present::EmptyHole) {
            return Ok(());
        }
        if !space.fill_in_place(page, permissions, &mut effects) {
            let frame = effects.memory.allocate_page()?;
            space.map_hole(page, frame, permissions, &mut effects);
        }
        effects.ledger.bring_in(FirstTouch::Hole);
        Ok(())
    }

    /// A write to a page that is mapped read-only although its area may be written: the frame is
    /// copied if others map it too, else it only gets its permissions back.
    pub(super) fn make_writable(
        &mut self,
        id: SpaceId,
        page: u64,
        attributes: Attributes,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let partial = self.partial_change();
        let permissions = attributes.effective();
        let number = region_of(page);
        let index = index_of(page);
        let (space, mut effects) = self.parts(id, updates)?;
        let effects = &mut effects;
        let copies = |frame: Frame, effects: &Effects<'_>| {
            !attributes.is_shared() && effects.memory.is_shared(frame)
        };
        match space.find(page).expect("present") {
            Present::Page(frame, _) if copies(frame, effects) => {
                let new = effects.memory.allocate_page()?;
                let old = space.unmap_page(page, effects);
                space.map_page(page, new, permissions, effects)?;
                effects.ledger.done.frames_copied += 1;
                effects.memory.release(old);
            }
            Present::Page(..) => space.protect_page(page, permissions, effects),
            Present::Hole(frame, _) if copies(frame, effects) => {
                let new = effects.memory.allocate_page()?;
                let old = space.remap_hole(page, new, permissions, effects);
                effects.ledger.done.frames_copied += 1;
                effects.memory.release(old);
            }
            Present::Hole(frame, _) => {
                space.remap_hole(page, frame, permissions, effects);
            }
            Present::Large(frame, _) => {
                let block = frame.align_down(PageSize::Size2M);
                if !effects.memory.any_shared(block, &perforate_types::HoleSet::FULL)
                    || attributes.is_shared()
                {
                    space.protect_large(number, permissions, effects);
                } else if partial == PartialChange::Split {
                    space.split_large(number, &perforate_types::HoleSet::FULL, effects)?;
                    return self.make_writable(id, page, attributes, updates);
                } else {
                    space.copy_subpage(page, copies(frame, effects), permissions, effects)?;
                }
            }
            Present::InPlace(frame, _) => {
                let in_place = complement(&space.perforated(number).expect("perforated").holes);
                let block = frame.align_down(PageSize::Size2M);
                if !effects.memory.any_shared(block, &in_place) || attributes.is_shared() {
                    space.protect_perforated(number, permissions, effects);
                } else {
                    space.copy_subpage(page, copies(frame, effects), permissions, effects)?;
                }
            }
            Present::Huge(..)
                if attributes.is_shared()
                    || !effects.memory.any_shared_huge(space.huge_block(gigabyte_of(page))) =>
            {
                space.protect_huge(gigabyte_of(page), permissions, effects);
            }
            Present::Huge(..) => {
                space.split_huge(gigabyte_of(page), effects)?;
                return self.make_writable(id, page, attributes, updates);
            }
            Present::EmptyHole => unreachable!("sub-page {index} was present"),
        }
        Ok(())
    }
}
