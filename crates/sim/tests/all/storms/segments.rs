//! Random actions on direct segments.

use perforate_os::Kernel;
use perforate_schemes::segment::{self, DirectSegments, SegmentRule};
use perforate_sim::Scheme;
use perforate_types::{SpaceId, VirtualPage};

use super::Random;

/// True if a scheme uses direct segments.
pub fn has_segments(scheme: &Scheme) -> bool {
    segment::is_used_by(scheme)
}

/// True if the hardware may wrongly report a page as escaped, because the filter contains other pages.
/// Such a page has no table entry before its first access.
pub fn may_take_for_escaped(kernel: &Kernel, space: SpaceId, page: VirtualPage) -> bool {
    kernel.segment(space).is_some_and(|segment| {
        let pages = segment.page.number()..segment.page.number() + segment.pages;
        segment.is_active && segment.escaped_pages > 0 && pages.contains(&page.number())
    })
}

/// An action on the segment of an address space.
pub struct SegmentAction {
    kind: u64,
    rule: SegmentRule,
    page: VirtualPage,
}

impl SegmentAction {
    /// Draws a random action, which may affect `page`.
    pub fn draw(random: &mut Random, page: VirtualPage) -> Self {
        let kind = random.below(12);
        let min_bytes = [64 << 10, 2 << 20, 8 << 20][random.below(3) as usize];
        let (compacts, faulty_pages) = (!random.one_in(3), 16 * random.below(3));
        Self { kind, rule: SegmentRule { min_bytes, compacts, faulty_pages, bounds: None }, page }
    }

    /// Performs the action; an impossible action has no effect.
    pub fn act(&self, kernel: &mut Kernel, space: SpaceId) {
        let Self { kind, rule, page } = *self;
        match kind {
            0..=3 => drop(kernel.create_segment(space, Some(rule))),
            4..=5 => drop(kernel.enable_segment(space)),
            6 => drop(kernel.disable_segment(space)),
            7 => drop(kernel.dissolve_segment(space)),
            8..=10 => drop(kernel.escape_page(space, page)),
            _ => {
                if let Some(segment) = kernel.segment(space)
                    && let Some(index) = page.number().checked_sub(segment.page.number())
                    && index < segment.pages
                {
                    kernel.hard_fault(segment.frame.add(index));
                }
            }
        }
    }
}
