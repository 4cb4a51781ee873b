//! The recorder's side of the memory that is shared with the plugins.

use std::ffi::CStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr;
use std::slice;
use std::sync::atomic::Ordering;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::RecordError;
use crate::instructions::blocks::{Dictionary, ENTRY_HEADER_BYTES, entry_bytes};
use crate::layout::{
    DICTIONARY_BYTES, DICTIONARY_OFFSET, DICTIONARY_UNIT_BYTES, Header, MAGIC, RING_ENDED,
    RING_FREE, RING_RECORDS, RING_USED, RINGS, RingHeader, TOTAL_BYTES, ring_header_offset,
    ring_offset, ring_process_and_state, ring_user,
};

/// An anonymous file in memory (memfd) that other processes of this user can open through `/proc`. It
/// is freed when the last process that uses it exits. Its length is sealed: a shorter file would kill
/// the processes that have mapped it (SIGBUS).
pub struct MemoryFile(File);

impl MemoryFile {
    fn new(name: &CStr) -> Result<Self, RecordError> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
        Ok(Self(file.map_err(RecordError::system("making a file in memory"))?.into()))
    }

    /// Makes a file in memory with this content.
    pub fn with_content(name: &CStr, content: &[u8]) -> Result<Self, RecordError> {
        let mut file = Self::new(name)?;
        file.0.write_all(content).map_err(RecordError::system("writing a file in memory"))?;
        file.seal()?;
        Ok(file)
    }

    /// Forbids changes of the length of the file in memory.
    fn seal(&self) -> Result<(), RecordError> {
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&self.0, seals).map_err(RecordError::system("sealing a file in memory"))
    }

    /// Path through which other processes open the file in memory while this process runs.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// Mapping of the memory shared with the plugins. All of it is atomics, except the rings' records and the
/// dictionary of executed code. Only the thread that calls [`SharedMemory::drain`] reads a ring's records,
/// and dictionary entries do not change once a record refers to them.
pub struct SharedMemory {
    file: MemoryFile,
    memory: MmapRaw,
}

impl SharedMemory {
    /// Makes shared memory that is zero except for the fields that identify the recorder.
    pub fn new() -> Result<Self, RecordError> {
        let file = MemoryFile::new(c"perforate-records")?;
        let failed = "making shared memory";
        file.0.set_len(TOTAL_BYTES as u64).map_err(RecordError::system(failed))?;
        file.seal()?;
        let memory = MmapOptions::new().len(TOTAL_BYTES).no_reserve_swap().map_raw(&file.0);
        let shared = Self { file, memory: memory.map_err(RecordError::system(failed))? };
        // A random number without a further crate: from the keys of the standard library's hash maps.
        let token = RandomState::new().build_hasher().finish().max(1);
        shared.header().token.store(token, Ordering::Release);
        shared.header().recorder.store(std::process::id().into(), Ordering::Release);
        shared.header().magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// File in memory that contains the shared memory.
    pub fn file(&self) -> &File {
        &self.file.0
    }

    /// Header at the start of the shared memory.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping starts with a header, holds only atomics there, and lives as long
        // as `self`.
        unsafe { &*self.memory.as_ptr().cast::<Header>() }
    }

    fn ring_header(&self, ring: usize) -> &RingHeader {
        assert!(ring < RINGS);
        // SAFETY: ring headers lie inside the mapping; their words are atomics or never written.
        unsafe { &*self.memory.as_ptr().add(ring_header_offset(ring)).cast::<RingHeader>() }
    }

    /// Number of rings that virtual CPUs have used since the start of the recording; these are the first
    /// rings.
    pub fn rings(&self) -> usize {
        (self.header().rings.load(Ordering::Acquire) as usize).min(RINGS)
    }

    /// Returns the ID of the process that uses or last used a ring, and the ring's state (free, used or
    /// ended).
    fn process_and_state(&self, ring: usize) -> (u64, u64) {
        ring_process_and_state(self.ring_header(ring).user.load(Ordering::Acquire))
    }

    /// ID of the process that uses or last used a ring; `None` if the ring is free.
    pub fn user(&self, ring: usize) -> Option<u32> {
        let (process, state) = self.process_and_state(ring);
        (state != RING_FREE).then_some(process as u32)
    }

    /// True if the virtual CPU of a ring has exited.
    pub fn is_ended(&self, ring: usize) -> bool {
        self.process_and_state(ring).1 == RING_ENDED
    }

