//! khugepaged, background promotion, as Linux does it (`mm/khugepaged.c`). A scanner visits the
//! regions of 4KB pages in all address spaces. It promotes regions to 2MB pages if its parameters
//! allow it. Linux copies a region into a whole block. Policies may also punch holes (see
//! [`crate::Promotion`]): at frames of a block that others use, or at pages of the region that are
//! not in place. The scanner also patches holes of perforated pages whose in-place frames are free
//! or can be freed.
//!
//! Choices of this model:
//! - Regions without any 4KB page or hole cost the scanner nothing (Linux steps through them).
//! - Accessed bits are not considered.
//! - Shared memory is skipped (as with Linux's default of `shmem_enabled`).
//! - Regions with generated fragmentation are skipped, since by definition no whole block exists for
//!   them.
//! - The scanner does not pause after a failed allocation, but fruitless searches for blocks are
//!   deferred like those of faults.

mod perform;
mod plan;
mod region;

use perforate_config::Count;
use perforate_types::{Counter, Counters, SpaceId, figures, registered};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Core, SpaceRegion, migration, patching, swap};
use crate::Promotion;
use crate::memory::FRAME_BYTES;
use crate::space::REGION_PAGES;
use plan::{Plan, Search};
use region::Refusal;

/// Linux's maximum of each `max_ptes_*` limit: one page less than a 2MB region has.
const MOST_PAGES: u64 = 511;

/// Parameters of the scanner, with Linux's names and defaults
/// (`/sys/kernel/mm/transparent_hugepage/khugepaged`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KhugepagedConfig {
    /// Pages scanned by one pass (Linux: before each sleep), rounded up to whole regions of 512.
    pub pages_to_scan: Count<1>,
    /// Largest number of absent 4KB pages in a 2MB region that is promoted. They become zero pages,
    /// so memory grows.
    pub max_ptes_none: Count<0, MOST_PAGES>,
    /// Largest number of swapped-out 4KB pages in a 2MB region that is promoted. They are read
    /// back.
    pub max_ptes_swap: Count<0, MOST_PAGES>,
    /// Largest number of 4KB pages in a promoted 2MB region whose frames other mappings share. They
    /// are copied.
    pub max_ptes_shared: Count<0, MOST_PAGES>,
    /// Compact memory if no 2MB block is free for a promotion (Linux: khugepaged/defrag). Page
    /// faults have the option defrag.
    pub defrag: bool,
}

impl Default for KhugepagedConfig {
    fn default() -> Self {
        Self {
            pages_to_scan: Count::new(4096),
            max_ptes_none: Count::new(511),
            max_ptes_swap: Count::new(64),
            max_ptes_shared: Count::new(256),
            defrag: true,
        }
    }
}

/// Result of one pass of khugepaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KhugepagedPass {
    /// Number of pages scanned: 512 for each 2MB region.
    pub pages_scanned: u64,
    /// Number of 2MB regions that became ordinary 2MB pages.
    pub regions_collapsed: u64,
    /// Number of 2MB regions that became perforated pages.
    pub regions_perforated: u64,
    /// True if the pass reached the end of all address spaces; the next pass begins at the first.
    pub ended_full_scan: bool,
}

/// Totals of khugepaged's background promotion since boot.
#[derive(Default)]
struct Counts {
    scanned: u64,
    full_scans: u64,
    /// Number of 2MB regions promoted by each method, indexed by [`Promotion`].
    promoted: [u64; 3],
    /// Number of 2MB regions that became ordinary 2MB pages.
    collapsed: u64,
    /// Number of 2MB regions that became perforated pages.
    perforated: u64,
    frames_copied: u64,
    frames_zeroed: u64,
    holes: u64,
    /// Number of 2MB regions not promoted for each reason, indexed by [`Refusal`].
    refused: [u64; Refusal::Memory as usize + 1],
    /// Number of holes patched: data moved back in place, so that the 2MB page maps the page again.
    patched: u64,
}

/// State of khugepaged, the promotion scanner.
#[derive(Default)]
pub(super) struct Khugepaged {
    /// Parameters of khugepaged, the promotion scanner.
    pub(super) config: KhugepagedConfig,
    /// 2MB region at which the next pass of khugepaged continues.
    cursor: SpaceRegion,
    /// State of the search for 2MB blocks that can be emptied for an ordinary 2MB page.
    whole: Search,
    /// State of the search for partly used 2MB blocks that can become 2MB pages with holes.
    holed: Search,
    counts: Counts,
}

