//! Counters of the kernel.

use perforate_types::{Counter, CounterValue, Counters, figures, registered};

use super::levels::{self, Levels, Span};
use super::{Core, Kernel, Work, folios, hard_fault, khugepaged, ksm};
use crate::OtherUse;
use crate::memory::{FRAME_BYTES, PhysicalMemory, TopTable};
use crate::space::Usage;

/// Number of page faults of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FaultCounts {
    /// Page faults on the first touch of a page or 2MB region.
    pub page: u64,
    /// First touches of shared memory, by a fault or in advance, that used the frame of another
    /// mapping.
    pub shared_memory: u64,
    /// First touches of a hole whose frame is allocated lazily.
    pub hole: u64,
    /// Writes to a page mapped read-only for copy-on-write.
    pub copy_on_write: u64,
    /// Faults on pages that were mapped already.
    pub spurious: u64,
    /// Touches of pages that an overlay (a direct segment) translates: false positives of the
    /// hardware's filter, and touches while the registers were cleared.
    pub overlay: u64,
    /// Accesses that are not allowed (segmentation faults).
    pub segmentation: u64,
    /// Number of extents (mappings of more than 4KB) that were relocated because one of their frames failed.
    pub extents_relocated: u64,
    /// Number of distinct pages that the programs touched by a fault or populated.
    pub touched_pages: u64,
}

/// Number of mapped 4KB pages, in all and by large pages, at the moment when most memory was mapped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    mapped_pages: u64,
    large_mapped_pages: u64,
}

figures! {
    /// Counters of memory as a whole, of reclaim and of compaction.
    pub(super) static KERNEL: Kernel, "Memory" {
        /// Memory in distinct 4KB pages that a page fault or populating mapped.
        faulted_bytes, Bytes, Listed: |it| bytes(it.core.faults.touched_pages);
        /// Share of mapped memory in pages of 2MB and more, without holes, at the time when most
        /// memory was mapped.
        large_page_coverage, Share, Listed: |it| it.core.large_page_coverage_parts();
        /// Pages written to swap since the start.
        swap_outs, Count, Listed: |it| it.core.ledger.done.pages_swapped_out;
        /// Pages read from swap since the start.
        swap_ins, Count, Listed: |it| it.core.ledger.done.pages_swapped_in;
        /// Size of physical memory.
        memory_bytes, Bytes, Listed: |it| it.core.memory.memory_bytes();
        /// Memory with unmovable data of others than the simulated programs.
        foreign_bytes, Bytes, Listed: |it| bytes(it.core.memory.foreign_frames());
        /// Memory in frames taken out of use after a hardware fault.
        retired_bytes, Bytes, Listed: |it| bytes(it.core.memory.retired_frames());
        /// Times that the kernel freed something because memory was short.
        reclaims, Count, Listed: |it| it.core.memory.pressure().reclaims;
        /// Page cache dropped when memory was short.
        reclaimed_page_cache_bytes, Bytes, Listed:
            |it| bytes(it.core.memory.pressure().page_cache_frames);
        /// Slab freed when memory was short.
        reclaimed_slab_bytes, Bytes, Listed: |it| bytes(it.core.memory.pressure().slab_frames);
        /// Memory advised free (MADV_FREE) that was taken when memory was short.
        reclaimed_advised_bytes, Bytes, Listed: |it| bytes(it.core.reclaim.advised_pages);
        /// 2MB blocks that compaction scanned.
        compaction_blocks_scanned, Count, Listed: |it| it.compaction().blocks_scanned;
        /// Frames that compaction scanned.
        compaction_frames_scanned, Count, Listed: |it| it.compaction().frames_scanned;
        /// Frames that compaction migrated.
        compaction_frames_migrated, Count, Listed: |it| it.compaction().frames_migrated;
        /// 2MB blocks that compaction emptied.
        compaction_blocks_emptied, Count, Listed: |it| it.compaction().blocks_emptied;
        /// Fragmented 2MB blocks that perforated pages claimed, with holes where others occupy
        /// frames.
        blocks_claimed_with_holes, Count, Listed: |it| it.compaction().blocks_perforated;
    }

    /// Memory that translation takes besides page tables.
    pub(super) static BITMAP: Kernel, "Memory" {
        /// Size of the hole bitmap, which covers all physical memory.
        hole_bitmap_bytes, "hole bitmap", Bytes, Table,
            part("translation_memory", "hole bitmap", "bitmap"):
            |it| bytes(it.core.memory.top_table_frames(TopTable::is_hole_bitmap));
    }

    /// Memory of the rest of the system.
    static OTHERS: PhysicalMemory, "Memory" {
        /// Memory of programs that are not simulated.
        other_programs_bytes, Bytes, Listed: |it| bytes(it.other_frames(OtherUse::Anonymous));
        /// Memory in the page cache.
        page_cache_bytes, Bytes, Listed: |it| bytes(it.other_frames(OtherUse::PageCache));
        /// Memory in slab caches.
        slab_bytes, Bytes, Listed: |it| bytes(it.other_frames(OtherUse::Slab));
        /// Unmovable memory of the kernel.
        kernel_data_bytes, Bytes, Listed: |it| bytes(it.other_frames(OtherUse::Kernel));
        /// Memory in the balloon of a guest.
        balloon_bytes, Bytes, Listed: |it| bytes(it.other_frames(OtherUse::Balloon));
        /// Memory in the page cache that cannot be moved.
        pinned_page_cache_bytes, Bytes, Listed: |it| bytes(it.other_frames(OtherUse::Pinned));
    }

    /// Numbers of faults by kind.
    pub(super) static FAULTS: Kernel, "Memory" {
        /// Faults on the first touch of a page or region.
        page_faults, Count, Table: |it| it.core.faults.page;
        /// Frames in the place of a hole that were allocated for other data, because no other
        /// memory was free. The hole cannot be patched before the frame is free again (P §VI).
        hole_places_taken, Count, Listed: |it| it.core.memory.hole_places_taken();
        /// Faults on the first touch of a hole that had no frame.
        hole_faults, Count, Listed: |it| it.core.faults.hole;
        /// Faults on a write to a page that copy on write had made read-only.
        copy_on_write_faults, Count, Listed: |it| it.core.faults.copy_on_write;
        /// Faults on pages that were mapped already.
        spurious_faults, Count, Listed: |it| it.core.faults.spurious;
        /// Faults on pages that a direct segment or range translates: false positives of the
        /// hardware's filter, and touches while the registers were cleared.
        segment_faults, Count, Listed: |it| it.core.faults.overlay;
        /// Accesses that are not allowed (segmentation faults).
        segfaults, Count, Listed: |it| it.core.faults.segmentation;
        /// Touches of shared memory for which the frame of another mapping was used.
        shared_memory_joins, Count, Listed: |it| it.core.faults.shared_memory;
    }
}

