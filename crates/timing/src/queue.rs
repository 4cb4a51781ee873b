//! Entries handed out and given back in order: the reorder buffer, the load and the store queue.

/// Entries numbered by who takes them: the first, the second, … Each is free again at the release
/// of who had it before.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    releases: Vec<u64>,
    /// Entries given back so far.
    released: u64,
    /// Where the next release is noted.
    next: usize,
    /// Entries taken so far.
    taken: u64,
}

impl Queue {
    pub(crate) fn new(entries: u32) -> Self {
        Self { releases: vec![0; entries as usize], released: 0, next: 0, taken: 0 }
    }

    /// When `count` more entries are free; all, if there are not as many. `None` while that is not
    /// known.
    #[inline]
    pub(crate) fn free_at(&self, count: u64) -> Option<u64> {
        let entries = self.releases.len() as u64;
        let last = self.taken + count.min(entries);
        if last <= entries {
            return Some(0);
        }
        // The last of them is the one that was given back as number `last - entries`.
        let behind = self.released.checked_sub(last - entries)? + 1;
        // Release number `released` is in front of `next`, the one before it one place further.
        let behind = behind as usize;
        let place = if self.next >= behind {
            self.next - behind
        } else {
            self.next + self.releases.len() - behind
        };
        Some(self.releases[place])
    }

    /// Takes `count` entries.
    #[inline]
    pub(crate) fn take(&mut self, count: u64) {
        self.taken += count;
    }

    /// Gives an entry back at `time`; times do not fall.
    #[inline]
    pub(crate) fn release(&mut self, time: u64) {
        self.releases[self.next] = time;
        self.released += 1;
        self.next += 1;
        if self.next == self.releases.len() {
            self.next = 0;
        }
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
