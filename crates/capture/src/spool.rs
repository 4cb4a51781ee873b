//! A queue between the rings and the replay, so that the program runs at its own speed while the
//! trace is made more slowly: in memory first, then on disk, and when that is full too the
//! program waits.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::CaptureError;
use crate::questions::{Answer, Answerer};
use crate::record::{self, Control};
use crate::shared::SharedMemory;

/// Bytes of records that wait in memory before the disk is used.
const MEMORY_BYTES: u64 = 128 << 20;
/// Sleep when the rings are empty.
const IDLE_PAUSE: Duration = Duration::from_micros(200);
/// Time between looks whether the processes that use the rings still run.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
const RECORD_BYTES: u64 = size_of::<u64>() as u64;

/// Records of one ring, in order.
pub struct Batch {
    /// The ring.
    pub ring: usize,
    /// What was in it; ends with [`Control::ThreadEnd`] when its virtual CPU is gone.
    pub records: Vec<u64>,
    /// The answer to the question with which the records end, if they do.
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
    /// End of what was written to the file.
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
    /// Nanoseconds from the start until a ring was last seen in use.
    last_used: AtomicU64,
}

/// The queue, and the thread that fills it from the rings.
pub struct Spool {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Spool {
    /// Starts to empty the rings. What does not fit into memory goes to a file without a name in
    /// `folder`, up to `limit_bytes` at a time.
    pub fn start(
        shared: Arc<SharedMemory>,
        answerer: Answerer,
        folder: &Path,
        limit_bytes: u64,
    ) -> Result<Self, CaptureError> {
        let failed = |error| CaptureError::system("making a temporary file", error);
        let file = tempfile::tempfile_in(folder).map_err(failed)?;
        let state = Arc::new(State {
            shared,
            answerer,
            queue: Mutex::default(),
            has_room: Condvar::new(),
            file,
            limit_bytes,
            is_stopped: AtomicBool::new(false),
            started: Instant::now(),
            last_used: AtomicU64::new(0),
        });
        let own = Arc::clone(&state);
        let thread = thread::Builder::new().name("perforate-spool".into());
        let thread = thread.spawn(move || own.run());
        let thread = thread.map_err(|error| CaptureError::system("starting a thread", error))?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// The next records; none if there are none now.
    pub fn next(&self) -> Result<Option<Batch>, CaptureError> {
        self.state.next()
    }

    /// Seconds from the start of the queue until a virtual CPU was last there.
    pub fn seconds_used(&self) -> f64 {
        self.state.last_used.load(Ordering::Relaxed) as f64 * 1e-9
    }

    /// Bytes that wait, in memory and on disk.
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
            // It does not panic; if it did, there is nothing to clean up.
            let _ = thread.join();
        }
    }
}

/// Whether `process` still runs this emulator.
pub fn runs(process: u32, emulator: &Path) -> bool {
    std::fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|running| running == emulator)
}

impl State {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut looked = Instant::now();
        while !self.is_stopped.load(Ordering::Relaxed) {
            if self.empty_rings() {
                continue;
            }
            if looked.elapsed() > LOOK_PERIOD {
                looked = Instant::now();
                self.end_orphans();
            }
            thread::sleep(IDLE_PAUSE);
        }
    }

    /// Takes what is in the rings; whether there was anything.
    fn empty_rings(&self) -> bool {
        let mut is_any = false;
        for ring in 0..self.shared.rings() {
            // Asked before the ring is emptied: nothing is written to a ring after its end.
            let is_ended = self.shared.is_ended(ring);
            if !is_ended && self.shared.user(ring).is_some() {
                let now = self.started.elapsed().as_nanos() as u64;
                self.last_used.store(now, Ordering::Relaxed);
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

    /// Ends the rings of processes that were killed, or replaced by what cannot be recorded.
    fn end_orphans(&self) {
        for ring in 0..self.shared.rings() {
            if self.shared.user(ring).is_some_and(|process| !runs(process, &self.answerer.emulator))
            {
                self.shared.end(ring);
            }
        }
    }

    fn add(&self, batch: Batch) {
        let bytes = batch.records.len() as u64 * RECORD_BYTES;
        let mut queue = self.queue();
        let is_answer = batch.answer.is_some();
        while queue.memory_bytes + bytes > MEMORY_BYTES && !queue.waiting.is_empty() && !is_answer {
            if queue.disk_bytes + bytes <= self.limit_bytes {
                let offset = queue.file_end;
                // Nobody else writes to the file, and nobody reads what is not in the queue yet.
                drop(queue);
                let is_written = self.file.write_all_at(&to_bytes(&batch.records), offset).is_ok();
                queue = self.queue();
                if is_written {
                    queue.file_end = offset + bytes;
                    queue.disk_bytes += bytes;
                    let (ring, records) = (batch.ring, batch.records.len());
                    queue.waiting.push_back(Waiting::Disk { ring, offset, records });
                    return;
                }
            }
            // The disk is full: wait until something was replayed.
            let waited = self.has_room.wait_timeout(queue, LOOK_PERIOD);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            if self.is_stopped.load(Ordering::Relaxed) {
                return;
            }
        }
        queue.memory_bytes += bytes;
        queue.waiting.push_back(Waiting::Memory(batch));
    }

    fn next(&self) -> Result<Option<Batch>, CaptureError> {
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
                let failed = |error| CaptureError::system("reading a temporary file", error);
                self.file.read_exact_at(&mut bytes, offset).map_err(failed)?;
                self.give_back(offset, bytes.len() as u64);
                queue = self.queue();
                queue.disk_bytes -= bytes.len() as u64;
                Batch { ring, records: from_bytes(&bytes), answer: None }
            }
        };
        self.has_room.notify_all();
        Ok(Some(batch))
    }

    /// Gives room on disk back.
    fn give_back(&self, offset: u64, length: u64) {
        let (Ok(offset), Ok(length)) = (offset.try_into(), length.try_into()) else { return };
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: works on our own file. Where the file system cannot do it the room is given
        // back at the end.
        unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, length) };
    }
}

fn to_bytes(records: &[u64]) -> Vec<u8> {
    records.iter().flat_map(|record| record.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(RECORD_BYTES as usize);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
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
            last_used: AtomicU64::new(0),
        }
    }

    /// Three quarters of what may wait in memory.
    fn large(ring: usize) -> Batch {
        Batch { ring, records: vec![ring as u64; MEMORY_BYTES as usize / 8 / 4 * 3], answer: None }
    }

    #[test]
    fn what_does_not_fit_into_memory_waits_on_disk_in_order() {
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
    fn a_full_disk_makes_the_rings_wait() {
        let state = Arc::new(state(0));
        state.add(large(0));
        let own = Arc::clone(&state);
        let thread = thread::spawn(move || own.add(large(1)));
        thread::sleep(2 * LOOK_PERIOD);
        assert!(!thread.is_finished());
        assert_eq!(state.next().unwrap().unwrap().ring, 0);
        thread.join().unwrap();
        assert_eq!(state.next().unwrap().unwrap().ring, 1);
    }
}
