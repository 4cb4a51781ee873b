//! R-MAT graphs (Chakrabarti, Zhan, Faloutsos: R-MAT: a recursive model for graph mining, 2004).
//!
//! Each edge falls into one quarter of the adjacency matrix, with probabilities a, b, c, d, then into a
//! quarter of that quarter, and so on: one bit of row and column per level. The probabilities are the
//! defaults of the Problem Based Benchmark Suite, the source of paper G's graph benchmarks: a = 0.5, b
//! = c = 0.1, d = 0.3. Vertices are not renumbered.
//!
//! The bits of all levels are drawn at once, with probabilities of 16 binary digits. A whole graph is
//! drawn row by row. The number of edges in the lower half of the rows is binomial, and given its row,
//! an edge's column is independent of other edges. So the distribution is the same as for edges drawn
//! one by one.

use perforate_types::Random;

/// Number of binary digits of a probability from which edges are generated.
const DIGITS: usize = 16;
/// Probability that an edge falls into the lower half of the rows: c + d, where a, b, c and d are the R-MAT
/// probabilities of the quarters of the adjacency matrix (upper left and right, lower left and right).
const LOWER: u32 = probability(4, 10);
/// Probability that an edge in the upper half falls to the right: b ÷ (a + b).
const RIGHT_OF_UPPER: u32 = probability(1, 6);
/// Probability that an edge in the lower half falls to the right: d ÷ (c + d).
const RIGHT_OF_LOWER: u32 = probability(3, 4);

const fn probability(numerator: u32, denominator: u32) -> u32 {
    ((numerator << DIGITS) + denominator / 2) / denominator
}

/// Parameters of an R-MAT graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rmat {
    /// Number of times that the adjacency matrix is divided into quarters: the graph has 2^levels vertices,
    /// at most 2³².
    levels: u32,
    edges: u64,
    seed: u64,
}

/// Probabilities of 32 independent bits, 16 binary digits each; one word per digit, the least significant
/// first.
type Lanes = [u32; DIGITS];

impl Rmat {
    /// Makes a graph that fills `size_bytes` with vertices and edges: a power of two of vertices, with at
    /// least 10 edges each (the default of the benchmark suite) and at most about 20.
    pub(super) fn filling(size_bytes: u64, vertex_bytes: u64, edge_bytes: u64, seed: u64) -> Self {
        let levels = (size_bytes / (vertex_bytes + 10 * edge_bytes)).ilog2();
        let edges = (size_bytes - (vertex_bytes << levels)) / edge_bytes;
        Self { levels, edges, seed }
    }

    pub(super) fn vertices(&self) -> u64 {
        1 << self.levels
    }

    pub(super) fn edges(&self) -> u64 {
        self.edges
    }

    /// Generates edge `number` of the list of edges, which is in random order.
    #[inline]
    pub(super) fn edge(&self, number: u64) -> (u32, u32) {
        let mut random = Random::new(Random::new(self.seed.wrapping_add(number)).next());
        const ROW: Lanes = lanes(0, LOWER, LOWER);
        let row = self.cut(bits(&ROW, &mut random));
        (row, self.cut(bits(&columns(row), &mut random)))
    }

    /// Calls `visit` with each row of the adjacency matrix and the columns of its edges, in order of rows.
    /// Every call yields the same graph.
    pub(super) fn for_each_row(&self, mut visit: impl FnMut(u32, &[u32])) {
        let mut random = Random::new(self.seed);
        let mut targets = Vec::new();
        // Ranges of rows that are not split yet: level, first row, number of edges.
        let mut halves = vec![(self.levels, 0u64, self.edges)];
        while let Some((level, first, edges)) = halves.pop() {
            if level > 0 {
                let lower = binomial(edges, &mut random);
                halves.push((level - 1, first + (1 << (level - 1)), lower));
                halves.push((level - 1, first, edges - lower));
                continue;
            }
            let lanes = columns(first as u32);
            targets.clear();
            targets.extend((0..edges).map(|_| self.cut(bits(&lanes, &mut random))));
            visit(first as u32, &targets);
        }
    }

