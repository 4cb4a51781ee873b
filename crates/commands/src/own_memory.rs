//! The memory of this machine as one that a simulation begins with.

use std::path::Path;
use std::sync::OnceLock;

use perforate_host::snapshot::{HostFiles, read_host};
use perforate_sim::{MemorySnapshot, SimError};

/// Name of this machine in place of a snapshot's file.
const HOST: &str = "host";

/// The snapshot in a file, or of this machine's memory now; `progress` hears how many frames were read,
/// and of how many. This machine's is taken once: all schemes, seeds and values of one command begin
/// with the same.
///
/// # Errors
/// A file that cannot be read, or this machine's frames, for which root is needed.
pub fn own_memory(
    file: &str,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<MemorySnapshot, SimError> {
    static TAKEN: OnceLock<MemorySnapshot> = OnceLock::new();
    if file != HOST {
        return MemorySnapshot::load(file);
    }
    if let Some(taken) = TAKEN.get() {
        return Ok(taken.clone());
    }
    let taken = take(progress)?;
    Ok(TAKEN.get_or_init(|| taken).clone())
}

fn take(progress: &mut dyn FnMut(u64, Option<u64>)) -> Result<MemorySnapshot, SimError> {
    let files = HostFiles::open(Path::new("/proc"));
    let snapshot = read_host(files, progress);
    let wrong = |problem: String| SimError::Snapshot { path: "--memory-from host".into(), problem };
    let snapshot = snapshot.map_err(|error| wrong(error.to_string()))?;
    MemorySnapshot::taken("this machine", snapshot).map_err(|error| match error {
        SimError::Snapshot { problem, .. } => wrong(problem),
        error => error,
    })
}
