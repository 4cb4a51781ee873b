//! Counters of the memory-management unit (MMU).

use perforate_types::{
    Counter, CounterUnit, Counters, Part, Prominence, Purpose, Steps, figures, registered,
};

use crate::L2Contents;
use crate::pipeline::Case;

/// Counts since the last reset. A translation that ends in a page fault is not counted: the access
/// counts once, when it succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmuCounters {
    /// Number of translations for data accesses.
    pub l1_accesses: u64,
    /// Number of translations for data accesses that missed in the first-level TLB.
    pub l1_misses: u64,
    /// Number of translations for instruction fetches.
    pub l1_instruction_accesses: u64,
    /// Number of translations for instruction fetches that missed in the first-level TLB.
    pub l1_instruction_misses: u64,
    /// Look-ups of the second-level TLB for a page; additional look-ups of bitmap entries do not
    /// count.
    pub l2_accesses: u64,
    /// Look-ups of the second-level TLB that found neither the page nor a perforated page around
    /// it.
    pub l2_misses: u64,
    /// Misses of the second-level TLB that a TLB of any size would also have: no walk had
    /// translated the page since the run began or since its translation was invalidated.
    pub l2_compulsory_misses: u64,
    /// Misses of the second-level TLB whose walk is the first to its page since the last reset:
    /// compulsory misses, and misses of pages that were walked to before the reset.
    pub l2_first_misses: u64,
    /// Number of runs of 4KB pages filled into the second-level TLB.
    pub coalesced_fills: u64,
    /// Number of 4KB pages in the runs of `coalesced_fills`.
    pub coalesced_pages: u64,
    /// Number of translations that read page-table entries.
    pub walks: u64,
    /// Number of reads by the page walker, indexed by [`Purpose`].
    pub references: [u64; Purpose::COUNT],
    /// Translations by a perforated page whose filter excluded a hole, so the bitmap was not looked
    /// up.
    pub bitmap_filtered: u64,
    /// Bitmap look-ups that hit in the second-level TLB.
    pub bitmap_hits: u64,
    /// Bitmap look-ups that missed in the second-level TLB, so the bitmap was read from memory.
    pub bitmap_misses: u64,
    /// Cached bitmap entries that were rewritten in place after a hole was made or removed.
    pub bitmap_updates: u64,
    /// Number of holes translated by a walk through the shadow entry of the perforated page.
    pub holes_translated: u64,
    /// Translations by a guest's large page in the second-level TLB, combined with a 4KB page of
    /// the host (P §V).
    pub intermediate_hits: u64,
    /// 4KB translations generated from the entry of a perforated page, for sub-pages that are not
    /// holes.
    pub generated: u64,
    /// First-level misses that a unit in parallel with the second-level TLB translated, or accesses
    /// that a unit in parallel with the first-level TLB translated. Range TLBs and direct segments
    /// are such units.
    pub beside_translations: u64,
    /// Reads by the page walker off the critical path, which fill units such as range TLBs.
    pub background_references: u64,
    /// Comparisons of addresses with direct segments (D §III) by the page walker.
    pub segment_checks: u64,
    /// Comparisons with direct segments during the translations that [`Self::walks`] counts. There
    /// may be fewer than `segment_checks`, because a translation is not a walk if it needs no
    /// memory reference.
    pub segment_checks_in_walks: u64,
    /// Number of B-blocks located in gap-tolerant entries (G §3), for guest and host together.
    pub gap_tolerant_translations: u64,
    /// Number of B-blocks located in gap-tolerant entries that the walk cache of level-2 entries
    /// held.
    pub walk_cache_gap_tolerant_hits: u64,
    /// Page-directory reads that hit the zero padding of a page directory with gap-tolerant
    /// entries, so that a second read followed (G §3.5).
    pub padding_references: u64,
}

/// All counters of translation, in the order in which reports show them.
pub fn counters() -> Vec<Counter> {
    let references = |of_host| {
        let purposes = REFERENCES.into_iter().filter(move |purpose| purpose.is_host() == of_host);
        purposes.map(referenced).collect()
    };
    [
        registered(TLB),
        registered(WALKS),
        references(false),
        registered(WALKS_BY_DIMENSION),
        references(true),
        registered(SEGMENT_CHECKS),
        registered(HOLES),
        registered(GAP_TOLERANT),
        L2Contents::counters(),
    ]
    .concat()
}

