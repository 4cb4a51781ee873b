//! KSM, same-page merging, as Linux does it (`mm/ksm.c`): a scanner walks the private anonymous
//! memory of all address spaces and maps pages of equal content to one frame, read-only, until a
//! write copies it.
//!
//! Two trees, both by content. The *stable* tree holds merged frames. The *unstable* tree holds
//! the pages that this full scan has met and that have not changed since the one before; it is
//! thrown away at the end of each. The stable tree takes no reference to its frames: one of them
//! counts as long as a page that was merged to it still maps it read-only and has its content, so
//! whatever else happens to the mappings needs no notice here.
//!
//! A page inside a 2MB page gets an entry of its own first: conventional policies split the 2MB
//! page, perforated ones punch a hole (P §III.A, §VI). Choices of ours: every address space is
//! scanned (Linux: only those that asked by madvise or prctl); 1GB pages are left alone (as those
//! of hugetlbfs are); zero pages are merged like all others (`use_zero_pages` = 0).

mod config;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use perforate_types::{Counters, Frame, HoleSet, Permissions, SpaceId, Update};

use super::Kernel;
use crate::memory::FRAME_BYTES;
use crate::space::{Present, pages_of, region_of};
use crate::{OsError, PartialChange};
pub use config::KsmConfig;

/// What one pass of the scanner did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KsmPass {
    /// Pages looked at.
    pub pages_scanned: u64,
    /// Pages mapped to a merged frame instead of their own.
    pub pages_merged: u64,
    /// Whether it came to the end of all address spaces; the next pass begins at the first.
    pub ended_full_scan: bool,
}

/// A page of an address space.
type Place = (SpaceId, u64);

/// A merged frame.
struct Node {
    frame: Frame,
    /// Who maps it, as far as merging knows; some may have left.
    sharers: Vec<Place>,
}

/// What merging did, in all.
#[derive(Default)]
struct Counts {
    /// Pages looked at.
    scanned: u64,
    /// Times the scanner came to the end.
    full_scans: u64,
    /// Pages mapped to a merged frame instead of their own.
    merged: u64,
    /// Merged pages that a write took out again.
    written: u64,
    /// Looks at a page that was new or had changed since the last one.
    changing: u64,
    /// Merges for which memory was short.
    failed: u64,
    /// Ordinary 2MB pages split into 4KB pages.
    split: u64,
    /// Ordinary 2MB pages that got their first hole.
    perforated: u64,
    /// Sub-pages punched out as holes.
    punched: u64,
}

/// State of the scanner.
#[derive(Default)]
pub(super) struct Ksm {
    config: KsmConfig,
    /// Where the next pass goes on.
    cursor: (usize, u64),
    /// Merged frames by content; those with room for another sharer come last.
    stable: BTreeMap<u64, Vec<Node>>,
    /// Content and frame of the pages that were merged.
    merged: BTreeMap<Place, (u64, Frame)>,
    /// Candidates of this full scan by content.
    unstable: HashMap<u64, Place>,
    /// Content at the last scan (Linux: the checksum).
    seen: HashMap<Place, u64>,
    counts: Counts,
}

impl Kernel {
    /// Sets the knobs of same-page merging.
    ///
    /// # Errors
    /// If they are out of range.
    pub fn set_ksm(&mut self, config: KsmConfig) -> Result<(), OsError> {
        config.check().map_err(|reason| {
            let KsmConfig { pages_to_scan, max_page_sharing } = config;
            let text = format!("pages-to-scan={pages_to_scan},max-page-sharing={max_page_sharing}");
            OsError::InvalidKsm { text, reason }
        })?;
        self.ksm.config = config;
        Ok(())
    }

    /// One pass of the scanner over the next `pages_to_scan` pages, or up to the end of all
    /// address spaces. Pages for whose merging memory is short (a table node) stay as they are.
    pub fn ksm_pass(&mut self, updates: &mut Vec<Update>) -> KsmPass {
        self.note_peak();
        let merged_before = self.ksm.counts.merged;
        let mut pass = KsmPass::default();
        while pass.pages_scanned < self.ksm.config.pages_to_scan {
            let Some(place) = self.next_place() else {
                self.end_full_scan();
                pass.ended_full_scan = true;
                break;
            };
            self.ksm.cursor = (usize::from(place.0.0), place.1 + 1);
            pass.pages_scanned += 1;
            if self.scan(place, updates).is_err() {
                self.ksm.counts.failed += 1;
            }
        }
        self.ksm.counts.scanned += pass.pages_scanned;
        pass.pages_merged = self.ksm.counts.merged - merged_before;
        self.note_scan(pass.pages_scanned);
        self.conclude(updates);
        pass
    }

    /// The next page from the cursor on that may be merged.
    fn next_place(&self) -> Option<Place> {
        let (mut slot, mut page) = self.ksm.cursor;
        while slot < self.spaces.len() {
            if let Some(space) = &self.spaces[slot] {
                let id = SpaceId(slot as u16);
                while let Some(number) = space.next_region(region_of(page)) {
                    let Range { start, end } = pages_of(number);
                    page = page.max(start);
                    if let Some(found) = (page..end).find(|&page| self.is_candidate((id, page))) {
                        return Some((id, found));
                    }
                    page = end;
                }
            }
            (slot, page) = (slot + 1, 0);
        }
        None
    }

