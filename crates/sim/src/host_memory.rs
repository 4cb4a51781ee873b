//! Checks that this computer has enough memory to simulate a large mapping or a workload.
//!
//! A simulated 4KB page takes memory of this computer: an entry in the kernel's records, an owner,
//! and an entry in the simulated tables. Populating a mapping of terabytes at once would exhaust
//! the memory, and the program would be killed without an error message. So the memory is estimated
//! first. The same applies to workloads that store the contents of their data.

use perforate_os::{Fragmentation, KernelConfig};
use perforate_schemes::segment;
use perforate_types::ProgramEvent;
use perforate_workloads::WorkloadSpec;

use crate::{MemoryState, Scheme, SimError};

/// Bytes of this computer's memory per mapped 4KB page: measured with `cargo bench -p perforate-sim
/// --bench memory`, plus the eight bytes of the simulated entry.
const HOST_BYTES_PER_PAGE: u64 = 24;

/// Estimate of this computer's memory that the simulated mappings of a scheme take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostMemory {
    scheme: &'static str,
    /// Share of pages that need a 4KB entry, in a level-1 node or in the node for a perforated
    /// page's holes.
    small_share: f64,
    /// Size of the simulated memory in bytes, which limits the amount of mapped memory.
    memory_bytes: u64,
    /// Available memory of this computer in bytes; `None` if unknown.
    available_bytes: Option<u64>,
}

impl HostMemory {
    /// Creates the estimate for a scheme. Reads the amount of memory that this computer has
    /// available now.
    pub(crate) fn new(scheme: &Scheme, memory: &MemoryState, config: &KernelConfig) -> Self {
        Self {
            scheme: scheme.name,
            small_share: small_share(scheme, memory, config.fragmentation),
            memory_bytes: memory.kernel.memory_bytes,
            available_bytes: available_bytes(),
        }
    }

    /// Checks an event: a mapping that is populated at once must fit into this computer's memory.
    ///
    /// # Errors
    /// [`SimError::HostMemory`] if the mapping needs more memory than is available.
    pub(crate) fn check(&self, event: &ProgramEvent) -> Result<(), SimError> {
        let ProgramEvent::Map { length, populate: true, .. } = *event else { return Ok(()) };
        let pages = length.min(self.memory_bytes) / 4096;
        let needed_bytes = (pages as f64 * self.small_share) as u64 * HOST_BYTES_PER_PAGE;
        match self.available_bytes {
            Some(available_bytes) if needed_bytes > available_bytes => {
                let scheme = self.scheme.into();
                Err(SimError::HostMemory { scheme, needed_bytes, available_bytes })
            }
            _ => Ok(()),
        }
    }
}

/// Checks that this computer has enough memory for a workload's data, before the data are created.
///
/// # Errors
/// [`SimError::WorkloadMemory`] if the data need more memory than is available.
pub(crate) fn check_workload(spec: &WorkloadSpec) -> Result<(), SimError> {
    fits(spec, available_bytes())
}

fn fits(spec: &WorkloadSpec, available_bytes: Option<u64>) -> Result<(), SimError> {
    let needed_bytes = spec.host_bytes();
    match available_bytes {
        Some(available_bytes) if needed_bytes > available_bytes => {
            let workload = spec.to_string();
            Err(SimError::WorkloadMemory { workload, needed_bytes, available_bytes })
        }
        _ => Ok(()),
    }
}

/// Returns the estimated share of pages in regions for which a scheme has a node of 4KB entries.
/// The node for a perforated page's holes has room for all 512 entries, however many holes there
/// are.
fn small_share(scheme: &Scheme, memory: &MemoryState, fragmentation: Option<Fragmentation>) -> f64 {
    let maps_large =
        (scheme.policy)(&memory.policy_options()).is_ok_and(|policy| policy.maps_large());
    if !maps_large && !segment::is_used_by(scheme) && scheme.gap_tolerance.is_none() {
        return 1.0;
    }
    fragmentation.map_or(0.0, |fragmentation| fragmentation.portion.value())
}

