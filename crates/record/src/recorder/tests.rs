use std::process::Command;

use perforate_trace::{StoppedBy, open};

use super::*;
use crate::emulator::spool::Batch;

fn phases(selection: Selection, begin: Begin) -> [u64; 5] {
    let shared = SharedMemory::new().unwrap();
    let options = RecordOptions { selection, begin, ..RecordOptions::new("a", Vec::new()) };
    select(&options, &shared);
    let Phases { skip_first, record, skip, kept_windows, region, .. } = &shared.header().phases;
    [skip_first, record, skip, kept_windows, region].map(|word| word.load(Ordering::Relaxed))
}

/// Plugins get five words: instructions to skip first, to record, and to skip between, windows to keep, and the kind of
/// region.
#[test]
fn a_selection_is_told_to_the_plugins() {
    let of = |skip, sampling, region| Selection { skip, sampling, region, ..Selection::default() };
    let periodic = |window, period| Some(Sampling::Periodic { window, period });
    let adaptive_of = |window, kept| Some(Sampling::Adaptive { window, kept });
    let function = || Some(Region::Function("f".into()));
    for (selection, expected) in [
        (of(0, None, None), [0, ENDLESS, ENDLESS, 0, REGION_NONE]),
        (of(7, None, None), [7, ENDLESS, ENDLESS, 0, REGION_NONE]),
        (of(7, periodic(10, 100), None), [7, 10, 90, 0, REGION_NONE]),
        (of(7, periodic(10, 5), None), [7, 10, 0, 0, REGION_NONE]),
        (of(7, adaptive_of(10, 3), None), [7, 10, 0, 3, REGION_NONE]),
        (of(0, adaptive_of(0, 0), None), [0, 1, 0, 1, REGION_NONE]),
        (of(7, adaptive_of(10, 3), function()), [ENDLESS, ENDLESS, ENDLESS, 0, REGION_FUNCTION]),
        (
            of(7, periodic(10, 100), Some(Region::Markers)),
            [ENDLESS, ENDLESS, ENDLESS, 0, REGION_MARKERS],
        ),
        (
            of(0, None, Some(Region::Addresses { start: 1, end: 2 })),
            [ENDLESS, ENDLESS, ENDLESS, 0, REGION_ADDRESSES],
        ),
    ] {
        let windows = adaptive(&selection);
        assert_eq!(windows.is_some(), expected[3] > 0, "{selection:?}");
        let windows = windows.map_or(ENDLESS, |windows| windows.window());
        assert!(windows == expected[1] || expected[3] == 0);
        assert_eq!(phases(selection.clone(), Begin::AtOnce), expected, "{selection:?}");
    }
    let late = [ENDLESS, 10, 90, 0, REGION_NONE];
    let selection = of(7, periodic(10, 100), None);
    assert_eq!(phases(selection.clone(), Begin::After(Duration::ZERO)), late);
    assert_eq!(phases(selection, Begin::WhenSet(Arc::default())), late);
}

#[test]
fn a_program_ends_with_a_code_or_by_a_signal() {
    for (status, expected) in [
        (0, Ending::Exited(0)),
        (3 << 8, Ending::Exited(3)),
        (11, Ending::Signalled(11)),
        (0x89, Ending::Signalled(9)),
    ] {
        assert_eq!(ending(ExitStatus::from_raw(status)), expected);
    }
}

/// Session for a program that runs until the test kills it and sends no records; `folder` has its files.
pub(super) fn session(
    folder: &std::path::Path,
    change: impl FnOnce(&mut RecordOptions),
) -> Session {
    let mut options = RecordOptions::new(folder.join("a.trace"), vec!["/bin/tail".into()]);
    options.spool_bytes = 1 << 20;
    change(&mut options);
    let tail = || Command::new("tail").args(["-f", "/dev/null"]).spawn().unwrap();
    Session::launch(options, "/no/qemu".into(), folder.to_owned(), |_, _, _| Ok(tail())).unwrap()
}

