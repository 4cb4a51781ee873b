//! Properties of the machine derived from the measurements of one round.

use std::collections::BTreeSet;

use super::curve::Curve;
use super::points::{CHAINS, Point, Values};
use super::region::Nodes;
use crate::benchmark::Paging;

const LINE_BYTES: u64 = 64;

/// Sizes of caches and TLBs that the processor reports, otherwise those of the base machine file.
/// They decide which sections of the measured curves are evaluated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub l1_bytes: u64,
    pub l2_bytes: u64,
    pub l1_tlb_entries: u64,
    pub l1_large_tlb_entries: u64,
    pub l2_tlb_entries: u64,
    /// Size of the measured memory in bytes.
    pub bytes: u64,
    /// True if a TLB entry holds only 4KB of a 2MB page, because the host backs the page with 4KB
    /// pages.
    pub is_splintered: bool,
}

impl Expected {
    /// Pointer chase to subtract from a chase through `pages` 4KB pages, so that only the cost of translation
    /// is left: the same nodes in 2MB pages. If a TLB entry holds only 4KB of a 2MB page, adjacent cache
    /// lines instead.
    pub(super) fn untranslated(&self, pages: u64) -> Point {
        if self.is_splintered { Point::lines(pages) } else { Point::pages(Paging::Large, pages) }
    }
}

/// Measurements of one round of a calibration. All rounds measure the same.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub clock_ghz: f64,
    pub values: Values,
    /// Time per cache line of reading all memory of the calibration in order, in nanoseconds.
    pub stream_ns: f64,
    /// Duration of a load from memory while another processor reads memory, in nanoseconds. `None`
    /// with one processor.
    pub loaded_ns: Option<f64>,
}

impl Round {
    fn curve(&self, is_wanted: impl Fn(&Point) -> bool) -> Curve {
        let points = self.values.iter().filter(|(point, _)| point.chains == 1 && is_wanted(point));
        Curve::new(
            points.map(|(point, ns)| (point.count * point.nodes.bytes(), ns * self.clock_ghz)),
        )
    }

    /// Measured curve of the latency of a load in cycles against the bytes of consecutive cache lines that a
    /// pointer chase visits.
    fn lines(&self) -> Curve {
        self.curve(|point| point.is_large && point.nodes == Nodes::Lines)
    }

    /// Curve of the cycles per access that address translation adds, against the number of pages. `of`
    /// returns the pointer chase through a number of pages, and the chase without translation costs to
    /// subtract.
    fn more(&self, of: impl Fn(u64) -> [Point; 2]) -> Curve {
        let counts: BTreeSet<u64> = self.values.keys().map(|point| point.count).collect();
        let difference = |count| {
            let [with, without] = of(count).map(|point| self.values.get(&point));
            Some((count, (with? - without?) * self.clock_ghz))
        };
        Curve::new(counts.into_iter().filter_map(difference))
    }

    /// Curve of cycles per access that translation adds, against the number of 4KB pages.
    fn small_pages(&self, expected: &Expected) -> Curve {
        self.more(|count| [Point::pages(Paging::Small, count), expected.untranslated(count)])
    }

    /// Curve of cycles per access that translation adds, against the number of 2MB pages.
    fn large_pages(&self) -> Curve {
        self.more(|count| [Point::large_pages(count), Point::lines(count)])
    }

    pub(super) fn l1_cycles(&self, expected: &Expected) -> Option<f64> {
        self.lines().level(0.0, expected.l1_bytes as f64 / 2.0)
    }

    pub(super) fn l2_cycles(&self, expected: &Expected) -> Option<f64> {
        self.lines().level(3.0 * expected.l1_bytes as f64, expected.l2_bytes as f64 / 2.0)
    }

    /// Latency of the last-level cache in cycles, at the smallest sizes at which the L2 cache
    /// hardly helps. At larger sizes, other programs leave less of the last level.
    pub(super) fn llc_cycles(&self, expected: &Expected) -> Option<f64> {
        let l2 = expected.l2_bytes as f64;
        self.lines().level(3.0 * l2, 5.0 * l2)
    }

    pub(super) fn memory_ns(&self, expected: &Expected) -> Option<f64> {
        self.values.get(&Point::lines(expected.bytes / LINE_BYTES)).copied()
    }

    /// Size in bytes at which half of the loads miss a cache level, from the latencies of this
    /// level and the next in cycles.
    fn capacity(&self, here: Option<f64>, next: Option<f64>) -> Option<f64> {
        self.lines().rises_above(f64::midpoint(here?, next?))
    }

