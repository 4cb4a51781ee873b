//! Rings of release times: the reorder buffer, the load queue, the store queue.

/// Entries handed out in order; each is free again at its release time.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    releases: Vec<u64>,
    next: usize,
}

impl Queue {
    pub(crate) fn new(entries: u32) -> Self {
        Self { releases: vec![0; entries as usize], next: 0 }
    }

    pub(crate) fn entries(&self) -> usize {
        self.releases.len()
    }

    /// When the entry after `taken` others is free.
    #[inline]
    pub(crate) fn free_at(&self, taken: usize) -> u64 {
        let mut place = self.next + taken;
        if place >= self.releases.len() {
            place -= self.releases.len();
        }
        self.releases[place]
    }

    /// Takes the next entry until `release`.
    #[inline]
    pub(crate) fn push(&mut self, release: u64) {
        self.releases[self.next] = release;
        self.next += 1;
        if self.next == self.releases.len() {
            self.next = 0;
        }
    }
}
