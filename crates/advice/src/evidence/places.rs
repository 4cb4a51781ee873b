//! Places: named memory of a process.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use crate::AreaKind;

/// Memory of one process with its name and kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Process ID of the operating system.
    pub process: u32,
    /// Name as in `/proc/PID/maps`; empty for memory without a name.
    pub name: String,
    /// Kind of the memory.
    pub kind: AreaKind,
    /// Addresses of the memory in bytes.
    pub bytes: Range<u64>,
}

/// Mappings of one process, of which later ones replace earlier ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Mappings(BTreeMap<u64, (u64, usize)>);

impl Mappings {
    /// Removes the mappings in a range.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        for address in [range.start, range.end] {
            if let Some((_, (end, label))) = self.0.range_mut(..address).next_back()
                && *end > address
            {
                let upper = (*end, *label);
                *end = address;
                self.0.insert(address, upper);
            }
        }
        let inside: Vec<u64> = self.0.range(range.clone()).map(|(start, _)| *start).collect();
        for start in inside {
            self.0.remove(&start);
        }
    }

    /// Adds a mapping with a number for its name and kind.
    pub(super) fn insert(&mut self, range: &Range<u64>, label: usize) {
        self.remove(range);
        if !range.is_empty() {
            self.0.insert(range.start, (range.end, label));
        }
    }

    /// Mappings in order of address. Neighbours with the same number are joined.
    pub(super) fn joined(&self) -> Vec<(Range<u64>, usize)> {
        let mut joined: Vec<(Range<u64>, usize)> = Vec::new();
        for (&start, &(end, label)) in &self.0 {
            match joined.last_mut() {
                Some((last, same)) if last.end == start && *same == label => last.end = end,
                _ => joined.push((start..end, label)),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_mappings_cut_earlier_ones() {
        let mut mappings = Mappings::default();
        mappings.insert(&(10..50), 1);
        mappings.insert(&(20..30), 2);
        mappings.insert(&(50..60), 1);
        mappings.remove(&(25..27));
        mappings.insert(&(70..70), 3);
        let expected = [(10..20, 1), (20..25, 2), (27..30, 2), (30..60, 1)];
        assert_eq!(mappings.joined(), expected);
    }
}
