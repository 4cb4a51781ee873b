//! Demotion, at the end of an operation: perforated pages that got too many holes in it become 4KB
//! pages, before the shootdowns of all of it go out.

use perforate_types::{SpaceId, Update};

use super::Core;
use crate::Perforated;

/// Ends an operation that may have punched holes.
#[inline]
pub(super) fn conclude(core: &mut Core, updates: &mut Vec<Update>) {
    if core.ledger.done.subpages_punched != core.concluded_punches {
        demote_punched(core, updates);
    }
    core.ledger.send();
}

/// Turns perforated pages with more holes than the policy allows into 4KB pages, as far as
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
    let demotes = |rule: &Perforated| rule.demotes(&space.lasting_holes(number));
    if !core.policy.rule::<Perforated>().is_some_and(demotes) {
        return;
    }
    if let Ok((space, mut effects)) = core.parts(id, updates)
        && space.demote(number, &mut effects).is_ok()
    {
        effects.ledger.done.large_pages_split += 1;
    }
}
