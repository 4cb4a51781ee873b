//! Patching: moves the data of holes back in place, so that the holes become part of their 2MB page
//! again.

use perforate_types::{Frame, Permissions, SpaceId, VirtualPage};

use super::{Core, migration, subpage};
use crate::memory::complement;
use crate::space::{Departure, Present, first_of, page_at, pages_of, region_of};

/// Patches the allocated holes of the 2MB page at region `number`, and returns how many. The
/// in-place frame of a hole must be free; with `moves`, migration may empty it. Holes without a
/// frame stay, because patching one would use memory that was never touched. Holes with permissions
/// that differ from the page or with a shared frame stay too.
pub(super) fn patch_holes(core: &mut Core, id: SpaceId, number: u64, moves: bool) -> u64 {
    let mut patched = patch_equal_permissions(core, id, number, moves);
    if end_copy_on_write(core, id, number) {
        patched += patch_equal_permissions(core, id, number, moves);
    }
    patched
}

/// Makes a 2MB page with holes, read-only since a fork, writable again if no other address space maps its
/// frames any more. Does so only if a write has copied a sub-page, which became a writable hole and can now
/// be patched. Returns true if the page was made writable.
fn end_copy_on_write(core: &mut Core, id: SpaceId, number: u64) -> bool {
    let Some(permissions) = permissions_after_copies(core, id, number) else { return false };
    let space = &mut core.space_mut(id).expect("it was just looked at");
    let left = space.leave_overlay(&pages_of(number), Departure::Remapped);
    if left.is_ok() {
        let first = first_of(number);
        space.mechanism(first).protect(space, first, permissions);
    }
    left.is_ok()
}

fn permissions_after_copies(core: &Core, id: SpaceId, number: u64) -> Option<Permissions> {
    let space = core.space(id).ok()?;
    let holed = space.holed(number)?;
    let in_place = complement(&holed.holes);
    // All in-place sub-pages belong to one area.
    let first = in_place.iter().next()?;
    let area = space.areas.find(page_at(number, first))?.attributes;
    let permissions = area.effective();
    let waits = !area.is_shared() && permissions.write && !holed.permissions.write;
    if !waits || core.memory.any_shared(holed.block, &in_place) {
        return None;
    }
    let was_written = |index| match space.find(page_at(number, index)) {
        Some(Present::Detached(frame, own)) => {
            own == permissions && frame != holed.in_place(index) && !core.memory.is_shared(frame)
        }
        _ => false,
    };
    holed.holes.iter().any(was_written).then_some(permissions)
}

/// Patches the holes of the 2MB page at region `number` whose permissions equal the page's, and returns how
/// many. With `moves`, migration may empty an in-place frame.
fn patch_equal_permissions(core: &mut Core, id: SpaceId, number: u64, moves: bool) -> u64 {
    let mut patched = 0;
    // Holes with free in-place frames come first: migration must not use these frames.
    for moves in [false, true].into_iter().take(1 + usize::from(moves)) {
        for (page, in_place) in patchable(core, id, number) {
            let is_free = core.memory.zones().is_free(in_place);
            if !is_free && (!moves || !migration::migrate(core, in_place)) {
                continue;
            }
            let page = VirtualPage::new(page);
            patched += u64::from(subpage::patch(core, id, page).is_ok());
        }
    }
    patched
}

/// Patches the 2MB page with holes that is mapped to `block`. Does nothing and returns 0 if no such
/// page or several map the block. Returns the number of patched holes.
pub(super) fn patch_block(core: &mut Core, block: Frame) -> u64 {
    match *core.memory.holed_pages_of(block) {
        [(id, page)] => patch_holes(core, id, region_of(page.number()), true),
        _ => 0,
    }
}

/// Holes of the 2MB page at region `number` that may be patched: (page number, in-place frame).
/// Their permissions equal those of the page, and neither the page nor the hole is shared.
fn patchable(core: &Core, id: SpaceId, number: u64) -> Vec<(u64, Frame)> {
    let Ok(space) = core.space(id) else { return Vec::new() };
    let Some(holed) = space.holed(number) else { return Vec::new() };
    let in_place = complement(&holed.holes);
    if core.memory.any_shared(holed.block, &in_place) {
        return Vec::new();
    }
    let page_of = |index: usize| page_at(number, index);
    let holes = holed.holes.iter().map(|index| (page_of(index), index));
    let patchable = holes.filter(|&(page, index)| match space.find(page) {
        Some(Present::Detached(frame, permissions)) => {
            permissions == holed.permissions
                && frame != holed.in_place(index)
                && !core.memory.is_shared(frame)
        }
        _ => false,
    });
    patchable.map(|(page, index)| (page, holed.in_place(index))).collect()
}
