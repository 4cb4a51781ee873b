//! Reservation (P §VI): a block is taken whole, but a sub-page counts as used only after its first
//! touch. Until then it is an unallocated hole whose in-place frame is reserved. The touch patches
//! the hole. When memory is short, the kernel releases reserved frames for other uses.

use perforate_os::mechanism::{AddressSpace, Effects, index_of, page_at, region_of};
use perforate_types::{Frame, HoleSet, Permissions};

use super::acts::{existing_perforated, map_hole, patch, perforated, perforated_mut};

/// Reserves the in-place frames of these unallocated holes, which the caller holds.
pub(super) fn keep_reserved(space: &mut AddressSpace, number: u64, reserved: HoleSet) {
    perforated_mut(space, number).reserved = reserved;
    space.usage_mut().reserved += reserved.count() as u64;
}

/// Gives the unallocated hole `page` its in-place frame, if that is reserved or free. With the
/// permissions of the 2MB page the hole is patched; with others it is mapped in place as a hole.
/// Returns false if this is not possible.
pub(super) fn fill_in_place(
    space: &mut AddressSpace,
    page: u64,
    permissions: Permissions,
    effects: &mut Effects<'_>,
) -> bool {
    let index = index_of(page);
    let perforated = existing_perforated(space, region_of(page));
    let frame = perforated.in_place(index);
    let is_reserved = perforated.reserved.contains(index);
    // Most in-place frames are in other use. This test is faster than the one for `belongs`.
    if !is_reserved && !effects.memory.is_free(frame) {
        return false;
    }
    let belongs = perforated.permissions == permissions && space.is_shared_as_in_place(page);
    if !(is_reserved || belongs) || !take_in_place(space, page, effects) {
        return false;
    }
    if belongs {
        patch(space, page, effects);
    } else {
        map_hole(space, page, frame, permissions, effects);
    }
    true
}

/// Takes the in-place frame of hole `page`, reserved or free. Returns false if it is in other use.
pub(super) fn take_in_place(
    space: &mut AddressSpace,
    page: u64,
    effects: &mut Effects<'_>,
) -> bool {
    let index = index_of(page);
    let perforated = existing_perforated(space, region_of(page));
    if !perforated.reserved.contains(index) {
        return effects.memory.take(perforated.in_place(index));
    }
    unreserve(space, page);
    true
}

/// Frees the reserved frames of these sub-pages. Returns their number.
pub(super) fn release_reserved(
    space: &mut AddressSpace,
    number: u64,
    subpages: &HoleSet,
    effects: &mut Effects<'_>,
) -> u64 {
    let Some(perforated) = perforated(space, number) else { return 0 };
    let reserved = perforated.reserved;
    let mut released = 0;
    for index in reserved.iter().filter(|&index| subpages.contains(index)) {
        let frame = unreserve(space, page_at(number, index));
        effects.memory.free(frame, 0);
        released += 1;
    }
    released
}

/// Ends the reservation of a sub-page's in-place frame and passes the frame to the caller.
pub(super) fn unreserve(space: &mut AddressSpace, page: u64) -> Frame {
    let index = index_of(page);
    let perforated = perforated_mut(space, region_of(page));
    assert!(perforated.reserved.remove(index), "not reserved");
    let frame = perforated.in_place(index);
    space.usage_mut().reserved -= 1;
    frame
}
