//! Snapshots of real machines. A simulation's memory can start in the state of a snapshot.

mod record;

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use perforate_config::Size;
use perforate_os::{HostSnapshot, SnapshotAbout};
use perforate_types::PageSize;
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use crate::SimError;
pub use record::host_record;

/// A snapshot of a real machine's memory, and its file. All simulated memories that start in its
/// state share it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemorySnapshot {
    /// Path of the file as given.
    pub file: String,
    /// XXH3-128 of the file's content, in hexadecimal.
    pub content_hash: String,
    #[serde(skip)]
    snapshot: Arc<HostSnapshot>,
}

impl MemorySnapshot {
    /// Loads a snapshot with the state of every frame.
    ///
    /// # Errors
    /// The file is unreadable, is not a snapshot of a host, or lacks the state of the frames.
    pub fn load(file: &str) -> Result<Self, SimError> {
        let (snapshot, content_hash) = Self::read(file)?;
        let wrong = |error: perforate_os::OsError| SimError::Snapshot {
            path: file.into(),
            problem: error.to_string(),
        };
        snapshot.frames().map_err(wrong)?;
        Ok(Self { file: file.into(), content_hash, snapshot: Arc::new(snapshot) })
    }

    /// Wraps a snapshot that was taken just now. Results refer to it as `name`.
    ///
    /// # Errors
    /// The snapshot lacks the state of the frames.
    pub fn taken(name: &str, snapshot: HostSnapshot) -> Result<Self, SimError> {
        let wrong = |problem: String| SimError::Snapshot { path: name.into(), problem };
        snapshot.frames().map_err(|error| wrong(error.to_string()))?;
        let mut output = Xxh3::new();
        snapshot.write_to(&mut output).map_err(|error| wrong(error.to_string()))?;
        let content_hash = format!("{:032x}", output.digest128());
        Ok(Self { file: name.into(), content_hash, snapshot: Arc::new(snapshot) })
    }

    /// Reads a snapshot of a host, with or without the state of the frames. Returns it with the
    /// hash of the file's content.
    ///
    /// # Errors
    /// The file is unreadable, or is not a snapshot.
    pub fn read(file: &str) -> Result<(HostSnapshot, String), SimError> {
        let wrong = |problem: String| SimError::Snapshot { path: file.into(), problem };
        let opened = perforate_config::open_file(file).map_err(|error| wrong(error.to_string()))?;
        let mut input = Hashed { input: BufReader::new(opened), hash: Xxh3::new() };
        let snapshot =
            HostSnapshot::read_from(&mut input).map_err(|error| wrong(error.to_string()))?;
        Ok((snapshot, format!("{:032x}", input.hash.digest128())))
    }

    /// Returns the snapshot, for sharing between memories.
    pub(crate) fn shared(&self) -> Arc<HostSnapshot> {
        Arc::clone(&self.snapshot)
    }

    /// Returns a note on swap and page merging of the real machine, which the simulated memory does
    /// not have. `None` if the machine used neither.
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

    /// Returns the size of the memory in bytes, without gaps in the physical address space.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let occupancy = self.snapshot.occupancy.as_ref();
        occupancy.map_or(0, |known| known.memory_frames()) * PageSize::Size4K.bytes()
    }

    /// Returns the end of the usable physical addresses in bytes, plus room for the hole bitmap.
    pub(crate) fn address_bytes(&self) -> u64 {
        let occupancy = self.snapshot.occupancy.as_ref();
        let bytes = occupancy.map_or(0, |known| known.blocks()) * PageSize::Size2M.bytes();
        bytes + bytes / (PageSize::Size4K.bytes() * 8) + PageSize::Size2M.bytes()
    }
}

/// Reader that hashes the bytes of its input.
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

#[cfg(test)]
mod tests {
    use perforate_os::{FrameState, OccupancyBuilder};

    use super::*;

    /// A snapshot is recognised by its content, of whatever lengths the reads of its file are.
    #[test]
    fn a_snapshot_has_the_same_hash_in_memory_and_in_a_file() {
        let mut made = OccupancyBuilder::default();
        for frame in 0..20_000 {
            let state = if frame % 3 == 0 { FrameState::Free } else { FrameState::Movable };
            made.push_run(state, 1 + frame % 7).unwrap();
        }
        let taken =
            MemorySnapshot::taken("host", HostSnapshot::of(made.finish().unwrap())).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        taken.snapshot.write_to(&mut file.as_file()).unwrap();
        let loaded = MemorySnapshot::load(file.path().to_str().unwrap()).unwrap();
        assert_eq!(loaded.content_hash, taken.content_hash);
        assert_eq!(loaded.memory_bytes(), taken.memory_bytes());
    }

    /// A memory needs the state of every frame; other uses of a snapshot do not.
    #[test]
    fn a_snapshot_without_frames_makes_no_memory() {
        let mut made = OccupancyBuilder::default();
        made.push_run(FrameState::Free, 4096).unwrap();
        let whole = HostSnapshot::of(made.finish().unwrap());
        let counted = HostSnapshot { occupancy: None, ..whole };
        let expected = |name: &str| {
            format!(
                "{name}: snapshot: frames: it was taken without the right to read kpageflags: how many \
                 blocks are free is known, and not which; take it as root"
            )
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        counted.write_to(&mut file.as_file()).unwrap();
        let error = MemorySnapshot::taken("host", counted).unwrap_err().to_string();
        assert_eq!(error, expected("host"));
        let path = file.path().to_str().unwrap();
        assert_eq!(MemorySnapshot::load(path).unwrap_err().to_string(), expected(path));
        assert!(MemorySnapshot::read(path).unwrap().0.occupancy.is_none());
    }

    #[test]
    fn what_a_machine_had_besides_is_noted() {
        let snapshot = |swap_bytes, merges_pages| {
            let mut made = OccupancyBuilder::default();
            made.push_run(FrameState::Free, 3 * 512 + 1).unwrap();
            let mut snapshot = HostSnapshot::of(made.finish().unwrap());
            (snapshot.about.swap_bytes, snapshot.about.merges_pages) = (swap_bytes, merges_pages);
            MemorySnapshot::taken("s", snapshot).unwrap()
        };
        let rest =
            "which the simulated memory does not take over: --swap and --ksm give it its own";
        for (swap_bytes, merges, had) in [
            (2 << 30, false, "2G of swap"),
            (0, true, "same-page merging (KSM) that runs"),
            (2 << 30, true, "2G of swap and same-page merging (KSM) that runs"),
        ] {
            let note = snapshot(swap_bytes, merges).left_out();
            assert_eq!(note, Some(format!("s has {had}, {rest}")));
        }
        let plain = snapshot(0, false);
        assert_eq!((plain.left_out(), plain.memory_bytes()), (None, (6 << 20) + 4096));
        // Four blocks have a hole bitmap of 256 bytes; a block more is room for it.
        assert_eq!(plain.address_bytes(), (8 << 20) + 256 + (2 << 20));
    }
}
