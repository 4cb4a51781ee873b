//! Hardware prefetchers: choice of the lines to prefetch.

use crate::config::Prefetcher;

/// Number of pages whose strides are tracked at a time.
const TRACKED_PAGES: usize = 64;
/// Number of lines that the stride prefetcher requests ahead.
const DEGREE: usize = 4;
const LINES_PER_PAGE: u64 = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Track {
    page: u64,
    last: u8,
    stride: i8,
    confirmed: bool,
}

/// Line numbers to prefetch, at most five.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    lines: [u64; DEGREE + 1],
    count: usize,
}

impl Candidates {
    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.lines[..self.count]
    }

    fn push_within_page(&mut self, line: u64, stride: i64) {
        let target = line.wrapping_add_signed(stride);
        if target / LINES_PER_PAGE == line / LINES_PER_PAGE {
            self.lines[self.count] = target;
            self.count += 1;
        }
    }
}

/// Prefetcher of one cache; it observes misses and first uses of prefetched lines.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    kind: Prefetcher,
    tracks: Vec<Track>,
}

impl Watcher {
    pub(crate) fn new(kind: Prefetcher) -> Self {
        let has_strides = matches!(kind, Prefetcher::Stride | Prefetcher::StrideAndPair);
        let tracks = if has_strides { TRACKED_PAGES } else { 0 };
        Self { kind, tracks: vec![Track::default(); tracks] }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.kind != Prefetcher::None
    }

    pub(crate) fn observe(&mut self, line: u64) -> Candidates {
        let mut candidates = Candidates::default();
        match self.kind {
            Prefetcher::None => {}
            Prefetcher::NextLine => candidates.push_within_page(line, 1),
            Prefetcher::Stride => self.follow_stride(line, &mut candidates),
            Prefetcher::StrideAndPair => {
                candidates.push_within_page(line, if line.is_multiple_of(2) { 1 } else { -1 });
                self.follow_stride(line, &mut candidates);
            }
        }
        candidates
    }

    fn follow_stride(&mut self, line: u64, candidates: &mut Candidates) {
        let stride = self.track(line);
        if stride != 0 {
            (1..=DEGREE as i64).for_each(|n| candidates.push_within_page(line, n * stride));
        }
    }

    /// Updates the stride of the line's page; returns it, in lines, if it was seen twice in a row, else 0.
    fn track(&mut self, line: u64) -> i64 {
        let (page, offset) = (line / LINES_PER_PAGE, (line % LINES_PER_PAGE) as u8);
        let track = &mut self.tracks[(page % TRACKED_PAGES as u64) as usize];
        if track.page != page {
            *track = Track { page, last: offset, ..Track::default() };
            return 0;
        }
        let stride = offset as i8 - track.last as i8;
        track.confirmed = stride == track.stride && stride != 0;
        track.stride = stride;
        track.last = offset;
        if track.confirmed { i64::from(stride) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_is_followed_once_confirmed_and_never_out_of_the_page() {
        let mut watcher = Watcher::new(Prefetcher::Stride);
        assert!(watcher.observe(640).as_slice().is_empty());
        assert!(watcher.observe(643).as_slice().is_empty());
        assert_eq!(watcher.observe(646).as_slice(), &[649, 652, 655, 658]);
        assert!(watcher.observe(701).as_slice().is_empty());
        assert!(watcher.observe(699).as_slice().is_empty());
        assert_eq!(watcher.observe(697).as_slice(), &[695, 693, 691, 689]);
        let mut next = Watcher::new(Prefetcher::NextLine);
        assert_eq!(next.observe(62).as_slice(), &[63]);
        assert!(next.observe(63).as_slice().is_empty());
    }

    #[test]
    fn the_other_line_of_a_pair_comes_before_those_of_the_stride() {
        let mut watcher = Watcher::new(Prefetcher::StrideAndPair);
        let cases: [(u64, &[u64]); 4] =
            [(62, &[63]), (59, &[58]), (56, &[57, 53, 50, 47, 44]), (128, &[129])];
        for (line, expected) in cases {
            assert_eq!(watcher.observe(line).as_slice(), expected, "{line}");
        }
    }

    /// A stride is confirmed by the same one again, and given up at the first other one, also one of 0. Of two
    /// pages that share a track, the one seen last has it. A page's last line has a stride like any other.
    #[test]
    fn a_stride_is_given_up_at_the_first_other() {
        let page = |page: u64, line: u64| page * 64 + line;
        let mut watcher = Watcher::new(Prefetcher::Stride);
        let four = |from: u64| [1, 2, 3, 4].map(|n| from + n);
        let cases: [(u64, &[u64]); 15] = [
            (page(5, 10), &[]),
            (page(5, 11), &[]),
            (page(5, 12), &four(page(5, 12))),
            (page(5, 13), &four(page(5, 13))),
            (page(5, 15), &[]),
            (page(5, 16), &[]),
            (page(5, 17), &four(page(5, 17))),
            (page(5, 17), &[]),
            (page(5, 17), &[]),
            // The other page of the track: it begins anew, and so does the first.
            (page(69, 18), &[]),
            (page(5, 18), &[]),
            (page(5, 19), &[]),
            (page(6, 61), &[]),
            (page(6, 62), &[]),
            (page(6, 63), &[]),
        ];
        for (number, (line, expected)) in cases.into_iter().enumerate() {
            assert_eq!(watcher.observe(line).as_slice(), expected, "{number}");
        }
        // Two tracks beside each other.
        assert_eq!(watcher.observe(page(5, 20)).as_slice(), &four(page(5, 20)));
        let mut down = Watcher::new(Prefetcher::Stride);
        for line in [63, 32] {
            assert!(down.observe(page(7, line)).as_slice().is_empty());
        }
        let beyond = down.observe(page(7, 1));
        assert!(beyond.as_slice().is_empty(), "the next would be in the page before");
        let none = Watcher::new(Prefetcher::None);
        assert!(!none.is_active() && watcher.is_active());
    }
}