/// Purposes whose reads have separate counters. [`Purpose::Page`] has no reads, and reads of
/// mechanisms' tables ([`Purpose::OwnTable`]) are off the critical path, so both are missing.
const REFERENCES: [Purpose; 16] = [
    Purpose::Level5,
    Purpose::Level4,
    Purpose::Level3,
    Purpose::Level2,
    Purpose::Level1,
    Purpose::Shadow,
    Purpose::Hole,
    Purpose::HostLevel5,
    Purpose::HostLevel4,
    Purpose::HostLevel3,
    Purpose::HostLevel2,
    Purpose::HostLevel1,
    Purpose::HostShadow,
    Purpose::HostHole,
    Purpose::Bitmap,
    Purpose::HostBitmap,
];

/// Returns the description of the counter for reads with this purpose.
fn referenced(purpose: Purpose) -> Counter {
    let is_bitmap = matches!(purpose, Purpose::Bitmap | Purpose::HostBitmap);
    let (whole, id) = match is_bitmap {
        true => ("bitmap_references", format!("{}_references", purpose.id())),
        false => ("walk_references", format!("walk_references_{}", purpose.id())),
    };
    let name = purpose.name();
    let owner = if purpose.is_host() { "the host's tables" } else { "page tables" };
    Counter {
        label: format!("{name} references").into(),
        unit: CounterUnit::Count,
        group: "Page walks",
        meaning: format!("Reads of {owner}: {}.", purpose.label()).into(),
        prominence: if is_bitmap { Prominence::Listed } else { Prominence::Table },
        part: Some(Part {
            whole,
            key: purpose.id().into(),
            label: name.into(),
            colour: purpose.colour().into(),
        }),
        id: id.into(),
    }
}

/// MMU counts of an interval, with the number of executed instructions.
struct Interval {
    counts: MmuCounters,
    instructions: u64,
}

impl Interval {
    fn per_kilo_instruction(&self, events: u64) -> (f64, f64) {
        (events as f64, self.instructions as f64 / 1000.0)
    }
}

impl MmuCounters {
    /// Counts a translation that missed the first-level TLB, by its case and its steps. `walked` is
    /// true if a walk found the page.
    #[inline(always)]
    pub(crate) fn add(&mut self, case: Case, walked: bool, steps: &Steps) {
        if case == Case::Beside {
            self.beside_translations += 1;
            return;
        }
        self.l2_accesses += 1;
        self.l2_misses += u64::from(walked);
        if case != Case::Regular {
            self.add_case(case, walked);
        }
        let may_read = walked
            || matches!(
                case,
                Case::BitmapHole
                    | Case::ReadHole
                    | Case::ReadInPlace
                    | Case::Intermediate
                    | Case::IntermediateBitmap
                    | Case::IntermediateRead
            );
        if may_read {
            self.add_references(steps);
        }
    }

    /// Counts look-ups of bitmaps, and translations by entries with holes or intermediate entries.
    #[inline(never)]
    fn add_case(&mut self, case: Case, walked: bool) {
        match case {
            Case::FirstLevel
            | Case::BesideFirstLevel
            | Case::Beside
            | Case::Regular
            | Case::Intermediate => {}
            Case::Filtered => self.bitmap_filtered += 1,
            Case::BitmapInPlace | Case::BitmapHole | Case::IntermediateBitmap => {
                self.bitmap_hits += 1;
            }
            Case::ReadInPlace | Case::ReadHole | Case::IntermediateRead => {
                self.bitmap_misses += 1;
            }
        }
        match case {
            Case::FirstLevel | Case::BesideFirstLevel | Case::Beside | Case::Regular => {}
            Case::Intermediate | Case::IntermediateBitmap | Case::IntermediateRead => {
                self.intermediate_hits += u64::from(!walked);
            }
            Case::Filtered | Case::BitmapInPlace | Case::ReadInPlace => self.generated += 1,
            Case::BitmapHole | Case::ReadHole => self.holes_translated += 1,
        }
    }

    /// Counts the walker's reads in one translation.
    #[inline]
    fn add_references(&mut self, steps: &Steps) {
        for (purpose, reads) in steps.present_reads() {
            self.references[purpose] += u64::from(reads);
        }
        self.walks += u64::from(steps.read_tables());
        if steps.counts_more_than_reads() {
            self.add_rare(steps);
        }
    }

