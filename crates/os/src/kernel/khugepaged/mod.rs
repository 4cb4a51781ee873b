//! khugepaged, background promotion, as Linux does it (`mm/khugepaged.c`): a scanner walks the
//! regions of all address spaces that 4KB pages map, and makes 2MB pages of those that the knobs
//! allow. Linux copies a region into a whole block; policies may also punch (see
//! [`crate::Promotion`]): around what others have in a block, or around what of the region is not
//! at its own place. On its way the scanner patches holes of perforated pages whose frames have
//! become free or can be made so.
//!
//! Choices of ours: regions without any 4KB page or hole cost the scanner nothing (Linux steps
//! through them); accessed bits are not asked; shared memory is left alone (as with Linux's default
//! for `shmem_enabled`); so are regions that injected fragmentation covers, because the injection says
//! that no whole block can be had for them; the scanner does not pause after a failed allocation,
//! but fruitless searches for blocks are deferred as those of faults are.

mod config;
mod perform;
mod plan;
mod region;

use perforate_types::{Counters, SpaceId, Update};

use super::{Kernel, SpaceRegion};
use crate::Promotion;
use crate::memory::FRAME_BYTES;
use crate::space::REGION_PAGES;
pub use config::KhugepagedConfig;
use plan::{Plan, Search};
use region::Refusal;

/// What one pass of the scanner did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KhugepagedPass {
    /// Pages looked at: 512 for each region.
    pub pages_scanned: u64,
    /// Regions that became ordinary 2MB pages.
    pub regions_collapsed: u64,
    /// Regions that became perforated pages.
    pub regions_perforated: u64,
    /// Whether it came to the end of all address spaces; the next pass begins at the first.
    pub ended_full_scan: bool,
}

/// What background promotion did, in all.
#[derive(Default)]
struct Counts {
    scanned: u64,
    full_scans: u64,
    /// Regions promoted, by [`Promotion`].
    promoted: [u64; 3],
    /// Regions that became ordinary 2MB pages.
    collapsed: u64,
    /// Regions that became perforated pages.
    perforated: u64,
    frames_copied: u64,
    frames_zeroed: u64,
    holes: u64,
    /// Regions left alone, by [`Refusal`].
    refused: [u64; Refusal::ALL.len()],
    /// Holes patched.
    patched: u64,
}

/// State of the scanner.
#[derive(Default)]
pub(super) struct Khugepaged {
    config: KhugepagedConfig,
    /// Where the next pass goes on.
    cursor: SpaceRegion,
    /// The search for blocks that can be emptied.
    whole: Search,
    /// The search for blocks that can be perforated.
    holed: Search,
    counts: Counts,
}

impl Kernel {
    /// Sets the knobs of background promotion.
    pub fn set_khugepaged(&mut self, config: KhugepagedConfig) {
        self.khugepaged.config = config;
    }

    /// One pass of the scanner over the next `pages_to_scan` pages, or up to the end of all
    /// address spaces. A region for which memory is short stays as it is.
    pub fn khugepaged_pass(&mut self, updates: &mut Vec<Update>) -> KhugepagedPass {
        self.note_peak();
        self.refresh_owners();
        let Counts { collapsed, perforated, .. } = self.khugepaged.counts;
        let mut pass = KhugepagedPass::default();
        while pass.pages_scanned < self.khugepaged.config.pages_to_scan.get() {
            let Some((id, number)) = self.next_candidate() else {
                self.khugepaged.counts.full_scans += 1;
                self.khugepaged.cursor = SpaceRegion::default();
                pass.ended_full_scan = true;
                break;
            };
            self.khugepaged.cursor = (id, number + 1);
            pass.pages_scanned += REGION_PAGES;
            if self.is_perforated(id, number) {
                self.khugepaged.counts.patched += self.patch_cheap_holes(id, number, updates);
            } else if let Err(refusal) = self.consider(id, number, updates) {
                self.khugepaged.counts.refused[refusal as usize] += 1;
            }
            // One region is one operation: its shootdowns go out together.
            self.ledger.send();
        }
        let counts = &mut self.khugepaged.counts;
        counts.scanned += pass.pages_scanned;
        pass.regions_collapsed = counts.collapsed - collapsed;
        pass.regions_perforated = counts.perforated - perforated;
        self.note_scan(pass.pages_scanned);
        pass
    }

