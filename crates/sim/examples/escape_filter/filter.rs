//! False positives counted: every page of the segment is looked up.

use perforate_mmu::EscapeFilter;
use perforate_os::SegmentState;
use perforate_types::VirtualPage;

/// Share of the segment's pages that did not escape and pass for it, if those at these frames do.
pub fn false_positive_share(
    (bits, functions): (usize, usize),
    segment: &SegmentState,
    faulty: &[u64],
) -> f64 {
    let mut filter = EscapeFilter::new(bits, functions);
    let first = segment.page.number();
    for frame in faulty {
        filter.insert(VirtualPage::new(first + (frame - segment.frame.number())));
    }
    let pages = first..first + segment.pages;
    let passing = pages.filter(|&page| filter.contains(VirtualPage::new(page))).count();
    (passing - faulty.len()) as f64 / (segment.pages - faulty.len() as u64) as f64
}
