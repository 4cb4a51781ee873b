//! Address patterns of loops within their data region.

use perforate_types::Random;

use crate::Pattern;
use crate::permutation::Permutation;
use crate::zipf::Zipf;

/// Size of an access in bytes: one 64-bit word.
pub(super) const WORD_BYTES: u64 = 8;

/// Size of a cache line in bytes.
const LINE_BYTES: u64 = 64;

/// Pattern of accesses to uniformly random words, as in GUPS.
pub(super) struct Uniform {
    words: u64,
    random: Random,
}

impl Uniform {
    pub(super) fn new(size_bytes: u64, seed: u64) -> Self {
        Self { words: size_bytes / WORD_BYTES, random: Random::new(seed) }
    }
}

impl Pattern for Uniform {
    #[inline]
    fn next_offset(&mut self) -> u64 {
        self.random.below(self.words) * WORD_BYTES
    }
}

/// Pattern of accesses at a constant distance, wrapping around at the end of the data region.
pub(super) struct Stride {
    size_bytes: u64,
    stride_bytes: u64,
    next: u64,
}

impl Stride {
    pub(super) fn new(size_bytes: u64, stride_bytes: u64) -> Self {
        Self { size_bytes, stride_bytes, next: 0 }
    }
}

impl Pattern for Stride {
    #[inline]
    fn next_offset(&mut self) -> u64 {
        let offset = self.next;
        self.next += self.stride_bytes;
        if self.next + WORD_BYTES > self.size_bytes {
            self.next = 0;
        }
        offset
    }
}

/// Pattern of accesses to items with Zipf-distributed popularity, scattered over the data region.
pub(super) struct Popular {
    item_bytes: u64,
    ranks: Zipf,
    places: Permutation,
    random: Random,
}

impl Popular {
    pub(super) fn new(size_bytes: u64, item_bytes: u64, exponent: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let items = size_bytes / item_bytes;
        let places = Permutation::new(items, &mut random);
        Self { item_bytes, ranks: Zipf::new(items, exponent), places, random }
    }
}

impl Pattern for Popular {
    #[inline]
    fn next_offset(&mut self) -> u64 {
        self.places.apply(self.ranks.draw(&mut self.random)) * self.item_bytes
    }
}

/// Pattern of a linked list through all nodes in random order, followed cyclically.
pub(super) struct Chase {
    nodes: u64,
    node_bytes: u64,
    /// Number of cache lines of a node that may contain its link.
    lines: u64,
    order: Permutation,
    next: u64,
}

impl Chase {
    pub(super) fn new(size_bytes: u64, node_bytes: u64, is_scattered: bool, seed: u64) -> Self {
        let nodes = size_bytes / node_bytes;
        let order = Permutation::new(nodes, &mut Random::new(seed));
        let lines = if is_scattered { (node_bytes / LINE_BYTES).max(1) } else { 1 };
        Self { nodes, node_bytes, lines, order, next: 0 }
    }

    /// Chooses the cache line of a node that contains its link; always the same for a node.
    fn line(&self, node: u64) -> u64 {
        if self.lines == 1 { 0 } else { Random::new(node).below(self.lines) }
    }
}

impl Pattern for Chase {
    #[inline]
    fn next_offset(&mut self) -> u64 {
        let node = self.order.apply(self.next);
        self.next = if self.next + 1 == self.nodes { 0 } else { self.next + 1 };
        node * self.node_bytes + self.line(node) * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chase_visits_every_node_once_per_round() {
        let mut chase = Chase::new(64 * 1000 + 63, 64, false, 3);
        let mut round = || {
            let mut offsets: Vec<u64> = (0..1000).map(|_| chase.next_offset()).collect();
            let first = offsets[0];
            offsets.sort_unstable();
            assert_eq!(offsets, (0..1000).map(|node| node * 64).collect::<Vec<_>>());
            first
        };
        assert_eq!(round(), round(), "the second round starts where the first did");
    }

    #[test]
    fn scattered_links_lie_anywhere_in_their_nodes_but_stay_there() {
        let mut chase = Chase::new(4096 * 1000, 4096, true, 3);
        let mut round = || (0..1000).map(|_| chase.next_offset()).collect::<Vec<_>>();
        let first = round();
        assert_eq!(first, round());
        assert!(first.iter().all(|offset| offset % 64 == 0));
        let pages: std::collections::BTreeSet<_> = first.iter().map(|o| o / 4096).collect();
        let lines: std::collections::BTreeSet<_> = first.iter().map(|o| o % 4096 / 64).collect();
        assert_eq!((pages.len(), lines.len()), (1000, 64));
    }

    #[test]
    fn a_stride_starts_over_at_the_end() {
        let mut stride = Stride::new(127, 40); // a word at 120 would end at 128, outside
        let offsets: Vec<u64> = (0..5).map(|_| stride.next_offset()).collect();
        assert_eq!(offsets, [0, 40, 80, 0, 40]);
    }
}
