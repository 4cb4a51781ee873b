//! Tests that record real programs and check their traces.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use perforate_record::{Ending, RecordError, RecordSummary, Region, Sampling, Selection, record};
use perforate_types::{Backing, Branch, Chunk, ProgramEvent, ThreadId, VirtualAddress};

use crate::c_program::{CProgram, compile};
use crate::{emulator_is_missing, options, read, record_quietly};

/// Checks that each instruction follows the previous one of its thread.
fn assert_flow_is_whole(trace: &Chunk) -> usize {
    let mut breaks = 0;
    for pair in trace.instructions.windows(2) {
        let follows = pair[0].ip.value() + u64::from(pair[0].length) == pair[1].ip.value();
        let repeats = pair[0].ip == pair[1].ip;
        breaks += usize::from(!pair[0].taken && !follows && !repeats);
    }
    breaks
}

/// Checks the summary of a program of one process that was recorded from its start to its end.
fn assert_summary_fits(summary: &RecordSummary, trace: &Chunk) {
    assert_eq!((summary.windows, summary.instructions_between), (1, 0));
    assert_eq!((summary.programs_unrecorded, summary.mappings_misplaced), (0, 0));
    assert!(!summary.ending.is_failure());
    let [process] = &summary.processes[..] else { panic!("one process") };
    assert_eq!((process.number, process.instructions), (0, summary.instructions));
    let both_ends = |first: u64, bytes: u64| [first / 4096, (first + bytes - 1) / 4096];
    let code = trace.instructions.iter().map(|one| both_ends(one.ip.value(), one.length.into()));
    let data = trace.accesses.iter().map(|one| both_ends(one.address.value(), one.size.into()));
    let pages = code.chain(data).flatten().collect::<BTreeSet<u64>>().len() as u64;
    // The end of a block of instructions counts although a block may be left before its end.
    assert!((pages..pages + 3).contains(&summary.pages_touched), "{pages}: {summary:?}");
    assert_eq!(process.pages_touched, summary.pages_touched);
    // A record for each access and some for each block, of which the emulator counts all instructions.
    assert!(summary.records > summary.accesses);
    let ahead = summary.instructions_executed.abs_diff(summary.instructions);
    assert!(ahead * 100 < summary.instructions, "{summary:?}");
    assert!(summary.processor_seconds.is_some_and(|seconds| seconds > 0.0));
    assert!(0.0 < summary.program_seconds && summary.program_seconds <= summary.seconds);
}

#[test]
fn ls_is_recorded_whole() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ls.trace");
    let mut reports = 0;
    let summary = record(options(&file, &["ls", "-d", "/"]), &mut |_| reports += 1).unwrap();
    assert_eq!(summary.ending, Ending::Exited(0));
    assert_eq!((summary.threads, summary.instructions_skipped), (1, 0));
    assert!(reports > 0);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), summary.bytes);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");

    let trace = read(&file);
    assert_eq!(trace.instructions.len() as u64, summary.instructions);
    assert_eq!(trace.accesses.len() as u64, summary.accesses);
    assert!(trace.instructions.len() > 50_000);
    assert_accesses_are_mapped(&trace);
    assert_eq!(assert_flow_is_whole(&trace), 0);
    let last = trace.events.last().unwrap();
    assert!(matches!(last.1, ProgramEvent::Exit { .. }));
    let stack = trace.events.iter().find_map(|(at, event)| match event {
        ProgramEvent::Map { start, backing: Backing::Stack, .. } => Some((*at, start.value())),
        _ => None,
    });
    // Addresses are those that Linux gives a program.
    assert!(stack.is_some_and(|(at, start)| at == 0 && start >> 32 == 0x7fff), "{stack:x?}");
    assert!(trace.instructions.iter().all(|one| one.ip.value() >= 0x5555_5540_0000));
    assert_summary_fits(&summary, &trace);
    let calls = trace.instructions.iter().filter(|i| i.branch == Branch::Call).count();
    let indirect = trace.instructions.iter().filter(|i| i.branch == Branch::IndirectCall).count();
    let returns = trace.instructions.iter().filter(|i| i.branch == Branch::Return).count();
    let difference = (calls + indirect).abs_diff(returns);
    assert!(difference * 10 < returns, "{calls} + {indirect} calls, {returns} returns");
}

