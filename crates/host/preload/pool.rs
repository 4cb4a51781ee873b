//! The pool of anonymous mappings: one mapping, of which the program's calls of mmap get parts.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::begin::advise_layout;
use super::extents::Extents;
use super::plan::{LARGE_BYTES, PoolPlan};
use super::report::{self, Word};
use super::system::{
    FAILED, MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, READ_WRITE,
    advise, map, protect, sched_yield, unmap,
};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Runs of pages in use that the table has room for.
const RUNS: usize = 1 << 15;

/// First byte and length; 0 while there is no pool.
static START: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// Whether other mappings were put into the pool (MAP_FIXED).
static HAS_OTHERS: AtomicBool = AtomicBool::new(false);

/// The pages in use and the layout; a lock guards them.
struct Guarded {
    extents: Extents<RUNS>,
    plan: Option<PoolPlan>,
}

struct Lock {
    is_held: AtomicBool,
    guarded: UnsafeCell<Guarded>,
}

// SAFETY: `with` lets one thread at a time at what is guarded.
unsafe impl Sync for Lock {}

static POOL: Lock = Lock {
    is_held: AtomicBool::new(false),
    guarded: UnsafeCell::new(Guarded { extents: Extents::new(), plan: None }),
};

pub extern "C" fn lock() {
    while POOL.is_held.swap(true, Ordering::Acquire) {
        // SAFETY: only gives the processor to others.
        unsafe { sched_yield() };
    }
}

pub extern "C" fn unlock() {
    POOL.is_held.store(false, Ordering::Release);
}

fn with<T>(act: impl FnOnce(&mut Guarded) -> T) -> T {
    lock();
    // SAFETY: this thread has the lock, and `act` does not take it again.
    let outcome = act(unsafe { &mut *POOL.guarded.get() });
    unlock();
    outcome
}

/// Reserves the pool and gives it its layout; returns its address.
pub fn begin(plan: PoolPlan) -> Option<usize> {
    if plan.bytes == 0 {
        return None;
    }
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a new mapping, of which only the ends beyond 2MB boundaries are given back.
    let start = unsafe {
        let found = map(0, plan.bytes + LARGE_BYTES, READ_WRITE, flags, -1, 0);
        if found == FAILED {
            return None;
        }
        let start = found.next_multiple_of(LARGE_BYTES);
        let before = start - found;
        if before > 0 {
            unmap(found, before);
        }
        if before < LARGE_BYTES {
            unmap(start + plan.bytes, LARGE_BYTES - before);
        }
        start
    };
    advise_layout(&plan, start, 0..plan.bytes);
    with(|pool| {
        pool.plan = Some(plan);
        pool.extents.set_pages((plan.bytes / PAGE_BYTES) as u32);
    });
    BYTES.store(plan.bytes, Ordering::Release);
    START.store(start, Ordering::Release);
    Some(start)
}

/// Where a range lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// All of it in the pool.
    Inside,
    /// None of it.
    Outside,
    /// Partly.
    Across,
}

/// Where a range lies.
pub fn place(address: usize, bytes: usize) -> Place {
    let start = START.load(Ordering::Acquire);
    let end = start + BYTES.load(Ordering::Acquire);
    let last = address.saturating_add(bytes);
    if start == 0 || last <= start || address >= end {
        Place::Outside
    } else if address >= start && last <= end {
        Place::Inside
    } else {
        Place::Across
    }
}

fn page_of(address: usize) -> u32 {
    ((address - START.load(Ordering::Acquire)) / PAGE_BYTES) as u32
}

fn pages(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX)
}

/// Takes memory, all zeros, readable and writable; none if there is no room.
pub fn take(bytes: usize) -> Option<usize> {
    let start = START.load(Ordering::Acquire);
    if start == 0 || bytes == 0 {
        return None;
    }
    let found = with(|pool| {
        let page = pool.extents.take(pages(bytes));
        report::set(Word::MappedHighest, pool.extents.highest() as usize * PAGE_BYTES);
        page
    });
    if found.is_none() {
        report::add(Word::MappedOutside, bytes);
    }
    found.map(|page| start + page as usize * PAGE_BYTES)
}

/// Takes this memory of the pool if it is free.
pub fn take_at(address: usize, bytes: usize) -> bool {
    with(|pool| {
        let is_taken = pool.extents.take_at(page_of(address), pages(bytes));
        report::set(Word::MappedHighest, pool.extents.highest() as usize * PAGE_BYTES);
        is_taken
    })
}

/// Takes memory of the pool where a fixed mapping is put, whether it is in use or not.
pub fn occupy(address: usize, bytes: usize, is_other: bool) {
    HAS_OTHERS.fetch_or(is_other, Ordering::AcqRel);
    with(|pool| {
        pool.extents.release(page_of(address), pages(bytes));
        pool.extents.take_at(page_of(address), pages(bytes));
    });
}

/// Makes a part of the pool zeros again.
///
/// # Safety
/// Nobody needs its contents.
pub unsafe fn clear(address: usize, bytes: usize, protection: c_int) -> bool {
    let bytes = bytes.next_multiple_of(PAGE_BYTES);
    // SAFETY: promised by the caller; the fixed mapping lies in the pool.
    unsafe {
        if !HAS_OTHERS.load(Ordering::Acquire)
            && advise(address, bytes, MADV_DONTNEED)
            && protect(address, bytes, protection)
        {
            return true;
        }
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        if map(address, bytes, protection, flags, -1, 0) == FAILED {
            return false;
        }
    }
    let start = START.load(Ordering::Acquire);
    if let Some(plan) = with(|pool| pool.plan) {
        advise_layout(&plan, start, address - start..address - start + bytes);
    }
    true
}

/// Gives a part of the pool back.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn release(address: usize, bytes: usize) -> bool {
    // SAFETY: promised by the caller. It is cleared before another thread can take it.
    let is_clear = unsafe { clear(address, bytes, READ_WRITE) };
    if is_clear {
        with(|pool| pool.extents.release(page_of(address), pages(bytes)));
    }
    is_clear
}