pub(super) fn store(word: &std::sync::atomic::AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

#[test]
fn a_recording_ends_at_the_first_of_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), |_| {});
    let shared = Arc::clone(&session.shared);
    let phases = &shared.header().phases;
    let mut reached = |limits: (Option<u64>, Option<u64>)| {
        let (instructions, seconds) = limits;
        let duration = seconds.map(Duration::from_secs);
        let selection = &mut session.options.selection;
        (selection.instructions, selection.duration) = (instructions, duration);
        session.limit_reached()
    };
    // The plugins count the blocks that were entered: a 64th and a million more than are recorded.
    store(&phases.recorded, 6400 + 100 + (1 << 20));
    assert_eq!(reached((Some(6400), None)), None);
    store(&phases.recorded, 6400 + 100 + (1 << 20) + 1);
    assert_eq!(reached((Some(6400), None)), Some(Ending::Limit));
    assert_eq!(reached((Some(u64::MAX), None)), None);
    assert_eq!(reached((Some(0), Some(0))), Some(Ending::Limit), "nothing has begun");
    store(&phases.number, 1);
    assert_eq!(reached((Some(0), Some(3600))), Some(Ending::Limit));
    assert_eq!(reached((None, Some(3600))), None);
    assert_eq!(reached((Some(0), Some(0))), Some(Ending::Time));
    session.options.stop.store(true, Ordering::Relaxed);
    assert_eq!(session.limit_reached(), Some(Ending::Stopped), "before all limits");
    assert_eq!(session.limit_reached(), Some(Ending::Time), "a request counts once");
}

#[test]
fn chunks_are_small_if_the_trace_is_to_be() {
    let sizes = [0, 256 << 10, 16 << 20, (16 << 20) + 16, 1 << 40, u64::MAX];
    assert_eq!(sizes.map(chunk_instructions), [1, 16 << 10, 1 << 20, 1 << 20, 1 << 20, 1 << 20]);
}

#[test]
fn a_recording_begins_at_its_time_or_signal_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), |_| {});
    let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut begun = |begin: Begin, number| {
        session.options.begin = begin;
        let phases = &session.shared.header().phases;
        store(&phases.number, number);
        store(&phases.executed, 77);
        session.begin_if_due();
        [&phases.number, &phases.executed].map(|word| word.load(Ordering::Relaxed))
    };
    assert_eq!(begun(Begin::AtOnce, 0), [0, 77]);
    assert_eq!(begun(Begin::After(Duration::from_secs(3600)), 0), [0, 77]);
    assert_eq!(begun(Begin::After(Duration::ZERO), 0), [1, 0]);
    assert_eq!(begun(Begin::After(Duration::ZERO), 3), [3, 77], "has begun already");
    assert_eq!(begun(Begin::WhenSet(Arc::clone(&flag)), 0), [0, 77]);
    flag.store(true, Ordering::Relaxed);
    assert_eq!(begun(Begin::WhenSet(flag), 0), [1, 0]);
}

#[test]
fn a_stopped_recording_is_kept_unless_it_must_not_be() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), |_| {});
    for (is_kept, is_asked, ending, expected) in [
        (true, false, Ending::Stopped, false),
        (true, true, Ending::Exited(0), false),
        (false, false, Ending::Exited(0), false),
        (false, false, Ending::Stopped, true),
        (false, true, Ending::Limit, true),
    ] {
        session.options.is_kept_when_stopped = is_kept;
        session.options.stop.store(is_asked, Ordering::Relaxed);
        assert_eq!(session.is_interrupted(ending), expected, "{is_kept} {is_asked} {ending:?}");
    }
}