impl Khugepaged {
    /// Runs one pass of the scanner: over the next `pages_to_scan` pages, or up to the end of all address
    /// spaces. If memory is short, a 2MB region keeps its 4KB pages.
    pub(super) fn pass(&mut self, core: &mut Core) -> KhugepagedPass {
        core.note_peak();
        migration::refresh_owners(core);
        let Counts { collapsed, perforated, .. } = self.counts;
        let mut pass = KhugepagedPass::default();
        while pass.pages_scanned < self.config.pages_to_scan.get() {
            let Some((id, number)) = self.next_candidate(core) else {
                self.counts.full_scans += 1;
                self.cursor = SpaceRegion::default();
                pass.ended_full_scan = true;
                break;
            };
            self.cursor = (id, number + 1);
            pass.pages_scanned += REGION_PAGES;
            if has_holes(core, id, number) {
                self.counts.patched += self.patch_cheap_holes(core, id, number);
            } else if let Err(refusal) = self.consider(core, id, number) {
                self.counts.refused[refusal as usize] += 1;
            }
            // One region is one operation: its shootdowns are sent together.
            core.ledger.send();
        }
        let counts = &mut self.counts;
        counts.scanned += pass.pages_scanned;
        pass.regions_collapsed = counts.collapsed - collapsed;
        pass.regions_perforated = counts.perforated - perforated;
        core.ledger.scanned(pass.pages_scanned);
        pass
    }

    /// Patches the holes of a 2MB page if the policy accepts the cost: in frame copies, one if the in-place
    /// frame is free, two if it must be emptied first. Returns the number of patched holes.
    fn patch_cheap_holes(&mut self, core: &mut Core, id: SpaceId, number: u64) -> u64 {
        let rule = core.policy.hole_rule();
        let patches = |frames_copied| rule.is_none_or(|rule| rule.patches(frames_copied));
        if !patches(1) {
            return 0;
        }
        let moves = self.config.defrag && patches(2);
        patching::patch_holes(core, id, number, moves)
    }

    /// First 2MB region from the cursor on that has holes to patch, or 4KB pages that may be promoted.
    fn next_candidate(&self, core: &Core) -> Option<SpaceRegion> {
        if core.policy.promotions().is_empty() {
            return None;
        }
        let mut cursor = self.cursor;
        while let Some((id, number)) = core.next_region(cursor) {
            let space = core.space(id).ok()?;
            if space.holed(number).is_some() || region::may_promote(core, space, number) {
                return Some((id, number));
            }
            cursor = (id, number + 1);
        }
        None
    }

    /// Promotes one 2MB region to a 2MB page if parameters, memory and policy allow it. An error is the
    /// reason why the region keeps its 4KB pages.
    fn consider(&mut self, core: &mut Core, id: SpaceId, number: u64) -> Result<(), Refusal> {
        let mut census = region::census(core, id, number).expect("the scanner found it");
        self.check_limits(core, number, &census)?;
        if !census.swapped.is_empty() {
            swap::read_region_in(core, id, number).map_err(|_| Refusal::Memory)?;
            census = region::census(core, id, number).expect("it is still mapped by 4KB pages");
        }
        let plan = self.plan(core, &census)?;
        if !perform::carry_out(core, (id, number), &census, &plan) {
            return Err(Refusal::Memory);
        }
        self.note_promotion(core, &plan);
        Ok(())
    }

    fn note_promotion(&mut self, core: &mut Core, plan: &Plan) {
        let Plan { promotion, price, .. } = plan;
        let counts = &mut self.counts;
        counts.promoted[*promotion as usize] += 1;
        *if price.holes.is_empty() { &mut counts.collapsed } else { &mut counts.perforated } += 1;
        counts.frames_copied += price.frames_copied;
        counts.frames_zeroed += price.frames_zeroed;
        counts.holes += price.holes.count() as u64;
        // Copied frames count as migrated, because each page is unmapped, copied and mapped again.
        core.ledger.migrated(price.frames_copied);
        core.ledger.done.frames_zeroed_4k += price.frames_zeroed;
    }