    /// Assigns a ring to a virtual CPU of a process, as the plugin does.
    #[cfg(test)]
    pub fn begin(&self, ring: usize, process: u32) {
        self.header().rings.fetch_max(ring as u64 + 1, Ordering::AcqRel);
        self.ring_header(ring).user.store(ring_user(process.into(), RING_USED), Ordering::Release);
    }

    /// Appends a record with value 0 to an unused ring.
    #[cfg(test)]
    pub fn push_zero(&self, ring: usize) {
        self.ring_header(ring).head.fetch_add(1, Ordering::AcqRel);
    }

    /// Marks the virtual CPU that uses a ring as exited, because its process was killed.
    pub fn end(&self, ring: usize, process: u32) {
        let user = &self.ring_header(ring).user;
        let [used, ended] = [RING_USED, RING_ENDED].map(|state| ring_user(process.into(), state));
        // The exchange fails if the plugin has already marked the ring.
        let _ = user.compare_exchange(used, ended, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Makes a ring, whose records have all been read, available to another virtual CPU.
    pub fn free(&self, ring: usize) {
        self.ring_header(ring).user.store(RING_FREE, Ordering::Release);
    }

    /// Kind of the open question of the virtual CPU that uses a ring; `None` if all its questions are
    /// answered.
    pub fn question(&self, ring: usize) -> Option<u64> {
        let header = self.ring_header(ring);
        let questions = header.questions.load(Ordering::Acquire);
        let is_open = questions > header.answers.load(Ordering::Acquire);
        is_open.then(|| header.question.load(Ordering::Acquire))
    }

    /// Marks all questions of the virtual CPU that uses a ring as answered. The plugin reads `number` as the
    /// reply.
    pub fn answer(&self, ring: usize, number: u64) {
        let header = self.ring_header(ring);
        header.answer.store(number, Ordering::Relaxed);
        header.answers.store(header.questions.load(Ordering::Acquire), Ordering::Release);
    }

    /// Appends the records in `ring` to `records` and removes them from the ring. Must be called by one
    /// thread only.
    pub fn drain(&self, ring: usize, records: &mut Vec<u64>) {
        let header = self.ring_header(ring);
        let head = header.head.load(Ordering::Acquire);
        let tail = header.tail.load(Ordering::Relaxed);
        let count = head.saturating_sub(tail).min(RING_RECORDS) as usize;
        if count == 0 {
            return;
        }
        let first = (tail % RING_RECORDS) as usize;
        let until_end = count.min(RING_RECORDS as usize - first);
        records.reserve(count);
        // SAFETY: the ring lies inside the mapping. The plugin has written the records from tail to
        // head, and does not touch them before tail moves. Room was reserved.
        unsafe {
            let start = self.memory.as_ptr().add(ring_offset(ring)).cast::<u64>();
            let end = records.as_mut_ptr().add(records.len());
            ptr::copy_nonoverlapping(start.add(first), end, until_end);
            ptr::copy_nonoverlapping(start, end.add(until_end), count - until_end);
            records.set_len(records.len() + count);
        }
        header.tail.store(tail + count as u64, Ordering::Release);
    }
}

impl Dictionary for SharedMemory {
    fn entry(&self, number: u32) -> Option<&[u8]> {
        let start = number as usize * DICTIONARY_UNIT_BYTES;
        let taken = self.header().dictionary_bytes.load(Ordering::Acquire) as usize;
        let room = taken.min(DICTIONARY_BYTES).checked_sub(start)?;
        if room < ENTRY_HEADER_BYTES {
            return None;
        }
        // SAFETY: the dictionary lies inside the mapping. An entry that a record refers to is complete
        // and never changes.
        let bytes = |length| unsafe {
            slice::from_raw_parts(self.memory.as_ptr().add(DICTIONARY_OFFSET + start), length)
        };
        let length = entry_bytes(bytes(ENTRY_HEADER_BYTES))?;
        (length <= room).then(|| bytes(length))
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.header().closed.store(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_says_whose_it_is() {
        let [one, other] = [SharedMemory::new().unwrap(), SharedMemory::new().unwrap()];
        let of = |word: &std::sync::atomic::AtomicU64| word.load(Ordering::Acquire);
        let header = one.header();
        assert_eq!((of(&header.magic), of(&header.recorder)), (MAGIC, std::process::id().into()));
        assert_ne!(of(&header.token), 0);
        assert_ne!(of(&header.token), of(&other.header().token));
        assert_eq!((of(&header.closed), of(&header.failure), one.rings()), (0, 0, 0));
        one.header().rings.store(RINGS as u64 + 5, Ordering::Release);
        assert_eq!(one.rings(), RINGS);
    }

    /// Programs can open the file by its path; a shorter file would kill the recorder (SIGBUS).
    #[test]
    fn the_shared_memory_cannot_be_shortened() {
        let shared = SharedMemory::new().unwrap();
        let path = shared.file.path();
        let file = File::options().write(true).open(&path).unwrap();
        assert!(file.set_len(0).is_err());
        assert!(File::create(&path).is_err(), "truncates");
        assert_eq!(file.metadata().unwrap().len(), TOTAL_BYTES as u64);
    }

    #[test]
    fn the_content_of_a_file_in_memory_cannot_be_shortened() {
        let made = MemoryFile::with_content(c"test", b"content").unwrap();
        let mut file = File::options().read(true).write(true).open(made.path()).unwrap();
        assert!(file.set_len(0).is_err() && file.set_len(8).is_err());
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut content).unwrap();
        assert_eq!(content, b"content");
    }

    /// Words at the end of a ring and at its start again come in order, and make room.
    #[test]
    fn records_are_read_around_the_end_of_a_ring() {
        let shared = SharedMemory::new().unwrap();
        shared.begin(1, 7);
        let header = shared.ring_header(1);
        let write = |number: u64, value: u64| {
            let slot = ring_offset(1) + (number % RING_RECORDS) as usize * 8;
            // SAFETY: the slot lies inside the mapping, and nobody else uses it.
            unsafe { shared.memory.as_mut_ptr().add(slot).cast::<u64>().write(value) };
        };
        let first = RING_RECORDS - 2;
        header.tail.store(first, Ordering::Release);
        (0..5).for_each(|number| write(first + number, 100 + number));
        header.head.store(first + 5, Ordering::Release);
        let mut records = vec![9];
        shared.drain(1, &mut records);
        assert_eq!(records, [9, 100, 101, 102, 103, 104]);
        assert_eq!(header.tail.load(Ordering::Acquire), first + 5);
        shared.drain(1, &mut records);
        assert_eq!(records.len(), 6, "each once");
        assert_eq!((shared.rings(), shared.user(0), shared.user(1)), (2, None, Some(7)));
    }

    /// States of a ring and its questions.
    #[test]
    fn a_ring_is_used_ended_and_free_again() {
        let shared = SharedMemory::new().unwrap();
        shared.begin(0, 0x7fff_ffff);
        assert_eq!((shared.user(0), shared.is_ended(0)), (Some(0x7fff_ffff), false));
        shared.end(0, 5);
        assert!(!shared.is_ended(0), "of another process");
        shared.end(0, 0x7fff_ffff);
        assert_eq!((shared.user(0), shared.is_ended(0)), (Some(0x7fff_ffff), true));
        shared.free(0);
        assert_eq!((shared.user(0), shared.is_ended(0)), (None, false));
        let header = shared.ring_header(0);
        assert_eq!(shared.question(0), None);
        header.question.store(2, Ordering::Release);
        header.questions.store(3, Ordering::Release);
        assert_eq!(shared.question(0), Some(2));
        shared.answer(0, 77);
        assert_eq!((shared.question(0), header.answer.load(Ordering::Acquire)), (None, 77));
        assert_eq!(header.answers.load(Ordering::Acquire), 3);
    }

    /// An entry of the dictionary is there once all its bytes are reserved.
    #[test]
    fn entries_end_before_the_end_of_the_dictionary() {
        let shared = SharedMemory::new().unwrap();
        let entry = crate::instructions::blocks::dictionary_entry(0x1000, &[&[0x90], &[0xc3]]);
        assert_eq!(entry_bytes(&entry[..ENTRY_HEADER_BYTES]), Some(entry.len()));
        let start = DICTIONARY_OFFSET + 3 * DICTIONARY_UNIT_BYTES;
        // SAFETY: the entry lies inside the mapping, and nobody else uses it.
        unsafe {
            ptr::copy_nonoverlapping(
                entry.as_ptr(),
                shared.memory.as_mut_ptr().add(start),
                entry.len(),
            );
        }
        let with = |bytes: usize| {
            shared.header().dictionary_bytes.store(bytes as u64, Ordering::Release);
            shared.entry(3).map(<[u8]>::to_vec)
        };
        let end = 3 * DICTIONARY_UNIT_BYTES + entry.len();
        assert_eq!(with(end), Some(entry.clone()));
        for less in [
            end - 1,
            3 * DICTIONARY_UNIT_BYTES + ENTRY_HEADER_BYTES - 1,
            3 * DICTIONARY_UNIT_BYTES,
            0,
        ] {
            assert_eq!(with(less), None, "{less}");
        }
    }
}
