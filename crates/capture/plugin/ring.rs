//! The writing end of the rings: one [`Cpu`] per virtual CPU, used only by the thread that runs
//! it (and by its creator before it runs).
//!
//! Records are grouped into segments. Each takes a ticket from a shared counter when it begins,
//! so the recorder can replay the segments of all threads in one order. A segment ends at every
//! system call, after [`SEGMENT_BLOCKS`] blocks, and when another thread changed the address
//! space: nothing that uses a new mapping can come before the mapping's own record.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use crate::layout::{
    FAILURE_THREADS, Header, RING_RECORDS, RINGS, RingHeader, ring_header_offset, ring_offset,
};
use crate::record::{self, Control};

/// Blocks in one segment at most.
const SEGMENT_BLOCKS: u32 = 1 << 15;
/// How long to sleep while a ring is full.
const FULL_RING_PAUSE: Duration = Duration::from_micros(50);
/// How long to sleep while the recorder has not answered.
const ANSWER_PAUSE: Duration = Duration::from_micros(200);

/// Start of the shared memory; null until it is mapped.
static SHARED: AtomicPtr<Header> = AtomicPtr::new(ptr::null_mut());
/// Set in a forked child: it shares the rings' memory but must not write there.
static DETACHED: AtomicBool = AtomicBool::new(false);

/// Writing state of one ring.
pub struct Cpu {
    /// Null until the virtual CPU starts.
    shared: *const Header,
    ring: *const RingHeader,
    records: *mut u64,
    head: u64,
    limit: u64,
    epoch: u64,
    blocks_left: u32,
    is_open: bool,
    /// Instructions skipped and not yet added to the shared count.
    pub skipped: u64,
}

struct Cpus([UnsafeCell<Cpu>; RINGS]);
// SAFETY: each element is used by one thread at a time, see the module's documentation.
unsafe impl Sync for Cpus {}

static CPUS: Cpus = Cpus([const { UnsafeCell::new(Cpu::UNUSED) }; RINGS]);

/// Takes the shared memory into use.
pub fn attach(start: *mut Header) {
    SHARED.store(start, Ordering::Release);
}

/// Never writes again; for a forked child, which runs on without being recorded.
pub extern "C" fn detach() {
    DETACHED.store(true, Ordering::Relaxed);
    for cpu in &CPUS.0 {
        // SAFETY: a forked child has one thread, and it is here.
        unsafe { *cpu.get() = Cpu::UNUSED };
    }
}

/// Whether this process is a forked child.
pub fn is_detached() -> bool {
    DETACHED.load(Ordering::Relaxed)
}

/// The shared header.
pub fn shared() -> &'static Header {
    // SAFETY: the memory is mapped by `qemu_plugin_install` before any callback is registered,
    // stays mapped, and holds only atomics.
    unsafe { &*SHARED.load(Ordering::Acquire) }
}

/// The dictionary's and rings' memory, `offset` bytes from the start.
pub fn shared_bytes(offset: usize) -> *mut u8 {
    SHARED.load(Ordering::Acquire).cast::<u8>().wrapping_add(offset)
}

/// The writing state of virtual CPU `index`; none if there are too many.
pub fn cpu(index: u32) -> Option<&'static mut Cpu> {
    let cell = CPUS.0.get(index as usize)?;
    // SAFETY: callbacks run on the thread of virtual CPU `index`, or before that thread starts;
    // no callback holds the reference of another.
    Some(unsafe { &mut *cell.get() })
}

/// Prepares the ring of a virtual CPU that is about to start.
pub fn start_cpu(index: u32) {
    if is_detached() {
        return;
    }
    let Some(cpu) = cpu(index) else {
        shared().failure.store(FAILURE_THREADS, Ordering::Release);
        return;
    };
    let ring: *const RingHeader = shared_bytes(ring_header_offset(index as usize)).cast();
    // SAFETY: the ring headers lie inside the mapping.
    let head = unsafe { (*ring).head.load(Ordering::Relaxed) };
    *cpu = Cpu {
        shared: shared(),
        ring,
        records: shared_bytes(ring_offset(index as usize)).cast(),
        head,
        limit: head,
        ..Cpu::UNUSED
    };
    shared().rings.fetch_max(u64::from(index) + 1, Ordering::AcqRel);
    cpu.push(record::control(Control::ThreadStart, 0));
    cpu.publish();
}

