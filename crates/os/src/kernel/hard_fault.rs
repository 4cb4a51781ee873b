//! Hard faults: a frame fails while it is in use (P §VI gives hard faults as one reason for holes).
//! Its data are copied to another frame, and the frame is never used again.

use perforate_types::{Frame, SpaceId};

use super::{Core, migration, reservation};
use crate::OsError;
use crate::space::Departure;

/// Outcome of the failure of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardFault {
    /// The frame was free, or reserved for a page that was not touched yet.
    WasFree,
    /// The data of the frame were copied to another frame.
    Moved,
    /// The frame was part of a large page, which now has a hole at this sub-page.
    Punched,
    /// The frame was part of a direct segment; its page escapes the segment (D §V).
    Escaped,
    /// The frame was part of a large page that was moved as a whole, such as a gap-tolerant superpage.
    Relocated,
    /// The frame was part of a large page that was split into 4KB pages.
    Split,
    /// The frame stays in use: it holds kernel data or tables, is shared, is part of a 1GB page, or
    /// no memory is left for the copy. A real machine would kill a program or panic.
    Uncorrected,
}

/// Retires a failing frame if its data can be moved.
pub(super) fn serve(core: &mut Core, frame: Frame) -> HardFault {
    migration::refresh_owners(core);
    let outcome = move_away(core, frame);
    // Retire the frame at once: a demotion allocates a frame for a node, and must not get this one.
    if outcome != HardFault::Uncorrected && !core.memory.retire(frame) {
        return HardFault::Uncorrected;
    }
    outcome
}

fn move_away(core: &mut Core, frame: Frame) -> HardFault {
    if frame.number() >= core.memory.usable_frames() {
        return HardFault::Uncorrected;
    }
    if core.memory.zones().is_free(frame) {
        return HardFault::WasFree;
    }
    if let Some((space, page)) = core.kept_page(frame) {
        return match replace_kept_frame(core, space, page) {
            Ok(()) => HardFault::Escaped,
            Err(_) => HardFault::Uncorrected,
        };
    }
    if migration::migrate(core, frame) {
        return HardFault::Moved;
    }
    // The recorded owner may no longer map the frame by a 4KB entry, if the frame is now part of a
    // 2MB page.
    if core.memory.is_shared(frame) {
        return HardFault::Uncorrected;
    }
    if reservation::release_frame(core, frame) {
        return HardFault::WasFree;
    }
    match extent_around(core, frame) {
        Some((space, page)) => take_out_of_extent(core, space, page, frame),
        None => HardFault::Uncorrected,
    }
}

/// Copies `page` from its failing frame to a new one. No page-table entry maps the page, only an overlay
/// (a direct segment).
fn replace_kept_frame(core: &mut Core, id: SpaceId, page: u64) -> Result<(), OsError> {
    let space = &mut core.space_mut(id)?;
    let mechanism = space.overlay().expect("it keeps the page").mechanism();
    mechanism.replace_frame(space, page)
}

/// Address space and page whose extent (mapping of more than 4KB, such as a 2MB page) contains `frame`;
/// `None` if no extent does. Visits all mappings, which is affordable because frames fail rarely.
fn extent_around(core: &Core, frame: Frame) -> Option<(SpaceId, u64)> {
    core.live_spaces().find_map(|space| {
        let page = space.page_of_frame(frame)?;
        let (_, extent) = space.extent_at(page)?;
        (!extent.stays_whole()).then_some((space.id(), page))
    })
}

fn take_out_of_extent(core: &mut Core, id: SpaceId, page: u64, frame: Frame) -> HardFault {
    let Ok(space) = &mut core.space_mut(id) else {
        return HardFault::Uncorrected;
    };
    let (first, extent) = space.extent_at(page).expect("it was found there");
    let (mechanism, pages) = (extent.mechanism(), first..first + extent.pages());
    if space.leave_overlay(&pages, Departure::Remapped).is_err() {
        return HardFault::Uncorrected;
    }
    if mechanism.relocate(space, first) {
        core.faults.extents_relocated += 1;
        return HardFault::Relocated;
    }
    if let Some(detacher) = space.detacher(page) {
        let permissions = space.extent(first).permissions();
        let punched = space.detach_with(detacher, page, true, permissions);
        return if punched.is_ok() { HardFault::Punched } else { HardFault::Uncorrected };
    }
    let broken_up = mechanism.break_up(space, first);
    if broken_up.is_ok() && migration::migrate(core, frame) {
        HardFault::Split
    } else {
        HardFault::Uncorrected
    }
}
