//! Advice about large pages that a recorded program has given to the kernel. A trace that starts in the
//! middle of the program repeats the advice.

use std::ops::Range;

use perforate_types::{Advice, ProgramEvent, RangeMap, VirtualAddress};

/// Address ranges that a process has advised MADV_HUGEPAGE or MADV_NOHUGEPAGE. Adjacent ranges with the same
/// advice are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdvisedRanges(RangeMap<Advice>);

impl AdvisedRanges {
    /// Records the advice of a call of madvise. Advice that is not about large pages changes nothing.
    pub fn advise(&mut self, range: Range<u64>, advice: Advice) {
        if matches!(advice, Advice::HugePage | Advice::NoHugePage) {
            self.0.remove(&range);
            self.0.insert(range, advice);
        }
    }

    /// Removes the advice in a range that is unmapped, or mapped anew.
    pub fn forget(&mut self, range: Range<u64>) {
        self.0.remove(&range);
    }

    /// Records a call of mremap: the advice moves with the memory. Memory added at the end gets the
    /// advice of the old end.
    pub fn remap(&mut self, from: Range<u64>, to: Range<u64>) {
        let moved = self.0.remove(&from);
        self.0.remove(&to);
        for (range, advice) in moved {
            let place = |address: u64| (address - from.start).saturating_add(to.start).min(to.end);
            let new_end = if range.end == from.end { to.end } else { place(range.end) };
            self.0.insert(place(range.start)..new_end, advice);
        }
    }

    /// True if there is advice for a part of the address range.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.0.overlaps(range)
    }

    /// Makes events that repeat the advice of all ranges, for a trace that starts in the middle of the
    /// program.
    pub fn events(&self) -> impl Iterator<Item = ProgramEvent> {
        self.0.iter().map(|(range, advice)| ProgramEvent::Advise {
            start: VirtualAddress::new(range.start),
            length: range.end - range.start,
            advice: *advice,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Advice::{DontNeed, HugePage, NoHugePage};

    fn found(ranges: &AdvisedRanges) -> Vec<(u64, u64, Advice)> {
        ranges.0.iter().map(|(range, advice)| (range.start, range.end, *advice)).collect()
    }

    #[test]
    fn later_advice_replaces_a_part_and_neighbours_join() {
        let mut ranges = AdvisedRanges::default();
        ranges.advise(0x1000..0x9000, NoHugePage);
        ranges.advise(0x3000..0x5000, HugePage);
        ranges.advise(0x1000..0x9000, DontNeed);
        let expected = [
            (0x1000, 0x3000, NoHugePage),
            (0x3000, 0x5000, HugePage),
            (0x5000, 0x9000, NoHugePage),
        ];
        assert_eq!(found(&ranges), expected);
        ranges.forget(0x4000..0x6000);
        assert!(ranges.overlaps(&(0x3fff..0x4000)) && !ranges.overlaps(&(0x4000..0x6000)));
        ranges.advise(0x3000..0x6000, NoHugePage);
        assert_eq!(found(&ranges), [(0x1000, 0x9000, NoHugePage)], "one again");
        assert_eq!(ranges.events().count(), 1);
    }

    #[test]
    fn advice_goes_with_memory_that_moves() {
        let mut ranges = AdvisedRanges::default();
        ranges.advise(0x1000..0x2000, NoHugePage);
        ranges.advise(0x2000..0x4000, HugePage);
        ranges.remap(0x1000..0x3000, 0x8000..0xb000);
        let expected =
            [(0x3000, 0x4000, HugePage), (0x8000, 0x9000, NoHugePage), (0x9000, 0xb000, HugePage)];
        assert_eq!(found(&ranges), expected);
        ranges.remap(0x8000..0xb000, 0x8000..0x8800);
        assert_eq!(found(&ranges), [(0x3000, 0x4000, HugePage), (0x8000, 0x8800, NoHugePage)]);
    }

    #[test]
    fn neighbours_of_one_advice_join_on_both_sides() {
        let mut ranges = AdvisedRanges::default();
        ranges.advise(0x1000..0x2000, HugePage);
        ranges.advise(0x3000..0x4000, HugePage);
        ranges.advise(0x4000..0x5000, NoHugePage);
        ranges.advise(0x7000..0x7000, HugePage);
        assert_eq!(ranges.events().count(), 3);
        ranges.advise(0x2000..0x3000, HugePage);
        assert_eq!(found(&ranges), [(0x1000, 0x4000, HugePage), (0x4000, 0x5000, NoHugePage)]);
        let overlaps = [0..0x1000, 0..0x1001, 0x4fff..0x5000, 0x5000..0x6000]
            .map(|range| ranges.overlaps(&range));
        assert_eq!(overlaps, [false, true, true, false]);
        ranges.forget(0x2000..0x2000);
        assert_eq!(ranges.events().count(), 2, "nothing lost");
        // Memory that grows has the advice of its old end, which goes on behind it.
        let mut ranges = AdvisedRanges::default();
        ranges.advise(0x2000..0x6000, HugePage);
        ranges.remap(0x1000..0x5000, 0x8000..0x10000);
        assert_eq!(found(&ranges), [(0x5000, 0x6000, HugePage), (0x9000, 0x10000, HugePage)]);
        // Of memory that moves onto other memory, the advice of that is gone; what becomes smaller loses its end.
        let mut ranges = AdvisedRanges::default();
        ranges.advise(0x1000..0x3000, HugePage);
        ranges.advise(0x8000..0xa000, NoHugePage);
        ranges.remap(0x1000..0x3000, 0x8000..0x9000);
        assert_eq!(found(&ranges), [(0x8000, 0x9000, HugePage), (0x9000, 0xa000, NoHugePage)]);
    }
}
