//! What is measured: chases through more and more memory.

use std::collections::BTreeMap;

use super::region::Nodes;
use crate::benchmark::Paging;

const LINE_BYTES: u64 = 64;
const SMALL_PAGE_BYTES: u64 = 4096;
const LARGE_PAGE_BYTES: u64 = 2 << 20;
/// Numbers of chains side by side.
pub(super) const CHAINS: [usize; 9] = [2, 4, 6, 8, 12, 16, 20, 24, 32];

/// A chase that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    /// Whether the memory is in 2MB pages.
    pub is_large: bool,
    /// What it goes through.
    pub nodes: Nodes,
    /// How many of them.
    pub count: u64,
    /// Chains that are followed side by side.
    pub chains: usize,
}

impl Point {
    /// Lines of memory in 2MB pages that follow each other: the caches.
    pub(super) fn lines(count: u64) -> Self {
        Self { is_large: true, nodes: Nodes::Lines, count, chains: 1 }
    }

    /// One line of each of so many pieces of 4KB.
    pub(super) fn pages(paging: Paging, count: u64) -> Self {
        let nodes = Nodes::OneOf(SMALL_PAGE_BYTES);
        Self { is_large: paging == Paging::Large, nodes, count, chains: 1 }
    }

    /// One line of each of so many pages of 2MB.
    pub(super) fn large_pages(count: u64) -> Self {
        let nodes = Nodes::OneOf(LARGE_PAGE_BYTES);
        Self { is_large: true, nodes, count, chains: 1 }
    }

    /// The same with so many chains.
    pub(super) fn chains(self, chains: usize) -> Self {
        Self { chains, ..self }
    }
}

/// All points for so much memory. The large pages that can be counted end with it.
pub(super) fn points(bytes: u64) -> Vec<Point> {
    let mut points = Vec::new();
    let most_lines = bytes / LINE_BYTES;
    // 16KB and more, three to an octave as far as caches of one core go.
    for lines in steps(256, most_lines, 3) {
        points.push(Point::lines(lines));
    }
    let most_pages = bytes / SMALL_PAGE_BYTES;
    for pages in steps(16, most_pages, 4) {
        points.extend([Paging::Small, Paging::Large].map(|paging| Point::pages(paging, pages)));
        points.push(Point::lines(pages));
    }
    for pages in steps(8, bytes / LARGE_PAGE_BYTES, 4) {
        points.extend([Point::large_pages(pages), Point::lines(pages)]);
    }
    let all_lines = Point::lines(most_lines);
    points.push(Point { is_large: false, ..all_lines });
    for chains in CHAINS {
        points.push(all_lines.chains(chains));
        points.extend(
            [Paging::Small, Paging::Large]
                .map(|paging| Point::pages(paging, most_pages).chains(chains)),
        );
    }
    points.sort_unstable();
    points.dedup();
    points
}

/// From `least` to `most`, so many to an octave; `most` is the last one.
fn steps(least: u64, most: u64, per_octave: u64) -> impl Iterator<Item = u64> {
    let octaves = (0..).map(move |octave| least << octave);
    let steps = octaves
        .flat_map(move |first| (0..per_octave).map(move |step| first + first * step / per_octave));
    steps.take_while(move |step| *step < most).chain([most])
}

/// Nanoseconds of every point in one round.
pub(super) type Values = BTreeMap<Point, f64>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_to_an_octave() {
        assert_eq!(steps(12, 50, 3).collect::<Vec<_>>(), [12, 16, 20, 24, 32, 40, 48, 50]);
        assert_eq!(steps(8, 8, 4).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn all_points_are_inside() {
        let bytes = 64 << 20;
        let points = points(bytes);
        assert!(points.iter().all(|point| point.count * point.nodes.bytes() <= bytes));
        for point in [
            Point::lines(1 << 20),
            Point::pages(Paging::Small, 1 << 14).chains(32),
            Point::large_pages(32),
            Point::lines(32),
            Point::pages(Paging::Large, 1024),
        ] {
            assert!(points.contains(&point), "{point:?}");
        }
    }
}