    /// Counts background reads, segment checks, and work on gap-tolerant entries.
    #[inline(never)]
    fn add_rare(&mut self, steps: &Steps) {
        self.background_references += u64::from(steps.background_reads());
        let gap_tolerant = steps.gap_tolerant();
        self.gap_tolerant_translations += u64::from(gap_tolerant.selections);
        self.walk_cache_gap_tolerant_hits += u64::from(gap_tolerant.cached_selections);
        self.padding_references += u64::from(gap_tolerant.padding_reads);
        let checks = u64::from(steps.checks());
        self.segment_checks += checks;
        self.segment_checks_in_walks += checks * u64::from(steps.read_tables());
    }

    /// Number of page-table entries read, of guest and host, without hole bitmaps.
    pub fn table_references(&self) -> u64 {
        self.guest_references() + self.host_references()
    }

    /// Number of entries that walks read from native tables or the guest's tables.
    fn guest_references(&self) -> u64 {
        let own = &self.references[..Purpose::HostPage as usize];
        own.iter().sum::<u64>() - self.references[Purpose::Bitmap as usize]
    }

    /// Number of entries that walks read from the host's tables.
    fn host_references(&self) -> u64 {
        let own = &self.references[Purpose::HostPage as usize..];
        own.iter().sum::<u64>() - self.references[Purpose::HostBitmap as usize]
    }

    /// Writes all counters to `out`. `instructions` is the number executed, for rates per 1,000
    /// instructions.
    pub fn record(&self, instructions: u64, out: &mut Counters) {
        let interval = Interval { counts: *self, instructions };
        for table in [TLB, WALKS, WALKS_BY_DIMENSION, SEGMENT_CHECKS, HOLES, GAP_TOLERANT] {
            out.record(table, &interval);
        }
        for purpose in REFERENCES {
            out.set(referenced(purpose).id, self.references[purpose as usize]);
        }
    }
}

