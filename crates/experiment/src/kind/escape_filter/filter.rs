//! False-positive rates of an escape filter: counted over every page of the segment, and in closed
//! form.

use perforate_schemes::segment::{EscapeFilter, SegmentState};
use perforate_types::VirtualPage;

/// Returns the share of the segment's pages that are false positives of the filter, among pages that did not
/// escape. The pages at `faulty` frames escaped.
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

/// Returns the probability of a false positive, (1 − (1 − k/m)ⁿ)ᵏ. The filter has m = `bits` bits, divided
/// among k = `functions` hash functions, and contains n = `escaped` pages.
pub fn expected_false_positive_share((bits, functions): (usize, usize), escaped: usize) -> f64 {
    let kept = 1.0 - functions as f64 / bits as f64;
    (1.0 - kept.powi(escaped as i32)).powi(functions as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One page in a filter of 256 bits with 4 hash functions. Another page hits the set bit in each bank of
    /// 64 bits with probability 1/64.
    #[test]
    fn one_page_by_hand() {
        let expected = expected_false_positive_share;
        assert!((expected((256, 4), 1) / (1.0f64 / 64.0).powi(4) - 1.0).abs() < 1e-9);
        assert_eq!(expected((256, 4), 0), 0.0);
        assert!((expected((256, 4), 16) - 0.002_45).abs() < 2e-5);
    }
}
