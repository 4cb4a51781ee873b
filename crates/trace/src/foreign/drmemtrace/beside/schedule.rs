//! `cpu_schedule.bin.zip` and `serial_schedule.bin`: the schedule of threads on processors, as entries of
//! type `schedule_entry_t`: thread, time stamp, processor, and number of its first instruction (64 bits
//! each). The trace files of the threads contain these time stamps too; the trace reader merges the files by
//! time stamp and does not need the schedule.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::TraceError;
use crate::content::Content;
use crate::foreign::compressed::share_of_memory;
use crate::foreign::foreign_source::Input;
use crate::foreign::{MAGIC_BYTES, decompressed};
use crate::format::header::field;

/// File names of schedules. The first is an archive with one part per processor.
const NAMES: [&str; 6] = [
    "cpu_schedule.bin.zip",
    "serial_schedule.bin",
    "serial_schedule.bin.gz",
    "serial_schedule.bin.zip",
    "serial_schedule.bin.lz4",
    "serial_schedule.bin.sz",
];
/// Length of a schedule entry in bytes.
const BYTES: usize = 32;
/// Number at which counting of threads or processors stops.
const MOST: usize = 1 << 16;

/// Summary of the schedule of a recording: threads on processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Path of the schedule's file.
    pub path: PathBuf,
    /// Number of schedule entries: intervals in which one thread ran on one processor.
    pub stretches: u64,
    /// Number of threads in the schedule, at most 65536.
    pub threads: usize,
    /// Number of processors in the schedule, at most 65536; 0 if it names none, as in one of Google's traces.
    pub processors: usize,
}

impl Schedule {
    /// Finds and reads the schedule of a drmemtrace trace. `None` if there is no schedule.
    ///
    /// # Errors
    /// If the schedule cannot be read or is cut off.
    pub fn beside(trace: &Path) -> Result<Option<Self>, TraceError> {
        let Some(path) = super::find(trace, &NAMES) else { return Ok(None) };
        let content = Content::open(&path)?;
        Self::read(content_of(&path, content)?).map(Some)
    }

    /// Parses a schedule from memory; `path` determines its compression and is used in messages.
    ///
    /// # Errors
    /// If the schedule is cut off or damaged.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, TraceError> {
        let content = Content::of_memory(bytes.to_vec());
        Self::read(content_of(path, content)?)
    }

    fn read(mut input: Input) -> Result<Self, TraceError> {
        let mut threads = HashSet::new();
        let mut processors = HashSet::new();
        let mut stretches = 0;
        let mut buffer = vec![0; 1024 * BYTES];
        loop {
            let bytes = input.fill(&mut buffer)?;
            if bytes % BYTES != 0 {
                let problem = format!("{} bytes of an entry", bytes % BYTES);
                return Err(input.damaged(input.offset, problem, "whole entries of 32 bytes"));
            }
            if bytes == 0 {
                break;
            }
            for entry in buffer[..bytes].chunks_exact(BYTES) {
                let [thread, processor] =
                    [0, 16].map(|place| u64::from_le_bytes(field(entry, place)));
                insert_bounded(&mut threads, thread);
                insert_bounded(&mut processors, processor);
                stretches += 1;
            }
        }
        processors.remove(&u64::MAX); // unknown processor
        let (threads, processors) = (threads.len(), processors.len());
        Ok(Self { path: input.path, stretches, threads, processors })
    }
}

fn content_of(path: &Path, mut content: Content) -> Result<Input, TraceError> {
    let failed = |error| TraceError::io(path, "read", error);
    let magic = content.peek(MAGIC_BYTES).map_err(failed)?;
    Ok(decompressed(path, content, &magic, share_of_memory(1))?.0)
}

fn insert_bounded(known: &mut HashSet<u64>, one: u64) {
    if known.len() < MOST {
        known.insert(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(list: &[[u64; 4]]) -> Vec<u8> {
        list.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn threads_and_processors_are_counted() {
        // Thread 7 on processor 0, thread 8 on processor 0, thread 7 on processor 1, thread 7 on an
        // unknown processor.
        let bytes =
            entries(&[[7, 10, 0, 0], [8, 20, 0, 0], [7, 30, 1, 500], [7, 40, u64::MAX, 900]]);
        let schedule = Schedule::parse(Path::new("serial_schedule.bin"), &bytes).unwrap();
        assert_eq!((schedule.stretches, schedule.threads, schedule.processors), (4, 2, 2));
        let nothing = Schedule::parse(Path::new("s"), &[]).unwrap();
        assert_eq!((nothing.stretches, nothing.threads), (0, 0));
    }

    #[test]
    fn an_entry_that_is_cut_off_is_an_error() {
        let bytes = entries(&[[7, 10, 0, 0], [8, 20, 0, 0]]);
        let error = Schedule::parse(Path::new("s"), &bytes[..40]).unwrap_err().to_string();
        assert!(error.contains("byte 40: 8 bytes of an entry; expected whole entries"), "{error}");
    }
}