#[test]
fn skip_and_limit() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sh.trace");
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let mut limited = options(&file, &["sh", "-c", script]);
    limited.selection =
        Selection { skip: 1_000_000, instructions: Some(50_000), ..Selection::default() };
    let summary = record_quietly(limited).unwrap();
    assert_eq!((summary.ending, summary.instructions), (Ending::Limit, 50_000));
    let skipped = summary.instructions_skipped;
    assert!((1_000_000..1_010_000).contains(&skipped), "{skipped}");
    let trace = read(&file);
    assert_eq!(trace.instructions.len(), 50_000);
    assert_accesses_are_mapped(&trace);
    assert_eq!(assert_flow_is_whole(&trace), 0);

    let mut beyond = options(&folder.path().join("none.trace"), &["true"]);
    beyond.selection.skip = 1 << 40;
    let error = record_quietly(beyond).unwrap_err();
    assert!(matches!(error, RecordError::EndedWhileSkipping { .. }), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no second trace");
}

/// An emulator that ends before it has loaded a program.
#[test]
fn an_emulator_that_fails_is_named_with_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let emulator = folder.path().join("emulator");
    let script = "#!/bin/sh\nif [ \"$1\" = -help ]; then echo -plugin; exit; fi\n\
                  printf '%s\\n' \"$@\" > \"$0.arguments\"\nexit 3\n";
    std::fs::write(&emulator, script).unwrap();
    std::fs::set_permissions(&emulator, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut failing = options(&folder.path().join("a.trace"), &["true"]);
    failing.emulator = Some(emulator.clone());
    failing.environment = vec![("LANG".into(), "of two words".into())];
    match record_quietly(failing) {
        Err(RecordError::EmulatorFailed { path, status }) => {
            assert_eq!((path.file_name(), &*status), (emulator.file_name(), "exit code 3"));
        }
        other => panic!("{other:?}"),
    }
    let arguments = std::fs::read_to_string(folder.path().join("emulator.arguments")).unwrap();
    assert!(arguments.contains("\n-E\nLANG=of two words\n-0\ntrue\n"), "{arguments}");
}

