//! Swap space in slots of 4KB, each with the content of one page that has no frame.

use std::collections::BTreeMap;

use super::{FRAME_BYTES, expect};

/// Swap slots in use, with the number of pages that refer to each.
#[derive(Debug, Default)]
pub(crate) struct Swap {
    slots: u64,
    used: u64,
    /// Number of the slot that was allocated last. Numbers are not reused, because positions on the
    /// device do not matter here, only the number of used slots.
    next: u64,
    /// Slots that several pages refer to (after a fork) → number of these pages.
    shared: BTreeMap<u64, u64>,
}

impl Swap {
    /// Creates a swap space of `bytes` bytes, rounded down to whole slots.
    pub(super) fn new(bytes: u64) -> Self {
        Self { slots: bytes / FRAME_BYTES, ..Self::default() }
    }

    /// Number of free slots.
    pub(crate) fn free_slots(&self) -> u64 {
        self.slots - self.used
    }

    /// Number of slots in use.
    pub(crate) fn used_slots(&self) -> u64 {
        self.used
    }

    /// Allocates a slot for one page; `None` if swap is full.
    pub(crate) fn take(&mut self) -> Option<u64> {
        if self.free_slots() == 0 {
            return None;
        }
        self.used += 1;
        self.next += 1;
        Some(self.next)
    }

    /// Adds a reference of a page to the slot.
    pub(crate) fn share(&mut self, slot: u64) {
        *self.shared.entry(slot).or_insert(1) += 1;
    }

    /// Drops a reference to the slot. Dropping the last one frees it. Returns true if other pages
    /// still refer to the slot.
    pub(crate) fn release(&mut self, slot: u64) -> bool {
        let Some(pages) = self.shared.get_mut(&slot) else {
            self.used -= 1;
            return false;
        };
        *pages -= 1;
        if *pages == 1 {
            self.shared.remove(&slot);
        }
        true
    }
    /// Compares the slots in use with `pages_of_slots`: number of pages that refer to each slot. An error
    /// describes the first difference.
    pub(super) fn check(&self, pages_of_slots: &BTreeMap<u64, u64>) -> Result<(), String> {
        expect("slots", self.used, pages_of_slots.len() as u64)?;
        let shared = pages_of_slots.iter().filter(|&(_, &pages)| pages > 1);
        expect("shared slots", &self.shared, &shared.map(|(&slot, &pages)| (slot, pages)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_slot_is_free_after_its_last_page() {
        let mut swap = Swap::new(3 * 4096 - 1);
        assert_eq!(swap.free_slots(), 2, "half a slot is none");
        let first = swap.take().unwrap();
        let second = swap.take().unwrap();
        assert_eq!(swap.take(), None);
        swap.share(first);
        swap.share(first);
        assert_eq!(swap.used_slots(), 2, "sharing takes no room");
        assert!(swap.release(first) && swap.release(first));
        assert!(!swap.release(second));
        assert_eq!(swap.used_slots(), 1);
        assert!(!swap.release(first));
        assert_eq!(swap.free_slots(), 2);
    }
}
