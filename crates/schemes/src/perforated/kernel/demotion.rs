//! Demotion: a perforated page becomes 4KB pages in place, without copying.

use perforate_os::OsError;
use perforate_os::mechanism::{AddressSpace, Effects, complement, leaf, page_at};
use perforate_types::HoleSet;

use super::acts::take_perforated;

/// Replaces a perforated page by 4KB pages and frees its reserved frames.
pub(super) fn demote(
    space: &mut AddressSpace,
    number: u64,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    let node = space.allocate_node(effects)?;
    let perforated = take_perforated(space, number, effects);
    let mut entries = perforated.entries.clone();
    for index in complement(&perforated.holes).iter() {
        entries.replace(index, leaf(perforated.in_place(index), perforated.permissions));
    }
    effects.memory.free_frames_of(perforated.block, &perforated.reserved);
    let present = (0..HoleSet::SUBPAGES).filter(|&index| entries[index].is_present());
    let pages = present.map(|index| {
        let entry = entries[index];
        (page_at(number, index), entry.frame(), entry.permissions())
    });
    space.refill_region(number, node, pages, effects);
    Ok(())
}
