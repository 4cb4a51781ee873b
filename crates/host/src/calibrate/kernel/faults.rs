//! Costs of page faults, clearing and copying.

use std::io;

use super::{BYTES, LARGE_BYTES, PAGE_BYTES};
use crate::benchmark::AnonymousMemory;
use crate::process_settings::thread_time;
use crate::validate::Spread;

/// Share of the memory that must be in 2MB pages so that its page faults count as faults of 2MB pages.
const MOSTLY: f64 = 0.95;

/// Processor time of `work` per unit (such as a page) in nanoseconds, if `work` handles `units` of these.
fn each(units: u64, work: impl FnOnce()) -> f64 {
    let before = thread_time();
    work();
    (thread_time() - before).as_nanos() as f64 / units as f64
}

/// Writes one byte every `distance` bytes of the memory.
fn touch(memory: &mut AnonymousMemory, distance: u64) {
    memory.as_mut_slice().iter_mut().step_by(distance as usize).for_each(write);
}

fn write(byte: &mut u8) {
    // SAFETY: a reference can be written. The compiler keeps volatile writes.
    unsafe { std::ptr::from_mut(byte).write_volatile(1) };
}

/// Gives all frames of the memory back. The next touches then get frames that were in use a moment
/// ago and that a hypervisor has backed, so that the hypervisor's work of finding memory is not
/// measured as the kernel's.
fn forget(memory: &mut AnonymousMemory) -> io::Result<()> {
    let memory = memory.as_mut_slice();
    // SAFETY: the range is mapped, and its contents are not needed.
    let result =
        unsafe { libc::madvise(memory.as_mut_ptr().cast(), memory.len(), libc::MADV_DONTNEED) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Duration of the first touch of a 4KB page, in nanoseconds.
pub(super) fn small() -> io::Result<f64> {
    let mut memory = AnonymousMemory::new(BYTES, false)?;
    touch(&mut memory, PAGE_BYTES);
    forget(&mut memory)?;
    Ok(each(BYTES / PAGE_BYTES, || touch(&mut memory, PAGE_BYTES)))
}

/// Median duration of the first touch of a 2MB page, in nanoseconds. `None` if the kernel gives
/// smaller pages.
pub(super) fn large() -> io::Result<Option<f64>> {
    let Ok(mut memory) = AnonymousMemory::new(BYTES, true) else { return Ok(None) };
    touch(&mut memory, LARGE_BYTES);
    forget(&mut memory)?;
    let pages = memory.as_mut_slice().chunks_exact_mut(LARGE_BYTES as usize);
    let times: Vec<f64> = pages.map(|page| each(1, || write(&mut page[0]))).collect();
    let residency = memory.residency()?;
    let is_large = residency.large_share() >= MOSTLY && residency.large_bytes >= BYTES;
    Ok(Spread::of(&times).filter(|_| is_large).map(|spread| spread.median))
}

/// Duration of clearing 4KB, in nanoseconds, in memory of 2MB pages if `is_large` and of 4KB pages
/// otherwise.
pub(super) fn clear(is_large: bool) -> io::Result<f64> {
    let mut memory = AnonymousMemory::new(BYTES, is_large)?;
    touch(&mut memory, PAGE_BYTES);
    let clear = |memory: &mut AnonymousMemory| {
        // Page by page, as the kernel does.
        for page in memory.as_mut_slice().chunks_exact_mut(PAGE_BYTES as usize) {
            std::hint::black_box(page).fill(0);
        }
    };
    Ok(each(BYTES / PAGE_BYTES, || clear(&mut memory)))
}

/// Duration of copying 4KB of memory, in nanoseconds.
pub(super) fn copy() -> io::Result<f64> {
    let mut memory = AnonymousMemory::new(BYTES, false)?;
    touch(&mut memory, PAGE_BYTES);
    let (from, to) = memory.as_mut_slice().split_at_mut(BYTES as usize / 2);
    let pages = || from.chunks_exact(PAGE_BYTES as usize);
    let number = pages().len() as u64;
    Ok(each(number, || {
        for (from, to) in pages().zip(to.chunks_exact_mut(PAGE_BYTES as usize)) {
            std::hint::black_box(to).copy_from_slice(std::hint::black_box(from));
        }
    }))
}
