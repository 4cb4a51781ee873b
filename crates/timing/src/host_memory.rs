//! Host memory that a simulation takes: bytes on the computer that runs it.

use crate::cache::Cache;
use crate::config::{CacheConfig, TimingConfig};
use crate::translation::Translation;

/// Host bytes for each reorder-buffer entry, with the data on its accesses, walks and fills.
const IN_FLIGHT_BYTES: u64 = 1024;

impl TimingConfig {
    /// Host bytes for each entry of a translation unit, as counted by `slots` of
    /// [`Core::new`](crate::Core::new).
    pub const SLOT_BYTES: u64 = Translation::SLOT_BYTES;

    /// Memory that the simulator itself needs for each potentially large structure of one simulated core: the
    /// configuration key that sets the structure's size, the value of the key, and the bytes.
    pub fn host_bytes_of_core(&self) -> Vec<(&'static str, u64, u64)> {
        let predictor = &self.branch_predictor;
        let [table, indirect] =
            [predictor.table_entries, predictor.indirect_entries].map(u64::from);
        let window = u64::from(self.core.reorder_buffer_entries);
        let mut all = vec![
            of_cache("cache.l1i.size_bytes", &self.cache.l1i),
            of_cache("cache.l1d.size_bytes", &self.cache.l1d),
            of_cache("cache.l2.size_bytes", &self.cache.l2),
            // Three tables of bytes.
            ("branch_predictor.table_entries", table, table * 3),
            ("branch_predictor.indirect_entries", indirect, indirect * 8),
            ("core.reorder_buffer_entries", window, window * IN_FLIGHT_BYTES),
        ];
        all.extend(self.cache.walker.as_ref().map(|it| of_cache("cache.walker.size_bytes", it)));
        all
    }

    /// Host memory of the structures that all cores share, as in [`Self::host_bytes_of_core`].
    pub fn host_bytes_of_all_cores(&self) -> Vec<(&'static str, u64, u64)> {
        let llc = self.cache.llc.as_ref().map(|llc| of_cache("cache.llc.size_bytes", llc));
        let dram = &self.dram;
        let banks = [dram.channels, dram.ranks_per_channel, dram.banks_per_rank];
        let banks: u64 = banks.into_iter().map(u64::from).product();
        llc.into_iter()
            .chain([("dram.banks_per_rank", dram.banks_per_rank.into(), banks * 64)])
            .collect()
    }
}

fn of_cache(key: &'static str, cache: &CacheConfig) -> (&'static str, u64, u64) {
    (key, cache.size_bytes, Cache::host_bytes(cache))
}
