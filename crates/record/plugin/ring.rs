//! Writing end of the rings: one [`Cpu`] per virtual CPU, used only by the thread that runs the virtual
//! CPU (and by its creator before that thread runs).
//!
//! Records are grouped into segments. Each segment takes a ticket from a shared counter at its start.
//! Tickets order the segments of all threads of all processes. A segment ends at every system call,
//! after [`SEGMENT_BLOCKS`] blocks, and when another thread has changed an address space. So a use of a
//! new mapping never precedes the mapping's own record.

use std::cell::UnsafeCell;
use std::io::Error;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::kinds::Kinds;
use super::{attach, qemu};
use crate::layout::{
    ENDLESS, FAILURE_THREADS, Header, RING_ENDED, RING_FREE, RING_RECORDS, RING_USED, RINGS,
    RingHeader, ring_header_offset, ring_offset, ring_process_and_state, ring_user,
};
use crate::record::{self, Control};

/// Maximum number of blocks in a segment of records. It bounds how far threads run ahead of each other.
const SEGMENT_BLOCKS: u32 = 1 << 12;
/// Maximum number of blocks in a segment in phases of limited length. Each thread notices the end of a phase
/// at its next segment.
const WINDOW_BLOCKS: u32 = 1 << 9;
/// Number of blocks after which new records become visible to the recorder, so that it can keep up.
const PUBLISHED_BLOCKS: u32 = 1 << 6;
/// Number of instructions that a thread skips before it adds them to the count in the shared memory.
const SKIP_BATCH: u64 = 1 << 10;
/// Length of a pause while a ring is full.
const FULL_RING_PAUSE: Duration = Duration::from_micros(50);
/// Length of a pause while a child runs in the memory of its parent.
const CHILD_PAUSE: Duration = Duration::from_micros(100);
/// Length of a pause while the recorder has not answered.
const ANSWER_PAUSE: Duration = Duration::from_micros(200);
/// Number of pauses between checks that the recorder still runs.
const PAUSES_PER_CHECK: u32 = 1 << 12;

/// Start of the shared memory; null until it is mapped.
static SHARED: AtomicPtr<Header> = AtomicPtr::new(ptr::null_mut());
/// Number of the process image that this process runs.
static IMAGE: AtomicU64 = AtomicU64::new(0);
/// ID of this process in the recorder's PID namespace.
static PROCESS: AtomicU64 = AtomicU64::new(0);

/// Writing state of one ring, for one virtual CPU.
pub struct Cpu {
    /// Header of the shared memory; null until the virtual CPU starts.
    shared: *const Header,
    ring: *const RingHeader,
    records: *mut u64,
    head: u64,
    /// Position in the ring up to which records may be written; equal to `head` outside segments.
    limit: u64,
    epoch: u64,
    blocks_left: u32,
    is_open: bool,
    /// True while instructions are skipped in code that is translated with full records.
    pub is_idle: bool,
    /// Number of executed instructions that are not in the counts of the shared memory yet.
    executed: u64,
    /// Number of skipped instructions that are added to the counts of the shared memory at once.
    batch: u64,
    questions: u64,
    /// Cache of QEMU's descriptions of accesses.
    pub kinds: Kinds,
}

struct Cpus([UnsafeCell<Cpu>; RINGS]);
// SAFETY: each element is used by one thread at a time, see the module's documentation.
unsafe impl Sync for Cpus {}

static CPUS: Cpus = Cpus([const { UnsafeCell::new(Cpu::UNUSED) }; RINGS]);

/// Sets the address of the shared memory.
pub fn attach(start: *mut Header) {
    SHARED.store(start, Ordering::Release);
}

/// Header of the shared memory.
pub fn shared() -> &'static Header {
    // SAFETY: the memory is mapped by `qemu_plugin_install` before any callback is registered,
    // stays mapped, and holds only atomics.
    unsafe { &*SHARED.load(Ordering::Acquire) }
}

/// Address in the shared memory at `offset`.
pub fn shared_bytes(offset: usize) -> *mut u8 {
    SHARED.load(Ordering::Acquire).cast::<u8>().wrapping_add(offset)
}

