//! Runs of wholly free 4MB chunks. Memory never touched is one long run, so it needs no record per
//! chunk.

use perforate_types::RangeMap;

/// A set of 4MB chunks of memory by number, stored as disjoint, non-adjacent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    chunks: RangeMap<()>,
    count: u64,
}

impl Runs {
    /// Number of 4MB chunks in the set.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Number of separate runs in the set.
    pub(super) fn pieces(&self) -> usize {
        self.chunks.len()
    }

    /// Runs in ascending order: first chunk, and first chunk after the run.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.chunks.iter().map(|(run, ())| (run.start, run.end))
    }

    /// The lowest chunk in the set.
    pub(super) fn lowest(&self) -> Option<u64> {
        self.iter().next().map(|(start, _)| start)
    }

    /// The highest chunk in the set.
    pub(super) fn highest(&self) -> Option<u64> {
        self.chunks.iter().next_back().map(|(run, ())| run.end - 1)
    }

    /// True if the chunk is in the set.
    pub(super) fn contains(&self, chunk: u64) -> bool {
        self.chunks.find(chunk).is_some()
    }

    /// First chunk after the run that contains `chunk`; `None` if the chunk is not in the set.
    pub(super) fn end_of(&self, chunk: u64) -> Option<u64> {
        self.chunks.find(chunk).map(|(run, ())| run.end)
    }

    /// The lowest multiple of `chunks` at which a run of `chunks` chunks starts.
    pub(super) fn lowest_aligned(&self, chunks: u64) -> Option<u64> {
        self.iter().find_map(|(start, end)| {
            let first = start.next_multiple_of(chunks);
            (first + chunks <= end).then_some(first)
        })
    }

    /// Adds the chunks `start..end`. None of them may be in the set.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        assert!(start < end && !self.contains(start) && !self.contains(end - 1), "freed twice");
        self.count += end - start;
        self.chunks.insert(start..end, ());
    }

    /// Removes the chunks `start..end`. All of them must be in the set.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        assert_eq!(self.chunks.remove(&(start..end)), [(start..end, ())], "in the set");
        self.count -= end - start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(parts: &[(u64, u64)]) -> Runs {
        let mut runs = Runs::default();
        parts.iter().for_each(|&(start, end)| runs.insert(start, end));
        runs
    }

    fn parts(runs: &Runs) -> Vec<(u64, u64)> {
        runs.iter().collect()
    }

    #[test]
    fn neighbours_merge_and_parts_are_cut_out() {
        let mut set = runs(&[(4, 6), (8, 12)]);
        assert_eq!((set.count(), set.pieces()), (6, 2));
        set.insert(6, 8);
        assert_eq!((parts(&set), set.count()), (vec![(4, 12); 1], 8));
        set.insert(13, 14);
        set.insert(2, 3);
        assert_eq!(parts(&set), [(2, 3), (4, 12), (13, 14)]);
        assert_eq!((set.lowest(), set.highest()), (Some(2), Some(13)));
        let contains = [1, 2, 3, 4, 11, 12, 13, 14].map(|chunk| set.contains(chunk));
        assert_eq!(contains, [false, true, false, true, true, false, true, false]);
        let ends = [1, 2, 3, 4, 11, 12, 13].map(|chunk| set.end_of(chunk));
        assert_eq!(ends, [None, Some(3), None, Some(12), Some(12), None, Some(14)]);
        for (start, end, expected) in [
            (4, 5, vec![(2, 3), (5, 12), (13, 14)]),
            (11, 12, vec![(2, 3), (5, 11), (13, 14)]),
            (7, 9, vec![(2, 3), (5, 7), (9, 11), (13, 14)]),
            (2, 3, vec![(5, 7), (9, 11), (13, 14)]),
        ] {
            set.remove(start, end);
            assert_eq!(parts(&set), expected);
            assert_eq!(set.count(), expected.iter().map(|(start, end)| end - start).sum::<u64>());
        }
        let none = Runs::default();
        assert_eq!((none.lowest(), none.highest(), none.contains(0)), (None, None, false));
    }

    #[test]
    fn the_lowest_aligned_run_is_found() {
        let set = runs(&[(1, 5), (6, 12), (15, 32)]);
        for (chunks, expected) in
            [(1, Some(1)), (2, Some(2)), (4, Some(8)), (8, Some(16)), (16, Some(16)), (32, None)]
        {
            assert_eq!(set.lowest_aligned(chunks), expected, "{chunks}");
        }
    }
}
