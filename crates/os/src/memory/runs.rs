//! Runs of wholly free 4MB chunks. Memory never touched is one long run, so it needs no record per
//! chunk.

use std::collections::BTreeMap;

/// A set of 4MB chunks of memory by number, stored as disjoint, non-adjacent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    /// First chunk of each run → first chunk after the run.
    ends: BTreeMap<u64, u64>,
    count: u64,
}

impl Runs {
    /// Number of 4MB chunks in the set.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Number of separate runs in the set.
    pub(super) fn pieces(&self) -> usize {
        self.ends.len()
    }

    /// Runs in ascending order: first chunk, and first chunk after the run.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ends.iter().map(|(&start, &end)| (start, end))
    }

    /// The lowest chunk in the set.
    pub(super) fn lowest(&self) -> Option<u64> {
        self.ends.first_key_value().map(|(&start, _)| start)
    }

    /// The highest chunk in the set.
    pub(super) fn highest(&self) -> Option<u64> {
        self.ends.last_key_value().map(|(_, &end)| end - 1)
    }

    /// True if the chunk is in the set.
    pub(super) fn contains(&self, chunk: u64) -> bool {
        self.ends.range(..=chunk).next_back().is_some_and(|(_, &end)| chunk < end)
    }

    /// First chunk after the run that contains `chunk`; `None` if the chunk is not in the set.
    pub(super) fn end_of(&self, chunk: u64) -> Option<u64> {
        let (_, &end) = self.ends.range(..=chunk).next_back()?;
        (chunk < end).then_some(end)
    }

    /// The lowest multiple of `chunks` at which a run of `chunks` chunks starts.
    pub(super) fn lowest_aligned(&self, chunks: u64) -> Option<u64> {
        self.ends.iter().find_map(|(&start, &end)| {
            let first = start.next_multiple_of(chunks);
            (first + chunks <= end).then_some(first)
        })
    }

    /// Adds the chunks `start..end`. None of them may be in the set.
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

    /// Removes the chunks `start..end`. All of them must be in the set.
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