    fn is_candidate(&self, place: Place) -> bool {
        self.candidate(place).is_some()
    }

    /// A mapped page of private anonymous memory, and its frame.
    fn candidate(&self, (id, page): Place) -> Option<(Present, Frame)> {
        let space = self.space(id).ok()?;
        let present = space.find(page)?;
        if matches!(present, Present::Huge(..)) {
            return None;
        }
        let attributes = space.areas.find(page)?.attributes;
        let mergeable = attributes.accessible && attributes.is_private_anonymous();
        let frame = present.frame()?;
        mergeable.then_some((present, frame))
    }

    /// Looks at one page (Linux: `cmp_and_merge_page`).
    fn scan(&mut self, place: Place, updates: &mut Vec<Update>) -> Result<(), OsError> {
        let Some((_, frame)) = self.candidate(place) else { return Ok(()) };
        let identity = self.contents.identity(place.0, place.1);
        let is_merged = self.ksm.merged.get(&place) == Some(&(identity, frame));
        if is_merged && self.maps_merged(place, identity, frame) {
            return Ok(());
        }
        self.ksm.merged.remove(&place);
        if let Some(node) = self.stable_frame(identity, frame) {
            return self.join(place, identity, node, updates);
        }
        if self.ksm.seen.insert(place, identity) != Some(identity) {
            self.ksm.counts.changing += 1;
            return Ok(());
        }
        let other = self.ksm.unstable.get(&identity).copied();
        let other = other.filter(|&other| {
            other != place && self.contents.identity(other.0, other.1) == identity
        });
        match other.and_then(|other| self.candidate(other).map(|(_, frame)| (other, frame))) {
            None => {
                self.ksm.unstable.insert(identity, place);
            }
            // After a fork they share their frame already.
            Some((_, same)) if same == frame => {}
            Some((other, _)) => {
                self.map_alone(place, None, updates)?;
                self.map_alone(other, Some(frame), updates)?;
                self.ksm.unstable.remove(&identity);
                let node = Node { frame, sharers: vec![place, other] };
                self.ksm.stable.entry(identity).or_default().push(node);
                self.ksm.merged.insert(place, (identity, frame));
                self.ksm.merged.insert(other, (identity, frame));
                self.ksm.counts.merged += 1;
            }
        }
        Ok(())
    }

    /// Maps a page to a frame of the stable tree.
    fn join(
        &mut self,
        place: Place,
        identity: u64,
        frame: Frame,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let (_, own) = self.candidate(place).expect("it was found by the scan");
        let to = (own != frame).then_some(frame);
        self.map_alone(place, to, updates)?;
        let nodes = self.ksm.stable.get_mut(&identity).expect("found there");
        let node = nodes.iter_mut().find(|node| node.frame == frame).expect("found there");
        if !node.sharers.contains(&place) {
            node.sharers.push(place);
        }
        self.ksm.merged.insert(place, (identity, frame));
        self.ksm.counts.merged += u64::from(to.is_some());
        Ok(())
    }

    /// A merged frame of this content: `own` if it is one, else one with room for a sharer.
    fn stable_frame(&mut self, identity: u64, own: Frame) -> Option<Frame> {
        let mut nodes = self.ksm.stable.remove(&identity)?;
        let is_valid = |node: &&Node| {
            node.sharers.iter().any(|&sharer| self.maps_merged(sharer, identity, node.frame))
        };
        let mut found = nodes.iter().find(|node| node.frame == own).filter(is_valid).map(|_| own);
        while found.is_none() {
            let Some(last) = nodes.last_mut() else { break };
            let Some(&sharer) = last.sharers.last() else {
                nodes.pop();
                continue;
            };
            if !self.maps_merged(sharer, identity, last.frame) {
                last.sharers.pop();
                continue;
            }
            if last.sharers.len() as u64 >= self.ksm.config.max_page_sharing {
                break;
            }
            found = Some(last.frame);
        }
        if !nodes.is_empty() {
            self.ksm.stable.insert(identity, nodes);
        }
        found
    }

    /// Whether a page still maps a merged frame: read-only, by an entry of its own, with the
    /// frame's content.
    fn maps_merged(&self, place: Place, identity: u64, frame: Frame) -> bool {
        let Some((present, now)) = self.candidate(place) else { return false };
        now == frame
            && matches!(present, Present::Page(..) | Present::Hole(..))
            && !present.permissions().write
            && self.contents.identity(place.0, place.1) == identity
    }