    fn cut(&self, bits: u32) -> u32 {
        (u64::from(bits) & ((1 << self.levels) - 1)) as u32
    }
}

/// Probabilities of 32 bits to be 1: `probability` for the bits that are set in `chosen`, `otherwise` for the
/// rest.
const fn lanes(chosen: u32, otherwise: u32, probability: u32) -> Lanes {
    let mut lanes = [0; DIGITS];
    let mut digit = 0;
    while digit < DIGITS {
        let of_chosen = if probability >> digit & 1 == 1 { chosen } else { 0 };
        let of_others = if otherwise >> digit & 1 == 1 { !chosen } else { 0 };
        lanes[digit] = of_chosen | of_others;
        digit += 1;
    }
    lanes
}

/// Probabilities of the bits of an edge's column to be 1, given the edge's row.
#[inline]
fn columns(row: u32) -> Lanes {
    lanes(row, RIGHT_OF_UPPER, RIGHT_OF_LOWER)
}

/// Generates 32 random bits. For each digit of a bit's probability, from the least significant: with
/// probability 1/2, the bit is replaced by the digit.
#[inline]
fn bits(lanes: &Lanes, random: &mut Random) -> u32 {
    let digit = |bits: u32, lanes: u32, coin: u32| (coin & (bits | lanes)) | (bits & lanes);
    let mut bits = 0;
    for pair in lanes.chunks_exact(2) {
        let coins = random.next();
        bits = digit(bits, pair[0], coins as u32);
        bits = digit(bits, pair[1], (coins >> 32) as u32);
    }
    bits
}

/// Generates the random number of edges, out of `count`, that fall into the lower half of the rows.
fn binomial(count: u64, random: &mut Random) -> u64 {
    const ALL: Lanes = lanes(0, LOWER, LOWER);
    let mut left = count;
    let mut lower = 0;
    while left > 0 {
        let some = left.min(32);
        let drawn = bits(&ALL, random) & (u32::MAX >> (32 - some));
        lower += u64::from(drawn.count_ones());
        left -= some;
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the edges in the four quarters at the first level, and by the last bits of row and column.
    fn quarters(edges: impl Iterator<Item = (u32, u32)>, levels: u32) -> [[u64; 4]; 2] {
        let mut counts = [[0; 4]; 2];
        for (row, column) in edges {
            for (level, shift) in [(0, levels - 1), (1, 0)] {
                let quarter = (row >> shift & 1) * 2 + (column >> shift & 1);
                counts[level][quarter as usize] += 1;
            }
        }
        counts
    }

    #[test]
    fn edges_fall_into_quarters_as_the_model_says() {
        let rmat = Rmat { levels: 12, edges: 400_000, seed: 3 };
        let mut by_row = Vec::new();
        rmat.for_each_row(|row, columns| by_row.extend(columns.iter().map(|&one| (row, one))));
        assert_eq!(by_row.len(), 400_000);
        assert!(by_row.is_sorted_by_key(|edge| edge.0));
        let one_by_one: Vec<_> = (0..400_000).map(|number| rmat.edge(number)).collect();
        for edges in [by_row, one_by_one] {
            for counts in quarters(edges.into_iter(), 12) {
                // Standard deviations are below 320; probabilities are exact to 2⁻¹⁷.
                for (count, expected) in counts.into_iter().zip([200_000, 40_000, 40_000, 120_000])
                {
                    assert!(count.abs_diff(expected) < 1500, "{counts:?}");
                }
            }
        }
    }

    #[test]
    fn a_graph_fills_the_size() {
        // 2^10 vertices of 16 bytes with 10 edges of 4 bytes take 57,344 bytes; the rest is filled with
        // edges.
        let rmat = Rmat::filling(60_000, 16, 4, 0);
        assert_eq!((rmat.vertices(), rmat.edges()), (1024, (60_000 - 16_384) / 4));
        let rmat = Rmat::filling(2 * 57_344, 16, 4, 0);
        assert_eq!((rmat.vertices(), rmat.edges()), (2048, 20_480));
    }
}