/// Size of `frames` frames in bytes.
fn bytes(frames: u64) -> u64 {
    frames * FRAME_BYTES
}

/// All counters of a simulated operating system, in the order in which reports show them.
pub fn counters() -> Vec<Counter> {
    [
        registered(levels::MEMORY),
        registered(KERNEL),
        ksm::counters(),
        registered(levels::TABLES),
        registered(BITMAP),
        registered(OTHERS),
        registered(FAULTS),
        registered(folios::FOLIOS),
        registered(levels::PAGES),
        khugepaged::counters(),
        hard_fault::counters(),
        registered(Work::FIGURES),
    ]
    .concat()
}

impl Kernel {
    /// Writes the kernel's counters at this moment to `out`.
    pub fn counters(&self, out: &mut Counters) {
        self.counters_of(Span::Moment, out);
    }

    /// Writes the kernel's counters to `out`: memory use at this moment or its maxima over the run, as `span`
    /// says.
    pub fn counters_of(&self, span: Span, out: &mut Counters) {
        for table in [KERNEL, BITMAP, FAULTS] {
            out.record(table, self);
        }
        let now = Levels::now(&self.core);
        let levels = match span {
            Span::Moment => now,
            Span::Run => self.core.most.map_or(now, |most| most.max(now)),
        };
        for table in [levels::MEMORY, levels::TABLES, levels::PAGES] {
            out.record(table, &levels);
        }
        out.record(folios::FOLIOS, &self.core.folios);
        out.record(OTHERS, &self.core.memory);
        self.khugepaged.counters(out);
        self.hard_faults.counters(out);
        self.core.policy.counters(out);
        let mut mechanisms = self.mechanisms_now();
        if span == Span::Run {
            mechanisms.raise(&self.mechanisms_maxima);
        }
        mechanisms.iter().for_each(|(name, value)| out.set(name, value));
    }

    /// Counters, now, of same-page merging and of the backers (mechanisms that map memory on first touches).
    fn mechanisms_now(&self) -> Counters {
        let mut now = Counters::default();
        self.ksm.counters(&self.core, &mut now);
        self.backers.counters(&self.core, &mut now);
        now
    }

    /// Raises the maxima of the counters of same-page merging and of mechanisms such as direct segments to
    /// the values at this moment. Slower than [`Core::note_peak`], so only called before events that may
    /// remove all mappings of a mechanism.
    pub(super) fn note_mechanisms(&mut self) {
        let now = self.mechanisms_now();
        self.mechanisms_maxima.raise(&now);
    }
}

impl Core {
    /// Number of extents (mappings of more than 4KB) that were relocated because one of their frames failed.
    pub fn extents_relocated(&self) -> u64 {
        self.faults.extents_relocated
    }

    /// Share of mapped memory (holes excluded) that entries of 2MB or more or gap-tolerant superpages
    /// translate, at the moment when most memory was mapped.
    pub(super) fn large_page_coverage(&self) -> f64 {
        CounterValue::from(self.large_page_coverage_parts()).as_f64()
    }

    /// Numerator and denominator of [`Self::large_page_coverage`], in pages.
    fn large_page_coverage_parts(&self) -> (u64, u64) {
        let peak = self.peak_now();
        (peak.large_mapped_pages, peak.mapped_pages)
    }

    /// Raises the maxima of memory use to the values at this moment. Call this function before an operation
    /// that reduces memory use.
    pub(super) fn note_peak(&mut self) {
        self.peak = self.peak_now();
        let now = Levels::now(self);
        self.most = Some(self.most.map_or(now, |most| most.max(now)));
    }

    fn peak_now(&self) -> Peak {
        let usage = self.usage();
        if usage.mapped_pages() < self.peak.mapped_pages {
            return self.peak;
        }
        Peak { mapped_pages: usage.mapped_pages(), large_mapped_pages: usage.large_mapped_pages() }
    }

    /// Number of frames of page tables, including shadow page tables and the flat table.
    pub(super) fn table_frames(&self) -> u64 {
        let flat = self.memory.top_table_frames(TopTable::is_flat);
        let own = self.own_tables.len() as u64 + flat;
        own + self.live_spaces().map(|space| space.table_frames()).sum::<u64>()
    }

    /// Number of mapped pages of each size and kind, in all address spaces.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.live_spaces().for_each(|space| sum += space.usage());
        sum
    }
}
