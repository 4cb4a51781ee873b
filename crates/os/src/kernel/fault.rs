//! Page faults: classifies each fault and checks the permissions of its area.

use perforate_types::{AccessKind, Backing, SpaceId};

use super::first_touch::{Backers, Touch};
use super::ksm::Ksm;
use super::{Core, FaultOutcome, areas, copy_on_write, folios, single_page, swap};
use crate::OsError;
use crate::space::Present;

/// Serves the page fault of an access of kind `kind` to `page`: maps the page if the access is allowed.
pub(super) fn serve(
    core: &mut Core,
    backers: &mut Backers,
    ksm: &mut Ksm,
    id: SpaceId,
    page: u64,
    kind: AccessKind,
) -> Result<FaultOutcome, OsError> {
    let area = match core.space(id)?.areas.find(page) {
        Some(area) => area,
        None => match areas::make(core, id, page)? {
            Some(area) => {
                backers.note_areas(id, &area.pages());
                area
            }
            None => return Ok(refuse(core)),
        },
    };
    let permissions = area.attributes.effective();
    if !permissions.allow(kind) {
        return Ok(refuse(core));
    }
    core.ledger.clears = area.attributes.backing != Backing::File;
    let (present, is_open) = core.space(id)?.look_up(page);
    if present.is_none() && touch_overlay(core, id, page)? {
        core.ledger.first_touch();
        core.faults.overlay += 1;
        core.touch(id, page);
        return Ok(FaultOutcome::Mapped);
    }
    match present {
        None | Some(Present::Vacant) if swap::read_in(core, id, page, area, kind)? => {
            core.ledger.done.faults_swap += 1;
        }
        None => {
            if is_open && !area.attributes.is_shared() {
                folios::map(core, &Touch { space: id, page, area })?;
            } else {
                backers.back(core, &Touch { space: id, page, area })?;
            }
            core.faults.page += 1;
            core.ledger.first_touch();
            core.touch(id, page);
        }
        Some(Present::Vacant) => {
            single_page::fill_hole(core, id, page, permissions)?;
            core.faults.hole += 1;
            core.ledger.done.faults_hole += 1;
            core.touch(id, page);
        }
        Some(present) if kind == AccessKind::Write && !present.permissions().write => {
            copy_on_write::make_writable(core, id, page, area.attributes)?;
            core.space_mut(id)?.forget_advice(&(page..page + 1));
            ksm.note_write(core, id, page, present);
            core.faults.copy_on_write += 1;
            core.ledger.done.faults_copy_on_write += 1;
        }
        Some(present) if !present.permissions().allow(kind) => {
            // The permissions of the hole itself can be stricter than those of its area (P Fig. 1).
            return Ok(refuse(core));
        }
        Some(_) => {
            core.faults.spurious += 1;
            core.ledger.done.faults_other += 1;
        }
    }
    Ok(FaultOutcome::Mapped)
}

/// Lets the overlay (the direct segment or ranges of the address space) handle the touch of a page that page
/// tables do not map. Returns true if the overlay translates the page now.
fn touch_overlay(core: &mut Core, id: SpaceId, page: u64) -> Result<bool, OsError> {
    let space = &mut core.space_mut(id)?;
    space.touch_overlay(page)
}

/// Counts an access that is not allowed, and returns [`FaultOutcome::Segfault`].
#[cold]
fn refuse(core: &mut Core) -> FaultOutcome {
    core.faults.segmentation += 1;
    core.ledger.done.faults_other += 1;
    FaultOutcome::Segfault
}
