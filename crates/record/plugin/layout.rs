//! Layout of the memory shared by the recorder and the plugins of all recorded processes: a header,
//! one ring of records for each virtual CPU, and a dictionary of translated blocks.
//!
//! The file behind it is sparse, so unused rings cost nothing. It belongs to the recorder and
//! outlives the recorded programs.

use std::sync::atomic::AtomicU64;

/// First word of the header; changes with the layout.
pub const MAGIC: u64 = 0x7065_7266_6361_7033;
/// Number of rings: virtual CPUs alive at one time in all processes.
pub const RINGS: usize = 512;
/// Capacity of a ring in records (2MB); a power of two.
pub const RING_RECORDS: u64 = 1 << 18;
/// Offset of the ring headers.
pub const RING_HEADERS_OFFSET: usize = 4096;
/// Offset of the dictionary.
pub const DICTIONARY_OFFSET: usize = 1 << 20;
/// Size of the dictionary.
pub const DICTIONARY_BYTES: usize = (4 << 30) - (1 << 20);
/// Entries of the dictionary start at multiples of this; a block's number is its entry's offset
/// divided by it.
pub const DICTIONARY_UNIT_BYTES: usize = 16;
/// Offset of the rings.
pub const RINGS_OFFSET: usize = DICTIONARY_OFFSET + DICTIONARY_BYTES;
/// Size of the whole file.
pub const TOTAL_BYTES: usize = RINGS_OFFSET + RINGS * RING_RECORDS as usize * 8;

/// The header. All zeros at first, except for the fields that the recorder sets before it starts the
/// program.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], written by the recorder.
    pub magic: AtomicU64,
    /// Process ID of the recorder. When it has exited, nobody reads any more.
    pub recorder: AtomicU64,
    /// Random number by which the recorder knows a plugin that has the memory; not 0.
    pub token: AtomicU64,
    /// Next ticket; segments of all rings are replayed in the order of their tickets.
    pub tickets: AtomicU64,
    /// Number of changes of address spaces; each change ends all running segments.
    pub epoch: AtomicU64,
    /// Reserved bytes of the dictionary.
    pub dictionary_bytes: AtomicU64,
    /// Set by a plugin that cannot continue: one of the `FAILURE_` values.
    pub failure: AtomicU64,
    /// Set by the recorder when it stops reading.
    pub closed: AtomicU64,
    /// Number of rings that have ever been used.
    pub rings: AtomicU64,
    /// Number of process images so far; each start, fork and execve makes one.
    pub images: AtomicU64,
    /// Time that virtual CPUs slept because their ring was full.
    pub waited_nanoseconds: AtomicU64,
    /// Programs that were executed and are not recorded.
    pub unrecorded: AtomicU64,
    /// The phases of the recording.
    pub phases: Phases,
}

/// The phases of a recording, which all processes pass through together. In phases with odd numbers
/// instructions are recorded, in the others they are only counted.
#[repr(C)]
pub struct Phases {
    /// Number of the current phase.
    pub number: AtomicU64,
    /// Instructions executed in it so far, approximately: threads add theirs in batches.
    pub executed: AtomicU64,
    /// Instructions skipped so far, before and between recorded phases.
    pub skipped: AtomicU64,
    /// Instructions recorded so far.
    pub recorded: AtomicU64,
    /// Length of phase 0 in instructions; [`ENDLESS`] if it lasts until a region begins.
    pub skip_first: AtomicU64,
    /// Length of a recorded phase.
    pub record: AtomicU64,
    /// Length of the phases between recorded ones.
    pub skip: AtomicU64,
    /// Number of windows in adaptive sampling after which their distance doubles, see
    /// [`crate::windows`]; 0 without it.
    pub kept_windows: AtomicU64,
    /// Kind of region: one of the `REGION_` values.
    pub region: AtomicU64,
    /// First address of the region's function, or the address that begins it, as linked.
    pub region_start: AtomicU64,
    /// Address after the function, or the address that ends the region, as linked.
    pub region_end: AtomicU64,
    /// Load address less linked address; set by the recorder once the program is loaded.
    pub region_bias: AtomicU64,
    /// ID of the process whose program has the region; 0 until it is known.
    pub region_process: AtomicU64,
}

/// Number of the marker that begins a region, in a no-operation or as first argument of prctl.
pub const MARKER_BEGIN: u32 = 0x5046_0001;
/// Number of the marker that ends a region.
pub const MARKER_END: u32 = 0x5046_0002;

/// Length of a phase that does not end by itself.
pub const ENDLESS: u64 = u64::MAX;

/// Everything is recorded.
pub const REGION_NONE: u64 = 0;
/// Between the program's own markers.
pub const REGION_MARKERS: u64 = 1;
/// From the first address to the second.
pub const REGION_ADDRESSES: u64 = 2;
/// From the entry of a function to its return.
pub const REGION_FUNCTION: u64 = 3;

/// More virtual CPUs at one time than [`RINGS`].
pub const FAILURE_THREADS: u64 = 1;
/// More translated code than [`DICTIONARY_BYTES`].
pub const FAILURE_DICTIONARY: u64 = 2;

/// The ring is unused.
pub const RING_FREE: u64 = 0;
/// A virtual CPU writes to the ring.
pub const RING_USED: u64 = 1;
/// The virtual CPU has exited; the recorder frees the ring when it has read everything.
pub const RING_ENDED: u64 = 2;

/// The word for a ring in this state that a process uses. Process IDs are those of the recorder's
/// namespace.
pub const fn ring_user(process: u64, state: u64) -> u64 {
    process << 2 | state
}

/// Process and state of a ring.
pub const fn ring_process_and_state(user: u64) -> (u64, u64) {
    (user >> 2, user & 3)
}

/// Question about the mappings of a program that was loaded and has not run yet.
pub const QUESTION_IMAGE: u64 = 1;
/// Question about the existing pages when recording starts.
pub const QUESTION_PAGES: u64 = 2;

/// Header of a ring. Positions are counted in records from the start of the recording.
#[repr(C, align(64))]
pub struct RingHeader {
    /// Records written; advanced by the plugin.
    pub head: AtomicU64,
    /// [`RING_FREE`], or the ID of the process that uses it with [`RING_USED`] or [`RING_ENDED`], see
    /// [`ring_user`].
    pub user: AtomicU64,
    /// Number of the image whose virtual CPU uses it.
    pub image: AtomicU64,
    /// Number of questions that its virtual CPU has asked, after writing the records before them.
    pub questions: AtomicU64,
    /// Number of questions that the recorder has answered.
    pub answers: AtomicU64,
    /// The last question: one of the `QUESTION_` values.
    pub question: AtomicU64,
    /// A number that belongs to the last answer: the end of the program's stack, for
    /// [`QUESTION_IMAGE`].
    pub answer: AtomicU64,
    /// Keeps the two positions on cache lines of their own.
    pub padding: u64,
    /// Records read; advanced by the recorder.
    pub tail: AtomicU64,
}

/// Offset of ring header `ring`.
pub const fn ring_header_offset(ring: usize) -> usize {
    RING_HEADERS_OFFSET + ring * size_of::<RingHeader>()
}

/// Offset of the records of `ring`.
pub const fn ring_offset(ring: usize) -> usize {
    RINGS_OFFSET + ring * RING_RECORDS as usize * 8
}

const _: () = assert!(size_of::<Header>() <= RING_HEADERS_OFFSET);
const _: () = assert!(ring_header_offset(RINGS) <= DICTIONARY_OFFSET);
