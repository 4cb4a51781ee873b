//! The memory that the recorder and the plugin share: a header, one ring of records per virtual
//! CPU, and a dictionary of translated blocks.
//!
//! The file behind it is sparse, so unused rings cost nothing. It belongs to the recorder and
//! outlives the recorded program, whatever kills that.

use std::sync::atomic::AtomicU64;

/// First word of the header; changes with the layout.
pub const MAGIC: u64 = 0x7065_7266_6361_7031;
/// Rings, so virtual CPUs alive at one time.
pub const RINGS: usize = 512;
/// Records in one ring (2MB); a power of two.
pub const RING_RECORDS: u64 = 1 << 18;
/// Where the ring headers start.
pub const RING_HEADERS_OFFSET: usize = 4096;
/// Where the dictionary starts.
pub const DICTIONARY_OFFSET: usize = 1 << 20;
/// Room for the dictionary.
pub const DICTIONARY_BYTES: usize = (1 << 30) - (1 << 20);
/// Where the rings start.
pub const RINGS_OFFSET: usize = DICTIONARY_OFFSET + DICTIONARY_BYTES;
/// Size of the whole file.
pub const TOTAL_BYTES: usize = RINGS_OFFSET + RINGS * RING_RECORDS as usize * 8;

/// What both sides know of each other. Zero to begin with, apart from the magic number.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], written by the recorder.
    pub magic: AtomicU64,
    /// Next segment ticket: segments of all rings are replayed in order of ticket.
    pub tickets: AtomicU64,
    /// Counts changes of the address space; a running segment ends when it moves.
    pub epoch: AtomicU64,
    /// Bytes of the dictionary that are complete.
    pub dictionary_bytes: AtomicU64,
    /// Hand-shakes answered by the recorder: 1 after the snapshot, 2 after the start.
    pub answers: AtomicU64,
    /// Set by the plugin when it cannot go on: one of the `FAILURE_` values.
    pub failure: AtomicU64,
    /// Instructions skipped so far, for display.
    pub skipped: AtomicU64,
    /// Set by the recorder when it reads no more.
    pub closed: AtomicU64,
    /// Rings that have ever been used.
    pub rings: AtomicU64,
}

/// More virtual CPUs at one time than [`RINGS`].
pub const FAILURE_THREADS: u64 = 1;
/// More translated code than [`DICTIONARY_BYTES`].
pub const FAILURE_DICTIONARY: u64 = 2;

/// Positions in one ring, counted in records from the start of the recording.
#[repr(C, align(64))]
pub struct RingHeader {
    /// Records written; moved by the plugin.
    pub head: AtomicU64,
    /// Keeps the two positions on cache lines of their own.
    pub padding: [u64; 7],
    /// Records read; moved by the recorder.
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