#[test]
fn stopping_leaves_a_valid_trace() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sh.trace");
    let endless = options(&file, &["sh", "-c", "while :; do :; done"]);
    let stop = endless.stop.clone();
    let summary = record(endless, &mut |progress| {
        stop.store(progress.instructions > 100_000, Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!(summary.ending, Ending::Stopped);
    assert_eq!(read(&file).instructions.len() as u64, summary.instructions);
}

#[test]
fn a_program_that_replaces_itself_is_followed() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sh.trace");
    let summary = record_quietly(options(&file, &["sh", "-c", "exec ls -d /"])).unwrap();
    assert_eq!(summary.ending, Ending::Exited(0));
    let [process] = &summary.processes[..] else { panic!("{:?}", summary.processes) };
    let names: Vec<_> = process.programs.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(names, ["sh", "ls"]);
    let trace = read(&file);
    let execs = trace.events.iter().filter(|(_, event)| *event == ProgramEvent::Exec);
    assert_eq!(execs.count(), 1);
    assert!(matches!(trace.events.last().unwrap().1, ProgramEvent::Exit { .. }));
}

/// Names of each process's programs.
pub fn programs(summary: &RecordSummary) -> Vec<Vec<String>> {
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    summary.processes.iter().map(|process| process.programs.iter().map(name).collect()).collect()
}

/// Checks that all instructions and accesses of a process are in accessible memory that earlier events
/// have mapped.
pub fn assert_accesses_are_mapped(trace: &Chunk) {
    let mut spaces: BTreeMap<u16, BTreeSet<u64>> = BTreeMap::new();
    let (mut current, mut events) = (0, trace.events.iter().peekable());
    let mut accesses = trace.accesses.iter();
    let pages = |start: &VirtualAddress, length: u64| {
        start.page().number()..(start.value() + length).div_ceil(4096)
    };
    for (index, instruction) in trace.instructions.iter().enumerate() {
        while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= index) {
            let space = spaces.entry(current).or_default();
            match event {
                ProgramEvent::Map { start, length, accessible: true, .. }
                | ProgramEvent::Protect { start, length, accessible: true, .. } => {
                    space.extend(pages(start, *length));
                }
                ProgramEvent::Map { start, length, .. }
                | ProgramEvent::Protect { start, length, .. }
                | ProgramEvent::Unmap { start, length } => {
                    let gone = pages(start, *length);
                    space.retain(|page| !gone.contains(page));
                }
                ProgramEvent::Remap { to, to_length, .. } => space.extend(pages(to, *to_length)),
                ProgramEvent::Brk { start, end } => {
                    space.extend(pages(start, end.value() - start.value()));
                }
                ProgramEvent::Fork { child } => {
                    let copy = space.clone();
                    spaces.insert(child.0, copy);
                }
                ProgramEvent::Exec => space.clear(),
                ProgramEvent::Exit { process } => {
                    spaces.remove(&process.0);
                }
                ProgramEvent::Switch { process, .. } => current = process.0,
                ProgramEvent::Advise { .. }
                | ProgramEvent::Name { .. }
                | ProgramEvent::Gap { .. }
                | ProgramEvent::Phase { .. } => {}
            }
        }
        let space = spaces.entry(current).or_default();
        assert!(space.contains(&instruction.ip.page().number()), "{index}: {instruction:x?}");
        for access in accesses.by_ref().take(instruction.accesses.into()) {
            let page = access.address.page().number();
            assert!(space.contains(&page), "process {current}, {index}: {access:x?}");
        }
    }
}

#[test]
fn a_compiler_and_its_children_are_recorded() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = "int f(int a) { return a * 3; }";
    let Some(_) =
        compile(folder.path(), &format!("{source} int main(void) {{ return f(0); }}"), &[])
    else {
        return;
    };
    let (input, object) = (folder.path().join("program.c"), folder.path().join("program.o"));
    let file = folder.path().join("cc.trace");
    let line = format!("cc -c {} -o {} && echo done", input.display(), object.display());
    let summary = record_quietly(options(&file, &["sh", "-c", &line])).unwrap();
    assert_eq!(summary.ending, Ending::Exited(0));
    assert!(object.exists(), "the compiler did its work");
    let found = programs(&summary);
    for wanted in ["cc1", "as"] {
        assert!(found.iter().flatten().any(|name| name == wanted), "{wanted}: {found:?}");
    }
    assert_eq!(found[0], ["sh"], "dash starts the compiler in a process of its own");
    let trace = read(&file);
    let recorded: u64 = summary.processes.iter().map(|process| process.instructions).sum();
    assert_eq!(recorded, trace.instructions.len() as u64);
    assert_accesses_are_mapped(&trace);
    let exits = trace.events.iter().filter(|(_, event)| matches!(event, ProgramEvent::Exit { .. }));
    assert_eq!(exits.count(), summary.processes.len());
}

/// The script kills `tee` after `tee` has echoed a line.
#[test]
fn scripts_pipes_and_killed_children() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(
        &script,
        "#!/bin/sh -e\ncd $(dirname $0)\nmkfifo in out\ntee < in > out &\nexec 3> in 4< out\n\
         echo hello >&3\nread line <&4\nkill -9 $!\nwait $! || echo $0 $1\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let output = folder.path().join("output");
    let file = folder.path().join("sh.trace");
    let line = format!("{} 'two words' | cat > {}", script.display(), output.display());
    let summary = record_quietly(options(&file, &["sh", "-c", &line])).unwrap();
    assert_eq!(summary.ending, Ending::Exited(0));
    let written = std::fs::read_to_string(&output).unwrap();
    assert_eq!(written, format!("{} two words\n", script.display()));
    let found = programs(&summary);
    let names: Vec<&str> = found.iter().flatten().map(String::as_str).collect();
    assert!(names.contains(&"cat") && names.contains(&"tee"), "{found:?}");
    assert_accesses_are_mapped(&read(&file));
}

