//! Writes to read-only pages of writable areas: copy on write after a fork or a merge, and pages
//! left read-only after their frame is no longer shared.

use perforate_types::{Permissions, SpaceId};

use super::Core;
use crate::OsError;
use crate::space::{AddressSpace, Attributes, Departure, Effects};

/// Serves a write to a read-only page of a writable area. Copies the frame if other pages map it;
/// else only restores the permissions.
pub(super) fn make_writable(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    attributes: Attributes,
) -> Result<(), OsError> {
    let permissions = attributes.effective();
    let (space, mut effects) = core.parts(id)?;
    space.leave_overlay(&space.unit_of(page), Departure::Remapped, &mut effects)?;
    let present = space.find(page).expect("present");
    let frame = present.frame().expect("present");
    let copies = !attributes.is_shared() && effects.memory.is_shared(frame);
    if present.has_own_entry() {
        return match copies {
            true => space.copy_page(page, permissions, &mut effects),
            false => {
                space.protect_own(page, permissions, &mut effects);
                Ok(())
            }
        };
    }
    let (first, extent) = space.extent_at(page).expect("it is in place in one");
    let mechanism = extent.mechanism();
    if attributes.is_shared() || !extent.is_shared(effects.memory) {
        mechanism.protect(space, first, permissions, &mut effects);
        return Ok(());
    }
    match mechanism.detacher(space) {
        Some(detacher) => space.detach_with(detacher, page, copies, permissions, &mut effects),
        None => {
            mechanism.break_up(space, first, &mut effects)?;
            make_writable(core, id, page, attributes)
        }
    }
}

impl AddressSpace {
    /// Copies a page that has an entry of its own to a new frame.
    fn copy_page(
        &mut self,
        page: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let new = effects.memory.allocate_page()?;
        let old = self.remap(page, new, permissions, effects);
        effects.ledger.done.frames_copied += 1;
        effects.memory.release(old);
        Ok(())
    }
}
