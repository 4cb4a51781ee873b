//! Pointer chases through memory in pages of one size.

use std::io;

use crate::benchmark::{AnonymousMemory, Paging, scattered};
use crate::process_settings::thread_time;

const LINE_BYTES: u64 = 64;
/// Maximum number of parallel chains in a pointer chase.
pub(super) const MAX_CHAINS: usize = 32;
/// Number of accesses of each chain in the trial run that determines the length of a run.
const FIRST_STEPS: u64 = 2_000;

/// Distance and position of a pointer chase's nodes. No prefetcher predicts the order of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nodes {
    /// One node in each of consecutive cache lines.
    Lines,
    /// One node, at a varying offset, in each block of this many bytes.
    OneOf(u64),
}

impl Nodes {
    /// Distance between neighbouring nodes in memory, in bytes.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Lines => LINE_BYTES,
            Self::OneOf(bytes) => bytes,
        }
    }

    /// Offset in memory of the cache line that holds a node, in bytes.
    fn offset(self, node: u64) -> u64 {
        let lines = self.bytes() / LINE_BYTES;
        // The upper bits of a product with an odd number are well mixed.
        let mixed = node.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        node * self.bytes() + mixed % lines * LINE_BYTES
    }
}

/// Memory in pages of one size that holds a pointer chase.
pub(super) struct Region {
    memory: AnonymousMemory,
    /// Nodes from which the parallel chains of the next run of the pointer chase start: at first, nodes at
    /// equal distances in the cycle; then the nodes at which the previous run ended.
    starts: [*const u64; MAX_CHAINS],
}

impl Region {
    /// Allocates and touches `bytes` bytes in pages of size `paging`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn new(bytes: u64, paging: Paging) -> io::Result<Self> {
        let mut memory = AnonymousMemory::new(bytes, paging == Paging::Large)?;
        memory.touch(0..bytes);
        Ok(Self { memory, starts: [std::ptr::null(); MAX_CHAINS] })
    }

    /// Share of the region that is in 2MB pages, 0–1.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn large_share(&self) -> io::Result<f64> {
        Ok(self.memory.residency()?.large_share())
    }

    /// Links the first `count` nodes of the region into one cycle of pointers.
    pub(super) fn link(&mut self, nodes: Nodes, count: u64) {
        assert!(count > 0 && count * nodes.bytes() <= self.memory.bytes(), "nodes are inside");
        let base: *mut u8 = self.memory.as_mut_slice().as_mut_ptr();
        // SAFETY: the node is one of the first `count`, which are inside.
        let place = |node: u64| unsafe { base.add(nodes.offset(node) as usize) }.cast::<u64>();
        let size = count.next_power_of_two().max(2);
        let mut order = (0..size).map(|place| scattered(place, size)).filter(|node| *node < count);
        let first = place(order.next().expect("there is a node"));
        let mut last = first;
        let distance = count.div_ceil(MAX_CHAINS as u64);
        self.starts = [first; MAX_CHAINS];
        for (position, node) in (1..).zip(order) {
            let next = place(node);
            // SAFETY: `last` is inside and aligned.
            unsafe { last.write(next as u64) };
            last = next;
            if u64::is_multiple_of(position, distance) {
                self.starts[(position / distance) as usize] = next;
            }
        }
        // SAFETY: as above.
        unsafe { last.write(first as u64) };
    }

    /// Processor time per access in nanoseconds, with this number of chains, over a run of about
    /// `run_nanoseconds`.
    pub(super) fn nanoseconds(&mut self, chains: usize, run_nanoseconds: u64) -> f64 {
        let first = self.time(chains, FIRST_STEPS).max(1.0);
        let steps = (run_nanoseconds as f64 / first * FIRST_STEPS as f64) as u64;
        let steps = steps.clamp(FIRST_STEPS, 1 << 32);
        self.time(chains, steps) / (steps * chains as u64) as f64
    }

    /// Duration in nanoseconds of `steps` accesses in each chain. The next run continues at the
    /// nodes where this one ended.
    fn time(&mut self, chains: usize, steps: u64) -> f64 {
        let follow = match chains {
            1 => follow::<1>,
            2 => follow::<2>,
            4 => follow::<4>,
            6 => follow::<6>,
            8 => follow::<8>,
            12 => follow::<12>,
            16 => follow::<16>,
            20 => follow::<20>,
            24 => follow::<24>,
            32 => follow::<32>,
            _ => unreachable!("{chains} chains are never measured"),
        };
        // Spread the starts of the chains evenly.
        let start = |chain: usize| chain * MAX_CHAINS / chains;
        let mut ends: Vec<_> = (0..chains).map(|chain| self.starts[start(chain)]).collect();
        let before = thread_time();
        follow(&mut ends, steps);
        let taken = (thread_time() - before).as_nanos() as f64;
        for (chain, end) in ends.into_iter().enumerate() {
            self.starts[start(chain)] = end;
        }
        taken
    }

    /// Reads all cache lines of the region in order. Returns nanoseconds per line.
    pub(super) fn stream(&mut self) -> f64 {
        let before = thread_time();
        let lines = std::hint::black_box(read_lines(self.memory.as_mut_slice()));
        (thread_time() - before).as_nanos() as f64 / lines as f64
    }
}

