//! Demotion, at the end of an operation: 2MB pages that got too many holes in it become 4KB pages, before the shootdowns of all of it go out.

use perforate_types::{SpaceId, Update};

use super::Core;
use crate::space::first_of;

/// Ends an operation that may have punched holes.
#[inline]
pub(super) fn conclude(core: &mut Core, updates: &mut Vec<Update>) {
    if core.ledger.done.subpages_punched != core.concluded_punches {
        demote_punched(core, updates);
    }
    core.ledger.send();
}

/// Turns 2MB pages with more holes than the policy allows into 4KB pages, as far as
/// there is memory for their table nodes. Only those that were punched can have become so.
#[cold]
fn demote_punched(core: &mut Core, updates: &mut Vec<Update>) {
    for slot in 0..core.spaces.len() {
        let Some(space) = &mut core.spaces[slot] else { continue };
        let mut punched = std::mem::take(&mut space.punched);
        punched.sort_unstable();
        punched.dedup();
        for number in punched {
            demote_if_too_holey(core, SpaceId(slot as u16), number, updates);
        }
    }
    core.concluded_punches = core.ledger.done.subpages_punched;
}

fn demote_if_too_holey(core: &mut Core, id: SpaceId, number: u64, updates: &mut Vec<Update>) {
    let Ok(space) = core.space(id) else { return };
    let Some(holed) = space.holed(number) else { return };
    // Frames that are reserved are in place for good.
    let lasting = holed.holes.iter().filter(|&index| !holed.reserved.contains(index)).collect();
    if !core.policy.hole_rule().is_some_and(|rule| rule.demotes(&lasting)) {
        return;
    }
    if let Ok((space, mut effects)) = core.parts(id, updates) {
        let first = first_of(number);
        // Where memory for the tables is out it stays as it is.
        let _ = space.mechanism(first).break_up(space, first, &mut effects);
    }
}