    /// Maps a page read-only by an entry of its own: to `to`, whose reference is added, or to the
    /// frame it has.
    fn map_alone(
        &mut self,
        (id, page): Place,
        to: Option<Frame>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let number = region_of(page);
        let splits = self.partial_change() == PartialChange::Split;
        let (present, own) = self.candidate((id, page)).expect("a candidate");
        let permissions = Permissions { write: false, ..present.permissions() };
        let frame = to.unwrap_or(own);
        let is_large = matches!(present, Present::Large(..));
        let (space, mut effects) = self.parts(id, updates)?;
        let effects = &mut effects;
        if is_large && splits {
            space.split_large(number, &HoleSet::FULL, effects)?;
        }
        match present {
            Present::Large(..) if !splits => {
                space.punch(page, effects)?;
                space.map_hole(page, frame, permissions, effects);
            }
            Present::InPlace(..) => {
                space.punch(page, effects)?;
                space.map_hole(page, frame, permissions, effects);
            }
            Present::Large(..) | Present::Page(..) if to.is_none() => {
                space.protect_page(page, permissions, effects);
            }
            Present::Large(..) | Present::Page(..) => {
                space.unmap_page(page, effects);
                space.map_page(page, frame, permissions, effects)?;
            }
            Present::Hole(..) => {
                if to.is_some() || present.permissions().write {
                    space.remap_hole(page, frame, permissions, effects);
                }
            }
            Present::Huge(..) | Present::EmptyHole => unreachable!("no candidate"),
        }
        if to.is_some() {
            effects.memory.share(frame);
            effects.memory.release(own);
        }
        let punches = (is_large && !splits) || matches!(present, Present::InPlace(..));
        self.ksm.counts.split += u64::from(is_large && splits);
        self.ksm.counts.perforated += u64::from(is_large && !splits);
        self.ksm.counts.punched += u64::from(punches);
        Ok(())
    }

    /// At the end of a full scan the unstable tree goes, and the stable one loses what is stale.
    fn end_full_scan(&mut self) {
        self.ksm.counts.full_scans += 1;
        self.ksm.cursor = (0, 0);
        self.ksm.unstable.clear();
        let mut seen = std::mem::take(&mut self.ksm.seen);
        seen.retain(|&place, _| self.is_candidate(place));
        self.ksm.seen = seen;
        let limit = self.ksm.config.max_page_sharing;
        let mut stable = std::mem::take(&mut self.ksm.stable);
        let mut merged = BTreeMap::new();
        stable.retain(|&identity, nodes| {
            for node in nodes.iter_mut() {
                let frame = node.frame;
                node.sharers.sort_unstable();
                node.sharers.dedup();
                node.sharers.retain(|&place| self.maps_merged(place, identity, frame));
                merged.extend(node.sharers.iter().map(|&place| (place, (identity, frame))));
            }
            nodes.retain(|node| !node.sharers.is_empty());
            // Those with room last (`false` sorts first).
            nodes.sort_by_key(|node| (node.sharers.len() as u64) < limit);
            !nodes.is_empty()
        });
        self.ksm.stable = stable;
        self.ksm.merged = merged;
    }

    /// A write found the page read-only, as `before`: it has content of its own now.
    pub(super) fn note_write(&mut self, id: SpaceId, page: u64, before: Present) {
        self.contents.write(id, page);
        self.spread_content(id, page);
        if let Some((_, frame)) = self.ksm.merged.remove(&(id, page)) {
            self.ksm.counts.written += u64::from(before.frame() == Some(frame));
        }
    }

    /// Gives merged pages frames of their own again (Linux: MADV_UNMERGEABLE).
    pub(super) fn unmerge(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let range = (id, pages.start)..(id, pages.end);
        let places: Vec<(Place, (u64, Frame))> =
            self.ksm.merged.range(range).map(|(&place, &node)| (place, node)).collect();
        for (place, (identity, frame)) in places {
            if self.maps_merged(place, identity, frame) {
                let area = self.space(id)?.areas.find(place.1).expect("area of a candidate");
                self.make_writable(id, place.1, area.attributes, updates)?;
            }
            self.ksm.merged.remove(&place);
        }
        Ok(())
    }

    /// The figures of `/sys/kernel/mm/ksm` and what merging did to large pages; none before the
    /// first pass.
    pub(super) fn ksm_counters(&self, out: &mut Counters) {
        let counts = &self.ksm.counts;
        if counts.scanned == 0 {
            return;
        }
        let merged = self.ksm.merged.iter();
        let frames: Vec<Frame> = merged
            .filter(|&(&place, &(identity, frame))| self.maps_merged(place, identity, frame))
            .map(|(_, &(_, frame))| frame)
            .collect();
        let shared = frames.iter().map(|frame| frame.number()).collect::<BTreeSet<_>>().len();
        let sharing = (frames.len() - shared) as u64;
        out.count("ksm_pages_scanned", counts.scanned);
        out.count("ksm_full_scans", counts.full_scans);
        out.count("ksm_pages_merged", counts.merged);
        out.count("ksm_pages_shared", shared as u64);
        out.count("ksm_pages_sharing", sharing);
        out.count("ksm_saved_bytes", sharing * FRAME_BYTES);
        out.count("ksm_unmerged_by_writes", counts.written);
        out.count("ksm_pages_changing", counts.changing);
        out.count("ksm_merges_failed", counts.failed);
        out.count("ksm_large_pages_split", counts.split);
        out.count("ksm_large_pages_perforated", counts.perforated);
        out.count("ksm_subpages_punched", counts.punched);
    }
}
