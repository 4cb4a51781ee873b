//! False positives: counted, by looking up every page of the segment, and in closed form.

use perforate_schemes::segment::{EscapeFilter, SegmentState};
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

/// Probability of a false positive in a filter of `bits` bits, divided among `functions` hash functions,
/// after `escaped` pages: (1 − (1 − k/m)ⁿ)ᵏ.
pub fn expected_false_positive_share((bits, functions): (usize, usize), escaped: usize) -> f64 {
    let kept = 1.0 - functions as f64 / bits as f64;
    (1.0 - kept.powi(escaped as i32)).powi(functions as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One page in 256 bits and 4 functions: another one meets its bit in each bank of 64 with the
    /// probability 1/64.
    #[test]
    fn one_page_by_hand() {
        let expected = expected_false_positive_share;
        assert!((expected((256, 4), 1) / (1.0f64 / 64.0).powi(4) - 1.0).abs() < 1e-9);
        assert_eq!(expected((256, 4), 0), 0.0);
        assert!((expected((256, 4), 16) - 0.002_45).abs() < 2e-5);
    }
}