    pub(super) fn l1_bytes(&self, expected: &Expected) -> Option<f64> {
        self.capacity(self.l1_cycles(expected), self.l2_cycles(expected))
    }

    pub(super) fn l2_bytes(&self, expected: &Expected) -> Option<f64> {
        self.capacity(self.l2_cycles(expected), self.llc_cycles(expected))
    }

    pub(super) fn llc_bytes(&self, expected: &Expected) -> Option<f64> {
        let memory_cycles = self.memory_ns(expected)? * self.clock_ghz;
        self.capacity(self.llc_cycles(expected), Some(memory_cycles))
    }

    /// Cycles by which an access takes longer if it misses the L1 TLB and hits the L2 TLB.
    pub(super) fn l2_tlb_cycles(&self, expected: &Expected) -> Option<f64> {
        let (first, second) = (expected.l1_tlb_entries as f64, expected.l2_tlb_entries as f64);
        self.small_pages(expected).level(3.0 * first, second / 2.0)
    }

    pub(super) fn l1_tlb_entries(&self, expected: &Expected) -> Option<f64> {
        self.small_pages(expected).rises_above(self.l2_tlb_cycles(expected)? / 2.0)
    }

    pub(super) fn l1_large_tlb_entries(&self, expected: &Expected) -> Option<f64> {
        let curve = self.large_pages();
        let first = expected.l1_large_tlb_entries as f64;
        curve.rises_above(curve.level(3.0 * first, 12.0 * first)? / 2.0)
    }

    pub(super) fn l2_tlb_entries(&self, expected: &Expected) -> Option<f64> {
        let middle = f64::midpoint(self.l2_tlb_cycles(expected)?, self.walk_cycles(expected)?);
        self.small_pages(expected).rises_above(middle)
    }

    /// Duration of an L2 TLB miss in cycles while the page tables are in the nearest caches: with
    /// four times as many pages as the L2 TLB has entries.
    pub(super) fn walk_cycles(&self, expected: &Expected) -> Option<f64> {
        let pages = 4.0 * expected.l2_tlb_entries as f64;
        self.small_pages(expected).level(pages / 1.5, pages * 1.5)
    }

    /// Duration of an L2 TLB miss in nanoseconds, in a pointer chase through `pages` 4KB pages.
    pub(super) fn walk_ns(&self, expected: &Expected, pages: u64) -> Option<f64> {
        let cycles = self.small_pages(expected).level(pages as f64 / 1.1, pages as f64 * 1.1)?;
        Some(cycles / self.clock_ghz)
    }

    /// Number of loads from memory that can be outstanding: memory-level parallelism of independent pointer
    /// chains.
    pub(super) fn outstanding(&self, expected: &Expected) -> Option<f64> {
        let alone = Point::lines(expected.bytes / LINE_BYTES);
        Some(self.values.get(&alone)? / self.best(alone)?)
    }

    /// Number of line fills to the L2 cache that are outstanding while memory is read in order.
    pub(super) fn outstanding_in_order(&self, expected: &Expected) -> Option<f64> {
        Some(self.memory_ns(expected)? / self.stream_ns)
    }

    /// Number of page walks that run in parallel: the duration of one walk divided by the time per walk with
    /// many pointer chains in parallel.
    pub(super) fn walks_at_once(&self, expected: &Expected) -> Option<f64> {
        let pages = expected.bytes / 4096;
        Some(self.walk_ns(expected, pages)? / self.best(Point::pages(Paging::Small, pages))?)
    }

    /// Ratio of the times of parallel loads with and without page walks. Near 1, something other
    /// than page walks limits the loads.
    pub(super) fn slower_by_walks(&self, expected: &Expected) -> Option<f64> {
        let [small, large] = [Paging::Small, Paging::Large]
            .map(|paging| self.best(Point::pages(paging, expected.bytes / 4096)));
        Some(small? / large?)
    }

    /// Lowest time per load in nanoseconds, over all measured numbers of parallel chains; `alone` is the
    /// pointer chase with one chain.
    fn best(&self, alone: Point) -> Option<f64> {
        let values = CHAINS.iter().filter_map(|chains| self.values.get(&alone.chains(*chains)));
        values.copied().min_by(f64::total_cmp)
    }

