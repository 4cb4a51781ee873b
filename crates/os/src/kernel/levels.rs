//! Levels of memory use: quantities that rise and fall with programs, at one moment and at their
//! maximum over a run.

use perforate_types::figures;

use super::Core;
use crate::memory::FRAME_BYTES;

/// Moment or period for which memory use is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Memory use at this moment.
    Moment,
    /// Maximum over the run of each kind of memory use (for free memory, the minimum). The maxima can be at
    /// different times. The final values would say little, because the programs have exited by then.
    Run,
}

/// Amounts of memory use at one moment, or their maxima over the run, in pages, frames and swap slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Levels {
    mapped_pages: u64,
    reserved_frames: u64,
    swap_slots: u64,
    free_frames: u64,
    table_frames: u64,
    base_pages: u64,
    large_pages: u64,
    huge_pages: u64,
    perforated_pages: u64,
    holes_allocated: u64,
    holes_unallocated: u64,
}

impl Levels {
    /// Memory use at this moment.
    pub(super) fn now(core: &Core) -> Self {
        let usage = core.usage();
        Self {
            mapped_pages: usage.mapped_pages(),
            reserved_frames: usage.reserved,
            swap_slots: core.memory.swap.used_slots(),
            free_frames: core.free_frames(),
            table_frames: core.table_frames(),
            base_pages: usage.pages,
            large_pages: usage.large_pages,
            huge_pages: usage.huge_pages,
            perforated_pages: usage.perforated_pages,
            holes_allocated: usage.holes_allocated,
            holes_unallocated: usage.holes_unallocated,
        }
    }

    /// Larger value of each amount of memory use in `self` and `other`; for free memory, the smaller.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            mapped_pages: self.mapped_pages.max(other.mapped_pages),
            reserved_frames: self.reserved_frames.max(other.reserved_frames),
            swap_slots: self.swap_slots.max(other.swap_slots),
            free_frames: self.free_frames.min(other.free_frames),
            table_frames: self.table_frames.max(other.table_frames),
            base_pages: self.base_pages.max(other.base_pages),
            large_pages: self.large_pages.max(other.large_pages),
            huge_pages: self.huge_pages.max(other.huge_pages),
            perforated_pages: self.perforated_pages.max(other.perforated_pages),
            holes_allocated: self.holes_allocated.max(other.holes_allocated),
            holes_unallocated: self.holes_unallocated.max(other.holes_unallocated),
        }
    }
}

/// Size of `frames` frames in bytes.
fn bytes(frames: u64) -> u64 {
    frames * FRAME_BYTES
}

figures! {
    /// Counters of the memory that programs use.
    pub(super) static MEMORY: Levels, "Memory" {
        /// Peak of mapped memory. A frame counts once for every page that maps it.
        mapped_bytes, "mapped, peak", Bytes, Table: |it| bytes(it.mapped_pages);
        /// Peak of memory that perforated pages reserve for sub-pages not touched yet.
        reserved_bytes, "reserved, peak", Bytes, Table: |it| bytes(it.reserved_frames);
        /// Peak of swap space in use.
        swapped_bytes, "swapped out, peak", Bytes, Table: |it| bytes(it.swap_slots);
        /// Minimum of free memory.
        free_bytes, Bytes, Listed: |it| bytes(it.free_frames);
    }

    /// Counter of the memory that page tables take.
    pub(super) static TABLES: Levels, "Memory" {
        /// Peak of memory in page-table nodes, including shadow nodes and nodes for holes.
        page_table_bytes, "page tables, peak", Bytes, Main,
            part("translation_memory", "page tables", "level1"): |it| bytes(it.table_frames);
    }

    /// Counters of mapped pages and holes.
    pub(super) static PAGES: Levels, "Memory" {
        /// Peak number of mapped 4KB pages, without holes.
        base_pages, Count, Listed: |it| it.base_pages;
        /// Peak number of mapped 2MB pages without holes.
        large_pages, "large pages, peak", Count, Main: |it| it.large_pages;
        /// Peak number of mapped 1GB pages.
        huge_pages, Count, Listed: |it| it.huge_pages;
        /// Peak number of mapped perforated pages.
        perforated_pages, "perforated pages, peak", Count, Main: |it| it.perforated_pages;
        /// Peak number of holes in perforated pages that have a frame.
        holes_allocated, Count, Listed: |it| it.holes_allocated;
        /// Peak number of holes in perforated pages that have no frame yet.
        holes_unallocated, Count, Listed: |it| it.holes_unallocated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory use in which every amount is `value`.
    fn all(value: u64) -> Levels {
        Levels {
            mapped_pages: value,
            reserved_frames: value,
            swap_slots: value,
            free_frames: value,
            table_frames: value,
            base_pages: value,
            large_pages: value,
            huge_pages: value,
            perforated_pages: value,
            holes_allocated: value,
            holes_unallocated: value,
        }
    }

    #[test]
    fn of_every_level_the_most_is_kept_and_of_free_memory_the_least() {
        let expected = Levels { free_frames: 3, ..all(7) };
        assert_eq!(all(3).max(all(7)), expected);
        assert_eq!(all(7).max(all(3)), expected);
    }
}
