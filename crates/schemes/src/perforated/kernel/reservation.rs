//! Reservation (P §VI): a block is taken whole, but a sub-page counts as used only once it is
//! touched. Until then it is an unallocated hole whose in-place frame nobody else gets; the touch
//! patches it. Short of memory, the kernel gives untouched frames to others.

use perforate_os::mechanism::{AddressSpace, Effects, index_of, page_at, region_of};
use perforate_types::{Frame, HoleSet, Permissions};

use super::acts::{expected, map_hole, patch, perforated, perforated_mut};

/// The in-place frames of these unallocated holes, which the caller holds, are reserved.
pub(super) fn keep_reserved(space: &mut AddressSpace, number: u64, reserved: HoleSet) {
    perforated_mut(space, number).reserved = reserved;
    space.usage_mut().reserved += reserved.count() as u64;
}

/// Gives the unallocated hole `page` its in-place frame, if that is reserved or free: with the
/// permissions of the 2MB page by patching it, with others as a hole that is mapped in place. Returns
/// whether that was possible.
pub(super) fn fill_in_place(
    space: &mut AddressSpace,
    page: u64,
    permissions: Permissions,
    effects: &mut Effects<'_>,
) -> bool {
    let index = index_of(page);
    let perforated = expected(space, region_of(page));
    let frame = perforated.in_place(index);
    let is_reserved = perforated.reserved.contains(index);
    // Others have most frames in place: that is seen sooner than whether the hole belongs.
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

/// Takes the in-place frame of hole `page` for it: the one that is reserved, or a free one.
pub(super) fn take_in_place(
    space: &mut AddressSpace,
    page: u64,
    effects: &mut Effects<'_>,
) -> bool {
    let index = index_of(page);
    let perforated = expected(space, region_of(page));
    if !perforated.reserved.contains(index) {
        return effects.memory.take(perforated.in_place(index));
    }
    unreserve(space, page);
    true
}

/// Gives up the reserved frames of these sub-pages; returns how many there were.
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

/// The in-place frame of a sub-page is reserved no more; it is the caller's.
pub(super) fn unreserve(space: &mut AddressSpace, page: u64) -> Frame {
    let index = index_of(page);
    let perforated = perforated_mut(space, region_of(page));
    assert!(perforated.reserved.remove(index), "not reserved");
    let frame = perforated.in_place(index);
    space.usage_mut().reserved -= 1;
    frame
}