/// Returns `MemAvailable` of `/proc/meminfo`, in bytes; `None` if unknown.
fn available_bytes() -> Option<u64> {
    available_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns `MemAvailable` of the text of `/proc/meminfo`, in bytes. The kernel's kB are 1024 bytes.
fn available_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use perforate_types::{Backing, Permissions, VirtualAddress};

    use super::*;

    #[test]
    fn available_memory_is_in_kilobytes_of_1024_bytes() {
        let text = "MemTotal:  9000 kB\nMemFree:   1 kB\nMemAvailable:    3000 kB\n";
        assert_eq!(available_in(text), Some(3000 * 1024));
        assert_eq!(available_in("MemTotal: 9000 kB\n"), None);
    }

    #[test]
    fn a_terabyte_in_4kb_pages_takes_six_gigabytes() {
        let map = ProgramEvent::Map {
            start: VirtualAddress::new(1 << 30),
            length: 1 << 40,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: true,
        };
        let with = |small_share, available_bytes| HostMemory {
            scheme: "4k",
            small_share,
            memory_bytes: 1 << 41,
            available_bytes,
        };
        let error = with(1.0, Some(6 << 30)).check(&map);
        assert!(error.is_ok(), "2^28 pages of 24 bytes");
        let error = with(1.0, Some((6 << 30) - 1)).check(&map).unwrap_err().to_string();
        assert!(error.contains("4k") && error.contains("6.0 GB"), "{error}");
        assert!(with(0.5, Some(4 << 30)).check(&map).is_ok());
        assert!(with(1.0, None).check(&map).is_ok());
    }

    #[test]
    fn workloads_with_contents_need_memory_for_them() {
        let spec = |text| WorkloadSpec::parse(text).unwrap();
        let error = fits(&spec("rmat-bfs:size=8G"), Some((8 << 30) - 1)).unwrap_err().to_string();
        assert!(error.contains("rmat-bfs:size=8G") && error.contains("8.0 GB"), "{error}");
        assert!(!error.contains('\n'));
        assert!(fits(&spec("rmat-bfs:size=8G"), Some(8 << 30)).is_ok());
        assert!(fits(&spec("rmat-bfs:size=8G"), None).is_ok());
        assert!(fits(&spec("gups:size=64G"), Some(0)).is_ok(), "nothing is kept of the table");
    }

    #[test]
    fn large_pages_need_next_to_nothing() {
        let fragmentation: Fragmentation =
            perforate_config::read("portion=50%,holes=20%,clustered").unwrap();
        let memory = MemoryState::default();
        let share = |name: &str, given| small_share(Scheme::find(name).unwrap(), &memory, given);
        assert_eq!(share("4k", None), 1.0);
        assert_eq!(share("thp", None), 0.0);
        assert_eq!(share("thp", Some(fragmentation)), 0.5);
        assert_eq!(share("perforated", Some(fragmentation)), 0.5);
    }

    /// Only what is populated at once is estimated, and no more than there is memory.
    #[test]
    fn what_is_not_populated_or_beyond_memory_takes_nothing() {
        let map = |length, populate| ProgramEvent::Map {
            start: VirtualAddress::new(1 << 30),
            length,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate,
        };
        let memory = |available_bytes| HostMemory {
            scheme: "4k",
            small_share: 1.0,
            memory_bytes: 1 << 30,
            available_bytes: Some(available_bytes),
        };
        assert!(memory(0).check(&map(1 << 20, false)).is_ok());
        assert!(memory(0).check(&ProgramEvent::Exec).is_ok());
        // A gigabyte has 2^18 pages.
        assert!(memory(24 << 18).check(&map(1 << 40, true)).is_ok());
        let error = memory((24 << 18) - 1).check(&map(1 << 40, true));
        let Err(SimError::HostMemory { scheme, needed_bytes, available_bytes }) = error else {
            panic!("{error:?}")
        };
        assert_eq!((&*scheme, needed_bytes, available_bytes), ("4k", 24 << 18, (24 << 18) - 1));
    }

    #[test]
    fn schemes_of_segments_and_superpages_have_few_small_pages() {
        let fragmentation: Fragmentation =
            perforate_config::read("portion=25%,holes=20%,clustered").unwrap();
        let memory = MemoryState::default();
        for (name, without, with) in [
            ("4k", 1.0, 1.0),
            ("segment", 0.0, 0.25),
            ("segment-l1", 0.0, 0.25),
            ("gt-pde-process", 0.0, 0.25),
            ("1g", 0.0, 0.25),
        ] {
            let scheme = Scheme::find(name).unwrap();
            assert_eq!(small_share(scheme, &memory, None), without, "{name}");
            assert_eq!(small_share(scheme, &memory, Some(fragmentation)), with, "{name}");
        }
    }
}
