//! Punching and patching of single sub-pages, for policies, event storms and experiments.

use perforate_types::{PageSize, Permissions, SpaceId, VirtualPage};

use super::{Core, contents, sharing, swap};
use crate::OsError;
use crate::space::{Departure, Present};

/// Fate of the data of a sub-page that becomes a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoleContent {
    /// The data are lost; the sub-page faults on its next touch.
    Unallocated,
    /// The data are copied to a new frame.
    Moved,
    /// The data stay in place, with permissions that differ from the rest of the page (P Fig. 1).
    Permissions(Permissions),
}

/// Makes a sub-page of a 2MB page a hole. Errors: [`super::Kernel::punch`].
pub(super) fn punch(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    hole: HoleContent,
) -> Result<(), OsError> {
    if !core.config.tables.shadow_directories {
        return Err(OsError::NoShadowDirectories);
    }
    let space = &mut core.space_mut(id)?;
    let place = (id, VirtualPage::new(page));
    let present = space.find(page).filter(|_| !space.is_kept(page));
    let detacher = space.detacher(page);
    let (detacher, permissions) = match (present, detacher) {
        (Some(Present::InPlace(_, permissions)), Some(detacher)) => (detacher, permissions),
        (Some(Present::Detached(..) | Present::Vacant), _) => {
            return Err(OsError::AlreadyHole { space: place.0, page: place.1 });
        }
        _ => return Err(OsError::NotLarge { space: place.0, page: place.1 }),
    };
    space.leave_overlay(&(page..page + 1), Departure::Remapped)?;
    let frame = present.and_then(Present::frame).expect("it is mapped");
    let others_map_it = space.memory.is_shared(frame);
    let private = space.areas.find(page).is_none_or(|area| !area.attributes.is_shared());
    match hole {
        HoleContent::Unallocated => {
            space.forget_advice(&(page..page + 1));
            let frame = detacher.detach(space, page)?;
            space.memory.release(frame);
            core.contents.forget(id, &(page..page + 1));
            Ok(())
        }
        HoleContent::Moved => {
            if !private && others_map_it {
                return Err(OsError::SharedMemory { space: place.0, page: place.1 });
            }
            space.detach_with(detacher, page, true, permissions)
        }
        HoleContent::Permissions(permissions) => {
            // Private data in a shared frame are copied before the hole becomes writable.
            let copies = permissions.write && private && others_map_it;
            space.detach_with(detacher, page, copies, permissions)
        }
    }
}

/// Moves the data of a hole back in place. Errors: [`super::Kernel::patch`].
pub(super) fn patch(core: &mut Core, space: SpaceId, page: VirtualPage) -> Result<(), OsError> {
    let occupied = OsError::Occupied { space, page };
    let elsewhere = sharing::frame_elsewhere(core, space, page.number());
    let found = &mut core.space_mut(space)?;
    let present = found.find(page.number());
    if !matches!(present, Some(Present::Detached(..) | Present::Vacant)) {
        return Err(OsError::NotHole { space, page });
    }
    found.leave_overlay(&(page.number()..page.number() + 1), Departure::Remapped)?;
    let (pages, holed) = found.holes_around(page.number());
    let in_place = holed.in_place(page.index_in(PageSize::Size2M));
    let area = found.areas.find(page.number());
    if !area.is_some_and(|area| area.attributes.permit(holed.permissions)) {
        return Err(OsError::PermissionsDiffer { space, page });
    }
    if !found.is_shared_as_in_place(page.number()) {
        return Err(OsError::SharingDiffers { space, page });
    }
    if let Some(Present::Detached(frame, permissions)) = present
        && frame == in_place
    {
        // A copy-on-write page must not become writable by patching.
        let waits = holed.permissions.write && !permissions.write;
        if waits && found.memory.is_shared(frame) {
            return Err(occupied);
        }
        pages.attach(found, page.number());
        return Ok(());
    }
    if let Some(frame) = elsewhere {
        if present != Some(Present::Vacant) || frame != in_place {
            return Err(OsError::SharedMemory { space, page });
        }
        found.memory.share(frame);
        pages.attach(found, page.number());
        contents::receive(core, space, page.number());
        return Ok(());
    }
    if !pages.take_place(found, page.number()) {
        return Err(occupied);
    }
    let is_swapped = found.is_swapped(page.number());
    match pages.attach(found, page.number()) {
        Some(frame) => {
            found.ledger.done.frames_copied += 1;
            found.memory.release(frame);
        }
        None if is_swapped => {
            swap::end(core, space, page.number())?;
        }
        None => found.ledger.done.frames_zeroed_4k += 1,
    }
    Ok(())
}
