//! Demotion, at the end of an operation: perforated pages that got too many holes in it become 4KB
//! pages, before the shootdowns of all of it go out.

use perforate_types::{SpaceId, Update};

use super::Kernel;

impl Kernel {
    /// Ends an operation that may have punched holes.
    #[inline]
    pub(super) fn conclude(&mut self, updates: &mut Vec<Update>) {
        if self.ledger.done.subpages_punched != self.concluded_punches {
            self.demote_punched(updates);
        }
        self.ledger.send();
    }

    /// Turns perforated pages with more holes than the policy allows into 4KB pages, as far as
    /// there is memory for their table nodes. Only those that were punched can have become so.
    #[cold]
    fn demote_punched(&mut self, updates: &mut Vec<Update>) {
        for slot in 0..self.spaces.len() {
            let Some(space) = &mut self.spaces[slot] else { continue };
            let mut punched = std::mem::take(&mut space.punched);
            punched.sort_unstable();
            punched.dedup();
            for number in punched {
                self.demote_if_too_holey(SpaceId(slot as u16), number, updates);
            }
        }
        self.concluded_punches = self.ledger.done.subpages_punched;
    }

    fn demote_if_too_holey(&mut self, id: SpaceId, number: u64, updates: &mut Vec<Update>) {
        let Ok(space) = self.space(id) else { return };
        if !self.policy.demotes(&space.lasting_holes(number)) {
            return;
        }
        if let Ok((space, mut effects)) = self.parts(id, updates)
            && space.demote(number, &mut effects).is_ok()
        {
            effects.ledger.done.large_pages_split += 1;
        }
    }
}
