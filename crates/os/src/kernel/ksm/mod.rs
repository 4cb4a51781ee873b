//! KSM, same-page merging, as Linux does it (`mm/ksm.c`). A scanner visits the private anonymous
//! memory of all address spaces. It maps pages of equal content to one frame, read-only, until a
//! write copies the frame.
//!
//! The scanner has two trees, both sorted by content. The *stable* tree holds merged frames. The
//! *unstable* tree holds pages that the present full scan has met and that have not changed since
//! the previous scan. It is discarded after each full scan. The stable tree holds no references to
//! its frames. A merged frame is valid while a page that was merged to it still maps it read-only
//! and has its content. So changes of mappings need no notification here.
//!
//! A page inside a 2MB page first gets a separate 4KB entry: conventional policies split the 2MB
//! page, perforated ones punch a hole (P §III.A, §VI).
//!
//! Choices of this model:
//! - Every address space is scanned (Linux scans only those that asked by madvise or prctl), except
//!   areas that refused by MADV_UNMERGEABLE.
//! - 1GB pages are skipped (as hugetlbfs pages are in Linux).
//! - Zero pages are merged like all others (`use_zero_pages` = 0).

mod counts;
mod merge;
mod seen;

use std::collections::{BTreeMap, HashMap};

use perforate_config::Count;
use perforate_types::Frame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Core, SpacePage, demotion};
use crate::OsError;
use crate::space::{Present, pages_of, region_of};
use counts::Counts;
pub(super) use counts::counters;
use merge::maps_merged;
use seen::Seen;

/// Parameters of the merging scanner; the defaults are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KsmConfig {
    /// Pages scanned by one pass (Linux: before each sleep).
    pub pages_to_scan: Count<1>,
    /// Largest number of pages that same-page merging maps to one frame; further equal pages get
    /// another frame. At least 2. Forks may exceed it.
    pub max_page_sharing: Count<2>,
}

impl Default for KsmConfig {
    fn default() -> Self {
        Self { pages_to_scan: Count::new(100), max_page_sharing: Count::new(256) }
    }
}

/// Result of one pass of same-page merging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KsmPass {
    /// Number of pages that the pass scanned.
    pub pages_scanned: u64,
    /// Number of pages that were mapped to a merged frame instead of a private one.
    pub pages_merged: u64,
    /// True if the pass reached the end of all address spaces; the next pass begins at the first.
    pub ended_full_scan: bool,
}

/// A merged frame of the stable tree, and the pages that map this frame.
struct Node {
    frame: Frame,
    /// Pages that were merged to the frame; some may have been unmapped since.
    sharers: Vec<SpacePage>,
}

/// State of the merging scanner.
#[derive(Default)]
pub(super) struct Ksm {
    /// Parameters of the merging scanner.
    pub(super) config: KsmConfig,
    /// Page at which the next pass of the merging scanner continues.
    cursor: SpacePage,
    /// Stable tree: merged frames by content identity. Frames with room for another sharer come last in each
    /// list.
    stable: BTreeMap<u64, Vec<Node>>,
    /// Content identity and merged frame of each merged page.
    merged: BTreeMap<SpacePage, (u64, Frame)>,
    /// Unstable tree: pages of this full scan that are candidates for merging, by content identity.
    unstable: HashMap<u64, SpacePage>,
    seen: Seen,
    counts: Counts,
}

impl Ksm {
    /// Runs one pass of the scanner: over the next `pages_to_scan` pages, or up to the end of all
    /// address spaces. If memory for a page-table node is short, a page stays unmerged.
    pub(super) fn pass(&mut self, core: &mut Core) -> KsmPass {
        core.note_peak();
        let merged_before = self.counts.merged;
        let mut pass = KsmPass::default();
        while pass.pages_scanned < self.config.pages_to_scan.get() {
            let Some(place) = self.next_place(core) else {
                self.end_full_scan(core);
                pass.ended_full_scan = true;
                break;
            };
            self.cursor = (place.0, place.1 + 1);
            pass.pages_scanned += 1;
            if self.scan(core, place).is_err() {
                self.counts.failed += 1;
            }
        }
        self.counts.scanned += pass.pages_scanned;
        pass.pages_merged = self.counts.merged - merged_before;
        core.ledger.scanned(pass.pages_scanned);
        demotion::conclude(core);
        pass
    }

    /// First page that may be merged, from the position of the scanner on.
    fn next_place(&self, core: &Core) -> Option<SpacePage> {
        let cursor = self.cursor;
        let mut region = (cursor.0, region_of(cursor.1));
        while let Some((id, number)) = core.next_region(region) {
            let pages = pages_of(number);
            let start = if id == cursor.0 { pages.start.max(cursor.1) } else { pages.start };
            let mut places = (start..pages.end).map(|page| (id, page));
            if let Some(found) = places.find(|&place| is_candidate(core, place)) {
                return Some(found);
            }
            region = (id, number + 1);
        }
        None
    }

