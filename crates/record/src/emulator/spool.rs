//! Queue between the rings and the replay. With the queue, the program runs at full speed although the trace
//! is written more slowly. Records wait in memory first and then on disk; when the disk limit is reached, the
//! program waits.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

use super::questions::{Answer, Answerer};
use super::shared::SharedMemory;
use crate::RecordError;
use crate::record::{self, Control};

/// Maximum size in bytes of the plugins' records that wait in memory before the disk is used.
const MEMORY_BYTES: u64 = 128 << 20;
/// Pause before the plugins' rings are read again after all rings were empty.
const IDLE_PAUSE: Duration = Duration::from_micros(200);
/// Time between two checks that the processes that use the rings still run.
const CHECK_PERIOD: Duration = Duration::from_millis(50);
const RECORD_BYTES: u64 = size_of::<u64>() as u64;

/// Batch of the plugin's records, in order, all from the ring of one virtual CPU.
pub struct Batch {
    /// Index of the ring from which the records were taken.
    pub ring: usize,
    /// Records of the ring, with [`Control::ThreadEnd`] at the end once its virtual CPU has exited.
    pub records: Vec<u64>,
    /// Answer to the virtual CPU's question at the end of the records; `None` if there is no question.
    pub answer: Option<Answer>,
}

enum Waiting {
    Memory(Batch),
    Disk { ring: usize, offset: u64, records: usize },
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    memory_bytes: u64,
    disk_bytes: u64,
    /// End of the waiting records in the file on disk, as a byte offset.
    file_end: u64,
}

struct State {
    shared: Arc<SharedMemory>,
    answerer: Answerer,
    queue: Mutex<Queue>,
    has_room: Condvar,
    file: File,
    limit_bytes: u64,
    is_stopped: AtomicBool,
    started: Instant,
    /// Time from the creation of the queue until a ring was last in use, in ns.
    last_used_nanoseconds: AtomicU64,
}

/// Queue of the plugins' records, with the thread that fills it from the rings.
pub struct Spool {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Spool {
    /// Starts to move records from the plugins' ring buffers to the queue. Records that do not fit in memory
    /// are written to an unnamed file in `folder`, at most `limit_bytes` bytes at a time.
    pub fn start(
        shared: Arc<SharedMemory>,
        answerer: Answerer,
        folder: &Path,
        limit_bytes: u64,
    ) -> Result<Self, RecordError> {
        let file = tempfile::tempfile_in(folder);
        let file = file.map_err(|error| {
            RecordError::file(folder, format!("making a temporary file in it: {error}"))
        })?;
        let state = Arc::new(State {
            shared,
            answerer,
            queue: Mutex::default(),
            has_room: Condvar::new(),
            file,
            limit_bytes,
            is_stopped: AtomicBool::new(false),
            started: Instant::now(),
            last_used_nanoseconds: AtomicU64::new(0),
        });
        let own = Arc::clone(&state);
        let thread = thread::Builder::new().name("perforate-spool".into());
        let thread = thread.spawn(move || own.run());
        let thread = thread.map_err(RecordError::system("starting a thread"))?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Removes the oldest batch of records from the queue; `None` if the queue is empty.
    pub fn next(&self) -> Result<Option<Batch>, RecordError> {
        self.state.next()
    }

    /// Time from the creation of the queue until a virtual CPU last existed, in seconds.
    pub fn seconds_used(&self) -> f64 {
        self.state.last_used_nanoseconds.load(Ordering::Relaxed) as f64 * 1e-9
    }

    /// Size of the records in the queue in bytes, in memory and on disk.
    pub fn waiting_bytes(&self) -> u64 {
        let queue = self.state.queue();
        queue.memory_bytes + queue.disk_bytes
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.state.is_stopped.store(true, Ordering::Relaxed);
        self.state.has_room.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread leaves nothing to clean up.
            let _ = thread.join();
        }
    }
}

/// True if `process` still runs the emulator at this path. The first thread of a process may end before the
/// others; `/proc/PID/exe` cannot be read from then on.
pub fn runs(process: u32, emulator: &Path) -> bool {
    let runs_in = |folder: &Path| {
        std::fs::read_link(folder.join("exe")).is_ok_and(|running| running == emulator)
    };
    let folder = PathBuf::from(format!("/proc/{process}"));
    runs_in(&folder)
        || std::fs::read_dir(folder.join("task"))
            .is_ok_and(|threads| threads.flatten().any(|thread| runs_in(&thread.path())))
}

impl State {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut checked = Instant::now();
        while !self.is_stopped.load(Ordering::Relaxed) {
            if self.drain_rings() {
                continue;
            }
            if checked.elapsed() > CHECK_PERIOD {
                checked = Instant::now();
                self.end_orphans();
            }
            thread::sleep(IDLE_PAUSE);
        }
    }