#[test]
fn what_is_recorded_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), |_| {});
    let mut notes = |sampling, region: Option<&str>| {
        let region = region.map(|text| text.parse().unwrap());
        session.options.selection = Selection { sampling, region, ..Selection::default() };
        session.metadata().notes.join("; ")
    };
    let periodic = Some(Sampling::Periodic { window: 10, period: 100 });
    assert_eq!(notes(None, None), "");
    assert_eq!(notes(Some(Sampling::ADAPTIVE), None), "", "noted at the end");
    assert_eq!(notes(periodic, None), "recorded: windows of 10 instructions, one every 100");
    assert_eq!(notes(periodic, Some("markers")), "recorded: between the program's markers");
    session.first_skipped = Some(9);
    let metadata = session.metadata();
    assert_eq!(
        (&metadata.program[..], metadata.instructions_skipped),
        (&["/bin/tail".to_owned()][..], 9)
    );
    assert_eq!(metadata.recorder, "qemu-user with the perforate plugin");
    assert_eq!(metadata.architecture, "x86_64");
    assert!(metadata.created_by.starts_with("perforate ") && !metadata.is_cut_off);
    assert!(metadata.has_events && metadata.has_dependencies && metadata.has_branches);
    let assumptions = [
        "Addresses are moved to where Linux would place them, by multiples of 2MB.",
        "Anonymous mappings of whole 2MB begin at multiples of 2MB, as in Linux since 6.7.",
        "A repeated string instruction accesses memory in pieces of a cache line.",
        "Threads take turns in the order in which the emulator ran them.",
        "The kernel's own accesses are not recorded.",
    ];
    assert_eq!(metadata.assumptions, assumptions);
}

/// The figures of a recording in which nothing was recorded after the first instructions were skipped.
#[test]
fn the_end_of_a_recording_has_its_figures() {
    let finished = |ending| {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path(), |_| {});
        assert!(!session.progress().is_running);
        session.create(30).unwrap();
        (session.records, session.replay.unmapped, session.replay.misplaced) = (7, 5, 4);
        let shared = Arc::clone(&session.shared);
        let header = shared.header();
        for (word, value) in [
            (&header.phases.skipped, 100),
            (&header.phases.recorded, 1000),
            (&header.unrecorded, 3),
            (&header.waited_nanoseconds, 2_500_000_000),
        ] {
            store(word, value);
        }
        session.replay.output.as_mut().unwrap().instructions = 9;
        let progress = session.progress();
        assert_eq!((progress.instructions_skipped, progress.instructions), (100, 9));
        assert_eq!((progress.bytes_waiting, progress.is_running), (0, false));
        let summary = session.finish(ending).unwrap();
        let path = folder.path().join("a.trace");
        let source = open(path.to_str().unwrap()).unwrap();
        (summary, source.metadata().clone())
    };
    let (summary, metadata) = finished(Ending::Exited(0));
    // The 70 instructions after the last recorded one are a gap.
    assert_eq!((summary.instructions_skipped, summary.instructions_between), (30, 70));
    assert_eq!((summary.windows, summary.instructions, summary.accesses), (1, 0, 0));
    assert_eq!((summary.records, summary.accesses_unmapped, summary.mappings_misplaced), (7, 5, 4));
    assert_eq!((summary.programs_unrecorded, summary.instructions_executed), (3, 1100));
    assert_eq!((summary.waited_seconds, summary.threads, summary.pages_touched), (2.5, 0, 0));
    assert_eq!((summary.ending, summary.processes.len()), (Ending::Exited(0), 0));
    assert!(summary.bytes > 0 && summary.processor_seconds.is_some());
    assert_eq!((metadata.is_cut_off, metadata.stopped_by), (false, None));
    assert_eq!(metadata.failure, None);
    assert_eq!((metadata.instructions_skipped, metadata.accesses_unmapped), (30, 5));
    for (ending, stopped_by) in [
        (Ending::Limit, StoppedBy::Instructions),
        (Ending::Stopped, StoppedBy::User),
        (Ending::Full, StoppedBy::Disk),
    ] {
        let (summary, metadata) = finished(ending);
        assert_eq!(summary.instructions_between, 0, "the program ran on");
        assert_eq!((metadata.is_cut_off, metadata.stopped_by), (true, Some(stopped_by)));
        assert_eq!(summary.ending, ending);
    }
    let (summary, metadata) = finished(Ending::Signalled(9));
    assert_eq!(summary.instructions_between, 70);
    assert_eq!(metadata.failure.as_deref(), Some("the program was killed by signal 9"));
}

