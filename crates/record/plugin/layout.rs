//! Layout of the memory shared by the recorder and the plugins of all recorded processes: a header, one
//! ring of records per virtual CPU, and a dictionary of translated blocks.
//!
//! The file behind the memory is sparse, so unused rings take no space. It belongs to the recorder and
//! outlives the recorded programs.

use std::sync::atomic::AtomicU64;

/// First word of the shared memory's header; it changes with every change of the layout.
pub const MAGIC: u64 = 0x7065_7266_6361_7033;
/// Number of rings: maximum number of virtual CPUs at the same time, in all processes.
pub const RINGS: usize = 512;
/// Capacity of a ring in records (2MB); a power of two.
pub const RING_RECORDS: u64 = 1 << 18;
/// Offset of the ring headers in the shared memory, in bytes.
pub const RING_HEADERS_OFFSET: usize = 4096;
/// Offset of the dictionary of translated blocks in the shared memory, in bytes.
pub const DICTIONARY_OFFSET: usize = 1 << 20;
/// Size of the dictionary of translated blocks in bytes.
pub const DICTIONARY_BYTES: usize = (4 << 30) - (1 << 20);
/// Alignment of dictionary entries in bytes. A block's number is the offset of its entry divided by
/// this.
pub const DICTIONARY_UNIT_BYTES: usize = 16;
/// Offset of the rings' records in the shared memory, in bytes.
pub const RINGS_OFFSET: usize = DICTIONARY_OFFSET + DICTIONARY_BYTES;
/// Size of the shared memory in bytes.
pub const TOTAL_BYTES: usize = RINGS_OFFSET + RINGS * RING_RECORDS as usize * 8;

/// Header of the shared memory. Initially zero, except for the fields that the recorder sets before it
/// starts the program.
#[repr(C)]
pub struct Header {
    /// The constant [`MAGIC`], written by the recorder.
    pub magic: AtomicU64,
    /// Process ID of the recorder. Once it has exited, records are not read any more.
    pub recorder: AtomicU64,
    /// Random number, not 0, by which the recorder knows that a plugin has access to the shared memory.
    pub token: AtomicU64,
    /// Next ticket. A segment (records of one thread between two points of synchronization) takes a ticket at
    /// its start; segments of all rings are replayed in the order of their tickets.
    pub tickets: AtomicU64,
    /// Number of changes of address spaces so far, in all processes. Each change ends all running segments.
    pub epoch: AtomicU64,
    /// Number of reserved bytes in the dictionary.
    pub dictionary_bytes: AtomicU64,
    /// Reason for which a plugin cannot continue: one of the `FAILURE_` values, or 0.
    pub failure: AtomicU64,
    /// 1 once the recorder has stopped reading.
    pub closed: AtomicU64,
    /// Number of rings that were ever used.
    pub rings: AtomicU64,
    /// Number of process images so far. Each start, fork and execve makes an image.
    pub images: AtomicU64,
    /// Time in nanoseconds that virtual CPUs slept because their rings were full.
    pub waited_nanoseconds: AtomicU64,
    /// Number of executed programs that are not recorded.
    pub unrecorded: AtomicU64,
    /// State of the recording's phases, its recorded and skipped parts.
    pub phases: Phases,
}

/// Phases of a recording, common to all processes. In phases with odd numbers, instructions are
/// recorded; in even phases, they are only counted.
#[repr(C)]
pub struct Phases {
    /// Number of the current phase.
    pub number: AtomicU64,
    /// Approximate number of instructions executed in the current phase; threads add their counts in
    /// batches.
    pub executed: AtomicU64,
    /// Number of instructions skipped so far, before and between recorded phases.
    pub skipped: AtomicU64,
    /// Number of instructions recorded so far.
    pub recorded: AtomicU64,
    /// Length of phase 0 in instructions; [`ENDLESS`] if it lasts until a region begins.
    pub skip_first: AtomicU64,
    /// Length of a recorded phase in instructions.
    pub record: AtomicU64,
    /// Length of the phases between recorded phases, in instructions.
    pub skip: AtomicU64,
    /// Number of windows in adaptive sampling after which their distance doubles (see
    /// [`crate::windows`]); 0 without adaptive sampling.
    pub kept_windows: AtomicU64,
    /// Kind of region: one of the `REGION_` values.
    pub region: AtomicU64,
    /// Linked address (as in the ELF file) of the region's function, or at which the region begins.
    pub region_start: AtomicU64,
    /// Linked address (as in the ELF file) after the region's function, or at which the region ends.
    pub region_end: AtomicU64,
    /// Load address of the region's program minus its linked address; set by the recorder after loading.
    pub region_bias: AtomicU64,
    /// ID of the process whose program contains the region; 0 until it is known.
    pub region_process: AtomicU64,
}