    /// Moves all records from the rings to the queue. Returns false if there were none. Ended rings come last: a
    /// thread's end is queued behind the starts of threads before it, one of which may keep its process alive.
    fn drain_rings(&self) -> bool {
        let mut is_any = false;
        // Read the states before draining: nothing is written to a ring after its end.
        let ended: Vec<usize> =
            (0..self.shared.rings()).filter(|&ring| self.shared.is_ended(ring)).collect();
        let running = (0..self.shared.rings()).filter(|ring| !ended.contains(ring));
        let last = ended.iter().map(|&ring| (ring, true));
        for (ring, is_ended) in running.map(|ring| (ring, false)).chain(last) {
            // A short program may end before anybody looks at its ring.
            let is_unseen = is_ended && self.last_used_nanoseconds.load(Ordering::Relaxed) == 0;
            if is_unseen || !is_ended && self.shared.user(ring).is_some() {
                let now = self.started.elapsed().as_nanos() as u64;
                self.last_used_nanoseconds.store(now, Ordering::Relaxed);
            }
            let is_asked = self.shared.question(ring).is_some();
            let mut records = Vec::new();
            self.shared.drain(ring, &mut records);
            let answer = if is_asked { self.answerer.answer(&self.shared, ring) } else { None };
            if is_ended {
                records.push(record::control(Control::ThreadEnd, 0));
            }
            if !records.is_empty() || answer.is_some() {
                is_any = true;
                self.add(Batch { ring, records, answer });
            }
            if is_ended {
                self.shared.free(ring);
            }
        }
        is_any
    }

    /// Marks virtual CPUs as exited if their process was killed, or was replaced by a program that is not
    /// recorded.
    fn end_orphans(&self) {
        for ring in 0..self.shared.rings() {
            if let Some(process) = self.shared.user(ring)
                && !runs(process, &self.answerer.emulator)
            {
                self.shared.end(ring, process);
            }
        }
    }