fn ring_header(ring: usize) -> &'static RingHeader {
    // SAFETY: ring headers lie inside the mapping; their words are atomics or never written.
    unsafe { &*shared_bytes(ring_header_offset(ring)).cast::<RingHeader>() }
}

/// Number of the process image that this process runs.
pub fn image() -> u64 {
    IMAGE.load(Ordering::Relaxed)
}

/// ID of this process in the recorder's PID namespace.
pub fn process() -> u64 {
    PROCESS.load(Ordering::Relaxed)
}

/// Allocates a number for a new process image.
pub fn next_image() -> u64 {
    shared().images.fetch_add(1, Ordering::AcqRel)
}

/// Gives this process, with this ID in the recorder's PID namespace, a new process image for the program that
/// it starts to run, and ends the rings of its previous program's threads, which have ended.
pub fn begin_image(process: u64) {
    PROCESS.store(process, Ordering::Relaxed);
    IMAGE.store(next_image(), Ordering::Relaxed);
    let (used, ended) = (ring_user(process, RING_USED), ring_user(process, RING_ENDED));
    for ring in 0..rings() {
        let user = &ring_header(ring).user;
        // Fails for a ring that another process uses.
        let _ = user.compare_exchange(used, ended, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Called in a forked child, whose process image is `image`. It has one thread, which runs virtual CPU
/// `index` and gets a new ring.
pub fn begin_child(image: u64, index: Option<u32>) {
    // The recorder cannot be reached after it has closed the memory.
    let reply = attach::ask(shared().token.load(Ordering::Relaxed));
    let process = reply.map_or(std::process::id().into(), |reply| reply.process);
    PROCESS.store(process, Ordering::Relaxed);
    IMAGE.store(image, Ordering::Relaxed);
    for cpu in &CPUS.0 {
        // SAFETY: a forked child has only this thread.
        unsafe { *cpu.get() = Cpu::UNUSED };
    }
    if let Some(index) = index {
        start_cpu(index);
    }
}

fn rings() -> usize {
    (shared().rings.load(Ordering::Acquire) as usize).min(RINGS)
}

/// Writing state of virtual CPU `index`; `None` if the index exceeds [`RINGS`].
pub fn cpu(index: u32) -> Option<&'static mut Cpu> {
    let cell = CPUS.0.get(index as usize)?;
    // SAFETY: callbacks run on the thread of virtual CPU `index`, or before that thread starts;
    // no callback holds the reference of another.
    Some(unsafe { &mut *cell.get() })
}

/// Allocates a free ring for a process.
fn take_ring(process: u64) -> Option<usize> {
    let used = ring_user(process, RING_USED);
    let taken = (0..RINGS).find(|&ring| {
        let user = &ring_header(ring).user;
        user.compare_exchange(RING_FREE, used, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })?;
    shared().rings.fetch_max(taken as u64 + 1, Ordering::AcqRel);
    Some(taken)
}

/// Prepares a ring for a virtual CPU that is about to start.
pub fn start_cpu(index: u32) {
    let process = process();
    let (Some(cpu), Some(taken)) = (cpu(index), take_ring(process)) else {
        shared().failure.store(FAILURE_THREADS, Ordering::Release);
        return;
    };
    let ring = ring_header(taken);
    ring.image.store(image(), Ordering::Release);
    let head = ring.head.load(Ordering::Relaxed);
    let questions = ring.questions.load(Ordering::Relaxed);
    *cpu = Cpu {
        shared: shared(),
        ring,
        records: shared_bytes(ring_offset(taken)).cast(),
        head,
        limit: head,
        questions,
        ..Cpu::UNUSED
    };
    if cpu.reserve(2) {
        cpu.push(record::control(Control::ThreadStart, image()));
        cpu.push(process);
        cpu.close();
    }
}

/// Ends the ring of a virtual CPU that has exited.
pub fn end_cpu(index: u32) {
    let Some(cpu) = cpu(index) else { return };
    cpu.end_segment(0);
    if !cpu.ring.is_null() {
        // SAFETY: a ring in use points into the mapping.
        let ring = unsafe { &*cpu.ring };
        let ended = ring_user(process(), RING_ENDED);
        ring.user.store(ended, Ordering::Release);
    }
    *cpu = Cpu::UNUSED;
}

/// True if the recorder does not read records any more.
fn is_closed() -> bool {
    shared().closed.load(Ordering::Relaxed) != 0
}

/// Sleeps briefly. Returns false if records are not read any more.
pub fn pause_while_read() -> bool {
    std::thread::sleep(ANSWER_PAUSE);
    !is_closed()
}

/// Sleeps until `is_done` returns true. Returns false if records are not read any more.
fn wait(pause: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    let mut pauses = 0;
    while !is_done() {
        if is_closed() {
            return false;
        }
        std::thread::sleep(pause);
        pauses += 1;
        if pauses % PAUSES_PER_CHECK == 0 && is_recorder_gone() {
            shared().closed.store(1, Ordering::Relaxed);
        }
    }
    true
}

/// True if the recorder's process has ended. In another PID namespace, this cannot be checked; there, the
/// recorder's guard kills this process.
fn is_recorder_gone() -> bool {
    if process() != u64::from(std::process::id()) {
        return false;
    }
    let recorder = shared().recorder.load(Ordering::Relaxed);
    // SAFETY: signal 0 only checks that the process exists.
    let failed = unsafe { qemu::kill(recorder as i32, 0) } != 0;
    // A process that has dropped its rights may not send signals, which is another error.
    failed && Error::last_os_error().raw_os_error() == Some(qemu::NO_SUCH_PROCESS)
}

/// Waits until the child with this process ID and image has executed another program or ended. Its
/// virtual CPU does not use its ring any more then; `begin_image` or the recorder ends the ring.
pub fn wait_for_child(process: u32, image: u64) {
    let mut has_begun = false;
    wait(CHILD_PAUSE, || {
        let is_running = (0..rings()).any(|ring| {
            let header = ring_header(ring);
            let (_, state) = ring_process_and_state(header.user.load(Ordering::Acquire));
            state == RING_USED && header.image.load(Ordering::Acquire) == image
        });
        has_begun |= is_running;
        !is_running && (has_begun || has_ended(process))
    });
}

/// True if a child has ended, or another thread has waited for it.
fn has_ended(process: u32) -> bool {
    let mut waited = qemu::Waited([0; 16]);
    // SAFETY: `waited` has room for the result.
    let result =
        unsafe { qemu::waitid(qemu::WAIT_FOR_PROCESS, process, &mut waited, qemu::WAIT_ONLY_ASK) };
    // The first word has the signal number, which is 0 while the child runs.
    result != 0 || waited.0[0] as u32 != 0
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
        is_idle: false,
        executed: 0,
        batch: SKIP_BATCH,
        questions: 0,
        kinds: Kinds::NONE,
    };

    /// True if the ring has room for a record.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.head != self.limit
    }

    /// Appends a record to the ring without a check; there must be room.
    #[inline(always)]
    pub fn write(&mut self, record: u64) {
        let slot = (self.head % RING_RECORDS) as usize;
        // SAFETY: head < limit, so the slot is inside the ring and the recorder has read it.
        unsafe { self.records.add(slot).write(record) };
        self.head += 1;
    }

    /// Appends a record to the ring. Drops it outside segments and when the recorder does not read records
    /// any more.
    pub fn push(&mut self, record: u64) {
        if self.has_room() || self.is_open && self.reserve(1) {
            self.write(record);
        }
    }

    /// Makes the pushed records visible to the recorder.
    #[inline(always)]
    pub fn publish(&self) {
        if !self.ring.is_null() {
            // SAFETY: a ring in use points into the mapping.
            unsafe { (*self.ring).head.store(self.head, Ordering::Release) };
        }
    }

    /// Makes the pushed records visible to the recorder, and prevents further ones until the next segment.
    fn close(&mut self) {
        self.publish();
        self.limit = self.head;
        self.is_open = false;
        self.blocks_left = 0;
    }

    /// Waits until `count` records fit into the ring. Returns false if the recorder does not read records any
    /// more.
    #[cold]
    fn reserve(&mut self, count: u64) -> bool {
        if self.ring.is_null() || is_closed() {
            self.limit = self.head;
            return false;
        }
        self.publish();
        // SAFETY: a ring in use points into the mapping.
        let ring = unsafe { &*self.ring };
        let room = || ring.tail.load(Ordering::Acquire) + RING_RECORDS;
        if room() - self.head < count {
            let started = Instant::now();
            let has_room = wait(FULL_RING_PAUSE, || room() - self.head >= count);
            let waited = started.elapsed().as_nanos() as u64;
            shared().waited_nanoseconds.fetch_add(waited, Ordering::Relaxed);
            if !has_room {
                self.limit = self.head;
                return false;
            }
        }
        self.limit = room();
        true
    }

    /// Appends the record of an executed block. Returns false if a new segment is due or the ring is
    /// full; then the caller must call [`Cpu::begin_segment`].
    #[inline(always)]
    pub fn push_block(&mut self, record: u64) -> bool {
        if self.blocks_left == 0 || self.epoch != self.current_epoch() || !self.has_room() {
            return false;
        }
        self.blocks_left -= 1;
        self.executed += record::block_instructions(record);
        self.write(record);
        // The end of a segment publishes the rest.
        if self.blocks_left.is_multiple_of(PUBLISHED_BLOCKS) {
            self.publish();
        }
        true
    }

    /// Counts skipped instructions. Returns true if the shared counts and the phase are due for an update
    /// ([`phases::update`](super::phases::update)).
    #[inline(always)]
    pub fn skip(&mut self, instructions: u64) -> bool {
        self.executed += instructions;
        self.executed >= self.batch
    }

    /// Returns the number of instructions that the virtual CPU executed since the last call.
    pub fn take_executed(&mut self) -> u64 {
        self.batch = SKIP_BATCH;
        std::mem::take(&mut self.executed)
    }

    /// Makes the virtual CPU update the phase at its next block.
    pub fn update_soon(&mut self) {
        self.batch = 0;
        self.blocks_left = 0;
    }

    #[inline(always)]
    fn current_epoch(&self) -> u64 {
        // SAFETY: blocks are left only in a segment, and a segment only begins on a ring in use.
        unsafe { (*self.shared).epoch.load(Ordering::Relaxed) }
    }

    /// Ends the running segment, whose last record names the thread's `next_block`, and begins a new one.
    /// Returns false if records are not read any more.
    pub fn begin_segment(&mut self, next_block: u64) -> bool {
        self.end_segment(next_block);
        if !self.reserve(2) {
            return false;
        }
        self.epoch = self.current_epoch();
        let is_endless = shared().phases.record.load(Ordering::Relaxed) == ENDLESS;
        self.blocks_left = if is_endless { SEGMENT_BLOCKS } else { WINDOW_BLOCKS };
        self.is_open = true;
        let ticket = shared().tickets.fetch_add(1, Ordering::AcqRel);
        self.push(record::control(Control::Segment, ticket));
        self.publish();
        true
    }

    /// Ends the running segment, if any, with a record that names the thread's `next_block`.
    pub fn end_segment(&mut self, next_block: u64) {
        if self.is_open {
            self.push(record::control(Control::End, next_block));
            self.close();
        }
    }

    /// Appends a control record, followed by `words`, to the ring.
    pub fn push_control(&mut self, code: Control, payload: u64, words: &[u64]) {
        if !self.is_open && !self.begin_segment(0) || !self.reserve(1 + words.len() as u64) {
            return;
        }
        self.push(record::control(code, payload));
        for word in words {
            self.push(*word);
        }
        self.publish();
    }

    /// Appends a control record, and waits until the recorder has answered the question. Returns the
    /// number that accompanies the answer.
    pub fn ask(&mut self, question: u64, code: Control, payload: u64, words: &[u64]) -> u64 {
        self.push_control(code, payload, words);
        self.end_segment(0);
        if self.ring.is_null() {
            return 0;
        }
        // SAFETY: a ring in use points into the mapping.
        let ring = unsafe { &*self.ring };
        self.questions += 1;
        ring.question.store(question, Ordering::Relaxed);
        ring.questions.store(self.questions, Ordering::Release);
        wait(ANSWER_PAUSE, || ring.answers.load(Ordering::Acquire) >= self.questions);
        ring.answer.load(Ordering::Relaxed)
    }
}
