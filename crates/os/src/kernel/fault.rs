//! Page faults: which kind each is, and whether the program may do that.

use perforate_types::{AccessKind, Backing, Permissions, SpaceId, Update};

use super::{FaultOutcome, Kernel};
use crate::OsError;
use crate::space::{Area, Attributes, Present, is_canonical, pages_of, region_of};

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
        if present.is_none() && self.touch_segment(id, page, updates)? {
            self.ledger.first_touch();
            self.faults.segment += 1;
            self.touch(id, page);
            return Ok(FaultOutcome::Mapped);
        }
        match present {
            None | Some(Present::Vacant) if self.swap_in(id, page, area, kind, updates)? => {
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
            Some(Present::Vacant) => {
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
}