    /// Patches the holes of a page whose price the policy accepts: one copy where the frame in
    /// place is free, two where it has to be made free.
    fn patch_cheap_holes(&mut self, id: SpaceId, number: u64, updates: &mut Vec<Update>) -> u64 {
        if !self.policy.patches(1) {
            return 0;
        }
        let moves = self.khugepaged.config.defrag && self.policy.patches(2);
        self.patch_holes(id, number, moves, updates)
    }

    fn is_perforated(&self, id: SpaceId, number: u64) -> bool {
        self.space(id).is_ok_and(|space| space.perforated(number).is_some())
    }

    /// The next region from the cursor on that has holes, or that 4KB pages map and that may be a
    /// 2MB page.
    fn next_candidate(&self) -> Option<SpaceRegion> {
        if self.policy.promotions().is_empty() {
            return None;
        }
        let mut cursor = self.khugepaged.cursor;
        while let Some((id, number)) = self.next_region(cursor) {
            let space = self.space(id).ok()?;
            if space.perforated(number).is_some() || self.may_promote(space, number) {
                return Some((id, number));
            }
            cursor = (id, number + 1);
        }
        None
    }

    /// Promotes one region if knobs, memory and policy allow it.
    fn consider(
        &mut self,
        id: SpaceId,
        number: u64,
        updates: &mut Vec<Update>,
    ) -> Result<(), Refusal> {
        let mut census = self.census(id, number).expect("the scanner found it");
        self.check_limits(number, &census)?;
        if !census.swapped.is_empty() {
            self.swap_region_in(id, number, updates).map_err(|_| Refusal::Memory)?;
            census = self.census(id, number).expect("it is still mapped by 4KB pages");
        }
        let plan = self.plan(&census)?;
        if !self.carry_out((id, number), &census, &plan, updates) {
            return Err(Refusal::Memory);
        }
        self.note_promotion(&plan);
        Ok(())
    }

    fn note_promotion(&mut self, plan: &Plan) {
        let Plan { promotion, price, .. } = plan;
        let counts = &mut self.khugepaged.counts;
        counts.promoted[*promotion as usize] += 1;
        *if price.holes.is_empty() { &mut counts.collapsed } else { &mut counts.perforated } += 1;
        counts.frames_copied += price.frames_copied;
        counts.frames_zeroed += price.frames_zeroed;
        counts.holes += price.holes.count() as u64;
        // What moves stays under its page, so it counts as migrated: each page is taken out of
        // use, copied and mapped again, not only copied.
        self.note_migration(price.frames_copied);
        self.ledger.done.frames_zeroed_4k += price.frames_zeroed;
    }

    /// What background promotion did; nothing before it first looked at a page.
    pub(super) fn khugepaged_counters(&self, out: &mut Counters) {
        let counts = &self.khugepaged.counts;
        if counts.scanned == 0 {
            return;
        }
        out.count("khugepaged_pages_scanned", counts.scanned);
        out.count("khugepaged_full_scans", counts.full_scans);
        out.count("khugepaged_pages_made_whole", counts.collapsed);
        out.count("khugepaged_pages_made_perforated", counts.perforated);
        for (promotion, name) in [
            (Promotion::Collapse, "khugepaged_promoted_by_collapse"),
            (Promotion::PunchAround, "khugepaged_promoted_around_others"),
            (Promotion::PunchInPlace, "khugepaged_promoted_in_place"),
        ] {
            out.count(name, counts.promoted[promotion as usize]);
        }
        out.count("khugepaged_frames_copied", counts.frames_copied);
        out.count("khugepaged_zeroed_bytes", counts.frames_zeroed * FRAME_BYTES);
        out.count("khugepaged_holes_left", counts.holes);
        out.count("khugepaged_holes_patched", counts.patched);
        for refusal in Refusal::ALL {
            out.count(refusal.counter(), counts.refused[refusal as usize]);
        }
    }
}
