//! Consistency check of the kernel's records, for tests and for developers of the kernel.

use super::Kernel;
use crate::memory::{Recount, expect};

impl Kernel {
    /// Recounts everything and compares the result with the kernel's records:
    /// - every frame has one use;
    /// - a frame's reference count equals its number of mappings;
    /// - a page whose 4KB entry is the only mapping of a frame is recorded as the frame's owner;
    /// - counts of frames by use, reservations, blocks with perforated pages and swap slots are
    ///   right;
    /// - all shootdowns are sent.
    ///
    /// The time is proportional to the memory. Call it between operations only.
    ///
    /// # Errors
    /// A description of the first disagreement.
    pub fn check_invariants(&self) -> Result<(), String> {
        let core = &self.core;
        let mut recount = Recount::default();
        for (id, space) in core.spaces.iter().enumerate() {
            let Some(space) = space else { continue };
            space.check(&mut recount).map_err(|wrong| format!("space {id}: {wrong}"))?;
        }
        core.own_tables.iter().try_for_each(|&frame| recount.hold(frame))?;
        let mut foreign = 0;
        let used = core.live_spaces().flat_map(|space| space.fragments());
        for fragment in used.chain(core.memory.parked_fragments()) {
            let fragmentation = core.config.fragmentation.expect("there are fragments");
            let holes = fragmentation.holes(core.config.seed, fragment.region);
            for index in holes.expect("fragmented").iter() {
                recount.hold(fragment.block.add(index as u64))?;
                foreign += 1;
            }
        }
        for (block, holes) in core.memory.drawn_holes() {
            for index in holes.iter() {
                recount.hold(block.add(index as u64))?;
                foreign += 1;
            }
        }
        expect("foreign frames", core.memory.foreign_frames(), foreign)?;
        core.memory.check(recount)?;
        let punched = core.ledger.done.subpages_punched;
        expect("punches concluded", core.concluded_punches, punched)?;
        expect("shootdowns that wait", core.ledger.is_waiting(), false)
    }
}
