//! Counters of same-page merging.

use std::collections::BTreeSet;

use perforate_types::{Counter, Counters, Frame, figures, registered};

use super::Ksm;
use super::merge::maps_merged;
use crate::kernel::Core;
use crate::memory::FRAME_BYTES;

/// Totals of merging since boot.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Number of pages scanned.
    pub scanned: u64,
    /// Number of completed scans of all address spaces.
    pub full_scans: u64,
    /// Pages mapped to a merged frame instead of a frame of their own.
    pub merged: u64,
    /// Merged pages that got a frame of their own by a write.
    pub written: u64,
    /// Scans of a page that was new or whose content had changed since its last scan.
    pub changing: u64,
    /// Merges that failed for lack of memory.
    pub failed: u64,
    /// Ordinary 2MB pages that merging split into 4KB pages.
    pub split: u64,
    /// Ordinary 2MB pages that got their first hole by merging.
    pub perforated: u64,
    /// Sub-pages punched out as holes.
    pub punched: u64,
}

/// Totals, and the merged pages at one moment.
struct State {
    counts: Counts,
    /// Number of merged frames.
    shared: u64,
    /// Pages that map these frames, without the first page of each.
    sharing: u64,
}

figures! {
    static KSM: State, "Memory" {
        /// Pages same-page merging looked at since the start.
        ksm_pages_scanned, "scanned to merge", Count, Table: |it| it.counts.scanned;
        /// Memory that merging saves, at most.
        ksm_saved_bytes, "saved by merging, peak", Bytes, Table: |it| it.sharing * FRAME_BYTES;
        /// Times the scanner came to the end.
        ksm_full_scans, Count, Listed: |it| it.counts.full_scans;
        /// Pages mapped to a merged frame instead of their own.
        ksm_pages_merged, Count, Listed: |it| it.counts.merged;
        /// Merged frames in use, at most.
        ksm_pages_shared, Count, Listed: |it| it.shared;
        /// Further pages that map them, at most.
        ksm_pages_sharing, Count, Listed: |it| it.sharing;
        /// Merged pages that a write took out again.
        ksm_unmerged_by_writes, Count, Listed: |it| it.counts.written;
        /// Looks at a page that was new or had changed since the last one.
        ksm_pages_changing, Count, Listed: |it| it.counts.changing;
        /// Merges for which memory was short.
        ksm_merges_failed, Count, Listed: |it| it.counts.failed;
        /// Ordinary 2MB pages split into 4KB pages to merge parts of them.
        ksm_large_pages_split, Count, Listed: |it| it.counts.split;
        /// Ordinary 2MB pages that got their first hole.
        ksm_large_pages_perforated, Count, Listed: |it| it.counts.perforated;
        /// Sub-pages punched out as holes.
        ksm_subpages_punched, Count, Listed: |it| it.counts.punched;
    }
}

/// Counters of same-page merging, which results have if a pass was made.
pub(in crate::kernel) fn counters() -> Vec<Counter> {
    registered(KSM)
}

impl Ksm {
    /// Writes the counters of `/sys/kernel/mm/ksm` and the effect of merging on large pages; writes
    /// none before the first pass.
    pub(in crate::kernel) fn counters(&self, core: &Core, out: &mut Counters) {
        let counts = &self.counts;
        if counts.scanned == 0 {
            return;
        }
        let merged = self.merged.iter();
        let frames: Vec<Frame> = merged
            .filter(|&(&place, &(identity, frame))| maps_merged(core, place, identity, frame))
            .map(|(_, &(_, frame))| frame)
            .collect();
        let shared = frames.iter().map(|frame| frame.number()).collect::<BTreeSet<_>>().len();
        let sharing = (frames.len() - shared) as u64;
        out.record(KSM, &State { counts: *counts, shared: shared as u64, sharing });
    }
}