figures! {
    static TLB: Interval, "TLB" {
        /// Translations of data addresses.
        l1_tlb_accesses, "L1 data TLB accesses", Count, Table: |it| it.counts.l1_accesses;
        /// Translations of data addresses that missed in the first-level TLB.
        l1_tlb_misses, "L1 data TLB misses", Count, Table: |it| it.counts.l1_misses;
        /// L1 TLB misses of data addresses per 1,000 instructions.
        l1_tlb_mpki, "L1 data TLB MPKI", PerKiloInstruction, Main:
            |it| it.per_kilo_instruction(it.counts.l1_misses);
        /// Translations for instruction fetch, one per line of code.
        l1_instruction_tlb_accesses, Count, Listed: |it| it.counts.l1_instruction_accesses;
        /// Translations for instruction fetch that missed in the first-level TLB.
        l1_instruction_tlb_misses, Count, Listed: |it| it.counts.l1_instruction_misses;
        /// Look-ups of the second-level TLB for a page of data or code. Look-ups of bitmap entries
        /// do not count.
        l2_tlb_accesses, "L2 TLB accesses", Count, Table: |it| it.counts.l2_accesses;
        /// Look-ups of the second-level TLB, for data or code, that found neither the page nor a perforated
        /// page around it.
        l2_tlb_misses, "L2 TLB misses", Count, Table: |it| it.counts.l2_misses;
        /// L2 TLB misses, of data and code, per 1,000 instructions. Those of code have no part in `l1_tlb_mpki`,
        /// so that this figure may be the larger one.
        l2_tlb_mpki, "L2 TLB MPKI", PerKiloInstruction, Main:
            |it| it.per_kilo_instruction(it.counts.l2_misses);
        /// L2 TLB misses that would occur with a TLB of any size: the first walk to a page since
        /// the run began (including the warm-up), or since its translation was invalidated. All
        /// other misses are capacity or conflict misses.
        l2_tlb_compulsory_misses, "compulsory L2 TLB misses", Count, Table:
            |it| it.counts.l2_compulsory_misses;
        /// Share of L2 TLB misses that are compulsory. If it is large, the recording is too short
        /// to distinguish a larger TLB from a smaller one.
        l2_tlb_compulsory_share, "compulsory misses", Share, Main:
            |it| (it.counts.l2_compulsory_misses, it.counts.l2_misses);
        /// L2 TLB misses that are the first walk to their page in the measured part. Some are
        /// compulsory; for others, the page was already walked to in the warm-up.
        l2_tlb_first_misses, "first L2 TLB misses", Count, Listed: |it| it.counts.l2_first_misses;
        /// Fills of runs of 4KB pages into the second-level TLB (TLB coalescing).
        l2_tlb_coalesced_fills, Count, Listed: |it| it.counts.coalesced_fills;
        /// 4KB pages in the runs that `l2_tlb_coalesced_fills` counts. Divided by the fills, the
        /// mean length of a run.
        l2_tlb_coalesced_pages, Count, Listed: |it| it.counts.coalesced_pages;
    }

    static WALKS: Interval, "Page walks" {
        /// Page walks: translations that read page-table entries.
        walks, Count, Table: |it| it.counts.walks;
        /// Page walks per 1,000 instructions.
        walks_per_kilo_instruction, PerKiloInstruction, Listed:
            |it| it.per_kilo_instruction(it.counts.walks);
        /// Page-table entries read per page walk, of guest and host together.
        references_per_walk, Ratio, Main: |it| (it.counts.table_references(), it.counts.walks);
        /// Page-table entries and lines of the hole bitmap read per page walk.
        memory_accesses_per_walk, Ratio, Listed:
            |it| (it.counts.references.iter().sum(), it.counts.walks);
    }

    static WALKS_BY_DIMENSION: Interval, "Page walks" {
        /// Entries of the guest's tables read per page walk; natively, all page-table entries.
        guest_references_per_walk, Ratio, Table:
            |it| (it.counts.guest_references(), it.counts.walks);
        /// Entries of the host's tables read per page walk.
        host_references_per_walk, Ratio, Table:
            |it| (it.counts.host_references(), it.counts.walks);
    }

    static SEGMENT_CHECKS: Interval, "Page walks" {
        /// Comparisons by the page walker of an address with BASE and LIMIT of a direct segment.
        segment_checks, Count, Listed: |it| it.counts.segment_checks;
        /// Comparisons with direct segments per page walk. Those of translations that need no walk
        /// do not count.
        segment_checks_per_walk, Ratio, Table:
            |it| (it.counts.segment_checks_in_walks, it.counts.walks);
    }

    static HOLES: Interval, "Holes" {
        /// Look-ups of the L2 TLB for bitmap entries, each after a look-up for the page.
        bitmap_lookups, "bitmap look-ups", Count, Table:
            |it| it.counts.bitmap_hits + it.counts.bitmap_misses;
        /// Translations by a perforated page whose filter excluded a hole, so the bitmap was not
        /// looked up.
        bitmap_filtered, Count, Table: |it| it.counts.bitmap_filtered;
        /// Look-ups of the L2 TLB for bitmap entries that hit.
        bitmap_hits, Count, Table: |it| it.counts.bitmap_hits;
        /// Look-ups of the L2 TLB for bitmap entries that missed, so the bitmap was read from
        /// memory.
        bitmap_misses, Count, Table: |it| it.counts.bitmap_misses;
        /// Cached bitmap entries that were rewritten in place after a hole was made or removed, if
        /// the machine can do so (`tlb.bitmap_updates`).
        bitmap_updates, Count, Listed: |it| it.counts.bitmap_updates;
        /// Translations of holes by a walk through the shadow entry.
        holes_translated, Count, Table: |it| it.counts.holes_translated;
        /// Translations by a guest's large page in the L2 TLB, combined with a 4KB page of the
        /// host, if the machine has such entries (`virtualization.intermediate_entries`).
        intermediate_hits, Count, Listed: |it| it.counts.intermediate_hits;
        /// 4KB translations generated from the entry of a perforated page, for sub-pages that are
        /// not holes.
        translations_generated, Count, Listed: |it| it.counts.generated;
    }

    static GAP_TOLERANT: Interval, "Gap-tolerant entries" {
        /// Misses of the L2 TLB, or of guest-physical addresses, whose B-block was found in a
        /// gap-tolerant entry (GT-PDE).
        gap_tolerant_translations, Count, Listed: |it| it.counts.gap_tolerant_translations;
        /// Translations by a gap-tolerant entry in the walk cache, which needed no read of page
        /// tables.
        walk_cache_gap_tolerant_hits, Count, Listed:
            |it| it.counts.walk_cache_gap_tolerant_hits;
        /// Reads of page directories that hit the padding after an entry of a level-1 node (1MB
        /// mode), so that a second read followed. The reads of level 2 include them.
        padding_references, Count, Listed: |it| it.counts.padding_references;
    }
}
