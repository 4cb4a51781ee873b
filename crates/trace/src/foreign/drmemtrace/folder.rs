//! The folder that drmemtrace writes: `drmemtrace.NAME.PID.NUMBER.dir`, with raw traces in `raw` and
//! final traces in `trace`, one file per thread.

use std::path::{Path, PathBuf};

use super::HOW_TO_FINISH;
use crate::TraceError;

/// Maximum number of trace files in a folder, one for each possible thread number.
const MAX_FILES: usize = 1 << 16;

/// Lists the final (not raw) traces in a folder, or in its folder `trace`, sorted by name.
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

/// Raises the limit of open files, up to the hard limit, to `count` files in addition to the program's
/// own. Thousands of threads may run at the same time; the usual limit is 1024 files.
pub(super) fn allow_open_files(count: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = count as u64 + 256;
    if let Some(current) = limit.current
        && current < wanted
    {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        // A refusal is ignored: a file that cannot be opened gives its own error.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Lists trace files of threads in a folder, recognized by their names (`drmemtrace.….trace.zip`,
/// `….memtrace.gz`), without schedules and lists.
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
