//! Verification of a program whose areas are known: this test program, started again.

use std::alloc::{Layout, alloc};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use perforate_records::{AreaPages, Verification};
use perforate_sim::Progress;

use super::*;
use crate::process_settings::thread_time;

/// Variable that makes [`program_of_areas`] a program.
const VARIABLE: &CStr = c"PERFORATE_TEST_AREAS";
const AREA_BYTES: usize = 8 << 20;

/// Reporter that remembers the progress.
#[derive(Default)]
struct Remembered(Vec<Progress>);

impl Reporter for Remembered {
    fn stage(&mut self, _: &str, _: &'static str) {}

    fn progress(&mut self, progress: Progress) {
        self.0.push(progress);
    }
}

// SAFETY: the section holds addresses of functions that the loader calls before `main`.
#[unsafe(link_section = ".init_array")]
#[used]
static BEGIN: extern "C" fn() = program_of_areas;

/// Program that the tests measure, on the main thread of this executable before its `main`: two private
/// mappings and a shared one of 8MB each, 12MB of heap, all touched, and 600 ms of work while all of it is
/// there: a sample takes up to 4 ms, and is followed by a pause that is 99 times as long.
extern "C" fn program_of_areas() {
    // SAFETY: nothing else runs yet.
    if unsafe { libc::getenv(VARIABLE.as_ptr()) }.is_null() {
        return;
    }
    let touch = |start: *mut u8, bytes: usize| {
        // SAFETY: the memory is new and as long.
        unsafe { start.write_bytes(7, bytes) };
        // Otherwise, the compiler removes memory that nothing reads.
        std::hint::black_box(start)
    };
    for flags in [libc::MAP_PRIVATE, libc::MAP_PRIVATE, libc::MAP_SHARED] {
        let flags = flags | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, which stays.
        let start = unsafe { libc::mmap(null_mut(), AREA_BYTES, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        touch(start.cast(), AREA_BYTES);
    }
    let layout = Layout::from_size_align(60_000, 16).unwrap();
    for _ in 0..200 {
        // SAFETY: the layout is not empty.
        touch(unsafe { alloc(layout) }, layout.size());
    }
    let mut sum = 1_u64;
    let touched = thread_time();
    while thread_time() < touched + Duration::from_millis(600) {
        sum = std::hint::black_box(sum.wrapping_mul(3));
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) };
}

/// Pages in the areas with advice, and in the rest by name, of the runs with and without advice.
fn measured(areas: &[&str]) -> Option<Verification> {
    let found = measured_with(areas, None)?.unwrap();
    assert_eq!(
        found.runs.iter().map(|run| run.is_advised).collect::<Vec<_>>(),
        [false, true, true, false]
    );
    Some(found)
}

/// Measures the program of areas, and judges a prediction; `None` where advice changes nothing.
fn measured_with(
    areas: &[&str],
    predicted: Option<GainRatio>,
) -> Option<Result<Verification, HostError>> {
    let setting = LargePageSettings::now().get("enabled").unwrap_or("never").to_owned();
    if setting != "madvise" {
        println!(
            "SKIPPED: transparent_hugepage/enabled is {setting}, so that advice changes nothing"
        );
        return None;
    }
    // `env` executes this program, and the advice goes with it.
    let own = std::env::current_exe().unwrap().into_os_string();
    let assignment = format!("{}=1", VARIABLE.to_str().unwrap()).into();
    let program = ["env".into(), assignment, own];
    let advice: Vec<AdvisedArea> = areas.iter().map(|area| area.parse().unwrap()).collect();
    let options = Options { rounds: 1, inherits: true, ..Options::default() };
    let mut reporter = Remembered::default();
    let found =
        verify(&program, &advice, predicted, &options, &AtomicBool::new(false), &mut reporter);
    let done = reporter.0.last().map(|progress| (progress.done, progress.total));
    assert!(found.is_err() || done == Some((5, Some(5))), "{done:?}");
    Some(found)
}

/// Half a large page gets none: a prediction cannot be judged by that.
#[test]
fn advice_that_gives_no_large_page_judges_no_prediction() {
    let predicted = GainRatio { ratio: 1.2, low: 1.1, high: 1.3 };
    let Some(found) = measured_with(&["mapping0:0-1M"], Some(predicted)) else { return };
    let found = found.unwrap();
    let reason = "nothing of the memory with advice, 1 MB, was in large pages";
    assert_eq!(found.unmeasured.as_deref(), Some(reason));
    assert_eq!(
        (found.predicted, found.judgement, found.effect_error),
        (Some(predicted), None, None)
    );
    let Some(found) = measured_with(&["mapping0"], Some(predicted)) else { return };
    let found = found.unwrap();
    assert_eq!(found.unmeasured, None);
    assert!(found.judgement.is_some());
}

/// The first run ends the measurement.
#[test]
fn areas_that_do_not_exist_are_an_error() {
    let Some(found) = measured_with(&["mapping8", "name=none"], None) else { return };
    assert_eq!(
        found.unwrap_err().to_string(),
        "env, the first run (as it is): the program made no memory with advice while it ran: mapping8 \
         name=none; expected areas that it has"
    );
}

fn pages(found: &Verification, is_advised: bool, name: &str) -> AreaPages {
    let index = found.areas.iter().position(|area| area.name == name).unwrap();
    found.pages(is_advised, index)
}

#[test]
fn a_part_of_a_mapping_gets_large_pages_and_nothing_else() {
    let Some(found) = measured(&["mapping0:0-4M"]) else { return };
    let advised = pages(&found, true, "mapping0:0-4M");
    assert!(advised.resident_bytes > 3 << 20, "{advised:?}");
    assert!(advised.large_bytes >= 2 << 20, "{advised:?}");
    let before = pages(&found, false, "mapping0:0-4M");
    assert_eq!(before.large_bytes, 0, "as it is");
    assert!(before.resident_bytes > 3 << 20, "{before:?}");
    for rest in ["anonymous, the rest", "heap, the rest", "shared, the rest"] {
        let rest = pages(&found, true, rest);
        assert!(rest.resident_bytes >= AREA_BYTES as u64, "{rest:?}");
        assert_eq!(rest.large_bytes, 0);
    }
    let faults = |is_advised| found.median(is_advised, |run| Some(run.page_faults as f64)).unwrap();
    assert!(faults(true) + 500.0 < faults(false), "a 2MB page takes one fault instead of 512");
    assert!(found.notes.iter().all(|note| !note.contains("did not follow")), "{:?}", found.notes);
}

#[test]
fn a_heap_that_grows_in_small_steps_gets_large_pages() {
    let Some(found) = measured(&["heap"]) else { return };
    let heap = pages(&found, true, "heap");
    assert!(heap.resident_bytes > 11 << 20, "{heap:?}");
    assert!(heap.large_share() > 0.6, "{heap:?}");
    assert_eq!(pages(&found, true, "anonymous, the rest").large_bytes, 0);
    assert_eq!(pages(&found, false, "heap").large_bytes, 0);
}

/// Large pages of shared memory, which are made of touched memory where `shmem_enabled` is `never`. That
/// needs rights over other processes.
#[test]
fn shared_memory_is_collapsed() {
    let Some(found) = measured(&["shared0", "mapping9"]) else { return };
    let shared = pages(&found, true, "shared0");
    assert!(shared.resident_bytes >= AREA_BYTES as u64, "{shared:?}");
    let absent = "mapping9: the program made no such memory while it ran";
    assert!(found.notes.iter().any(|note| note == absent), "{:?}", found.notes);
    let problem = "shared0: the kernel did not follow the advice";
    if shared.large_bytes == 0 {
        println!("SKIPPED: this kernel collapses no shared memory, or not for this process");
        assert!(found.notes.iter().any(|note| note.starts_with(problem)), "{:?}", found.notes);
    } else {
        assert!(shared.large_bytes >= 2 << 20, "{shared:?}");
    }
    assert_eq!(pages(&found, true, "anonymous, the rest").large_bytes, 0);
}

#[test]
fn all_anonymous_memory_at_once() {
    let areas: Vec<String> = AdvisedArea::everything().iter().map(ToString::to_string).collect();
    let areas: Vec<&str> = areas.iter().map(String::as_str).collect();
    let Some(found) = measured(&areas) else { return };
    let anonymous = pages(&found, true, "anonymous");
    assert!(anonymous.large_bytes >= 12 << 20, "{anonymous:?}");
    let GainRatio { ratio, low, high } = found.measured;
    assert!(0.0 < low && low <= ratio && ratio <= high && high.is_finite(), "{:?}", found.measured);
    assert_eq!((found.judgement, found.effect_error), (None, None), "nothing was predicted");
}

#[test]
fn programs_that_cannot_be_measured() {
    let setting = LargePageSettings::now().get("enabled").unwrap_or("never").to_owned();
    if setting == "never" {
        return println!("SKIPPED: transparent_hugepage/enabled is never");
    }
    let problem = |words: &[&str], areas: &[&str], options: Options| {
        let program: Vec<OsString> = words.iter().map(Into::into).collect();
        let advice: Vec<AdvisedArea> = areas.iter().map(|area| area.parse().unwrap()).collect();
        let (stop, mut reporter) = (AtomicBool::new(false), Remembered::default());
        let found = verify(&program, &advice, None, &options, &stop, &mut reporter);
        found.unwrap_err().to_string()
    };
    let options = Options { rounds: 1, ..Options::default() };
    let expect = |words: &[&str], expected: &str| {
        let found = problem(words, &["heap"], options);
        assert!(found.starts_with(expected), "{found}");
    };
    expect(&["sh", "-c", "exit 3"], "sh, the first run (as it is): exited with code 3; expected");
    expect(
        &["sh", "-c", "kill -9 $$"],
        "sh, the first run (as it is): a signal ended it; expected",
    );
    expect(&["true"], "true, the first run (as it is): ended after ");
    let found = problem(&["true"], &["heap"], options);
    assert!(found.ends_with("expected a program that takes 50 ms at least"), "{found}");
    assert_eq!(problem(&["true"], &[], options), "no area has advice; expected one at least");
    let soon = Options { limit: Duration::from_millis(300), ..options };
    let started = Instant::now();
    let found = problem(&["sh", "-c", "sleep 100 & sleep 100"], &["heap"], soon);
    assert_eq!(found, "sh, the first run (as it is): took longer than 0.3 s and was killed");
    assert!(started.elapsed() < Duration::from_secs(20));
}

/// Stops a measurement after a number of runs.
struct Stopping<'a> {
    after: u64,
    stop: &'a AtomicBool,
}

impl Reporter for Stopping<'_> {
    fn stage(&mut self, _: &str, _: &'static str) {}

    fn progress(&mut self, progress: Progress) {
        if progress.done == self.after {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// The first of the counted runs is not measured, and the sixth is in the second round.
#[test]
fn a_stopped_measurement_keeps_its_whole_rounds() {
    if LargePageSettings::now().get("enabled").is_none_or(|setting| setting == "never") {
        return println!("SKIPPED: transparent_hugepage/enabled is never");
    }
    let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let program: Vec<OsString> = ["sh", "-c", count].map(Into::into).into();
    let advice = AdvisedArea::everything();
    for (after, kept) in [(6, Some(4)), (5, Some(4)), (4, None)] {
        let stop = AtomicBool::new(false);
        let mut reporter = Stopping { after, stop: &stop };
        let found = verify(&program, &advice, None, &Options::default(), &stop, &mut reporter).ok();
        let is_noted = |found: &Verification| {
            found.notes.iter().any(|note| note == "stopped after 1 of 3 rounds")
        };
        assert!(found.as_ref().is_none_or(is_noted));
        assert_eq!(found.map(|found| found.runs.len()), kept, "{after}");
    }
}
