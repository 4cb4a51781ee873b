//! Wholly free 4MB chunks as runs, so that untouched memory costs nothing to remember.

use std::collections::BTreeMap;

/// A set of chunk numbers, kept as disjoint, non-adjacent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    /// First chunk of a run → the chunk after its last.
    ends: BTreeMap<u64, u64>,
    count: u64,
}

impl Runs {
    /// Number of chunks in the set.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Number of runs.
    pub(super) fn pieces(&self) -> usize {
        self.ends.len()
    }

    /// The runs in order: first chunk, and the chunk after the last.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ends.iter().map(|(&start, &end)| (start, end))
    }

    /// The lowest chunk.
    pub(super) fn lowest(&self) -> Option<u64> {
        self.ends.first_key_value().map(|(&start, _)| start)
    }

    /// The highest chunk.
    pub(super) fn highest(&self) -> Option<u64> {
        self.ends.last_key_value().map(|(_, &end)| end - 1)
    }

    /// Whether the chunk is in the set.
    pub(super) fn contains(&self, chunk: u64) -> bool {
        self.ends.range(..=chunk).next_back().is_some_and(|(_, &end)| chunk < end)
    }

    /// The chunk after the last of the run that the chunk is in.
    pub(super) fn end_of(&self, chunk: u64) -> Option<u64> {
        let (_, &end) = self.ends.range(..=chunk).next_back()?;
        (chunk < end).then_some(end)
    }

    /// The lowest multiple of `chunks` from which `chunks` are in the set.
    pub(super) fn lowest_aligned(&self, chunks: u64) -> Option<u64> {
        self.ends.iter().find_map(|(&start, &end)| {
            let first = start.next_multiple_of(chunks);
            (first + chunks <= end).then_some(first)
        })
    }

    /// Adds `start..end`, none of which is in the set.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        assert!(start < end && !self.contains(start) && !self.contains(end - 1), "freed twice");
        self.count += end - start;
        let (mut start, mut end) = (start, end);
        if let Some((&before, &before_end)) = self.ends.range(..start).next_back()
            && before_end == start
        {
            self.ends.remove(&before);
            start = before;
        }
        if let Some(after_end) = self.ends.remove(&end) {
            end = after_end;
        }
        self.ends.insert(start, end);
    }

    /// Removes `start..end`, all of which is in the set.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let (&run, &run_end) = self.ends.range(..=start).next_back().expect("in the set");
        assert!(end <= run_end, "in the set");
        self.count -= end - start;
        self.ends.remove(&run);
        if run < start {
            self.ends.insert(run, start);
        }
        if end < run_end {
            self.ends.insert(end, run_end);
        }
    }
}
