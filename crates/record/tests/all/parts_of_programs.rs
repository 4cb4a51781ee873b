//! Tests of windows in threaded and long programs, and of parts that begin or end at some time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perforate_record::{Begin, Ending, Progress, RecordOptions, RecordSummary, Sampling, record};
use perforate_trace::{StoppedBy, TraceReader};
use perforate_types::{Advice, Chunk, ProgramEvent};

use crate::c_program::CProgram;
use crate::end_to_end::assert_accesses_are_mapped;
use crate::{emulator_is_missing, options, read, record_quietly};

fn gaps(trace: &Chunk) -> Vec<u64> {
    let gap = |(_, event): &(u32, ProgramEvent)| match event {
        ProgramEvent::Gap { instructions } => Some(*instructions),
        _ => None,
    };
    trace.events.iter().filter_map(gap).collect()
}

/// Four threads, each of about 20M instructions.
const THREADS: &str = r#"
    #include <pthread.h>
    static volatile long memory[4][1 << 16];
    static void *work(void *number) {
        unsigned state = (unsigned)(long)number;
        for (int i = 0; i < 2500000; i++)
            memory[(long)number][(state = state * 1664525 + 1013904223) >> 16] += 1;
        return 0;
    }
    int main(void) {
        pthread_t threads[4];
        for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        return 0;
    }"#;

/// Threads that run unrecorded while another thread begins a window take no instructions from the
/// window.
#[test]
fn windows_of_threaded_programs_have_the_requested_length() {
    let Some(program) = CProgram::new(THREADS, &["-pthread"]) else { return };
    let file = program.folder().join("threads.trace");
    let mut sampled = options(&file, &[program.path()]);
    let (window, period) = (100_000, 2_000_000);
    sampled.selection.sampling = Some(Sampling::Periodic { window, period });
    let summary = record_quietly(sampled).unwrap();
    let held = summary.instructions / summary.windows;
    assert!((window - 1000..window * 3 / 2).contains(&held), "{held} in {summary:?}");
    assert_accesses_are_mapped(&read(&file));
}

#[test]
fn adaptive_windows_cover_a_program_of_any_length() {
    let shorter = THREADS.replace("2500000", "300000");
    let Some(program) = CProgram::new(&shorter, &["-pthread"]) else { return };
    let file = program.folder().join("adaptive.trace");
    let whole = record_quietly(options(&file, &[program.path()])).unwrap();
    let adaptive = |window, kept| {
        let mut sampled = options(&file, &[program.path()]);
        sampled.selection.sampling = Some(Sampling::Adaptive { window, kept });
        record_quietly(sampled).unwrap()
    };
    let summary = adaptive(20_000, 8);
    assert_eq!(summary.ending, Ending::Exited(0));
    assert!((8..=16).contains(&summary.windows), "{summary:?}");
    let all = summary.instructions + summary.instructions_between;
    let difference = all.abs_diff(whole.instructions) as f64 / whole.instructions as f64;
    assert!(difference < 0.02, "{all} of {}", whole.instructions);
    let held = summary.instructions / summary.windows;
    assert!((15_000..60_000).contains(&held), "{held}");
    let source = perforate_trace::open(file.to_str().unwrap()).unwrap();
    assert!(!source.metadata().is_cut_off && source.metadata().stopped_by.is_none());
    let trace = read(&file);
    assert_eq!(trace.instructions.len() as u64, summary.instructions);
    let gaps = gaps(&trace);
    assert_eq!(gaps.iter().sum::<u64>(), summary.instructions_between);
    let of_all = summary.processes.iter().map(|process| process.instructions).sum::<u64>();
    assert_eq!(of_all, summary.instructions);
    assert_accesses_are_mapped(&trace);
    let names = std::fs::read_dir(program.folder()).unwrap();
    let left = names.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("partial")
    });
    assert_eq!(left.count(), 0);

    let summary = adaptive(1_000_000_000, 8);
    assert_eq!((summary.windows, summary.instructions_between), (1, 0), "a short program is whole");
}