impl Cpu {
    const UNUSED: Self = Self {
        shared: ptr::null(),
        ring: ptr::null(),
        records: ptr::null_mut(),
        head: 0,
        limit: 0,
        epoch: 0,
        blocks_left: 0,
        is_open: false,
        skipped: 0,
    };

    /// Appends a record; drops it in a forked child and after the recorder closed.
    #[inline(always)]
    pub fn push(&mut self, record: u64) {
        if self.head == self.limit && !self.reserve(1) {
            return;
        }
        let slot = (self.head % RING_RECORDS) as usize;
        // SAFETY: head < limit, so the slot is inside the ring and the recorder has read it.
        unsafe { self.records.add(slot).write(record) };
        self.head += 1;
    }

    /// Shows the recorder what was pushed.
    #[inline(always)]
    pub fn publish(&self) {
        if !self.ring.is_null() {
            // SAFETY: a ring in use points into the mapping.
            unsafe { (*self.ring).head.store(self.head, Ordering::Release) };
        }
    }

    /// Waits until `count` records fit. False if nobody will read them.
    #[cold]
    fn reserve(&mut self, count: u64) -> bool {
        if self.ring.is_null() || is_detached() {
            return false;
        }
        self.publish();
        loop {
            // SAFETY: a ring in use points into the mapping.
            let tail = unsafe { (*self.ring).tail.load(Ordering::Acquire) };
            self.limit = tail + RING_RECORDS;
            if self.limit - self.head >= count {
                return true;
            }
            if shared().closed.load(Ordering::Relaxed) != 0 {
                self.limit = self.head;
                return false;
            }
            std::thread::sleep(FULL_RING_PAUSE);
        }
    }

    /// Appends the record of an executed block, in a new segment where one is due.
    #[inline(always)]
    pub fn push_block(&mut self, record: u64) {
        if self.blocks_left == 0 || self.epoch != self.current_epoch() {
            self.begin_segment(u64::from(record::block_index(record)) + 1);
            if !self.is_open {
                return;
            }
        }
        self.blocks_left -= 1;
        self.push(record);
        self.publish();
    }

    #[inline(always)]
    fn current_epoch(&self) -> u64 {
        // SAFETY: blocks are left only in a segment, and a segment only begins on a ring in use.
        unsafe { (*self.shared).epoch.load(Ordering::Relaxed) }
    }

    /// Begins a segment, ending the one that runs; `next` is the payload of its end.
    #[cold]
    fn begin_segment(&mut self, next: u64) {
        self.end_segment(next);
        if self.limit - self.head < 2 && !self.reserve(2) {
            return;
        }
        self.epoch = self.current_epoch();
        self.blocks_left = SEGMENT_BLOCKS;
        self.is_open = true;
        let ticket = shared().tickets.fetch_add(1, Ordering::AcqRel);
        self.push(record::control(Control::Segment, ticket));
        self.publish();
    }

    /// Ends the running segment, if any.
    pub fn end_segment(&mut self, next: u64) {
        if self.is_open {
            self.push(record::control(Control::End, next));
            self.publish();
        }
        self.is_open = false;
        self.blocks_left = 0;
    }

    /// Appends a control record with the words that follow it.
    pub fn push_control(&mut self, code: Control, payload: u64, words: &[u64]) {
        if !self.is_open {
            self.begin_segment(0);
        }
        if !self.is_open || !self.reserve(1 + words.len() as u64) {
            return;
        }
        self.push(record::control(code, payload));
        for word in words {
            self.push(*word);
        }
        self.publish();
    }

    /// Appends a control record and waits until the recorder has given `answer`.
    pub fn ask(&mut self, code: Control, payload: u64, answer: u64) {
        self.push_control(code, payload, &[]);
        self.end_segment(0);
        while shared().answers.load(Ordering::Acquire) < answer
            && shared().closed.load(Ordering::Relaxed) == 0
            && !is_detached()
        {
            std::thread::sleep(ANSWER_PAUSE);
        }
    }
}