#[test]
fn execve_keeps_the_environment_and_its_errors() {
    let source = r#"
        #include <errno.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(int count, char **arguments) {
            if (count > 1)
                return strcmp(arguments[0], "another name") || strcmp(getenv("KEY"), "value");
            char *line[] = {"another name", "argument", 0}, *environment[] = {"KEY=value", 0};
            execve("/no/such/program", line, environment);
            if (errno != ENOENT) return 10;
            execve("/etc/passwd", line, environment);
            if (errno != EACCES) return 11;
            execve((char *)16, line, environment);
            if (errno != EFAULT) return 12;
            execve("/proc/self/exe", line, environment);
            return 13;
        }"#;
    let Some(program) = CProgram::new(source, &[]) else { return };
    let file = program.folder().join("exec.trace");
    let summary = record_quietly(options(&file, &[program.path()])).unwrap();
    assert_eq!(summary.ending, Ending::Exited(0));
    assert_eq!(programs(&summary).concat().len(), 2, "itself, again");
    assert_accesses_are_mapped(&read(&file));
}

/// C program with a function that writes 16 times to each word of a page. It is called for five pages;
/// the calls for pages 2 and 4 are between markers.
const ROUNDS: &str = r#"
    #include "perforate.h"
    #include <sys/prctl.h>
    volatile long memory[512 * 64];
    __attribute__((noinline)) void work(int page) {
        for (int i = 0; i < 512 * 16; i++) memory[page * 512 + i % 512] += i;
    }
    int main(void) {
        work(1);
        PERFORATE_BEGIN;
        work(2);
        PERFORATE_END;
        work(3);
        prctl(PERFORATE_BEGIN_NUMBER);
        work(4);
        prctl(PERFORATE_END_NUMBER);
        work(5);
        return 0;
    }"#;

/// Numbers of the pages that were written more than a thousand times, in ascending order.
fn written_pages(trace: &Chunk) -> Vec<u64> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let written = trace.accesses.iter().filter(|a| a.kind == perforate_types::AccessKind::Write);
    written.for_each(|access| *counts.entry(access.address.value() >> 12).or_default() += 1);
    counts.into_iter().filter(|(_, count)| *count > 1000).map(|(page, _)| page).collect()
}

#[test]
fn markers_select_regions() {
    let source = ROUNDS.replace("#include \"perforate.h\"", perforate_record::MARKER_HEADER);
    let Some(program) = CProgram::new(&source, &[]) else { return };
    let record_region = |region: Region| {
        let file = program.folder().join("region.trace");
        let mut marked = options(&file, &[program.path()]);
        marked.selection.region = Some(region);
        (record_quietly(marked).unwrap(), read(&file))
    };
    let (summary, trace) = record_region(Region::Markers);
    assert_eq!((summary.ending, summary.windows), (Ending::Exited(0), 2));
    let pages = written_pages(&trace);
    // Pages of a static array are adjacent: 2 and 4 of the five. The array may straddle pages.
    assert!(pages.len() <= 4, "{pages:x?}");
    let gaps = trace.events.iter().filter(|(_, event)| matches!(event, ProgramEvent::Gap { .. }));
    assert_eq!(gaps.count(), 2, "between the regions and behind the last");
    // Two calls of 8192 rounds, of eight to eighteen instructions each.
    assert!((130_000..300_000).contains(&summary.instructions), "{}", summary.instructions);

    let (summary, trace) = record_region(Region::Function("work".into()));
    assert_eq!(summary.windows, 5);
    assert!(written_pages(&trace).len() >= 5);
    let mut none = options(&program.folder().join("none.trace"), &[program.path()]);
    none.selection.region = Some(Region::Function("no_such_function".into()));
    let error = record_quietly(none).unwrap_err().to_string();
    assert!(error.contains("never began: function no_such_function"), "{error}");
}

