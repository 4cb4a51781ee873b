//! Counters of the memory-management unit.

use perforate_types::{Counters, Purpose, Steps};

use crate::pipeline::Case;

/// Counts since the last reset. Translations that ended in a page fault are not counted: the
/// access is counted once, when it succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmuCounters {
    /// Data translations.
    pub l1_accesses: u64,
    /// Data translations not found in the first level.
    pub l1_misses: u64,
    /// Fetch translations.
    pub l1_instruction_accesses: u64,
    /// Fetch translations not found in the first level.
    pub l1_instruction_misses: u64,
    /// Look-ups of the second level for a page (bitmap look-ups apart).
    pub l2_accesses: u64,
    /// Look-ups that found neither the page nor a perforated page around it.
    pub l2_misses: u64,
    /// Runs of 4KB pages filled into the second level.
    pub coalesced_fills: u64,
    /// Pages in those runs.
    pub coalesced_pages: u64,
    /// Translations that read page tables.
    pub walks: u64,
    /// Walker reads by [`Purpose`].
    pub references: [u64; Purpose::COUNT],
    /// Translations by a perforated page that needed no bitmap thanks to the filter.
    pub bitmap_filtered: u64,
    /// Look-ups of bitmap entries in the second-level TLB that found the entry.
    pub bitmap_hits: u64,
    /// Look-ups of bitmap entries that had to read memory.
    pub bitmap_misses: u64,
    /// Holes translated by a walk through the shadow entry.
    pub holes_translated: u64,
    /// Accesses translated in place by a perforated page.
    pub generated: u64,
    /// First-level misses translated by a unit beside the second-level TLB.
    pub beside_translations: u64,
    /// Reads in the background, by which units beside the second-level TLB are filled.
    pub background_references: u64,
    /// Checks of direct segments by the walker.
    pub segment_checks: u64,
    /// Those of them in [`Self::walks`]: a segment and a cached guest-physical address need no
    /// reference.
    pub segment_checks_in_walks: u64,
    /// B-blocks found in gap-tolerant entries, of both dimensions.
    pub gap_tolerant_translations: u64,
    /// Those of them in entries that the walk cache of level-2 entries held.
    pub walk_cache_gap_tolerant_hits: u64,
    /// Reads of page directories that fell on padding, so that a second one followed.
    pub padding_references: u64,
}

impl MmuCounters {
    /// Adds a translation beyond the first level.
    pub(crate) fn add(&mut self, case: Case, walked: bool, steps: &Steps) {
        if case == Case::Beside {
            self.beside_translations += 1;
            return;
        }
        self.l2_accesses += 1;
        self.l2_misses += u64::from(walked);
        match case {
            Case::FirstLevel | Case::Beside | Case::Regular => {}
            Case::Filtered => self.bitmap_filtered += 1,
            Case::BitmapInPlace | Case::BitmapHole => self.bitmap_hits += 1,
            Case::ReadInPlace | Case::ReadHole => self.bitmap_misses += 1,
        }
        match case {
            Case::FirstLevel | Case::Beside | Case::Regular => {}
            Case::Filtered | Case::BitmapInPlace | Case::ReadInPlace => self.generated += 1,
            Case::BitmapHole | Case::ReadHole => self.holes_translated += 1,
        }
        let is_walk = walked || matches!(case, Case::BitmapHole | Case::ReadHole);
        if is_walk || case == Case::ReadInPlace {
            self.add_references(steps);
        }
    }

