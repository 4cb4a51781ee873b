//! Store-to-load forwarding: a load of what a store in the store queue is about to write.

/// Recent stores remembered, by address; more than any store queue holds.
const REMEMBERED: usize = 128;
const GRANULE_SHIFT: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Store {
    granule: u64,
    data_ready: u64,
    released: u64,
}

/// The youngest store to each of some 8-byte granules.
#[derive(Clone, Debug)]
pub(crate) struct RecentStores {
    stores: Vec<Store>,
}

impl RecentStores {
    pub(crate) fn new() -> Self {
        let nothing = Store { granule: u64::MAX, data_ready: 0, released: 0 };
        Self { stores: vec![nothing; REMEMBERED] }
    }

    /// Notes a store whose data are known from `data_ready` on and in the cache at `released`.
    #[inline]
    pub(crate) fn push(&mut self, address: u64, data_ready: u64, released: u64) {
        let granule = address >> GRANULE_SHIFT;
        self.stores[granule as usize % REMEMBERED] = Store { granule, data_ready, released };
    }

    /// When the store queue has the data for a load at `now`, if it holds a store to them.
    #[inline]
    pub(crate) fn forward(&self, address: u64, now: u64) -> Option<u64> {
        let granule = address >> GRANULE_SHIFT;
        let store = self.stores[granule as usize % REMEMBERED];
        (store.granule == granule && store.released > now).then_some(store.data_ready.max(now))
    }
}