#[test]
fn a_recording_is_over_with_its_program_or_by_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), |_| {});
    assert_eq!(session.idle().unwrap(), None, "the program runs");
    for (failure, message) in [
        (FAILURE_THREADS, RecordError::TooManyThreads.to_string()),
        (FAILURE_DICTIONARY, RecordError::TooMuchCode.to_string()),
    ] {
        session.shared.header().failure.store(failure, Ordering::Release);
        assert_eq!(session.idle().unwrap_err().to_string(), message);
    }
    session.shared.header().failure.store(0, Ordering::Release);
    // A program that could not be recorded took the place of the recorded one.
    let process = session.child.0.id();
    let image = session.replay.images.get(0).unwrap();
    (image.process, image.has_started, image.is_in_exec) = (process, true, true);
    assert_eq!(session.idle().unwrap(), Some(Ending::Replaced));
    session.replay.images.get(0).unwrap().is_in_exec = false;
    assert_eq!(session.idle().unwrap(), None);
    (session.replay.images.get(0).unwrap().is_in_exec, session.ended) = (true, None);
    session.replay.images.get(1).unwrap().process = process;
    assert_eq!(session.idle().unwrap(), None, "the last program of the process counts");
    session.end_programs();
    assert_eq!(session.idle().unwrap(), Some(Ending::Signalled(9)));
    session.options.stop.store(true, Ordering::Relaxed);
    assert_eq!(session.idle().unwrap(), Some(Ending::Stopped), "Ctrl-C goes to the program, too");
    session.replay.images.get(1).unwrap().id = Some(perforate_types::ProcessId(0));
    session.last_batch = Instant::now();
    assert_eq!(session.idle().unwrap(), None, "a process lives");
}

/// The answer to the next question of the first ring.
fn answered(session: &mut Session, answer: Answer) {
    session.replay.add(Batch { ring: 0, records: Vec::new(), answer: Some(answer) });
}

/// Starts a recorded part of the run, as the plugin of a process reports it; the run has reached part `now`.
fn begin(session: &mut Session, skipped: u64, (phase, now): (u64, u64)) {
    answered(session, Answer::Pages(Vec::new()));
    store(&session.shared.header().phases.number, now);
    session.start(0, skipped, phase).unwrap();
}

/// Gaps of a finished trace.
fn gaps(folder: &std::path::Path) -> Vec<u64> {
    let mut source = open(folder.join("a.trace").to_str().unwrap()).unwrap();
    let (mut chunk, mut gaps) = (perforate_types::Chunk::default(), Vec::new());
    while source.next_chunk(&mut chunk).unwrap() {
        gaps.extend(chunk.events.iter().filter_map(|(_, event)| match event {
            ProgramEvent::Gap { instructions } => Some(*instructions),
            _ => None,
        }));
    }
    gaps
}

/// Each window is counted once, though every process reports its start, in any order.
#[test]
fn windows_begin_with_the_gap_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), |_| {});
    for (skipped, phase, windows) in
        [(100, 1, 1), (100, 1, 1), (250, 3, 2), (240, 3, 2), (251, 5, 3)]
    {
        begin(&mut session, skipped, (phase, phase));
        assert_eq!((session.windows, session.first_skipped), (windows, Some(100)), "{skipped}");
    }
    let summary = session.finish(Ending::Limit).unwrap();
    assert_eq!((summary.windows, summary.instructions_skipped), (3, 100));
    assert_eq!(summary.instructions_between, 151);
    assert_eq!(gaps(folder.path()), [150, 1]);
}

/// Windows of 10 instructions, of which one stays: of three without gaps and a fourth, the first once there is a
/// fifth, in which nothing was recorded: it is at 8 window lengths from the start.
#[test]
fn windows_that_do_not_stay_are_left_out_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), |options| {
        options.selection.sampling = Some(Sampling::Adaptive { window: 10, kept: 1 });
    });
    begin(&mut session, 0, (1, 1));
    let image = session.replay.images.get(0).unwrap();
    (image.id, image.program) = (Some(perforate_types::ProcessId(0)), "/bin/tail".into());
    session.replay.images.get(1).unwrap().id = Some(perforate_types::ProcessId(0));
    let output = session.replay.output.as_mut().unwrap();
    assert!(!output.is_dropping);
    output.begin_block(crate::replay::output::Runner::default(), 0x1000..0x1010).unwrap();
    for _ in 0..30 {
        output.push(&perforate_types::Instruction::default(), &[]).unwrap();
    }
    begin(&mut session, 20, (3, 5));
    let output = session.replay.output.as_mut().unwrap();
    assert!(output.is_dropping, "the fourth window");
    output.dropped = 10;
    assert_eq!(session.metadata().notes.len(), 0);
    assert!(!folder.path().join("a.trace").exists(), "not before it is thinned");
    store(&session.shared.header().phases.skipped, 25);
    let summary = session.finish(Ending::Exited(0)).unwrap();
    assert_eq!((summary.instructions, summary.windows), (10, 1));
    // 25 were skipped, ten were not recorded, and twenty were recorded and left out.
    assert_eq!((summary.instructions_skipped, summary.instructions_between), (0, 55));
    let [process] = &summary.processes[..] else { panic!("{:?}", summary.processes) };
    assert_eq!((process.number, process.instructions, process.pages_touched), (0, 10, 1));
    assert_eq!((&process.programs[..], summary.pages_touched), (&["/bin/tail".into()][..], 1));
    assert_eq!(gaps(folder.path()), [55]);
    let reader = perforate_trace::TraceReader::open(folder.path().join("a.trace")).unwrap();
    assert_eq!(
        reader.trace_metadata().notes,
        ["recorded: windows of 10 instructions, one every 80"]
    );
}

