//! The memory of the host under a virtual machine.

use perforate_types::PageSize;

use crate::{
    Background, BackgroundOptions, MemorySnapshot, MemoryState, Past, PastOptions, SimError,
};

/// The texts of the options that say what the host's memory is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemoryOptions<'a> {
    /// `--host-memory`: a size.
    pub memory: Option<&'a str>,
    /// `--host-memory-from`, as `--memory-from`.
    pub memory_from: Option<&'a str>,
    /// `--host-fragmentation`, as `--fragmentation`.
    pub fragmentation: Option<&'a str>,
    /// `--host-age`, as `--age`.
    pub age: Option<&'a str>,
    /// `--host-faulty`, as `--faulty`.
    pub faulty: Option<&'a str>,
    /// `--host-swap`, as `--swap`.
    pub swap: Option<&'a str>,
    /// `--host-khugepaged`, as `--khugepaged`.
    pub khugepaged: Option<&'a str>,
    /// `--host-perforation`, as `--perforation`.
    pub perforation: Option<&'a str>,
    /// `--host-segment`, as `--segment`.
    pub segment: Option<&'a str>,
    /// `--host-superpages`, as `--superpages`.
    pub superpages: Option<&'a str>,
}

impl HostMemoryOptions<'_> {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == HostMemoryOptions::default()
    }

    /// The host's memory under a guest with `guest`.
    fn parse(&self, guest: &MemoryState) -> Result<MemoryState, SimError> {
        let background = Background::parse(BackgroundOptions {
            khugepaged: self.khugepaged,
            ..BackgroundOptions::default()
        })?;
        let past = Past::parse(PastOptions {
            age: self.age,
            faulty: self.faulty,
            swap: self.swap,
            ..PastOptions::default()
        })?;
        let mut host = MemoryState::parse(self.memory, self.fragmentation, self.perforation)?;
        if self.memory.is_none() {
            host.memory_bytes = room_for(guest, &host);
        }
        let host = host.with_past(past)?.with_segment(self.segment)?;
        let host = host.with_superpages(self.superpages)?;
        let host = match self.memory_from {
            Some(file) => host.with_snapshot(MemorySnapshot::beside(file, self.memory)?)?,
            None => host,
        };
        Ok(MemoryState { background, ..host })
    }
}

/// A host's memory in which the guest fits whatever it maps, with tables and what others have.
fn room_for(guest: &MemoryState, host: &MemoryState) -> u64 {
    let foreign = host.fragmentation.map_or(0.0, |fragmentation| {
        fragmentation.portion * fragmentation.hole_share / (1.0 - fragmentation.hole_share).max(0.1)
    });
    let past = if host.past.ageing.is_some() || host.past.faulty.is_some() { 0.5 } else { 0.0 };
    let share = 1.25 + foreign + past;
    // A guest's physical address space reaches beyond its memory: the I/O gap, and room to add.
    let guest_bytes = guest.memory_bytes + guest.past.hot_add_bytes;
    let bytes = (guest_bytes as f64 * share) as u64 + (512 << 20);
    bytes.min(MemoryState::MAXIMUM_BYTES) & !(PageSize::Size2M.bytes() - 1)
}

impl MemoryState {
    /// The same memory as that of a guest, over a host's that these options describe.
    ///
    /// # Errors
    /// As for the guest's own options, or a guest that does not fit.
    pub fn over(self, options: &HostMemoryOptions<'_>) -> Result<Self, SimError> {
        if options.is_empty() {
            return Ok(self);
        }
        let host = options.parse(&self).map_err(|error| error.of_host())?;
        Ok(Self { host: Some(Box::new(host)), ..self })
    }

    /// Checks that a guest with this memory fits into its host, or that the host can swap.
    ///
    /// # Errors
    /// [`SimError::GuestTooLarge`].
    pub(crate) fn check_host(&self) -> Result<(), SimError> {
        let (guest_bytes, host) = (self.memory_bytes, self.host());
        let host_bytes = host.memory_bytes;
        if host_bytes <= guest_bytes && host.past.swap_bytes == 0 {
            return Err(SimError::GuestTooLarge { guest_bytes, host_bytes });
        }
        Ok(())
    }

    /// The host's memory; where none is described, one with room for the guest and without a past.
    pub fn host(&self) -> Self {
        if let Some(host) = &self.host {
            return (**host).clone();
        }
        let host = Self {
            memory_bytes: 0,
            fragmentation: None,
            perforation: None,
            segment: None,
            superpages: None,
            snapshot: None,
            past: Past::default(),
            background: Background::default(),
            modes: None,
            host: None,
        };
        Self { memory_bytes: room_for(self, &host), ..host }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest() -> MemoryState {
        MemoryState::parse(Some("4G"), None, None).unwrap()
    }

    fn over(options: HostMemoryOptions<'_>) -> Result<MemoryState, String> {
        guest().over(&options).map(|memory| memory.host()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_host_has_room_for_its_guest() {
        assert_eq!(guest().host().memory_bytes, (4 << 30) / 4 * 5 + (512 << 20));
        let none = HostMemoryOptions::default();
        let fragmented =
            HostMemoryOptions { fragmentation: Some("portion=50%,holes=50%,clustered"), ..none };
        let host = over(fragmented).unwrap();
        assert_eq!(host.memory_bytes, (4 << 30) / 4 * 7 + (512 << 20));
        assert!(host.fragmentation.is_some());
    }

    #[test]
    fn a_guest_larger_than_its_host_needs_swap() {
        let none = HostMemoryOptions::default();
        let small = HostMemoryOptions { memory: Some("2G"), ..none };
        let message = guest().over(&small).unwrap().check_host().unwrap_err().to_string();
        assert!(message.contains("--host-memory") && message.contains("--host-swap"), "{message}");
        let host = over(HostMemoryOptions { swap: Some("4G"), ..small }).unwrap();
        assert_eq!(host.memory_bytes, 2 << 30);
        let message = over(HostMemoryOptions { memory: Some("2X"), ..none }).unwrap_err();
        assert!(message.starts_with("host: "), "{message}");
    }
}
