//! Queues whose entries are allocated and freed in program order: reorder buffer, load queue, store queue.

/// Entry allocator of one queue. Once all entries have been used, each allocation waits for the oldest
/// release that no earlier allocation has taken.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    entries: u64,
    /// Cycles of the latest releases: release number *n* at index *n* modulo the length, a power of two not
    /// below the number of entries.
    releases: Vec<u64>,
    /// Number of releases so far.
    released: u64,
    /// Number of allocations so far.
    taken: u64,
}

impl Queue {
    pub(crate) fn new(entries: u32) -> Self {
        let places = (entries as usize).next_power_of_two();
        Self { entries: entries.into(), releases: vec![0; places], released: 0, taken: 0 }
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.releases.len() - 1)
    }

    /// Cycle from which `count` more entries are free (all entries if the queue has fewer). `None` if a
    /// release that this waits for is not known yet.
    #[inline]
    pub(crate) fn free_at(&self, count: u64) -> Option<u64> {
        let Some(number) = self.awaited(count) else { return Some(0) };
        (number < self.released).then(|| self.releases[self.place(number)])
    }

    /// Number, from 0, of the release that allocating `count` more entries waits for; `None` if never-used
    /// entries suffice.
    #[inline]
    pub(crate) fn awaited(&self, count: u64) -> Option<u64> {
        (self.taken + count.min(self.entries)).checked_sub(self.entries + 1)
    }

    /// True if `count` more entries are free.
    #[inline]
    pub(crate) fn has_room(&self, count: u64) -> bool {
        self.taken + count <= self.released + self.entries
    }

    /// Allocates the next `count` entries of the queue.
    #[inline]
    pub(crate) fn take(&mut self, count: u64) {
        self.taken += count;
    }

    /// Frees the oldest allocated entry at cycle `time`. Calls must come with non-decreasing cycles.
    #[inline]
    pub(crate) fn release(&mut self, time: u64) {
        let place = self.place(self.released);
        self.releases[place] = time;
        self.released += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_free_when_they_were_given_back() {
        let mut queue = Queue::new(3);
        assert_eq!(queue.free_at(3), Some(0));
        queue.take(2);
        assert_eq!((queue.free_at(1), queue.free_at(2)), (Some(0), None));
        queue.release(10);
        assert_eq!((queue.free_at(2), queue.free_at(3)), (Some(10), None));
        queue.take(2);
        queue.release(20);
        queue.release(30);
        assert_eq!((queue.free_at(1), queue.free_at(2)), (Some(20), Some(30)));
        assert_eq!(queue.free_at(9), None, "all three: one of them is still taken");
        queue.release(40);
        assert_eq!(queue.free_at(9), Some(40));
    }
}
