//! Counts and cycles of translations.

use perforate_types::{Purpose, Unit};

use crate::hierarchy::LEVELS;
use crate::pipeline::Factor;

/// Parts of the cycles of translations. Indices below [`Purpose::COUNT`] are walker reads, by their purpose.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Share {
    L2Tlb = Purpose::COUNT,
    BitmapLookup,
    WalkCache,
    NestedTlb,
    SegmentCheck,
    Selection,
    WalkerQueue,
    FillWait,
}

/// Number of parts: purposes of reads, and the variants of [`Share`].
pub(crate) const SHARES: usize = Share::FillWait as usize + 1;

/// Part of the translation cycles that a look-up in `unit` for `purpose` counts towards.
pub(super) fn look_up_share(unit: Unit, purpose: Purpose) -> Share {
    match (unit, purpose) {
        (Unit::WalkCache | Unit::HostWalkCache, _) => Share::WalkCache,
        (_, Purpose::Bitmap | Purpose::HostBitmap) => Share::BitmapLookup,
        (_, Purpose::HostPage) => Share::NestedTlb,
        _ => Share::L2Tlb,
    }
}

/// Counts and latencies of translations. Translations overlap: cycles are sums of latencies, not stalls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TranslationStatistics {
    /// Number of translations that missed the first-level TLB.
    pub(crate) translations: u64,
    /// Latencies of these translations, plus the waits of first-level hits for an entry being filled; the sum
    /// of `shares`.
    pub(crate) cycles: u64,
    pub(crate) shares: [u64; SHARES],
    pub(crate) reads_by_level: [u64; LEVELS],
    /// Cycles during which page walkers are occupied, summed over walkers.
    pub(crate) walker_cycles: u64,
    /// Cycles during which at least one page walker is occupied.
    pub(crate) walk_active_cycles: u64,
    /// Look-ups in, and fills of, each [`Unit`].
    pub(crate) unit_accesses: [u64; Unit::COUNT],
    /// Number of checks of addresses against direct segments.
    pub(crate) checks: u64,
    /// Number of B-blocks (64ths of a slice) found in selection bitmaps.
    pub(crate) selections: u64,
}

impl TranslationStatistics {
    /// Sets the counts that depend on timing (cycles, completed translations) to 0; keeps those made in
    /// program order.
    pub(crate) fn reset_times(&mut self) {
        (self.translations, self.cycles) = (0, 0);
        (self.walker_cycles, self.walk_active_cycles) = (0, 0);
        self.shares = [0; SHARES];
    }

    /// Adds the cycles that a first-level hit waited for its entry to be filled.
    #[inline]
    pub(crate) fn add_fill_wait(&mut self, cycles: u64) {
        self.cycles += cycles;
        self.shares[Share::FillWait as usize] += cycles;
    }

    pub(crate) fn add(&mut self, more: &Self) {
        let sum = |own: &mut [u64], more: &[u64]| {
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        };
        self.translations += more.translations;
        self.cycles += more.cycles;
        sum(&mut self.shares, &more.shares);
        sum(&mut self.reads_by_level, &more.reads_by_level);
        self.walker_cycles += more.walker_cycles;
        self.walk_active_cycles += more.walk_active_cycles;
        sum(&mut self.unit_accesses, &more.unit_accesses);
        self.checks += more.checks;
        self.selections += more.selections;
    }

    pub(crate) fn scale(&mut self, factor: &Factor) {
        let Self { translations, cycles, walker_cycles, walk_active_cycles, .. } = self;
        factor.scale([translations, cycles, walker_cycles, walk_active_cycles]);
        factor.scale([&mut self.checks, &mut self.selections]);
        factor.scale_parts(&mut self.shares);
        factor.scale_parts(&mut self.reads_by_level);
        factor.scale(&mut self.unit_accesses);
    }
}
