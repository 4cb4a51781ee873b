//! Writes to pages that are read-only although their areas may be written: copy on write after a
//! fork or a merge, and what is left of it once nobody else maps the frame.

use perforate_types::{Permissions, SpaceId, Update};

use super::Core;
use crate::OsError;
use crate::space::{AddressSpace, Attributes, Departure, Effects};

/// A write to a page that is mapped read-only although its area may be written: the frame is
/// copied if others map it too, else it only gets its permissions back.
pub(super) fn make_writable(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    attributes: Attributes,
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    let permissions = attributes.effective();
    let (space, mut effects) = core.parts(id, updates)?;
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
            make_writable(core, id, page, attributes, updates)
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
