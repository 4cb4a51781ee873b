//! What a process says of itself to the kernel: where it runs, whether it may have large pages,
//! who is to go first when memory is short. All of it ends with the process.

use std::collections::BTreeSet;
use std::fs;
use std::io;

/// Keeps the calling thread, and what it starts, on one processor.
///
/// # Errors
/// If there is no such processor, or it is not ours to use.
pub fn pin(processor: usize) -> io::Result<()> {
    // SAFETY: a set of processors is plain bits, and all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if processor >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number lies inside the set, and the kernel reads as many bytes as there are.
    let result = unsafe {
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Turns transparent large pages off for this process and what it starts (PR_SET_THP_DISABLE,
/// inherited over fork and exec).
///
/// # Errors
/// If the kernel has no such setting (before Linux 3.15).
pub fn without_large_pages() -> io::Result<()> {
    let zero: libc::c_ulong = 0;
    let one: libc::c_ulong = 1;
    // SAFETY: the call takes numbers only.
    let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, one, zero, zero, zero) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes this process the first that the kernel kills when memory is short.
///
/// # Errors
/// If `/proc` cannot be written.
pub fn first_to_be_killed() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "1000")
}

/// Processor time of the calling thread, in nanoseconds.
pub(super) fn thread_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which this is.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "every thread has a clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processors that this process may run on, from `/proc/self/status`, lowest first.
pub(super) fn allowed_processors() -> Vec<usize> {
    parse_allowed(&fs::read("/proc/self/status").unwrap_or_default())
}

/// Processors that Linux can be built for at most (NR_CPUS).
const MOST_PROCESSORS: usize = 8192;

/// The list after `Cpus_allowed_list:`, such as `0-3,8`.
pub(crate) fn parse_allowed(text: &[u8]) -> Vec<usize> {
    let text = String::from_utf8_lossy(text);
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut processors = BTreeSet::new();
    for part in list.unwrap_or_default().trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            processors.extend(first..=last.min(MOST_PROCESSORS - 1));
        }
    }
    processors.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_is_not_there() {
        assert!(pin(usize::MAX).is_err());
        assert!(pin(1023).is_err());
    }

    #[test]
    fn the_clock_of_a_thread_goes_on() {
        let before = thread_nanoseconds();
        let mut sum = 0_u64;
        while thread_nanoseconds() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(thread_nanoseconds() > before);
    }

    #[test]
    fn processors_of_a_list() {
        assert_eq!(parse_allowed(b"x\nCpus_allowed_list:\t0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(parse_allowed(b"Cpus_allowed_list: 5-1,z,,-\n"), Vec::<usize>::new());
        assert_eq!(parse_allowed(b"Cpus_allowed_list: 8,0-3,2-4"), [0, 1, 2, 3, 4, 8]);
        let repeated = format!("Cpus_allowed_list: {}", "1-99999999,".repeat(1000));
        assert_eq!(parse_allowed(repeated.as_bytes()).len(), MOST_PROCESSORS - 1);
    }
}
