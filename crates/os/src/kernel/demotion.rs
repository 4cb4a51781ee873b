//! Demotion at the end of an operation: turns 2MB pages with too many holes into 4KB pages, before
//! the shootdowns of the operation are sent.

use perforate_types::SpaceId;

use super::Core;
use crate::space::first_of;

/// Finishes an operation of the kernel that may have punched holes: demotes 2MB pages and sends shootdowns.
#[inline]
pub(super) fn conclude(core: &mut Core) {
    if core.ledger.done.subpages_punched != core.concluded_punches {
        demote_punched(core);
    }
    core.ledger.send();
}

/// Turns 2MB pages with more holes than the policy allows into 4KB pages, while there is memory for
/// their table nodes. Only pages that the operation punched are checked.
#[cold]
fn demote_punched(core: &mut Core) {
    for slot in 0..core.spaces.len() {
        let Some(space) = &mut core.spaces[slot] else { continue };
        let mut punched = std::mem::take(&mut space.punched);
        punched.sort_unstable();
        punched.dedup();
        for number in punched {
            demote_if_policy_demands(core, SpaceId(slot as u16), number);
        }
    }
    core.concluded_punches = core.ledger.done.subpages_punched;
}

fn demote_if_policy_demands(core: &mut Core, id: SpaceId, number: u64) {
    let Ok(space) = core.space(id) else { return };
    let Some(holed) = space.holed(number) else { return };
    // Holes with a reserved frame do not count, because their data will be in place.
    let permanent_holes =
        holed.holes.iter().filter(|&index| !holed.reserved.contains(index)).collect();
    if !core.policy.hole_rule().is_some_and(|rule| rule.demotes(&permanent_holes)) {
        return;
    }
    if let Ok(space) = &mut core.space_mut(id) {
        let first = first_of(number);
        // If memory for the page-table node runs out, the 2MB page stays.
        let _ = space.mechanism(first).break_up(space, first);
    }
}
