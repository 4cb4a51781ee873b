//! The folder that drmemtrace writes: `drmemtrace.NAME.PID.NUMBER.dir`, with raw traces in `raw`
//! and final ones in `trace`, a file for each thread.

use std::path::{Path, PathBuf};

use super::HOW_TO_FINISH;
use crate::TraceError;

/// Most files of threads: there are no more numbers for threads.
const MAX_FILES: usize = 1 << 16;

/// The final traces in a folder or in its `trace` folder, in order of their names.
pub(in crate::foreign) fn files(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let inner = folder.join("trace");
    let searched = if inner.is_dir() { &inner } else { folder };
    let list = traces_in(searched).map_err(|error| TraceError::io(searched, "read", error))?;
    if list.is_empty() {
        let raw = folder.join("raw").is_dir() || folder.join("modules.log").is_file();
        return Err(if searched.join("window.0000").is_dir() {
            let problem = "a drmemtrace folder of several windows";
            TraceError::unsuitable(folder, problem, "the folder of one, trace/window.NNNN")
        } else if raw {
            let problem = "a drmemtrace folder with raw traces only";
            TraceError::unsuitable(folder, problem, HOW_TO_FINISH)
        } else {
            TraceError::unrecognized(folder, "a directory")
        });
    }
    if list.len() > MAX_FILES {
        let problem = format!("a drmemtrace folder of {} threads", list.len());
        return Err(TraceError::unsuitable(folder, problem, &format!("at most {MAX_FILES}")));
    }
    Ok(list)
}

/// Asks the system to let so many files be open, besides those of the rest of the program, as far as
/// its hard limit goes: thousands of threads may run at a time, and 1024 files are usual.
pub(super) fn allow_open_files(count: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = count as u64 + 256;
    if let Some(current) = limit.current
        && current < wanted
    {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        // Refused or not: a file that cannot be opened is an error of its own.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Files of threads, by what their names have in common (`drmemtrace.….trace.zip`,
/// `….memtrace.gz`); not the schedules and lists that lie beside them.
fn traces_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut list = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains("memtrace.") && !name.contains("schedule") && path.is_file() {
            list.push(path);
        }
    }
    list.sort();
    Ok(list)
}
