//! Memory state of this machine, as the initial state of a simulation.

use std::path::Path;
use std::sync::OnceLock;

use perforate_host::snapshot::{HostFiles, read_host};
use perforate_sim::{MemorySnapshot, SimError};

use super::machines::HOST;

/// Loads a snapshot from a file, or takes one of this machine's memory. `progress` is called with
/// the number of frames read, and the total if known. This machine's snapshot is taken once, so all
/// schemes, seeds and values of a command start from the same state.
///
/// # Errors
/// A file that cannot be read, or missing root privileges for reading this machine's frames.
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