/// Reads a word of each cache line of the memory. Returns the number of lines.
pub(super) fn read_lines(memory: &[u8]) -> u64 {
    let (lines, _) = memory.as_chunks::<{ LINE_BYTES as usize }>();
    for line in lines {
        // SAFETY: a reference can be read.
        unsafe { std::ptr::from_ref(&line[0]).read_volatile() };
    }
    lines.len() as u64
}

#[inline(never)]
fn follow<const CHAINS: usize>(ends: &mut [*const u64], steps: u64) {
    let mut at: [*const u64; CHAINS] = ends.try_into().expect("as many ends as chains");
    for _ in 0..steps {
        for end in &mut at {
            // SAFETY: `link` wrote the address of another node to every node.
            *end = unsafe { end.read_volatile() } as *const u64;
        }
    }
    ends.copy_from_slice(&at);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_chase_goes_through_every_node_once() {
        let mut region = Region::new(4 << 20, Paging::Small).unwrap();
        for (nodes, count) in [(Nodes::Lines, 1000), (Nodes::OneOf(4096), 1024), (Nodes::Lines, 1)]
        {
            region.link(nodes, count);
            let base = region.memory.as_mut_slice().as_ptr() as u64;
            let mut at = region.starts[0];
            let mut seen = HashSet::new();
            for _ in 0..count {
                let offset = at as u64 - base;
                assert!(seen.insert(offset / nodes.bytes()), "{nodes:?}: {offset} twice");
                assert!(offset < count * nodes.bytes() && offset.is_multiple_of(LINE_BYTES));
                // SAFETY: `at` is a node.
                at = unsafe { at.read() } as *const u64;
            }
            assert_eq!(at, region.starts[0], "a cycle");
        }
    }

    #[test]
    fn chains_start_at_different_nodes() {
        let mut region = Region::new(2 << 20, Paging::Small).unwrap();
        region.link(Nodes::Lines, 4096);
        assert_eq!(region.starts.iter().collect::<HashSet<_>>().len(), MAX_CHAINS);
        for chains in [1, 2, 4, 6, 8, 12, 16, 20, 24, 32] {
            assert!(region.nanoseconds(chains, 10_000) > 0.0, "{chains}");
        }
        assert!(region.stream() > 0.0);
    }

    #[test]
    fn lines_of_pages_are_scattered() {
        let lines: HashSet<u64> =
            (0..1000).map(|page| Nodes::OneOf(4096).offset(page) % 4096 / 64).collect();
        assert_eq!(lines.len(), 64);
        assert_eq!(Nodes::Lines.offset(7), 448);
    }
}
