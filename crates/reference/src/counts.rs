//! Independent calculation of the MMU's counters, from results and steps of translations.

use perforate_mmu::{Case, MmuCounters};
use perforate_types::{AccessKind, Action, Purpose};

use crate::Attempt;

/// Counters of the MMU, calculated again from the steps and the result of each attempt to translate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    data: u64,
    data_misses: u64,
    fetches: u64,
    fetch_misses: u64,
    second_level: u64,
    second_level_misses: u64,
    filtered: u64,
    bitmap_hits: u64,
    bitmap_misses: u64,
    holes: u64,
    generated: u64,
    intermediate: u64,
    beside: u64,
    walks: u64,
    references: [u64; Purpose::COUNT],
}

impl Counts {
    /// Adds a successful attempt to translate an address to the counters. Failed attempts do not count,
    /// because the access is retried.
    pub(crate) fn add(&mut self, attempt: &Attempt<'_>) {
        let Ok(found) = attempt.result else { return };
        let case = found.case;
        let is_miss = !matches!(case, Case::FirstLevel | Case::BesideFirstLevel);
        let (accesses, misses) = match attempt.kind {
            AccessKind::Fetch => (&mut self.fetches, &mut self.fetch_misses),
            _ => (&mut self.data, &mut self.data_misses),
        };
        *accesses += 1;
        *misses += u64::from(is_miss);
        self.beside += u64::from(matches!(case, Case::Beside | Case::BesideFirstLevel));
        if !is_miss || case == Case::Beside {
            return;
        }
        use Case::{BitmapHole, BitmapInPlace, Filtered, ReadHole, ReadInPlace};
        use Case::{Intermediate, IntermediateBitmap, IntermediateRead};
        let is = |cases: &[Case]| u64::from(cases.contains(&case));
        self.second_level += 1;
        self.second_level_misses += u64::from(found.walked);
        self.filtered += is(&[Filtered]);
        self.bitmap_hits += is(&[BitmapInPlace, BitmapHole, IntermediateBitmap]);
        self.bitmap_misses += is(&[ReadInPlace, ReadHole, IntermediateRead]);
        self.holes += is(&[BitmapHole, ReadHole]);
        self.generated += is(&[Filtered, BitmapInPlace, ReadInPlace]);
        let is_intermediate = is(&[Intermediate, IntermediateBitmap, IntermediateRead]);
        self.intermediate += is_intermediate * u64::from(!found.walked);
        let mut reads_table = false;
        for step in attempt.steps.as_slice() {
            if let Action::Read { .. } = step.action {
                self.references[step.purpose as usize] += 1;
                reads_table |= !matches!(step.purpose, Purpose::Bitmap | Purpose::HostBitmap);
            }
        }
        self.walks += u64::from(reads_table);
    }

    /// Compares these counters with those that the hardware model counted.
    ///
    /// # Panics
    /// If a counter of the hardware differs.
    pub(crate) fn check(&self, counted: &MmuCounters) {
        let hardware = Self {
            data: counted.l1_accesses,
            data_misses: counted.l1_misses,
            fetches: counted.l1_instruction_accesses,
            fetch_misses: counted.l1_instruction_misses,
            second_level: counted.l2_accesses,
            second_level_misses: counted.l2_misses,
            filtered: counted.bitmap_filtered,
            bitmap_hits: counted.bitmap_hits,
            bitmap_misses: counted.bitmap_misses,
            holes: counted.holes_translated,
            generated: counted.generated,
            intermediate: counted.intermediate_hits,
            beside: counted.beside_translations,
            walks: counted.walks,
            references: counted.references,
        };
        assert_eq!(hardware, *self, "counted by the hardware, and from its steps");
    }
}