    /// Scans one page (Linux: `cmp_and_merge_page`).
    fn scan(&mut self, core: &mut Core, place: SpacePage) -> Result<(), OsError> {
        let Some((_, frame)) = candidate(core, place) else { return Ok(()) };
        let identity = core.contents.identity(place.0, place.1);
        let is_merged = self.merged.get(&place) == Some(&(identity, frame));
        if is_merged && maps_merged(core, place, identity, frame) {
            return Ok(());
        }
        self.merged.remove(&place);
        if let Some(node) = self.stable_frame(core, identity, frame) {
            return self.join(core, place, identity, node);
        }
        if self.seen.replace(place, identity) != Some(identity) {
            self.counts.changing += 1;
            return Ok(());
        }
        let other = self.unstable.get(&identity).copied();
        let other = other.filter(|&other| {
            other != place && core.contents.identity(other.0, other.1) == identity
        });
        match other.and_then(|other| candidate(core, other).map(|(_, frame)| (other, frame))) {
            None => {
                self.unstable.insert(identity, place);
            }
            // The two pages already share their frame after a fork.
            Some((_, same)) if same == frame => {}
            Some((other, _)) => {
                self.map_alone(core, place, None)?;
                self.map_alone(core, other, Some(frame))?;
                self.unstable.remove(&identity);
                let node = Node { frame, sharers: vec![place, other] };
                self.stable.entry(identity).or_default().push(node);
                self.merged.insert(place, (identity, frame));
                self.merged.insert(other, (identity, frame));
                self.counts.merged += 1;
            }
        }
        Ok(())
    }

    /// Merged frame with content `identity` for a scanned page. That is the page's present frame `own` if
    /// `own` is a merged frame, else one that another page may still map. `None` if there is none.
    fn stable_frame(&mut self, core: &mut Core, identity: u64, own: Frame) -> Option<Frame> {
        let mut nodes = self.stable.remove(&identity)?;
        let is_valid = |node: &&Node| {
            node.sharers.iter().any(|&sharer| maps_merged(core, sharer, identity, node.frame))
        };
        let mut found = nodes.iter().find(|node| node.frame == own).filter(is_valid).map(|_| own);
        while found.is_none() {
            let Some(last) = nodes.last_mut() else { break };
            let Some(&sharer) = last.sharers.last() else {
                nodes.pop();
                continue;
            };
            if !maps_merged(core, sharer, identity, last.frame) {
                last.sharers.pop();
                continue;
            }
            if last.sharers.len() as u64 >= self.config.max_page_sharing.get() {
                break;
            }
            found = Some(last.frame);
        }
        if !nodes.is_empty() {
            self.stable.insert(identity, nodes);
        }
        found
    }

    /// Ends a full scan: clears the unstable tree and removes stale records from the stable tree.
    fn end_full_scan(&mut self, core: &mut Core) {
        self.counts.full_scans += 1;
        self.cursor = SpacePage::default();
        self.unstable.clear();
        self.seen.retain(|place| is_candidate(core, place));
        let limit = self.config.max_page_sharing.get();
        let mut stable = std::mem::take(&mut self.stable);
        let mut merged = BTreeMap::new();
        stable.retain(|&identity, nodes| {
            for node in nodes.iter_mut() {
                let frame = node.frame;
                node.sharers.sort_unstable();
                node.sharers.dedup();
                node.sharers.retain(|&place| maps_merged(core, place, identity, frame));
                merged.extend(node.sharers.iter().map(|&place| (place, (identity, frame))));
            }
            nodes.retain(|node| !node.sharers.is_empty());
            // Frames that accept another sharer come last (`false` sorts first).
            nodes.sort_by_key(|node| (node.sharers.len() as u64) < limit);
            !nodes.is_empty()
        });
        self.stable = stable;
        self.merged = merged;
    }
}

fn is_candidate(core: &Core, place: SpacePage) -> bool {
    candidate(core, place).is_some()
}

/// Translation and frame of a page, if it may be merged: mapped private anonymous memory whose frame no
/// overlay (direct segment) owns.
fn candidate(core: &Core, (id, page): SpacePage) -> Option<(Present, Frame)> {
    let space = core.space(id).ok()?;
    let present = space.find(page)?;
    let stays = space.extent_at(page).is_some_and(|(_, extent)| extent.stays_whole());
    if stays || space.is_kept(page) {
        return None;
    }
    let attributes = space.areas.find(page)?.attributes;
    let mergeable =
        attributes.accessible && attributes.is_private_anonymous() && !attributes.refuses_merging;
    let frame = present.frame()?;
    mergeable.then_some((present, frame))
}
