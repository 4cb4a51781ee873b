//! Memory of the host under a virtual machine.

use perforate_os::Fragmentation;
use perforate_types::PageSize;

use crate::{MemoryState, SimError};

impl MemoryState {
    /// Returns the default size of the host's memory in bytes. It has room for all of the guest's
    /// memory, for page tables, and for the frames that `fragmentation` gives to other programs.
    pub(super) fn room_for_host(&self, fragmentation: Option<Fragmentation>) -> u64 {
        let foreign = fragmentation.map_or(0.0, |fragmentation| {
            let holes = fragmentation.hole_share.value();
            fragmentation.portion.value() * holes / (1.0 - holes).max(0.1)
        });
        let share = 1.25 + foreign;
        // The guest's physical address space is larger than its memory: it includes room for hot-added
        // memory.
        let guest_bytes = self.kernel.memory_bytes + self.kernel.hot_add_bytes();
        let bytes = (guest_bytes as f64 * share) as u64 + (512 << 20);
        bytes.min(Self::MAXIMUM_BYTES) & !(PageSize::Size2M.bytes() - 1)
    }

    /// Checks that a guest with this memory fits into the memory of its host, or that the host can
    /// swap.
    ///
    /// # Errors
    /// [`SimError::GuestTooLarge`] if neither is the case.
    pub(crate) fn check_host(&self) -> Result<(), SimError> {
        let (guest_bytes, host) = (self.kernel.memory_bytes, self.host());
        let host_bytes = host.kernel.memory_bytes;
        if host_bytes <= guest_bytes && host.kernel.swap.bytes() == 0 {
            return Err(SimError::GuestTooLarge { guest_bytes, host_bytes });
        }
        Ok(())
    }

    /// Returns the host's memory. If no option describes it, it has room for the guest, and is
    /// neither fragmented nor aged.
    pub fn host(&self) -> Self {
        if let Some(host) = &self.host {
            return (**host).clone();
        }
        Self::of(self.room_for_host(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryOptions, MemorySnapshot};

    fn guest(options: &[(&str, &str)]) -> MemoryState {
        let given = [("memory", "4G")].iter().chain(options).copied().collect();
        MemoryOptions::read(given).unwrap().resolve(&MemorySnapshot::load).unwrap()
    }

    #[test]
    fn a_host_has_room_for_its_guest() {
        let alone = guest(&[]);
        assert_eq!(alone.host().kernel.memory_bytes, (4 << 30) / 4 * 5 + (512 << 20));
        let fragmented = guest(&[("host-fragmentation", "portion=50%,holes=50%,clustered")]).host();
        assert_eq!(fragmented.kernel.memory_bytes, (4 << 30) / 4 * 7 + (512 << 20));
        assert!(fragmented.kernel.fragmentation.is_some());
        assert_eq!(guest(&[("host-defrag", "never")]), alone, "that is the default");
    }

    #[test]
    fn a_guest_larger_than_its_host_needs_swap() {
        let small = guest(&[("host-memory", "2G")]);
        let message = small.check_host().unwrap_err().to_string();
        assert!(
            message.contains("larger host-memory") && message.contains("host-swap"),
            "{message}"
        );
        let swapping = guest(&[("host-memory", "2G"), ("host-swap", "4G")]);
        assert_eq!(swapping.host().kernel.memory_bytes, 2 << 30);
        assert!(swapping.check_host().is_ok());
    }

    #[test]
    fn a_host_has_room_for_what_is_added_and_for_foreign_frames() {
        let bytes = |options: &[(&str, &str)]| guest(options).host().kernel.memory_bytes;
        const QUARTER: u64 = 1 << 30;
        const MORE: u64 = 512 << 20;
        assert_eq!(bytes(&[("hot-add", "4G")]), 10 * QUARTER + MORE);
        // Holes take 0.5 × 0.2 ÷ 0.8 of the guest's memory, and no more than ten times its share.
        let some = ("host-fragmentation", "portion=50%,holes=20%,clustered");
        assert_eq!(bytes(&[some]), 5 * QUARTER + QUARTER / 2 + MORE);
        let all = ("host-fragmentation", "portion=100%,holes=100%,clustered");
        assert_eq!(bytes(&[all]), 45 * QUARTER + MORE);
        let largest = MemoryState::of(MemoryState::MAXIMUM_BYTES);
        assert_eq!(largest.host().kernel.memory_bytes, MemoryState::MAXIMUM_BYTES);
    }

    /// The hypervisor needs some memory of its own, so that a host of the same size is too small.
    #[test]
    fn a_host_is_larger_than_its_guest() {
        for (host, is_enough) in [("4G", false), ("4098M", true)] {
            let checked = guest(&[("host-memory", host)]).check_host();
            assert_eq!(checked.is_ok(), is_enough, "{host}: {checked:?}");
        }
        assert!(guest(&[]).check_host().is_ok());
        // Swap of the guest does not make its host larger.
        let swapping = guest(&[("host-memory", "2G"), ("swap", "8G")]);
        assert!(swapping.check_host().is_err());
    }
}
