//! Page tables that a hypervisor keeps besides those of its address spaces: shadow tables.

use perforate_types::Frame;

use super::Core;
use crate::OsError;

/// A frame for a table of the kernel's own. It counts as a page table and stays where it is.
///
/// # Errors
/// If there is no free frame.
pub(super) fn take(core: &mut Core) -> Result<Frame, OsError> {
    let frame = core.memory.allocate_nodes(0).map_err(|error| core.with_estimate(error))?;
    core.own_tables.insert(frame);
    Ok(frame)
}

/// Gives the frame of such a table back.
///
/// # Panics
/// If it is none.
pub(super) fn give_back(core: &mut Core, frame: Frame) {
    assert!(core.own_tables.remove(&frame), "{frame:?} holds no table of the kernel's own");
    core.memory.free(frame, 0);
}
