//! Direct segments (D): native, and over or under another dimension the three modes of virtualized
//! direct segments.

use perforate_config::ConfigError;
use perforate_mmu::{Dimension, PerforatedVariant, Radix, Segmented, VirtualizationConfig};
use perforate_os::{Kernel, Policy, SegmentOptions, SegmentPolicy, SmallPages};

use super::large_pages::TRANSPARENT_LARGE_PAGES;
use super::{Scheme, with_changes};
use crate::MemoryState;

/// Ordinary page tables with a direct segment for each address space.
fn segmented(
    _: &Kernel,
    _: PerforatedVariant,
    config: &VirtualizationConfig,
) -> Box<dyn Dimension> {
    Box::new(Segmented::new(Box::new(Radix::new()), config))
}

fn segment(memory: &MemoryState, own: SegmentOptions) -> Result<Box<dyn Policy>, ConfigError> {
    with_changes("segment", memory.segment.as_ref(), own, SegmentPolicy::new)
}

/// A direct segment for the largest part of memory, 4KB pages elsewhere. `4k+segment` is VMM
/// Direct, `segment+4k` Guest Direct, `segment+segment` Dual Direct.
pub(super) const SEGMENT: Scheme = Scheme {
    name: "segment",
    summary: "a direct segment for the first large area, 4KB pages elsewhere",
    source: "D §II.B, §III; 4k+segment is VMM Direct, segment+4k Guest, segment+segment Dual",
    segments: true,
    policy: |memory| segment(memory, SegmentOptions::DEFAULT),
    dimension: segmented,
    ..TRANSPARENT_LARGE_PAGES
};

/// The same with large pages outside the segment.
pub(super) const SEGMENT_LARGE: Scheme = Scheme {
    name: "segment-thp",
    summary: "a direct segment for the first large area, elsewhere as thp",
    policy: |memory| {
        let pages = SmallPages::Size2M;
        segment(memory, SegmentOptions { pages, ..SegmentOptions::DEFAULT })
    },
    ..SEGMENT
};
