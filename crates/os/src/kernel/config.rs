//! Configuration of a kernel.

use std::sync::Arc;

use perforate_types::GapTolerance;

use super::Defrag;
use crate::memory::{FrameLayout, IoGap, TopTable};
use crate::{Ageing, FaultMap, Fragmentation, HostSnapshot, ZoneLayout};

/// The format of the page tables, as far as frames are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TableFormat {
    /// Level-2 nodes are order-1 pairs, node and shadow node, and memory has a hole bitmap (P-1,
    /// P-2).
    pub shadow_directories: bool,
    /// Level-2 nodes hold gap-tolerant entries of this mode beside entries of level-1 nodes, and no
    /// 2MB pages (G §3.7).
    pub gap_tolerance: Option<GapTolerance>,
    /// Pages from 0 on that a flat table maps, which lies at the top of memory; 0: there is none. A
    /// hypervisor has it in place of its guest's nested page table (D §X); its ordinary tables are its
    /// own kernel's then, and no hardware walks them.
    pub flat_pages: u64,
}

impl TableFormat {
    /// What the top of memory is reserved for.
    pub(crate) fn top_table(self) -> TopTable {
        match (self.shadow_directories, self.flat_pages) {
            (true, _) => TopTable::HoleBitmap,
            (false, 0) => TopTable::None,
            (false, pages) => TopTable::Flat { pages },
        }
    }

    /// log2 of the frames of a level-2 node: two where it has a shadow (P §VI), up to four where
    /// it holds gap-tolerant entries (G Table 2).
    pub fn directory_order(self) -> u32 {
        match self.gap_tolerance {
            Some(mode) => mode.directory_order(),
            None => u32::from(self.shadow_directories),
        }
    }
}

/// Everything that a [`super::Kernel`] is made from, besides its policy.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct KernelConfig {
    /// Size of physical memory in bytes, a multiple of 4096.
    pub memory_bytes: u64,
    /// Injected fragmentation.
    pub fragmentation: Option<Fragmentation>,
    /// Seed of the fragmentation.
    pub seed: u64,
    /// Format of the page tables.
    pub tables: TableFormat,
    /// How memory is divided into zones.
    pub zones: ZoneLayout,
    /// The I/O gap; without one, memory begins at address 0 and has no gaps.
    pub io_gap: Option<IoGap>,
    /// Room for memory that is added at run time, at the end of the physical address space: in a
    /// guest, what its balloon holds from the start (D §VI.C).
    pub hot_add_bytes: u64,
    /// Frames that are faulty and never used.
    pub faulty: Option<FaultMap>,
    /// Effort of a fault for a 2MB page when no whole block is free.
    pub defrag: Defrag,
    /// Swap space in bytes; without any, no memory of programs is swapped out.
    pub swap_bytes: u64,
    /// Whether background compaction had its time before the program started.
    pub compacted: bool,
    /// The past of memory before the program started.
    pub ageing: Option<Ageing>,
    /// The memory of a real machine that this one begins as; its size, layout and zones are then the
    /// snapshot's, whatever is said of them here.
    pub snapshot: Option<Arc<HostSnapshot>>,
    /// For traces without map events: a touch outside any area makes an anonymous area that
    /// allows everything, of the aligned 2MB region around it (less what other areas hold).
    pub implicit_maps: bool,
}

impl KernelConfig {
    /// A memory of this size without a past, ordinary page tables.
    pub fn new(memory_bytes: u64) -> Self {
        Self { memory_bytes, ..Self::default() }
    }

    /// Where memory lies in the physical address space.
    pub(super) fn layout(&self) -> FrameLayout {
        FrameLayout { io_gap: self.io_gap, hot_add_bytes: self.hot_add_bytes }
    }
}
