//! Migration: moves the content of a page to another frame and remaps the page.

use perforate_types::{Frame, SpaceId};

use super::Core;
use crate::memory::Owner;
use crate::space::Departure;

/// Rebuilds the reverse map from frames to pages, if a removed mapping may have left stale entries
/// (mostly after a fork). Too slow for page faults, because it visits all mappings.
pub(super) fn refresh_owners(core: &mut Core) {
    if core.memory.take_owners_stale() {
        for space in core.spaces.iter().flatten() {
            space.record_owners(&mut core.memory);
        }
    }
}

/// Copies the content of `frame` to another frame, maps its owner's page to that frame and frees `frame`.
/// Returns false if that is impossible.
pub(super) fn migrate(core: &mut Core, frame: Frame) -> bool {
    let is_moved = match core.memory.owner(frame) {
        Some(Owner::Other(usage, number)) => core.memory.move_other(usage, number, frame),
        Some(Owner::Page(space, page)) => {
            !core.memory.is_shared(frame) && migrate_page(core, space, page.number(), frame)
        }
        Some(Owner::Retired) | None => false,
    };
    core.ledger.migrated(u64::from(is_moved));
    is_moved
}

/// Copies the content of `page` to a new frame, if a separate 4KB entry still maps the page to `from`.
/// Returns false if it does not, or if memory is out.
fn migrate_page(core: &mut Core, id: SpaceId, page: u64, from: Frame) -> bool {
    let Ok(space) = &mut core.space_mut(id) else { return false };
    let permissions = match space.find(page) {
        Some(present) if present.has_own_entry() && present.frame() == Some(from) => {
            present.permissions()
        }
        _ => return false,
    };
    let page_alone = page..page + 1;
    if space.leave_overlay(&page_alone, Departure::Remapped).is_err() {
        return false;
    }
    let Ok(to) = space.memory.allocate_page() else { return false };
    let old = space.remap(page, to, permissions);
    space.memory.release(old);
    true
}