    /// Adds a batch to the queue; waits while there is no room.
    fn add(&self, mut batch: Batch) {
        while let Some(rejected) = self.try_add(batch) {
            batch = rejected;
            let _ = self.has_room.wait_timeout(self.queue(), CHECK_PERIOD);
            if self.is_stopped.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Adds a batch to the queue in memory or on disk. Returns the batch if there is no room.
    fn try_add(&self, batch: Batch) -> Option<Batch> {
        let bytes = batch.records.len() as u64 * RECORD_BYTES;
        let mut queue = self.queue();
        let is_full = queue.memory_bytes + bytes > MEMORY_BYTES && !queue.waiting.is_empty();
        if !is_full || batch.answer.is_some() {
            queue.memory_bytes += bytes;
            queue.waiting.push_back(Waiting::Memory(batch));
            return None;
        }
        if queue.disk_bytes + bytes > self.limit_bytes {
            return Some(batch);
        }
        let offset = queue.file_end;
        // Only this thread writes to the file, and nothing is read before it is queued.
        drop(queue);
        if self.file.write_all_at(&to_bytes(&batch.records), offset).is_err() {
            return Some(batch);
        }
        let mut queue = self.queue();
        queue.file_end = offset + bytes;
        queue.disk_bytes += bytes;
        let (ring, records) = (batch.ring, batch.records.len());
        queue.waiting.push_back(Waiting::Disk { ring, offset, records });
        None
    }

    fn next(&self) -> Result<Option<Batch>, RecordError> {
        let mut queue = self.queue();
        let batch = match queue.waiting.pop_front() {
            None => return Ok(None),
            Some(Waiting::Memory(batch)) => {
                queue.memory_bytes -= batch.records.len() as u64 * RECORD_BYTES;
                batch
            }
            Some(Waiting::Disk { ring, offset, records }) => {
                drop(queue);
                let mut bytes = vec![0; records * RECORD_BYTES as usize];
                let read = self.file.read_exact_at(&mut bytes, offset);
                read.map_err(RecordError::system("reading a temporary file"))?;
                // If the file system cannot free a part of a file, the space is freed at the end.
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = fallocate(&self.file, hole, offset, bytes.len() as u64);
                queue = self.queue();
                queue.disk_bytes -= bytes.len() as u64;
                Batch { ring, records: from_bytes(&bytes), answer: None }
            }
        };
        self.has_room.notify_all();
        Ok(Some(batch))
    }
}

fn to_bytes(records: &[u64]) -> Vec<u8> {
    records.iter().flat_map(|record| record.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn state(limit_bytes: u64) -> State {
        State {
            shared: Arc::new(SharedMemory::new().unwrap()),
            answerer: Answerer { emulator: PathBuf::new(), region: None },
            queue: Mutex::default(),
            has_room: Condvar::new(),
            file: tempfile::tempfile().unwrap(),
            limit_bytes,
            is_stopped: AtomicBool::new(false),
            started: Instant::now(),
            last_used_nanoseconds: AtomicU64::new(0),
        }
    }

    /// Makes a batch whose records take three quarters of [`MEMORY_BYTES`].
    fn large(ring: usize) -> Batch {
        Batch { ring, records: vec![ring as u64; MEMORY_BYTES as usize / 8 / 4 * 3], answer: None }
    }

    #[test]
    fn records_that_do_not_fit_into_memory_wait_on_disk_in_order() {
        let state = state(1 << 30);
        for ring in 0..3 {
            state.add(large(ring));
        }
        state.add(Batch { ring: 3, records: vec![3], answer: None });
        let queue = state.queue();
        assert_eq!((queue.memory_bytes, queue.disk_bytes), (100_663_304, 201_326_592));
        drop(queue);
        for ring in 0..4 {
            let batch = state.next().unwrap().unwrap();
            assert_eq!((batch.ring, batch.records[0]), (ring, ring as u64));
            assert!(ring == 3 || batch.records == large(ring).records);
        }
        assert!(state.next().unwrap().is_none());
        let queue = state.queue();
        assert_eq!((queue.memory_bytes, queue.disk_bytes), (0, 0));
    }

    #[test]
    fn a_batch_is_rejected_while_memory_and_disk_are_full() {
        let state = state(0);
        assert!(state.try_add(large(0)).is_none());
        let rejected = state.try_add(large(1)).expect("there is no room");
        assert_eq!(state.next().unwrap().unwrap().ring, 0);
        assert!(state.try_add(rejected).is_none());
        assert_eq!(state.next().unwrap().unwrap().ring, 1);
    }

    #[test]
    fn a_ring_of_an_exited_virtual_cpu_ends_with_thread_end_and_becomes_free() {
        let state = state(0);
        let process = std::process::id();
        state.shared.begin(0, process);
        state.shared.begin(1, process);
        assert!(!state.drain_rings(), "the rings are empty");
        state.shared.end(1, process);
        assert!(state.drain_rings());
        let batch = state.next().unwrap().expect("the end of ring 1");
        let end = record::control(Control::ThreadEnd, 0);
        assert_eq!((batch.ring, batch.records, batch.answer.is_none()), (1, vec![end], true));
        assert!(state.next().unwrap().is_none(), "ring 0 is still in use");
        assert_eq!([0, 1].map(|ring| state.shared.user(ring)), [Some(process), None]);
        assert!(!state.drain_rings(), "the end is reported once");
    }

    #[test]
    fn the_end_of_a_thread_is_behind_the_starts_of_others() {
        let state = state(0);
        for ring in [0, 1, 2] {
            state.shared.begin(ring, std::process::id());
        }
        for ring in [0, 2] {
            state.shared.end(ring, std::process::id());
        }
        state.shared.push_zero(1);
        assert!(state.drain_rings());
        let order = [(); 3].map(|()| state.next().unwrap().unwrap().ring);
        assert_eq!(order, [1, 0, 2]);
    }

    #[test]
    fn rings_of_processes_that_no_longer_run_the_emulator_are_ended() {
        let own = std::process::id();
        let emulator = std::env::current_exe().unwrap();
        for (emulator, process, runs) in [
            (emulator.clone(), own, true),
            ("/bin/other".into(), own, false),
            (emulator, u32::MAX, false),
        ] {
            let mut state = state(0);
            state.answerer.emulator = emulator;
            state.shared.begin(0, process);
            state.end_orphans();
            assert_eq!(state.shared.is_ended(0), !runs, "{process}");
        }
    }
}
