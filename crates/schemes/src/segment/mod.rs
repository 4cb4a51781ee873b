//! Direct segments (D): native, and over or under another dimension the three modes of virtualized
//! direct segments.

use perforate_config::ConfigError;
use perforate_mmu::{Dimension, Radix, Segmented};
use perforate_os::{Policy, SegmentOptions, SegmentPolicy, SmallPages};

use crate::pages::TRANSPARENT_LARGE_PAGES;
use crate::{Hardware, PolicyOptions, Scheme, with_changes};

/// The schemes.
pub(crate) const SCHEMES: &[&Scheme] = &[&SEGMENT, &SEGMENT_LARGE];

/// Ordinary page tables with a direct segment for each address space.
fn segmented(hardware: &Hardware<'_>) -> Box<dyn Dimension> {
    Box::new(Segmented::new(Box::new(Radix::new()), hardware.virtualization))
}

fn segment(options: &PolicyOptions, own: SegmentOptions) -> Result<Box<dyn Policy>, ConfigError> {
    with_changes("segment", options.segment.as_ref(), own, SegmentPolicy::new)
}

/// A direct segment for the largest part of memory, 4KB pages elsewhere. `4k+segment` is VMM
/// Direct, `segment+4k` Guest Direct, `segment+segment` Dual Direct.
const SEGMENT: Scheme = Scheme {
    name: "segment",
    summary: "a direct segment for the first large area, 4KB pages elsewhere",
    source: "D §II.B, §III; 4k+segment is VMM Direct, segment+4k Guest, segment+segment Dual",
    other_names: &[],
    colour: "segment",
    segments: true,
    not_shadowed: Some(
        "a direct segment is no page table that a hypervisor could shadow: registers lead the guest \
         past the shadow tables",
    ),
    policy: |options| segment(options, SegmentOptions::DEFAULT),
    dimension: segmented,
    ..TRANSPARENT_LARGE_PAGES
};

/// The same with large pages outside the segment.
const SEGMENT_LARGE: Scheme = Scheme {
    name: "segment-thp",
    summary: "a direct segment for the first large area, elsewhere as thp",
    policy: |options| {
        let pages = SmallPages::Size2M;
        segment(options, SegmentOptions { pages, ..SegmentOptions::DEFAULT })
    },
    ..SEGMENT
};