    /// Writes khugepaged's counters to `out`; writes none before its first pass.
    pub(super) fn counters(&self, out: &mut Counters) {
        let counts = &self.counts;
        if counts.scanned == 0 {
            return;
        }
        out.record(KHUGEPAGED, counts);
    }
}

figures! {
    static KHUGEPAGED: Counts, "Background promotion" {
        /// 4KB pages that khugepaged scanned since the start.
        khugepaged_pages_scanned, Count, Listed: |it| it.scanned;
        /// Times that khugepaged reached the end of all address spaces.
        khugepaged_full_scans, Count, Listed: |it| it.full_scans;
        /// 2MB pages without holes that khugepaged made.
        khugepaged_pages_made_whole, Count, Listed,
            part("khugepaged_pages_made", "whole", "page-2m"): |it| it.collapsed;
        /// Perforated pages that khugepaged made.
        khugepaged_pages_made_perforated, Count, Listed,
            part("khugepaged_pages_made", "perforated", "perforated"): |it| it.perforated;
        /// 2MB pages that khugepaged made by copying all 4KB pages into a free block.
        khugepaged_promoted_by_collapse, Count, Listed:
            |it| it.promoted[Promotion::Collapse as usize];
        /// 2MB pages that khugepaged made by copying 4KB pages into a block that others partly
        /// occupy, with holes around their frames.
        khugepaged_promoted_around_others, Count, Listed:
            |it| it.promoted[Promotion::PunchAround as usize];
        /// 2MB pages with holes that khugepaged made without moving the 4KB pages that are in
        /// place.
        khugepaged_promoted_in_place, Count, Listed:
            |it| it.promoted[Promotion::PunchInPlace as usize];
        /// Frames that khugepaged copied to make 2MB pages.
        khugepaged_frames_copied, Count, Listed: |it| it.frames_copied;
        /// Memory that khugepaged cleared to make 2MB pages.
        khugepaged_zeroed_bytes, Bytes, Listed: |it| it.frames_zeroed * FRAME_BYTES;
        /// Holes in the 2MB pages that khugepaged made.
        khugepaged_holes_left, Count, Listed: |it| it.holes;
        /// Holes of perforated pages that khugepaged removed by moving the sub-page into place.
        khugepaged_holes_patched, Count, Listed: |it| it.patched;
        /// Regions that khugepaged did not promote because more pages are absent than
        /// `max_ptes_none` allows.
        khugepaged_refused_absent, Count, Listed:
            |it| it.refused[Refusal::Absent as usize];
        /// Regions that khugepaged did not promote because more pages are swapped out than
        /// `max_ptes_swap` allows.
        khugepaged_refused_swapped, Count, Listed:
            |it| it.refused[Refusal::Swapped as usize];
        /// Regions that khugepaged did not promote because more pages are shared than
        /// `max_ptes_shared` allows.
        khugepaged_refused_shared, Count, Listed:
            |it| it.refused[Refusal::Shared as usize];
        /// Regions that khugepaged did not promote because a page and its area differ in
        /// permissions other than writing.
        khugepaged_refused_permissions, Count, Listed:
            |it| it.refused[Refusal::Permissions as usize];
        /// Regions that khugepaged did not promote because injected fragmentation covers them.
        khugepaged_refused_injected, Count, Listed:
            |it| it.refused[Refusal::Injected as usize];
        /// Regions that khugepaged did not promote because no block was available in a way that the
        /// policy accepts.
        khugepaged_refused_no_block, Count, Listed:
            |it| it.refused[Refusal::NoBlock as usize];
        /// Regions that khugepaged did not promote because the policy accepted none of the possible
        /// ways.
        khugepaged_refused_by_policy, Count, Listed:
            |it| it.refused[Refusal::Policy as usize];
        /// Regions that khugepaged did not promote because memory ran out during the work.
        khugepaged_refused_memory, Count, Listed:
            |it| it.refused[Refusal::Memory as usize];
    }
}

/// Counters of khugepaged's background promotion. Results contain them only if khugepaged has run.
pub(super) fn counters() -> Vec<Counter> {
    registered(KHUGEPAGED)
}

fn has_holes(core: &Core, id: SpaceId, number: u64) -> bool {
    core.space(id).is_ok_and(|space| space.holed(number).is_some())
}
