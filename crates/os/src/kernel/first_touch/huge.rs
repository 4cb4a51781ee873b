//! Backs first touches with 1GB pages.

use super::{Backed, Backer, Touch};
use crate::kernel::{Core, FirstTouch};
use crate::space::{self, Huge, Mechanism, gigabyte_of, pages_of_gigabyte, regions_of};
use crate::{Orders, OsError};

/// Backer (mechanism that maps memory on first touches) of 1GB pages. Requires a memory area that spans the
/// page, no present mapping, no generated fragmentation in its regions, and contiguous memory.
pub(super) struct HugePages;

impl Backer for HugePages {
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        let pages = pages_of_gigabyte(gigabyte_of(touch.page));
        if core.is_any_fragmented(regions_of(&pages)) {
            return Ok(Backed::No);
        }
        map(core, touch)
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
