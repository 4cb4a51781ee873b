//! Large pages for shared memory of a running program (`process_madvise` with MADV_COLLAPSE).
//!
//! Where `shmem_enabled` is `never`, which is the default, the kernel gives shared memory no large pages on a
//! first touch, whatever the advice, but collapses memory that was touched. Of other processes' memory it
//! takes only this advice and three others that change no page sizes.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Size of a 2MB page in bytes.
const LARGE_BYTES: u64 = 2 << 20;

/// Makes 2MB pages of the parts of an address range of a process that have been touched. Parts that cannot
/// be collapsed, such as those that were not touched, stay as they are. Stops after 200 ms, so that the rest
/// waits for the next call. Returns the number of pages made.
///
/// # Errors
/// If the kernel has no such call (before Linux 6.1), or this process may not make it.
pub(super) fn collapse(process: u32, range: &Range<u64>) -> io::Result<u64> {
    let process = Pid::from_raw(process as i32).ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let started = Instant::now();
    let mut made = 0;
    let first = range.start.next_multiple_of(LARGE_BYTES);
    for start in (first..range.end).step_by(LARGE_BYTES as usize) {
        if start + LARGE_BYTES > range.end || started.elapsed().as_millis() > 200 {
            break;
        }
        let part = libc::iovec { iov_base: start as *mut _, iov_len: LARGE_BYTES as usize };
        // SAFETY: the call reads one iovec; it keeps the contents of the other process's memory.
        let done = unsafe {
            let (number, advice) = (libc::SYS_process_madvise, libc::MADV_COLLAPSE);
            libc::syscall(number, process.as_raw_fd(), &part, 1_usize, advice, 0_u32)
        };
        match (done, io::Error::last_os_error()) {
            (0.., _) => made += 1,
            (_, error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            (_, error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            (_, error) if error.raw_os_error() == Some(libc::ENOMEM) => break,
            (_, error) => return Err(error),
        }
    }
    Ok(made)
}
