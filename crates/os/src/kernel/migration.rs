//! Moving what a frame holds to another frame, under the same page.

use perforate_types::{Frame, SpaceId, Update};

use super::Core;
use crate::memory::Owner;
use crate::space::Departure;

/// Records anew what frames hold, if a frame may have lost the one of its mappings that was
/// recorded: after a fork, mostly. Page faults do without, as all mappings are looked through.
pub(super) fn refresh_owners(core: &mut Core) {
    if core.memory.take_owners_left() {
        for space in core.spaces.iter().flatten() {
            space.record_owners(&mut core.memory);
        }
    }
}

/// Copies what the frame holds to another frame; the frame is free then. Returns whether it
/// could be done.
pub(super) fn migrate(core: &mut Core, frame: Frame, updates: &mut Vec<Update>) -> bool {
    let is_moved = match core.memory.owner(frame) {
        Some(Owner::Other(usage, number)) => core.memory.move_other(usage, number, frame),
        Some(Owner::Page(space, page)) => {
            !core.memory.is_shared(frame)
                && migrate_page(core, space, page.number(), frame, updates)
        }
        Some(Owner::Retired) | None => false,
    };
    core.ledger.migrated(u64::from(is_moved));
    is_moved
}

/// Copies what `page` maps by an entry of its own, if that is still `from`.
fn migrate_page(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    from: Frame,
    updates: &mut Vec<Update>,
) -> bool {
    let Ok((space, mut effects)) = core.parts(id, updates) else { return false };
    let permissions = match space.find(page) {
        Some(present) if present.has_own_entry() && present.frame() == Some(from) => {
            present.permissions()
        }
        _ => return false,
    };
    let page_alone = page..page + 1;
    if space.leave_overlay(&page_alone, Departure::Remapped, &mut effects).is_err() {
        return false;
    }
    let Ok(to) = effects.memory.allocate_page() else { return false };
    let old = space.remap(page, to, permissions, &mut effects);
    effects.memory.release(old);
    true
}
