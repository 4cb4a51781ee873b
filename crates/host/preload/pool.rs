//! The pool of anonymous mappings: one large mapping from which the program's mmap calls are served.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::begin::advise_layout;
use super::extents::Extents;
use super::plan::{LARGE_BYTES, PoolPlan};
use super::system::{
    FAILED, MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, READ_WRITE,
    advise, map, protect, sched_yield, unmap,
};
use super::words::Word;

/// Bytes of a 4KB page.
pub const PAGE_BYTES: usize = 4096;
/// Capacity of the table of runs of pages in use.
const RUNS: usize = 1 << 15;

/// Address of the pool; 0 while there is no pool.
static START: AtomicUsize = AtomicUsize::new(0);
/// Length of the pool in bytes; 0 while there is no pool.
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// True once the program has mapped something else over part of the pool (MAP_FIXED).
static HAS_OTHERS: AtomicBool = AtomicBool::new(false);

/// Allocation state and layout of the pool, protected by the lock.
struct Guarded {
    extents: Extents<RUNS>,
    plan: Option<PoolPlan>,
}

struct Lock {
    is_held: AtomicBool,
    guarded: UnsafeCell<Guarded>,
}

// SAFETY: `with` gives one thread at a time access to the guarded state.
unsafe impl Sync for Lock {}

static POOL: Lock = Lock {
    is_held: AtomicBool::new(false),
    guarded: UnsafeCell::new(Guarded { extents: Extents::new(), plan: None }),
};

pub extern "C" fn lock() {
    while POOL.is_held.swap(true, Ordering::Acquire) {
        // SAFETY: the call only yields the processor.
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

/// Reserves the pool of anonymous mappings and applies its layout. Returns the address of the pool, a
/// multiple of 2MB.
pub fn begin(plan: PoolPlan) -> Option<usize> {
    if plan.bytes == 0 {
        return None;
    }
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a new mapping; only its ends outside the 2MB boundaries are unmapped.
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

/// Position of an address range relative to the pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The whole range is in the pool.
    Inside,
    /// No part of the range is in the pool.
    Outside,
    /// The range is partly in the pool.
    Across,
}

/// Locates an address range relative to the pool.
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

/// Allocates zeroed memory that can be read and written. `None` if the pool has no room.
pub fn take(bytes: usize) -> Option<usize> {
    let start = START.load(Ordering::Acquire);
    if start == 0 || bytes == 0 {
        return None;
    }
    let found = with(|pool| {
        let page = pool.extents.take(pages(bytes));
        Word::MappedHighest.set(pool.extents.highest() as usize * PAGE_BYTES);
        page
    });
    if found.is_none() {
        Word::MappedOutside.add(bytes);
    }
    found.map(|page| start + page as usize * PAGE_BYTES)
}

/// Allocates this memory of the pool, if the whole range is free.
pub fn take_at(address: usize, bytes: usize) -> bool {
    with(|pool| {
        let is_taken = pool.extents.take_at(page_of(address), pages(bytes));
        Word::MappedHighest.set(pool.extents.highest() as usize * PAGE_BYTES);
        is_taken
    })
}

/// Marks memory under a fixed mapping as in use. `is_other` is true if the mapping is not the pool's
/// own memory.
pub fn occupy(address: usize, bytes: usize, is_other: bool) {
    HAS_OTHERS.fetch_or(is_other, Ordering::AcqRel);
    with(|pool| {
        pool.extents.release(page_of(address), pages(bytes));
        pool.extents.take_at(page_of(address), pages(bytes));
    });
}

/// Makes a part of the pool zero again, with this protection. Returns false if the system refuses.
///
/// # Safety
/// Nothing else uses the memory's contents.
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

/// Frees a part of the pool. Returns false if the memory cannot be cleared.
///
/// # Safety
/// Nothing uses the memory after the call.
pub unsafe fn release(address: usize, bytes: usize) -> bool {
    // SAFETY: promised by the caller. The memory is cleared before another thread can allocate it.
    let is_clear = unsafe { clear(address, bytes, READ_WRITE) };
    if is_clear {
        with(|pool| pool.extents.release(page_of(address), pages(bytes)));
    }
    is_clear
}
