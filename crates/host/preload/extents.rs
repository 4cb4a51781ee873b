//! Allocation state of a pool: the pages in use, as runs in a table of fixed size.

/// A run of pages in use: first page, and the page after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: u32,
    end: u32,
}

/// Runs of pages in use in a pool, sorted by address and separated by free pages. Holds at most `N` runs.
#[derive(Debug)]
pub struct Extents<const N: usize> {
    runs: [Run; N],
    count: usize,
    /// Size of the pool in pages.
    pages: u32,
    /// Page of the pool after the highest page that was ever in use.
    highest: u32,
}

impl<const N: usize> Extents<N> {
    /// Creates the table of a pool of 0 pages.
    pub const fn new() -> Self {
        Self { runs: [Run { start: 0, end: 0 }; N], count: 0, pages: 0, highest: 0 }
    }

    /// Sets the size of the pool in pages.
    pub fn set_pages(&mut self, pages: u32) {
        self.pages = pages;
    }

    /// Page of the pool after the highest page that was ever in use.
    pub fn highest(&self) -> u32 {
        self.highest
    }

    /// Allocates `pages` pages by first fit and returns the first page. `None` if no free run is large
    /// enough.
    pub fn take(&mut self, pages: u32) -> Option<u32> {
        let mut start = 0;
        for run in &self.runs[..self.count] {
            if run.start - start >= pages {
                break;
            }
            start = run.end;
        }
        (self.pages - start >= pages && self.take_at(start, pages)).then_some(start)
    }

    /// Allocates these pages. Returns false if the range is not free or the table of runs is full.
    pub fn take_at(&mut self, start: u32, pages: u32) -> bool {
        let Some(end) = start.checked_add(pages).filter(|end| *end <= self.pages) else {
            return false;
        };
        // The first run that does not end before `start`.
        let next = self.runs[..self.count].partition_point(|run| run.end <= start);
        if next < self.count && self.runs[next].start < end {
            return false;
        }
        let joins_before = next > 0 && self.runs[next - 1].end == start;
        let joins_after = next < self.count && self.runs[next].start == end;
        match (joins_before, joins_after) {
            (true, true) => {
                self.runs[next - 1].end = self.runs[next].end;
                self.remove(next);
            }
            (true, false) => self.runs[next - 1].end = end,
            (false, true) => self.runs[next].start = start,
            (false, false) if !self.insert(next, Run { start, end }) => return false,
            (false, false) => {}
        }
        self.highest = self.highest.max(end);
        true
    }

    /// Frees pages; free pages in the range stay free. If the table is full, pages in the middle of a
    /// run stay in use.
    pub fn release(&mut self, start: u32, pages: u32) {
        let end = start.saturating_add(pages).min(self.pages);
        let mut number = self.runs[..self.count].partition_point(|run| run.end <= start);
        while number < self.count && self.runs[number].start < end {
            let run = self.runs[number];
            match (run.start < start, run.end > end) {
                (false, false) => {
                    self.remove(number);
                    continue;
                }
                (true, false) => self.runs[number].end = start,
                (false, true) => self.runs[number].start = end,
                (true, true) => {
                    if self.insert(number + 1, Run { start: end, end: run.end }) {
                        self.runs[number].end = start;
                    }
                    return;
                }
            }
            number += 1;
        }
    }

    fn insert(&mut self, number: usize, run: Run) -> bool {
        if self.count == N {
            return false;
        }
        self.runs.copy_within(number..self.count, number + 1);
        self.runs[number] = run;
        self.count += 1;
        true
    }

    fn remove(&mut self, number: usize) {
        self.runs.copy_within(number + 1..self.count, number);
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs<const N: usize>(extents: &Extents<N>) -> Vec<(u32, u32)> {
        extents.runs[..extents.count].iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn first_fit() {
        let mut extents = Extents::<4>::new();
        assert_eq!(extents.take(1), None, "no pages yet");
        extents.set_pages(10);
        assert_eq!(
            (extents.take(4), extents.take(3), extents.take(3)),
            (Some(0), Some(4), Some(7))
        );
        assert_eq!((runs(&extents), extents.take(1)), (vec![(0, 10)], None));
        extents.release(2, 2);
        extents.release(6, 3);
        assert_eq!(runs(&extents), [(0, 2), (4, 6), (9, 10)]);
        assert_eq!(extents.take(3), Some(6));
        assert_eq!(runs(&extents), [(0, 2), (4, 10)]);
        assert_eq!(extents.take(2), Some(2));
        assert_eq!((runs(&extents), extents.highest()), (vec![(0, 10)], 10));
        extents.release(0, 100);
        assert_eq!(runs(&extents), []);
    }

    #[test]
    fn certain_pages() {
        let mut extents = Extents::<4>::new();
        extents.set_pages(10);
        assert!(extents.take_at(4, 2) && !extents.take_at(5, 2) && !extents.take_at(3, 2));
        assert!(!extents.take_at(9, 2), "beyond the end");
        assert!(extents.take_at(6, 1) && extents.take_at(3, 1));
        assert_eq!(runs(&extents), [(3, 7)]);
    }

    #[test]
    fn a_full_table_keeps_pages_in_use() {
        let mut extents = Extents::<1>::new();
        extents.set_pages(10);
        assert_eq!(extents.take(9), Some(0));
        extents.release(3, 2);
        assert_eq!(runs(&extents), [(0, 9)], "no room for two runs");
        extents.release(0, 2);
        assert_eq!(runs(&extents), [(2, 9)]);
        assert!(!extents.take_at(0, 1), "nor here");
    }
}
