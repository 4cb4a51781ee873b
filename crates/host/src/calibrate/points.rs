//! Points of measurement: chases through increasing amounts of memory.

use std::collections::BTreeMap;

use super::region::Nodes;
use crate::benchmark::Paging;

const LINE_BYTES: u64 = 64;
const SMALL_PAGE_BYTES: u64 = 4096;
const LARGE_PAGE_BYTES: u64 = 2 << 20;
/// Numbers of parallel pointer chains for which chases are measured.
pub(super) const CHAINS: [usize; 9] = [2, 4, 6, 8, 12, 16, 20, 24, 32];

/// Parameters of one measured pointer chase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    /// True if the pointer chase's memory is in 2MB pages.
    pub is_large: bool,
    /// Distance and position of the nodes in the pointer chase's memory.
    pub nodes: Nodes,
    /// Number of nodes in the pointer chase.
    pub count: u64,
    /// Number of pointer chains that are followed in parallel.
    pub chains: usize,
}

impl Point {
    /// Pointer chase through `count` consecutive cache lines in 2MB pages, which measures caches.
    pub(super) fn lines(count: u64) -> Self {
        Self { is_large: true, nodes: Nodes::Lines, count, chains: 1 }
    }

    /// Pointer chase through one cache line of each of `count` consecutive 4KB blocks.
    pub(super) fn pages(paging: Paging, count: u64) -> Self {
        let nodes = Nodes::OneOf(SMALL_PAGE_BYTES);
        Self { is_large: paging == Paging::Large, nodes, count, chains: 1 }
    }

    /// Pointer chase through one cache line of each of `count` 2MB pages.
    pub(super) fn large_pages(count: u64) -> Self {
        let nodes = Nodes::OneOf(LARGE_PAGE_BYTES);
        Self { is_large: true, nodes, count, chains: 1 }
    }

    /// Copy of the pointer chase with this number of parallel chains.
    pub(super) fn chains(self, chains: usize) -> Self {
        Self { chains, ..self }
    }
}

/// All pointer chases to measure in a region of `bytes` bytes, sorted. The largest chases fill the region.
pub(super) fn points(bytes: u64) -> Vec<Point> {
    let mut points = Vec::new();
    let most_lines = bytes / LINE_BYTES;
    // From 16KB up, three points per octave.
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

/// Sizes from `least` to `most`, with `per_octave` values in each octave (factor of two); `most` is the last
/// value.
fn steps(least: u64, most: u64, per_octave: u64) -> impl Iterator<Item = u64> {
    let octaves = (0..).map(move |octave| least << octave);
    let steps = octaves
        .flat_map(move |first| (0..per_octave).map(move |step| first + first * step / per_octave));
    steps.take_while(move |step| *step < most).chain([most])
}

/// Nanoseconds per access of every pointer chase, in one round.
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