/// C program that touches 64 pages and then uses the first page forever.
const SERVICE: &str = r#"
    static volatile char memory[64 * 4096];
    int main(void) {
        for (int i = 0; i < 64; i++) memory[i * 4096] = 1;
        for (;;) memory[0]++;
    }"#;

/// Records a service from the moment on that it has executed some instructions, and stops the recording when
/// some are recorded, unless it ends by its own limit.
fn record_once_running(mut part: RecordOptions) -> RecordSummary {
    let begin = Arc::new(AtomicBool::new(false));
    part.begin = Begin::WhenSet(Arc::clone(&begin));
    let stop = part.selection.duration.is_none().then(|| Arc::clone(&part.stop));
    let set_flags = &mut |progress: Progress| {
        begin.fetch_or(progress.instructions_skipped > 1_000_000, Ordering::Relaxed);
        if let Some(stop) = &stop {
            stop.fetch_or(progress.instructions > 1000, Ordering::Relaxed);
        }
    };
    record(part, set_flags).unwrap()
}

#[test]
fn a_part_of_a_service_has_its_earlier_memory() {
    let Some(program) = CProgram::new(SERVICE, &[]) else { return };
    let file = program.folder().join("service.trace");
    let mut part = options(&file, &[program.path()]);
    part.selection.duration = Some(Duration::from_millis(500));
    let summary = record_once_running(part);
    assert_eq!(summary.ending, Ending::Time);
    assert!(summary.instructions_skipped > 100_000, "{summary:?}");
    let metadata = TraceReader::open(&file).unwrap().trace_metadata().clone();
    assert_eq!((metadata.is_cut_off, metadata.stopped_by), (true, Some(StoppedBy::Time)));
    let trace = read(&file);
    assert_accesses_are_mapped(&trace);
    let populated = trace.events.iter().filter_map(|(at, event)| match event {
        ProgramEvent::Advise { length, advice: Advice::Other(_), .. } if *at == 0 => Some(*length),
        ProgramEvent::Map { length, populate: true, .. } if *at == 0 => Some(*length),
        _ => None,
    });
    assert!(populated.sum::<u64>() >= 64 * 4096, "touched before the recording");
}

/// Instructions before the beginning do not count as part of the first window.
#[test]
fn the_first_window_after_a_late_beginning_is_whole() {
    let Some(program) = CProgram::new(SERVICE, &[]) else { return };
    let mut part = options(&program.folder().join("service.trace"), &[program.path()]);
    part.begin = Begin::After(Duration::from_millis(1500));
    let (window, period) = (100_000, 1 << 40);
    part.selection.sampling = Some(Sampling::Periodic { window, period });
    part.selection.duration = Some(Duration::from_secs(1));
    let summary = record_quietly(part).unwrap();
    assert!(summary.instructions_skipped > window, "{summary:?}");
    assert!((window..window * 2).contains(&summary.instructions), "{summary:?}");
}

#[test]
fn a_program_that_ends_before_its_recording_begins() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut late = options(&folder.path().join("x.trace"), &["sh", "-c", "exit 5"]);
    late.begin = Begin::After(Duration::from_secs(60));
    let error = record_quietly(late).unwrap_err().to_string();
    assert!(error.contains("(exit code 5) before the recording began"), "{error}");
}

#[test]
fn a_flag_begins_a_recording_and_another_ends_it() {
    let Some(program) = CProgram::new(SERVICE, &[]) else { return };
    let file = program.folder().join("service.trace");
    let part = options(&file, &[program.path()]);
    let summary = record_once_running(part);
    assert_eq!(summary.ending, Ending::Stopped);
    assert!(summary.instructions_skipped > 100_000 && summary.instructions > 1000, "{summary:?}");
    let metadata = TraceReader::open(&file).unwrap().trace_metadata().clone();
    assert_eq!(metadata.stopped_by, Some(StoppedBy::User));
}
