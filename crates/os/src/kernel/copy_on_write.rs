//! Writes to read-only pages of writable areas: copy on write after a fork or a merge, and pages
//! left read-only after their frame is no longer shared.

use perforate_types::{Permissions, SpaceId};

use super::Core;
use crate::OsError;
use crate::space::{Attributes, Departure, SpaceMut};

/// Serves a write to a read-only page of a writable memory area. Copies the frame if other pages map it;
/// otherwise only restores write permission.
pub(super) fn make_writable(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    attributes: Attributes,
) -> Result<(), OsError> {
    let permissions = attributes.effective();
    let space = &mut core.space_mut(id)?;
    space.leave_overlay(&space.unit_of(page), Departure::Remapped)?;
    let present = space.find(page).expect("present");
    let frame = present.frame().expect("present");
    let copies = !attributes.is_shared() && space.memory.is_shared(frame);
    if present.has_own_entry() {
        return match copies {
            true => space.copy_page(page, permissions),
            false => {
                space.protect_own(page, permissions);
                Ok(())
            }
        };
    }
    let (first, extent) = space.extent_at(page).expect("it is in place in one");
    let mechanism = extent.mechanism();
    if attributes.is_shared() || !extent.is_shared(space.memory) {
        mechanism.protect(space, first, permissions);
        return Ok(());
    }
    match space.detacher(page) {
        Some(detacher) => space.detach_with(detacher, page, copies, permissions),
        None => {
            mechanism.break_up(space, first)?;
            make_writable(core, id, page, attributes)
        }
    }
}

impl SpaceMut<'_> {
    /// Copies a page that has a separate 4KB entry to a new frame.
    fn copy_page(&mut self, page: u64, permissions: Permissions) -> Result<(), OsError> {
        let new = self.memory.allocate_page()?;
        let old = self.remap(page, new, permissions);
        self.ledger.done.frames_copied += 1;
        self.memory.release(old);
        Ok(())
    }
}
