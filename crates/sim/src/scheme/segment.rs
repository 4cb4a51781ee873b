//! Direct segments (D): native, and over or under another dimension the three modes of virtualized
//! direct segments.

use perforate_mmu::{Dimension, PerforatedVariant, Radix, Segmented, VirtualizationConfig};
use perforate_os::Kernel;

use super::Scheme;
use super::large_pages::TRANSPARENT_LARGE_PAGES;

/// Ordinary page tables with a direct segment for each address space.
fn segmented(
    _: &Kernel,
    _: PerforatedVariant,
    config: &VirtualizationConfig,
) -> Box<dyn Dimension> {
    Box::new(Segmented::new(Box::new(Radix::new()), config))
}

/// A direct segment for the largest part of memory, 4KB pages elsewhere. `4k+segment` is VMM
/// Direct, `segment+4k` Guest Direct, `segment+segment` Dual Direct.
pub(super) const SEGMENT: Scheme = Scheme {
    name: "segment",
    summary: "a direct segment for the first large area, 4KB pages elsewhere",
    source: "D §II.B, §III; 4k+segment is VMM Direct, segment+4k Guest, segment+segment Dual",
    policy: "segment",
    dimension: segmented,
    ..TRANSPARENT_LARGE_PAGES
};

/// The same with large pages outside the segment.
pub(super) const SEGMENT_LARGE: Scheme = Scheme {
    name: "segment-thp",
    summary: "a direct segment for the first large area, elsewhere as thp",
    policy: "segment:pages=2m",
    ..SEGMENT
};