/// A program that has only as many windows as stay is copied whole.
#[test]
fn a_short_program_keeps_all_its_windows() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), |options| {
        options.selection.sampling = Some(Sampling::Adaptive { window: 10, kept: 1 });
    });
    begin(&mut session, 0, (1, 1));
    let output = session.replay.output.as_mut().unwrap();
    let runner = |process| crate::replay::output::Runner {
        process: perforate_types::ProcessId(process),
        ..Default::default()
    };
    for (process, code) in [(0, 0x1000..0x1010), (2, 0x1ff0..0x2010)] {
        output.begin_block(runner(process), code).unwrap();
        for _ in 0..8 + process {
            output.push(&perforate_types::Instruction::default(), &[]).unwrap();
        }
    }
    for (image, process, program) in
        [(0, 0, "/bin/a"), (1, 2, "/bin/b"), (3, 2, "/bin/c"), (4, 1, "/bin/d")]
    {
        let image = session.replay.images.get(image).unwrap();
        image.id = Some(perforate_types::ProcessId(process));
        image.program = program.into();
    }
    let summary = session.finish(Ending::Exited(0)).unwrap();
    assert_eq!((summary.instructions, summary.windows, summary.instructions_between), (18, 1, 0));
    let process = |number, programs: &[&str], instructions, pages_touched| {
        let programs = programs.iter().map(Into::into).collect();
        crate::options::ProcessSummary { number, programs, instructions, pages_touched }
    };
    let expected = [process(0, &["/bin/a"], 8, 1), process(2, &["/bin/b", "/bin/c"], 10, 2)];
    assert_eq!(summary.processes, expected, "one of which nothing was recorded is left out");
    assert_eq!(summary.pages_touched, 3);
    let reader = perforate_trace::TraceReader::open(folder.path().join("a.trace")).unwrap();
    assert_eq!((reader.instructions(), reader.trace_metadata().notes.len()), (18, 0));
}

#[test]
fn a_loaded_program_replaces_the_memory_of_its_image() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), |_| {});
    let map = |start| ProgramEvent::Map {
        start: perforate_types::VirtualAddress::new(start),
        length: 4096,
        permissions: perforate_types::Permissions::READ_WRITE,
        accessible: true,
        backing: perforate_types::Backing::File,
        shared: false,
        populate: false,
    };
    let mut load = |start: u64, program: &str| {
        let loaded = crate::emulator::loaded::LoadedProgram {
            events: vec![map(start), map(start + 0x10_0000)],
            ..Default::default()
        };
        answered(&mut session, Answer::Image { program: program.into(), loaded });
        session.load(0, 2).unwrap();
        let image = session.replay.images.get(2).unwrap();
        let allowed = [0x40_0000, 0x50_0000, 0x60_0000, 0x70_0000]
            .map(|address| image.space.allows(address, true));
        (image.program.clone(), allowed)
    };
    assert_eq!(load(0x40_0000, "/bin/a"), ("/bin/a".into(), [true, true, false, false]));
    assert_eq!(load(0x60_0000, "/bin/b"), ("/bin/b".into(), [false, false, true, true]));
}
