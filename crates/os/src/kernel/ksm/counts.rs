//! Counters of same-page merging.

use std::collections::BTreeSet;

use perforate_types::{Counter, Counters, Frame, figures, registered};

use super::Ksm;
use super::merge::maps_merged;
use crate::kernel::Core;
use crate::memory::FRAME_BYTES;

/// Totals of same-page merging since boot.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Number of pages that same-page merging scanned.
    pub scanned: u64,
    /// Number of completed scans of all address spaces.
    pub full_scans: u64,
    /// Number of pages that were mapped to a merged frame instead of a private one.
    pub merged: u64,
    /// Number of merged pages that got a private frame again because of a write.
    pub written: u64,
    /// Number of scans of a page that was new or whose content had changed since its last scan.
    pub changing: u64,
    /// Number of merges that failed for lack of memory.
    pub failed: u64,
    /// Number of ordinary 2MB pages that merging split into 4KB pages.
    pub split: u64,
    /// Number of ordinary 2MB pages that got their first hole by merging.
    pub perforated: u64,
    /// Number of sub-pages of 2MB pages that became holes by merging.
    pub punched: u64,
}

/// Totals of same-page merging since boot, and the number of merged frames and of their pages at one moment.
struct State {
    counts: Counts,
    /// Number of merged frames in use.
    shared: u64,
    /// Pages that map merged frames, less one per frame: the number of frames saved.
    sharing: u64,
}

figures! {
    static KSM: State, "Memory" {
        /// Pages that same-page merging (KSM) scanned since the start.
        ksm_pages_scanned, "scanned to merge", Count, Table: |it| it.counts.scanned;
        /// Peak of memory that same-page merging saves.
        ksm_saved_bytes, "saved by merging, peak", Bytes, Table: |it| it.sharing * FRAME_BYTES;
        /// Scans of all address spaces that same-page merging completed.
        ksm_full_scans, Count, Listed: |it| it.counts.full_scans;
        /// Pages that same-page merging mapped to a merged frame instead of a private one.
        ksm_pages_merged, Count, Listed: |it| it.counts.merged;
        /// Peak number of merged frames in use.
        ksm_pages_shared, Count, Listed: |it| it.shared;
        /// Peak number of pages that map merged frames, without the first page of each frame.
        ksm_pages_sharing, Count, Listed: |it| it.sharing;
        /// Merged pages that got a private frame again because of a write.
        ksm_unmerged_by_writes, Count, Listed: |it| it.counts.written;
        /// Scans for merging of a page that was new or had changed since its last scan.
        ksm_pages_changing, Count, Listed: |it| it.counts.changing;
        /// Merges of pages that failed for lack of memory.
        ksm_merges_failed, Count, Listed: |it| it.counts.failed;
        /// 2MB pages that were split into 4KB pages in order to merge some of them.
        ksm_large_pages_split, Count, Listed: |it| it.counts.split;
        /// 2MB pages that became perforated pages in order to merge some of their 4KB pages.
        ksm_large_pages_perforated, Count, Listed: |it| it.counts.perforated;
        /// Sub-pages of 2MB pages that became holes in order to be merged.
        ksm_subpages_punched, Count, Listed: |it| it.counts.punched;
    }
}

/// Counters of same-page merging. Results contain these only if the merging scanner has run.
pub(in crate::kernel) fn counters() -> Vec<Counter> {
    registered(KSM)
}

impl Ksm {
    /// Writes the counters of `/sys/kernel/mm/ksm` and the effect of merging on large pages to `out`; writes
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
