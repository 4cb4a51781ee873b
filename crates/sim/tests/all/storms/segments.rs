//! What happens to direct segments.

use perforate_os::Kernel;
use perforate_schemes::segment::{self, DirectSegments, SegmentRule};
use perforate_sim::Scheme;
use perforate_types::{SpaceId, Update, VirtualPage};

use super::Random;

/// Whether a scheme's page tables have segments beside them.
pub fn has_segments(scheme: &Scheme) -> bool {
    segment::is_used_by(scheme)
}

/// Whether the hardware may take a page for escaped that is not: its filter holds some that are. Such
/// a page has no table entry before it is touched.
pub fn may_take_for_escaped(kernel: &Kernel, space: SpaceId, page: VirtualPage) -> bool {
    kernel.segment(space).is_some_and(|segment| {
        let pages = segment.page.number()..segment.page.number() + segment.pages;
        segment.is_active && segment.escaped_pages > 0 && pages.contains(&page.number())
    })
}

/// What happens to the segment of an address space.
pub struct SegmentAction {
    kind: u64,
    rule: SegmentRule,
    page: VirtualPage,
}

impl SegmentAction {
    /// One that may concern `page`.
    pub fn draw(random: &mut Random, page: VirtualPage) -> Self {
        let kind = random.below(12);
        let min_bytes = [64 << 10, 2 << 20, 8 << 20][random.below(3) as usize];
        let (compacts, faulty_pages) = (!random.one_in(3), 16 * random.below(3));
        Self { kind, rule: SegmentRule { min_bytes, compacts, faulty_pages, bounds: None }, page }
    }

    /// Does it; what cannot be done is left.
    pub fn act(&self, kernel: &mut Kernel, space: SpaceId, updates: &mut Vec<Update>) {
        let Self { kind, rule, page } = *self;
        match kind {
            0..=3 => drop(kernel.create_segment_with(space, rule, updates)),
            4..=5 => drop(kernel.enable_segment(space, updates)),
            6 => drop(kernel.disable_segment(space, updates)),
            7 => drop(kernel.dissolve_segment(space, updates)),
            8..=10 => drop(kernel.escape_page(space, page, updates)),
            _ => {
                if let Some(segment) = kernel.segment(space)
                    && let Some(index) = page.number().checked_sub(segment.page.number())
                    && index < segment.pages
                {
                    kernel.hard_fault(segment.frame.add(index), updates);
                }
            }
        }
    }
}