#[test]
fn windows_of_a_long_run_add_up_to_it() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done";
    let whole = folder.path().join("whole.trace");
    let whole = record_quietly(options(&whole, &["sh", "-c", script])).unwrap();
    let file = folder.path().join("sample.trace");
    let mut sampled = options(&file, &["sh", "-c", script]);
    sampled.selection.sampling = Some(Sampling::Periodic { window: 200_000, period: 2_000_000 });
    let sampled = record_quietly(sampled).unwrap();
    let all = sampled.instructions + sampled.instructions_between;
    let difference = all.abs_diff(whole.instructions) as f64 / whole.instructions as f64;
    assert!(difference < 0.02, "{all} of {}", whole.instructions);
    assert!(sampled.windows.abs_diff(whole.instructions.div_ceil(2_000_000)) <= 1, "{sampled:?}");
    let share = sampled.instructions as f64 / all as f64;
    assert!((0.08..0.25).contains(&share), "{share}");
    let trace = read(&file);
    let gap: u64 = trace
        .events
        .iter()
        .map(|(_, event)| match event {
            ProgramEvent::Gap { instructions } => *instructions,
            _ => 0,
        })
        .sum();
    assert_eq!(gap, sampled.instructions_between);
    assert_accesses_are_mapped(&trace);
}

#[test]
fn the_trace_stays_within_its_size() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sh.trace");
    let endless = "while :; do for f in /usr/bin/*; do :; done; done";
    let mut limited = options(&file, &["sh", "-c", endless]);
    let limit = 300_000;
    limited.selection.trace_bytes = Some(limit);
    let summary = record_quietly(limited).unwrap();
    assert_eq!(summary.ending, Ending::Size);
    // What was recorded before the program was ended, but not written yet, is dropped.
    assert_eq!(summary.bytes, std::fs::metadata(&file).unwrap().len());
    assert!((limit..limit + limit / 8).contains(&summary.bytes), "{}", summary.bytes);
    assert!(read(&file).instructions.len() > 100_000);
}

/// `/proc/PID/exe` cannot be read after the end of a process's first thread.
#[test]
fn threads_are_recorded_after_the_first_one_has_ended() {
    let source = r#"
        #include <pthread.h>
        #include <unistd.h>
        static volatile char memory[50 * 4096];
        static void *work(void *argument) {
            for (int i = 0; i < 50; i++, usleep(6000)) memory[i * 4096] = 1;
            return 0;
        }
        int main(void) {
            pthread_t thread;
            pthread_create(&thread, 0, work, 0);
            usleep(50000);
            pthread_exit(0);
        }"#;
    let Some(program) = CProgram::new(source, &["-pthread"]) else { return };
    let file = program.folder().join("threads.trace");
    let summary = record_quietly(options(&file, &[program.path()])).unwrap();
    assert_eq!((summary.ending, summary.threads), (Ending::Exited(0), 2));
    let trace = read(&file);
    let exits = trace.events.iter().filter(|(_, event)| matches!(event, ProgramEvent::Exit { .. }));
    let places: Vec<u32> = exits.map(|(place, _)| *place).collect();
    assert_eq!(places, [trace.instructions.len() as u32]);
    assert_accesses_are_mapped(&trace);
}

