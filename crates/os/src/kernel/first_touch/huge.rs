//! Backs first touches with 1GB pages.

use super::{Backed, Backer, Touch};
use crate::kernel::{Core, FirstTouch};
use crate::space::{self, Area, Huge, Mechanism, gigabyte_of, pages_of_gigabyte, regions_of};
use crate::{Orders, OsError};

/// Backer (mechanism that maps memory on first touches) of 1GB pages. Requires a memory area that spans the
/// page, no present mapping, and contiguous memory. Only pages that the program asked for are reserved before it
/// starts, so that generated fragmentation in their regions does not matter.
pub(super) struct HugePages {
    /// True if all memory may have such pages, not only what the program asked for.
    pub(super) for_all: bool,
}

impl Backer for HugePages {
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        let pages = pages_of_gigabyte(gigabyte_of(touch.page));
        let is_reserved = touch.area.attributes.wants_order(Orders::HUGE);
        if is_reserved || self.for_all && !core.is_any_fragmented(regions_of(&pages)) {
            return map(core, touch);
        }
        Ok(Backed::No)
    }

    fn maps_beside_pages(&self, _: &Area) -> bool {
        false
    }
}

/// Maps a 1GB page. Requires a memory area that spans the page, no present mapping, and contiguous memory.
pub(super) fn map(core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
    let &Touch { space: id, page, .. } = touch;
    if !touch.orders(core)?.contains(Orders::HUGE) {
        return Ok(Backed::No);
    }
    let pages = pages_of_gigabyte(gigabyte_of(page));
    let Some(run) = core.memory.allocate_huge() else { return Ok(Backed::No) };
    let space = &mut core.space_mut(id)?;
    let huge = Huge { run, permissions: touch.permissions() };
    if let Err(error) = space::HugePages.map(space, pages.start, Box::new(huge)) {
        core.memory.free_huge(run);
        return Err(error);
    }
    core.ledger.bring_in(FirstTouch::Huge);
    Ok(Backed::Yes)
}
