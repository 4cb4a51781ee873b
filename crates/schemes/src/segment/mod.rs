//! Direct segments (D): native, and in the three modes of virtualized direct segments.
//!
//! - `kernel`: creation of segments, and effects of changes to their pages.
//! - `operation`: operations that the operating-system half sends to the hardware half.
//! - `policy`, `options`: conditions for a segment.
//! - `mode_policy`: the choice of virtualized mode: which of guest and host gets a segment, and
//!   when (D Table III).
//! - `dimension`: page tables with segment registers.
//! - `escape_filter`: the filter of escaped pages.

mod dimension;
mod error;
mod escape_filter;
mod kernel;
mod mode_policy;
mod operation;
mod options;
mod policy;

use perforate_config::ConfigError;
use perforate_mmu::Dimension;
use perforate_os::{Policy, SmallPages};
use perforate_types::registered;

use crate::pages::TRANSPARENT_LARGE_PAGES;
use crate::{Hardware, PolicyOptions, Scheme, pages, with_changes};
pub use dimension::Segmented;
pub use error::SegmentError;
pub use escape_filter::{EscapeFilter, EscapeFilterConfig};
pub use kernel::{DirectSegments, SegmentState};
pub use mode_policy::{
    Application, Fragmented, ModePlan, ModePolicy, ModeTransition, Side, VirtualizedMode,
};
pub use operation::{SEGMENT_REGISTERS, SegmentOperation};
pub use options::SegmentOptions;
pub use policy::{SegmentPolicy, SegmentRule};

/// Schemes with direct segments.
pub(crate) const SCHEMES: &[&Scheme] = &[&SEGMENT, &SEGMENT_LARGE, &SEGMENT_ORIGINAL];

/// Builds ordinary page tables with a direct segment per address space.
fn segmented(hardware: &Hardware<'_>) -> Box<dyn Dimension> {
    Box::new(Segmented::new(pages::radix(hardware), hardware.escape_filter))
}

/// Builds ordinary page tables with segment registers looked up in parallel with the first-level
/// TLB.
fn segmented_beside_l1(hardware: &Hardware<'_>) -> Box<dyn Dimension> {
    let segmented = Segmented::new(pages::radix(hardware), hardware.escape_filter);
    Box::new(segmented.beside_l1())
}

/// True if a scheme has direct segments, that is, if its policy has a rule for segments.
pub fn is_used_by(scheme: &Scheme) -> bool {
    let policy = (scheme.policy)(&PolicyOptions::default());
    policy.is_ok_and(|policy| policy.rule::<SegmentRule>().is_some())
}

fn segment(options: &PolicyOptions, own: SegmentOptions) -> Result<Box<dyn Policy>, ConfigError> {
    with_changes("segment", options.segment.as_ref(), own, SegmentPolicy::new)
}

/// Scheme with a direct segment for the first large area, and 4KB pages for other memory.
/// `4k+segment` is VMM Direct, `segment+4k` Guest Direct, `segment+segment` Dual Direct.
const SEGMENT: Scheme = Scheme {
    name: "segment",
    summary: "a direct segment for the first large area, 4KB pages elsewhere",
    source: "D §II.B, §III; 4k+segment is VMM Direct, segment+4k Guest, segment+segment Dual",
    other_names: &[],
    colour: "segment",
    counters: || [registered(kernel::SEGMENTS), registered(dimension::COUNTERS)].concat(),
    policy: |options| segment(options, SegmentOptions::DEFAULT),
    dimension: segmented,
    ..TRANSPARENT_LARGE_PAGES
};

/// Scheme with a direct segment for the first large area, and large pages for other memory.
const SEGMENT_LARGE: Scheme = Scheme {
    name: "segment-thp",
    summary: "a direct segment for the first large area, elsewhere as thp",
    policy: |options| {
        let pages = SmallPages::Size2M;
        segment(options, SegmentOptions { pages, ..SegmentOptions::DEFAULT })
    },
    ..SEGMENT
};

/// Scheme of the original proposal (Basu et al., ISCA 2013): pages in the segment never miss a TLB.
const SEGMENT_ORIGINAL: Scheme = Scheme {
    name: "segment-l1",
    summary: "as segment, but checked beside the L1 TLB (the original proposal)",
    source: "D §II.B, §III.D; Basu et al., ISCA 2013",
    native_only: Some(
        "the original direct segment is checked beside the first-level TLB, natively; virtual machines \
         have segments beside the second level (D §III): use segment",
    ),
    dimension: segmented_beside_l1,
    ..SEGMENT
};