    /// Translation cost of 4KB inside a 2MB page divided by that of a 4KB page. About 0 if a TLB
    /// entry holds the whole 2MB page; about 1 if it holds 4KB, as on a host that backs the page
    /// with 4KB pages.
    pub(super) fn splintered(&self, expected: &Expected) -> Option<f64> {
        let wanted = 4 * expected.l2_tlb_entries;
        let counts = self.values.keys().filter(|point| point.nodes == Nodes::OneOf(4096));
        let pages = counts.map(|point| point.count).min_by_key(|count| count.abs_diff(wanted))?;
        let ns = |point| self.values.get(&point).copied();
        let packed = ns(Point::lines(pages))?;
        let large = ns(Point::pages(Paging::Large, pages))?;
        let small = ns(Point::pages(Paging::Small, pages))?;
        Some((large - packed) / (small - packed))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::points::points;
    use super::*;

    pub(in super::super) const EXPECTED: Expected = Expected {
        l1_bytes: 48 << 10,
        l2_bytes: 2 << 20,
        l1_tlb_entries: 64,
        l1_large_tlb_entries: 32,
        l2_tlb_entries: 1024,
        bytes: 256 << 20,
        is_splintered: false,
    };

    /// Creates measurements of a 2 GHz machine with sharp steps: loads of 5, 15, 60 and 200 cycles
    /// from caches of 48KB, 2MB, 16MB and from memory; 7 and 37 cycles more beyond 64 and 1024
    /// pages of 4KB, 7 more beyond 32 pages of 2MB; 10 misses and 2 walks in parallel.
    pub(in super::super) fn round(is_splintered: bool) -> Round {
        let load = |bytes: u64| match bytes {
            0..=49_152 => 5.0,
            49_153..=2_097_152 => 15.0,
            2_097_153..=16_777_216 => 60.0,
            _ => 200.0,
        };
        let small = |pages: u64| match pages {
            0..=64 => 0.0,
            65..=1024 => 7.0,
            _ => 37.0,
        };
        let cycles = |point: &Point| {
            let access: f64 = load(point.count * LINE_BYTES);
            let walk = match point.nodes {
                Nodes::OneOf(4096) if !point.is_large || is_splintered => small(point.count),
                Nodes::OneOf(4096) | Nodes::Lines => 0.0,
                Nodes::OneOf(_) => {
                    if point.count > 32 {
                        7.0
                    } else {
                        0.0
                    }
                }
            };
            let chains = point.chains as f64;
            ((access + walk) / chains.min(10.0)).max(walk / chains.min(2.0))
        };
        Round {
            clock_ghz: 2.0,
            values: points(EXPECTED.bytes).into_iter().map(|p| (p, cycles(&p) / 2.0)).collect(),
            stream_ns: 5.0,
            loaded_ns: Some(150.0),
        }
    }

    fn near(value: Option<f64>, expected: f64, share: f64) {
        let value = value.unwrap();
        assert!((value / expected - 1.0).abs() <= share, "{value}, expected {expected}");
    }

    #[test]
    fn a_machine_with_sharp_steps_is_found() {
        let (round, expected) = (round(false), &EXPECTED);
        assert_eq!(round.l1_cycles(expected), Some(5.0));
        assert_eq!(round.l2_cycles(expected), Some(15.0));
        assert_eq!(round.llc_cycles(expected), Some(60.0));
        assert_eq!(round.memory_ns(expected), Some(100.0));
        // Measured sizes are a third or a quarter of an octave apart, and a step lies between two
        // sizes.
        near(round.l1_bytes(expected), 48.0 * 1024.0, 0.3);
        near(round.l2_bytes(expected), 2097152.0, 0.3);
        near(round.llc_bytes(expected), 16777216.0, 0.3);
        assert_eq!(round.l2_tlb_cycles(expected), Some(7.0));
        assert_eq!(round.walk_cycles(expected), Some(37.0));
        near(round.l1_tlb_entries(expected), 64.0, 0.25);
        near(round.l2_tlb_entries(expected), 1024.0, 0.25);
        near(round.l1_large_tlb_entries(expected), 32.0, 0.25);
        near(round.outstanding(expected), 10.0, 1e-9);
        near(round.outstanding_in_order(expected), 20.0, 1e-9);
        near(round.walks_at_once(expected), 2.0, 1e-9);
        assert!(round.slower_by_walks(expected).unwrap() > 2.0);
    }

    #[test]
    fn splintered_entries_are_detected() {
        near(round(true).splintered(&EXPECTED), 1.0, 1e-9);
        assert_eq!(round(false).splintered(&EXPECTED), Some(0.0));
        let splintered = Expected { is_splintered: true, ..EXPECTED };
        assert_eq!(round(true).walk_cycles(&splintered), Some(37.0));
        assert_eq!(round(true).walk_cycles(&EXPECTED), Some(0.0), "the difference of two walks");
    }
}
