//! Costs of system calls, for one page and for many pages.

use std::ffi::c_void;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr;

use super::derive::Call;
use super::{MANY_PAGES, PAGE_BYTES};
use crate::process_settings::thread_time;

/// Number of system calls for one page that are timed together, because one call is about as short as reading
/// the clock.
const CALLS: u64 = 256;
/// Number of repetitions of each system call for many pages.
const REPETITIONS: u64 = 4;

/// Anonymous memory in 4KB pages. Dropping the value unmaps the memory.
struct Mapping {
    start: *mut c_void,
    pages: u64,
}

impl Mapping {
    /// Maps and touches `pages` 4KB pages.
    fn new(pages: u64) -> io::Result<Self> {
        let length = (pages * PAGE_BYTES) as usize;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Self { start, pages };
        // Kernels without transparent huge pages refuse the advice, and do not need it.
        // SAFETY: the range is this mapping.
        unsafe { libc::madvise(start, length, libc::MADV_NOHUGEPAGE) };
        mapping.touch();
        Ok(mapping)
    }

    fn page(&self, number: u64) -> *mut c_void {
        assert!(number < self.pages, "pages are inside");
        // SAFETY: the page is one of this mapping's.
        unsafe { self.start.byte_add((number * PAGE_BYTES) as usize) }
    }

    fn touch(&self) {
        for number in 0..self.pages {
            // SAFETY: the page is mapped, and writable at every call of this function.
            unsafe { self.page(number).cast::<u8>().write_volatile(1) };
        }
    }

    fn protect(&self, first: u64, pages: u64, protection: i32) -> io::Result<()> {
        let length = (pages * PAGE_BYTES) as usize;
        // SAFETY: the pages belong to this mapping and have no other user.
        done(unsafe { libc::mprotect(self.page(first), length, protection) })
    }

    fn forget(&self, first: u64, pages: u64) -> io::Result<()> {
        let length = (pages * PAGE_BYTES) as usize;
        // SAFETY: the pages belong to this mapping, and their contents are not needed.
        done(unsafe { libc::madvise(self.page(first), length, libc::MADV_DONTNEED) })
    }

    fn unmap(&self, first: u64, pages: u64) -> io::Result<()> {
        let length = (pages * PAGE_BYTES) as usize;
        // SAFETY: the pages belong to this mapping and are not used afterwards.
        done(unsafe { libc::munmap(self.page(first), length) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let _ = self.unmap(0, self.pages);
    }
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Duration of `work` in nanoseconds of processor time.
fn time(work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let before = thread_time();
    work()?;
    Ok((thread_time() - before).as_nanos() as f64)
}

/// Combines the durations of a system call for one page and for many pages, in nanoseconds.
fn call(one_ns: f64, many_ns: f64) -> Call {
    Call { few: 1, one_ns, many: MANY_PAGES, many_ns }
}

/// Measures the duration of mprotect; half of the calls make pages read-only, half make them
/// writable again.
pub(super) fn protect() -> io::Result<Call> {
    const BOTH: [i32; 2] = [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE];
    let change = |mapping: &Mapping, times: u64| {
        time(|| {
            (0..times).try_for_each(|_| {
                BOTH.iter()
                    .try_for_each(|protection| mapping.protect(0, mapping.pages, *protection))
            })
        })
    };
    let one = change(&Mapping::new(1)?, CALLS)? / (2 * CALLS) as f64;
    let many = change(&Mapping::new(MANY_PAGES)?, REPETITIONS)? / (2 * REPETITIONS) as f64;
    Ok(call(one, many))
}

/// Measures the duration of munmap, for one page after another from the start of a mapping, and for
/// a whole mapping. The mappings are not dropped: another thread may have mapped something at the
/// unmapped addresses.
pub(super) fn unmap() -> io::Result<Call> {
    let mapping = ManuallyDrop::new(Mapping::new(CALLS)?);
    let one = time(|| (0..CALLS).try_for_each(|page| mapping.unmap(page, 1)))? / CALLS as f64;
    let mut many = 0.0;
    for _ in 0..REPETITIONS {
        let mapping = ManuallyDrop::new(Mapping::new(MANY_PAGES)?);
        many += time(|| mapping.unmap(0, MANY_PAGES))?;
    }
    Ok(call(one, many / REPETITIONS as f64))
}

/// Measures the duration of madvise with MADV_DONTNEED.
pub(super) fn advise() -> io::Result<Call> {
    let mapping = Mapping::new(CALLS)?;
    let one = time(|| (0..CALLS).try_for_each(|page| mapping.forget(page, 1)))? / CALLS as f64;
    let mapping = Mapping::new(MANY_PAGES)?;
    let mut many = 0.0;
    for _ in 0..REPETITIONS {
        many += time(|| mapping.forget(0, MANY_PAGES))?;
        mapping.touch();
    }
    Ok(call(one, many / REPETITIONS as f64))
}

/// Measures the duration of a fork of this process, with 1 touched page and with many more. The
/// child exits at once.
pub(super) fn fork() -> io::Result<Call> {
    let forked = |mapping: &Mapping| -> io::Result<f64> {
        let mut all = 0.0;
        for _ in 0..REPETITIONS {
            // Write to the pages that are shared with the last child, so that they are private again.
            mapping.touch();
            all += fork_once()?;
        }
        Ok(all / REPETITIONS as f64)
    };
    let one = forked(&Mapping::new(1)?)?;
    Ok(call(one, forked(&Mapping::new(MANY_PAGES)?)?))
}

fn fork_once() -> io::Result<f64> {
    let before = thread_time();
    // SAFETY: the child only exits. Its thread clock restarts from 0, so the child must not read it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: `_exit` runs no exit handlers of this process.
        unsafe { libc::_exit(0) };
    }
    let taken = (thread_time() - before).as_nanos() as f64;
    if child == -1 {
        return Err(io::Error::last_os_error());
    }
    let mut status = 0;
    // SAFETY: the child belongs to this process, and no other code waits for it.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child only ends");
    Ok(taken)
}
