//! The kernel's figures.

use perforate_types::Counters;

use super::{CompactionCounts, Core};
use crate::OtherUse;
use crate::memory::FRAME_BYTES;
use crate::space::Usage;

/// Faults by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FaultCounts {
    /// First touches of a page or region.
    pub page: u64,
    /// Touches, by a fault or in advance, for which others had the frames of shared memory.
    pub shared_memory: u64,
    /// First touches of a lazily allocated hole.
    pub hole: u64,
    /// Writes to a page mapped read-only for copy-on-write.
    pub copy_on_write: u64,
    /// The page was mapped already.
    pub spurious: u64,
    /// Touches of pages of an overlay, a direct segment: false positives of the hardware's filter, and touches
    /// while the registers were cleared.
    pub overlay: u64,
    /// Accesses that are not allowed.
    pub segmentation: u64,
    /// Extents that moved since one of their frames failed.
    pub extents_relocated: u64,
    /// Distinct pages touched by a fault or populated.
    pub touched_pages: u64,
}

/// Memory use when most was mapped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    mapped_pages: u64,
    large_mapped_pages: u64,
    table_frames: u64,
}

/// Writes the figures of memory, faults, reclaim and compaction. Sizes and numbers of pages are those
/// of this moment, where their name does not begin with `peak`.
pub(super) fn write(
    core: &Core,
    advised_pages: u64,
    compaction: &CompactionCounts,
    out: &mut Counters,
) {
    let usage = core.usage();
    let bytes = |frames: u64| frames * FRAME_BYTES;
    out.count("memory_bytes", core.memory.memory_bytes());
    out.count("free_bytes", bytes(core.free_frames()));
    out.count("foreign_bytes", bytes(core.memory.foreign_frames()));
    for usage in OtherUse::ALL {
        out.count(usage.counter(), bytes(core.memory.other_frames(usage)));
    }
    out.count("retired_bytes", bytes(core.memory.retired_frames()));
    let pressure = core.memory.pressure();
    out.count("reclaims", pressure.reclaims);
    out.count("reclaimed_page_cache_bytes", bytes(pressure.page_cache_frames));
    out.count("reclaimed_slab_bytes", bytes(pressure.slab_frames));
    let swap = &core.memory.swap;
    out.count("reclaimed_advised_bytes", bytes(advised_pages));
    out.count("swapped_bytes", bytes(swap.used_slots()));
    out.count("swap_outs", core.ledger.done.pages_swapped_out);
    out.count("swap_ins", core.ledger.done.pages_swapped_in);
    out.count("compaction_blocks_scanned", compaction.blocks_scanned);
    out.count("compaction_frames_scanned", compaction.frames_scanned);
    out.count("compaction_frames_migrated", compaction.frames_migrated);
    out.count("compaction_blocks_emptied", compaction.blocks_emptied);
    out.count("blocks_claimed_with_holes", compaction.blocks_perforated);
    out.count("hole_bitmap_bytes", bytes(core.memory.hole_bitmap_frames()));
    out.count("page_table_bytes", bytes(core.table_frames()));
    out.count("mapped_bytes", bytes(usage.mapped_pages()));
    out.count("faulted_bytes", bytes(core.faults.touched_pages));
    out.count("base_pages", usage.pages);
    out.count("large_pages", usage.large_pages);
    out.count("huge_pages", usage.huge_pages);
    out.count("perforated_pages", usage.perforated_pages);
    out.count("holes_allocated", usage.holes_allocated);
    out.count("holes_unallocated", usage.holes_unallocated);
    out.count("reserved_bytes", bytes(usage.reserved));
    out.count("page_faults", core.faults.page);
    out.count("shared_memory_joins", core.faults.shared_memory);
    out.count("hole_faults", core.faults.hole);
    out.count("copy_on_write_faults", core.faults.copy_on_write);
    out.count("spurious_faults", core.faults.spurious);
    out.count("segment_faults", core.faults.overlay);
    out.count("segfaults", core.faults.segmentation);
    let peak = core.peak_now();
    out.count("peak_mapped_bytes", bytes(peak.mapped_pages));
    out.count("peak_page_table_bytes", bytes(peak.table_frames));
    let coverage = (peak.large_mapped_pages as f64, peak.mapped_pages as f64);
    out.ratio("large_page_coverage", coverage.0, coverage.1);
}

impl Core {
    /// Extents that moved since one of their frames failed.
    pub fn extents_relocated(&self) -> u64 {
        self.faults.extents_relocated
    }

    /// Share of mapped memory that a superpage or an entry of 2MB or more translates (holes
    /// excluded), when most was mapped.
    pub(super) fn large_page_coverage(&self) -> f64 {
        let peak = self.peak_now();
        if peak.mapped_pages == 0 {
            return 0.0;
        }
        peak.large_mapped_pages as f64 / peak.mapped_pages as f64
    }

    /// Remembers the memory use. Only events make it shrink, so it is enough to look before each.
    pub(super) fn note_peak(&mut self) {
        self.peak = self.peak_now();
    }

    fn peak_now(&self) -> Peak {
        let usage = self.usage();
        if usage.mapped_pages() < self.peak.mapped_pages {
            return self.peak;
        }
        Peak {
            mapped_pages: usage.mapped_pages(),
            large_mapped_pages: usage.large_mapped_pages(),
            table_frames: self.table_frames(),
        }
    }

    fn table_frames(&self) -> u64 {
        let own = self.own_tables.len() as u64;
        own + self.live_spaces().map(|space| space.table_frames()).sum::<u64>()
    }

    /// Pages mapped in all address spaces, by kind.
    pub fn usage(&self) -> Usage {
        self.live_spaces().map(|space| space.usage()).fold(Usage::default(), |sum, usage| Usage {
            pages: sum.pages + usage.pages,
            large_pages: sum.large_pages + usage.large_pages,
            huge_pages: sum.huge_pages + usage.huge_pages,
            perforated_pages: sum.perforated_pages + usage.perforated_pages,
            holes_allocated: sum.holes_allocated + usage.holes_allocated,
            holes_unallocated: sum.holes_unallocated + usage.holes_unallocated,
            reserved: sum.reserved + usage.reserved,
            leaf_nodes: sum.leaf_nodes + usage.leaf_nodes,
            wide_pages: sum.wide_pages + usage.wide_pages,
            overlay_pages: sum.overlay_pages + usage.overlay_pages,
        })
    }
}