/// Number of the marker that begins a region, in a no-operation or as the first argument of prctl.
pub const MARKER_BEGIN: u32 = 0x5046_0001;
/// Number of the marker that ends a region.
pub const MARKER_END: u32 = 0x5046_0002;

/// Length of a phase that does not end by itself, in instructions.
pub const ENDLESS: u64 = u64::MAX;

/// Region: everything is recorded.
pub const REGION_NONE: u64 = 0;
/// Region: between the program's own markers.
pub const REGION_MARKERS: u64 = 1;
/// Region: from the execution of the instruction at the first address to that at the second.
pub const REGION_ADDRESSES: u64 = 2;
/// Region: from the entry of a function to its return.
pub const REGION_FUNCTION: u64 = 3;

/// Failure: more virtual CPUs at the same time than [`RINGS`].
pub const FAILURE_THREADS: u64 = 1;
/// Failure: more translated code than [`DICTIONARY_BYTES`].
pub const FAILURE_DICTIONARY: u64 = 2;

/// State of an unused ring.
pub const RING_FREE: u64 = 0;
/// State of a ring to which a virtual CPU writes.
pub const RING_USED: u64 = 1;
/// State after the virtual CPU has exited. The recorder frees the ring when it has read all records.
pub const RING_ENDED: u64 = 2;

/// Encodes the user of a ring: process and state. Process IDs are those of the recorder's PID namespace.
pub const fn ring_user(process: u64, state: u64) -> u64 {
    process << 2 | state
}

/// Decodes process and state of a ring.
pub const fn ring_process_and_state(user: u64) -> (u64, u64) {
    (user >> 2, user & 3)
}

/// Question about the mappings of a program that is loaded and has not run yet.
pub const QUESTION_IMAGE: u64 = 1;
/// Question about the resident pages when recording starts.
pub const QUESTION_PAGES: u64 = 2;

/// Header of a ring. Positions count records from the start of the recording.
#[repr(C, align(64))]
pub struct RingHeader {
    /// Number of records written to the ring; advanced by the plugin.
    pub head: AtomicU64,
    /// The state [`RING_FREE`], or [`RING_USED`] or [`RING_ENDED`] with the ID of the process, see
    /// [`ring_user`].
    pub user: AtomicU64,
    /// Number of the process image whose virtual CPU uses the ring.
    pub image: AtomicU64,
    /// Number of questions that the virtual CPU has asked. The records before a question are written
    /// first.
    pub questions: AtomicU64,
    /// Number of questions that the recorder has answered.
    pub answers: AtomicU64,
    /// Kind of the virtual CPU's last question: one of the `QUESTION_` values.
    pub question: AtomicU64,
    /// Number that accompanies the last answer: for [`QUESTION_IMAGE`], the end of the program's stack.
    pub answer: AtomicU64,
    /// Separates the positions `head` and `tail` into different cache lines.
    pub padding: u64,
    /// Number of records read from the ring; advanced by the recorder.
    pub tail: AtomicU64,
}

/// Offset of the header of ring `ring` in the shared memory, in bytes.
pub const fn ring_header_offset(ring: usize) -> usize {
    RING_HEADERS_OFFSET + ring * size_of::<RingHeader>()
}

/// Offset of the records of ring `ring` in the shared memory, in bytes.
pub const fn ring_offset(ring: usize) -> usize {
    RINGS_OFFSET + ring * RING_RECORDS as usize * 8
}

const _: () = assert!(size_of::<Header>() <= RING_HEADERS_OFFSET);
const _: () = assert!(ring_header_offset(RINGS) <= DICTIONARY_OFFSET);
