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
    check_number(folder, list.len())?;
    Ok(list)
}

fn check_number(folder: &Path, files: usize) -> Result<(), TraceError> {
    if files > MAX_FILES {
        let problem = format!("a drmemtrace folder of {files} threads");
        return Err(TraceError::unsuitable(folder, problem, &format!("at most {MAX_FILES}")));
    }
    Ok(())
}

/// Raises the limit of open files, up to the hard limit, to `count` files in addition to the program's
/// own. Thousands of threads may run at the same time; the usual limit is 1024 files.
pub(super) fn allow_open_files(count: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Some(raised) = raised_limit(current, maximum, count as u64) {
        // A refusal is ignored: a file that cannot be opened gives its own error.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum });
    }
}

/// Limit of open files that suffices for `count` files and 256 of the program, or the hard limit `maximum`.
/// `None` if the limit `current` suffices.
fn raised_limit(current: Option<u64>, maximum: Option<u64>, count: u64) -> Option<u64> {
    let wanted = count + 256;
    let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    current.filter(|current| *current < wanted).map(|_| raised)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_leaves_256_to_the_program() {
        let raised = |current, maximum| raised_limit(current, maximum, 1000);
        assert_eq!(raised(Some(1255), None), Some(1256));
        assert_eq!(raised(Some(1256), None), None);
        assert_eq!(raised(Some(1024), Some(4096)), Some(1256));
        assert_eq!(raised(Some(1024), Some(1100)), Some(1100), "the hard limit");
        assert_eq!(raised(None, None), None, "no limit");
    }

    #[test]
    fn a_folder_has_a_file_for_each_thread_number_at_most() {
        assert!(check_number(Path::new("folder"), 1 << 16).is_ok());
        let error = check_number(Path::new("folder"), (1 << 16) + 1).unwrap_err().to_string();
        assert!(error.contains("65537 threads"), "{error}");
    }

    #[test]
    fn traces_are_sorted_and_lists_beside_them_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["b.memtrace.gz", "a.memtrace.zip", "c.memtrace.schedule.gz", "readme", "d.memtrace.x"]
        {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("e.memtrace.dir")).unwrap();
        let list = files(folder.path()).unwrap();
        let names: Vec<_> = list.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["a.memtrace.zip", "b.memtrace.gz", "d.memtrace.x"]);
        let inner = folder.path().join("trace");
        std::fs::create_dir(&inner).unwrap();
        assert!(files(folder.path()).is_err(), "only the folder `trace` counts");
        std::fs::write(inner.join("f.memtrace.gz"), "").unwrap();
        assert_eq!(files(folder.path()).unwrap(), [inner.join("f.memtrace.gz")]);
    }
}