    /// Adds the reads of one translation.
    fn add_references(&mut self, steps: &Steps) {
        let reads = steps.reads();
        self.background_references += u64::from(steps.background_reads());
        for (total, &own) in self.references.iter_mut().zip(reads) {
            *total += u64::from(own);
        }
        let gap_tolerant = steps.gap_tolerant();
        self.gap_tolerant_translations += u64::from(gap_tolerant.selections);
        self.walk_cache_gap_tolerant_hits += u64::from(gap_tolerant.cached_selections);
        self.padding_references += u64::from(gap_tolerant.padding_reads);
        let bitmaps = reads[Purpose::Bitmap as usize] + reads[Purpose::HostBitmap as usize];
        let tables = reads.iter().map(|&own| u64::from(own)).sum::<u64>() - u64::from(bitmaps);
        let checks = u64::from(steps.checks());
        self.segment_checks += checks;
        if tables > 0 {
            self.walks += 1;
            self.segment_checks_in_walks += checks;
        }
    }

    /// Page-table entries read (bitmap reads apart).
    pub fn table_references(&self) -> u64 {
        self.guest_references() + self.host_references()
    }

    /// Entries read of the first dimension's tables.
    fn guest_references(&self) -> u64 {
        let own = &self.references[..Purpose::HostPage as usize];
        own.iter().sum::<u64>() - self.references[Purpose::Bitmap as usize]
    }

    /// Entries read of the second dimension's tables.
    fn host_references(&self) -> u64 {
        let own = &self.references[Purpose::HostPage as usize..];
        own.iter().sum::<u64>() - self.references[Purpose::HostBitmap as usize]
    }

    /// Writes the figures out; per-kilo-instruction ones for `instructions` executed.
    pub fn record(&self, instructions: u64, out: &mut Counters) {
        let kilo_instructions = instructions as f64 / 1000.0;
        for (name, value) in [
            ("l1_tlb_accesses", self.l1_accesses),
            ("l1_tlb_misses", self.l1_misses),
            ("l1_instruction_tlb_accesses", self.l1_instruction_accesses),
            ("l1_instruction_tlb_misses", self.l1_instruction_misses),
            ("l2_tlb_accesses", self.l2_accesses),
            ("l2_tlb_misses", self.l2_misses),
            ("l2_tlb_coalesced_fills", self.coalesced_fills),
            ("l2_tlb_coalesced_pages", self.coalesced_pages),
            ("walks", self.walks),
            ("bitmap_filtered", self.bitmap_filtered),
            ("bitmap_lookups", self.bitmap_hits + self.bitmap_misses),
            ("bitmap_hits", self.bitmap_hits),
            ("bitmap_misses", self.bitmap_misses),
            ("holes_translated", self.holes_translated),
            ("translations_generated", self.generated),
            ("segment_checks", self.segment_checks),
            ("gap_tolerant_translations", self.gap_tolerant_translations),
            ("walk_cache_gap_tolerant_hits", self.walk_cache_gap_tolerant_hits),
            ("padding_references", self.padding_references),
        ] {
            out.count(name, value);
        }
        for (purpose, references) in Purpose::ALL.into_iter().zip(self.references) {
            match purpose {
                Purpose::Page | Purpose::HostPage => {}
                Purpose::OwnTable | Purpose::HostOwnTable => {}
                Purpose::Bitmap | Purpose::HostBitmap => {
                    out.count(format!("{}_references", purpose.id()), references);
                }
                _ => out.count(format!("walk_references_{}", purpose.id()), references),
            }
        }
        let walks = self.walks as f64;
        out.ratio("references_per_walk", self.table_references() as f64, walks);
        out.ratio("guest_references_per_walk", self.guest_references() as f64, walks);
        out.ratio("host_references_per_walk", self.host_references() as f64, walks);
        let all = self.references.iter().sum::<u64>() as f64;
        out.ratio("memory_accesses_per_walk", all, walks);
        out.ratio("segment_checks_per_walk", self.segment_checks_in_walks as f64, walks);
        out.ratio("l1_tlb_mpki", self.l1_misses as f64, kilo_instructions);
        out.ratio("l2_tlb_mpki", self.l2_misses as f64, kilo_instructions);
        out.ratio("walks_per_kilo_instruction", self.walks as f64, kilo_instructions);
    }
}