#[test]
fn threads_take_turns_and_children_are_processes() {
    let source = r#"
        #include <pthread.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void *work(void *seed) {
            unsigned state = (unsigned)(long)seed;
            for (int round = 0; round < 20; round++) {
                char *memory = mmap(0, 65536, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                for (int i = 0; i < 500; i++)
                    memory[(state = state * 1664525 + 1013904223) >> 16] += 1;
                munmap(memory, 65536);
            }
            return 0;
        }
        int main(void) {
            pthread_t threads[4];
            for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
            for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
            int child = fork();
            if (!child) { memset(malloc(1 << 20), 1, 1 << 20); _exit(3); }
            int status;
            waitpid(child, &status, 0);
            return WEXITSTATUS(status);
        }"#;
    let Some(program) = CProgram::new(source, &["-pthread"]) else { return };
    let file = program.folder().join("threads.trace");
    let summary = record_quietly(options(&file, &[program.path()])).unwrap();
    assert_eq!((summary.ending, summary.threads), (Ending::Exited(3), 6));
    let trace = read(&file);
    assert_accesses_are_mapped(&trace);
    let mut seen = [false; 6];
    for (_, event) in &trace.events {
        if let ProgramEvent::Switch { thread: ThreadId(thread), .. } = event {
            seen[usize::from(*thread)] = true;
        }
    }
    assert_eq!(seen, [true; 6]);
    let count = |wanted: fn(&ProgramEvent) -> bool| {
        trace.events.iter().filter(|(_, event)| wanted(event)).count()
    };
    assert_eq!(count(|event| matches!(event, ProgramEvent::Fork { .. })), 1);
    assert_eq!(count(|event| matches!(event, ProgramEvent::Exit { .. })), 2, "child and parent");
    // Four threads map and unmap 20 times; the library unmaps more.
    assert!(count(|event| matches!(event, ProgramEvent::Unmap { length: 65536, .. })) >= 80);
}

#[test]
fn a_known_program_gives_known_accesses() {
    // 1000 8-byte increments one page apart, one 16-byte store, one copy of 200 bytes from the start of
    // a line to the start of a line.
    let source = r#"
        static char memory[1000 * 4096 + 4096] __attribute__((aligned(4096)));
        void _start(void) {
            for (long i = 0; i < 1000; i++) *(volatile long *)(memory + i * 4096) += 1;
            __asm__ volatile("movaps %%xmm0, (%0)" : : "r"(memory + 64) : "memory");
            void *to = memory + 8192, *from = memory;
            long count = 200;
            __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
            __asm__ volatile("syscall" : : "a"(231), "D"(0) : "rcx", "r11");
        }"#;
    let flags = ["-static", "-nostdlib", "-fno-pic", "-no-pie", "-fcf-protection=none"];
    let Some(program) = CProgram::new(source, &flags) else { return };
    let file = program.folder().join("known.trace");
    record_quietly(options(&file, &[program.path()])).unwrap();
    let trace = read(&file);
    let sizes = |kind| -> Vec<u16> {
        let of_kind = trace.accesses.iter().filter(|access| access.kind == kind);
        of_kind.map(|access| access.size).collect()
    };
    let mut expected = vec![8; 1000];
    expected.extend([64, 64, 64, 8]);
    assert_eq!(sizes(perforate_types::AccessKind::Read), expected);
    expected.insert(1000, 16);
    assert_eq!(sizes(perforate_types::AccessKind::Write), expected);
    let first = trace.accesses[0].address.value();
    let strides = trace.accesses[..2000].iter().enumerate();
    for (index, access) in strides {
        assert_eq!(access.address.value(), first + index as u64 / 2 * 4096);
    }
    // The image is linked to a fixed address, which is kept.
    assert!(first < 0x1000_0000);
}

/// Records endless processes, in a separate process that another test kills.
#[test]
#[ignore = "run by nothing_outlives_a_killed_recorder"]
fn records_without_end() {
    let Some(output) = std::env::var_os("PERFORATE_ENDLESS") else { return };
    let script = "sleep 1000 & sh -c 'echo started; while :; do :; done' & wait";
    let _ = record_quietly(options(Path::new(&output), &["sh", "-c", script]));
}

/// All processes of the recording write to one pipe. Its end shows the end of the last process.
#[test]
fn nothing_outlives_a_killed_recorder() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "end_to_end::records_without_end", "--ignored"]);
    command.env("PERFORATE_ENDLESS", folder.path().join("x.trace")).stdout(Stdio::piped());
    let mut recorder = command.spawn().unwrap();
    let mut lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "started"));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(lines.count()));
    receiver.recv_timeout(Duration::from_secs(30)).expect("a process is left");
}
