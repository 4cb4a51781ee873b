//! Snapshots of real machines as the memory that a simulation begins with.

mod record;

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;

use perforate_config::Size;
use perforate_os::{HostSnapshot, SnapshotAbout};
use perforate_types::PageSize;
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use crate::SimError;
pub use record::host_record;

/// A snapshot and the file it comes from. All memories that begin with it share it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemorySnapshot {
    /// The file as it was named.
    pub file: String,
    /// XXH3-128 of its content.
    pub content_hash: String,
    #[serde(skip)]
    snapshot: Arc<HostSnapshot>,
}

impl MemorySnapshot {
    /// Reads a file that says what lies in every frame.
    ///
    /// # Errors
    /// If it cannot be read, is no snapshot of a host, or does not know the frames.
    pub fn load(file: &str) -> Result<Self, SimError> {
        let (snapshot, content_hash) = Self::read(file)?;
        let wrong = |error: perforate_os::OsError| SimError::Snapshot {
            path: file.into(),
            problem: error.to_string(),
        };
        snapshot.frames().map_err(wrong)?;
        Ok(Self { file: file.into(), content_hash, snapshot: Arc::new(snapshot) })
    }

    /// A snapshot that was just taken, which results call by this name.
    ///
    /// # Errors
    /// If it does not know the frames.
    pub fn taken(name: &str, snapshot: HostSnapshot) -> Result<Self, SimError> {
        let wrong = |problem: String| SimError::Snapshot { path: name.into(), problem };
        snapshot.frames().map_err(|error| wrong(error.to_string()))?;
        let mut output = HashOnly(Xxh3::new());
        snapshot.write_to(&mut output).map_err(|error| wrong(error.to_string()))?;
        let content_hash = format!("{:032x}", output.0.digest128());
        Ok(Self { file: name.into(), content_hash, snapshot: Arc::new(snapshot) })
    }

    /// Reads any snapshot of a host; its content hash besides.
    ///
    /// # Errors
    /// If it cannot be read or is none.
    pub fn read(file: &str) -> Result<(HostSnapshot, String), SimError> {
        let wrong = |problem: String| SimError::Snapshot { path: file.into(), problem };
        let opened = perforate_config::open_file(file).map_err(|error| wrong(error.to_string()))?;
        let mut input = Hashed { input: BufReader::new(opened), hash: Xxh3::new() };
        let snapshot =
            HostSnapshot::read_from(&mut input).map_err(|error| wrong(error.to_string()))?;
        Ok((snapshot, format!("{:032x}", input.hash.digest128())))
    }

    /// The snapshot.
    pub(crate) fn shared(&self) -> Arc<HostSnapshot> {
        Arc::clone(&self.snapshot)
    }

    /// What the machine did to its memory beside what lies in the frames, which the simulated memory
    /// does not take over; none if it did nothing of the kind.
    pub(crate) fn left_out(&self) -> Option<String> {
        let SnapshotAbout { swap_bytes, merges_pages, .. } = self.snapshot.about;
        let swap = (swap_bytes > 0).then(|| format!("{} of swap", Size(swap_bytes)));
        let merging = merges_pages.then(|| "same-page merging (KSM) that runs".to_owned());
        let had: Vec<String> = swap.into_iter().chain(merging).collect();
        (!had.is_empty()).then(|| {
            format!(
                "{} has {}, which the simulated memory does not take over: --swap and --ksm give it \
                 its own",
                self.file,
                had.join(" and ")
            )
        })
    }

    /// Memory that is there.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let occupancy = self.snapshot.occupancy.as_ref();
        occupancy.map_or(0, |known| known.memory_frames()) * PageSize::Size4K.bytes()
    }

    /// Physical addresses up to the last that can be used, with room for the hole bitmap.
    pub(crate) fn address_bytes(&self) -> u64 {
        let occupancy = self.snapshot.occupancy.as_ref();
        let bytes = occupancy.map_or(0, |known| known.blocks()) * PageSize::Size2M.bytes();
        bytes + bytes / (PageSize::Size4K.bytes() * 8) + PageSize::Size2M.bytes()
    }
}

/// A hash of what is written, which goes nowhere.
struct HashOnly(Xxh3);

impl Write for HashOnly {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is read, and a hash of it.
struct Hashed<R> {
    input: R,
    hash: Xxh3,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}
