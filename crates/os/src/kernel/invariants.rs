//! Whether the kernel's records agree: for tests, and for whoever changes the kernel.

use super::Kernel;
use crate::memory::{Recount, expect};

impl Kernel {
    /// Counts everything anew and compares it with what is recorded: every frame is used once and
    /// as often mapped as its count of references says; whoever maps a frame alone by an entry of
    /// its own is recorded as its owner; figures of use, reservations, blocks with perforated pages
    /// and slots of the swap space are right; all shootdowns are sent. Takes time in proportion to
    /// the memory; to be called between operations.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check_invariants(&self) -> Result<(), String> {
        let mut recount = Recount::default();
        for (id, space) in self.spaces.iter().enumerate() {
            let Some(space) = space else { continue };
            space.check(&mut recount).map_err(|wrong| format!("space {id}: {wrong}"))?;
        }
        self.own_tables.iter().try_for_each(|&frame| recount.hold(frame))?;
        let mut foreign = 0;
        let used = self.live_spaces().flat_map(|space| space.fragments());
        for fragment in used.chain(self.memory.parked_fragments()) {
            let fragmentation = self.config.fragmentation.expect("there are fragments");
            let holes = fragmentation.holes(self.config.seed, fragment.region);
            for index in holes.expect("fragmented").iter() {
                recount.hold(fragment.block.add(index as u64))?;
                foreign += 1;
            }
        }
        for (block, holes) in self.memory.drawn_holes() {
            for index in holes.iter() {
                recount.hold(block.add(index as u64))?;
                foreign += 1;
            }
        }
        expect("foreign frames", self.memory.foreign_frames(), foreign)?;
        self.memory.check(recount)?;
        let punched = self.ledger.done.subpages_punched;
        expect("punches concluded", self.concluded_punches, punched)?;
        expect("shootdowns that wait", self.ledger.is_waiting(), false)
    }
}
