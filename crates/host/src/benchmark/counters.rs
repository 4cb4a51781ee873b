//! Hardware counters of the calling thread, if `perf_event_open` allows them.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// The first version of `struct perf_event_attr` (64 bytes, linux/perf_event.h), which every kernel
/// accepts.
#[repr(C)]
struct Attributes {
    kind: u32,
    size_bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// PERF_TYPE_HW_CACHE.
const CACHE: u32 = 3;
/// Misses of loads in the data TLB: PERF_COUNT_HW_CACHE_DTLB, …_OP_READ, …_RESULT_MISS.
const DATA_TLB_LOAD_MISSES: u64 = 3 | 1 << 16;
/// exclude_kernel and exclude_hv; counting user mode needs no privilege.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// A counter of misses of loads in the data TLB, of the calling thread, user mode only.
pub struct TlbMisses(File);

impl TlbMisses {
    /// Starts counting.
    ///
    /// # Errors
    /// If the kernel refuses; in virtual machines without counters there is no such device.
    pub fn start() -> io::Result<Self> {
        let attributes = Attributes {
            kind: CACHE,
            size_bytes: size_of::<Attributes>() as u32,
            config: DATA_TLB_LOAD_MISSES,
            sample_period: 0,
            sample_type: 0,
            read_format: 0,
            flags: USER_ONLY,
            wakeup_events: 0,
            breakpoint_type: 0,
            breakpoint_address: 0,
        };
        // SAFETY: the kernel reads `size_bytes` bytes, the size of the structure.
        let descriptor = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, 0)
        };
        match i32::try_from(descriptor) {
            // SAFETY: a new descriptor that nothing else owns.
            Ok(descriptor) if descriptor >= 0 => Ok(Self(unsafe { File::from_raw_fd(descriptor) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Misses so far.
    ///
    /// # Errors
    /// If the counter cannot be read.
    pub fn read(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_size_of_the_first_version() {
        assert_eq!(size_of::<Attributes>(), 64);
    }

    #[test]
    fn counters_can_be_read_where_they_exist() {
        match TlbMisses::start() {
            Ok(mut counter) => assert!(counter.read().is_ok()),
            Err(error) => println!("skipped: no hardware counters here ({error})"),
        }
    }
}
