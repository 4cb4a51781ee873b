//! Entries handed out and given back in order: the reorder buffer, the load and the store queue.

/// Entries numbered by who takes them: the first, the second, … Each is free again at the release
/// of who had it before.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    entries: u64,
    /// Times at which entries were given back: release number n modulo the places, of which there are a power
    /// of two and at least as many as entries.
    releases: Vec<u64>,
    /// Entries given back so far.
    released: u64,
    /// Entries taken so far.
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

    /// Time from which `count` more entries are free, or all if the queue has fewer. `None` while that is not
    /// known.
    #[inline]
    pub(crate) fn free_at(&self, count: u64) -> Option<u64> {
        let Some(number) = self.awaited(count) else { return Some(0) };
        (number < self.released).then(|| self.releases[self.place(number)])
    }

    /// Number of the release that `count` more entries wait for, counted from 0; `None` if they have
    /// never been taken.
    #[inline]
    pub(crate) fn awaited(&self, count: u64) -> Option<u64> {
        (self.taken + count.min(self.entries)).checked_sub(self.entries + 1)
    }

    /// Takes `count` entries of the queue.
    #[inline]
    pub(crate) fn take(&mut self, count: u64) {
        self.taken += count;
    }

    /// Gives an entry back at `time`; times do not fall.
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
