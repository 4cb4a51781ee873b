//! The figures of same-page merging.

use std::collections::BTreeSet;

use perforate_types::{Counters, Frame};

use super::Ksm;
use super::merge::maps_merged;
use crate::kernel::Core;
use crate::memory::FRAME_BYTES;

/// Totals of merging.
#[derive(Default)]
pub(super) struct Counts {
    /// Pages looked at.
    pub scanned: u64,
    /// Times the scanner came to the end.
    pub full_scans: u64,
    /// Pages mapped to a merged frame instead of their own.
    pub merged: u64,
    /// Merged pages that a write took out again.
    pub written: u64,
    /// Looks at a page that was new or had changed since the last one.
    pub changing: u64,
    /// Merges for which memory was short.
    pub failed: u64,
    /// Ordinary 2MB pages split into 4KB pages.
    pub split: u64,
    /// Ordinary 2MB pages that got their first hole.
    pub perforated: u64,
    /// Sub-pages punched out as holes.
    pub punched: u64,
}

impl Ksm {
    /// The figures of `/sys/kernel/mm/ksm` and what merging did to large pages; none before the
    /// first pass.
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
