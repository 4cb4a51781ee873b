//! Names of memory in traces of a real program.

use std::collections::BTreeMap;
use std::path::Path;

use perforate_record::Selection;
use perforate_types::{Chunk, ProgramEvent};

use crate::c_program::CProgram;
use crate::{options, read, record_quietly};

/// Program that maps a file in a thread, a part of the file in a child process, and names parts of its memory.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
#define MB (1 << 20)

static char *map(size_t length, int flags, int file) {
    char *memory = mmap(0, length, PROT_READ | PROT_WRITE, flags, file, 0);
    if (memory == MAP_FAILED) exit(1);
    memory[4096] = 1;
    return memory;
}

static void *in_thread(void *path) {
    map(3 * MB, MAP_SHARED, open(path, O_RDWR));
    return 0;
}

static void name(char *memory, size_t length, const char *text) {
    prctl(0x53564d41, 0, memory, length, text); // PR_SET_VMA, PR_SET_VMA_ANON_NAME
}

int main(int count, char **arguments) {
    char *heap = malloc(100000);
    memset(heap, 1, 100000);
    char *memory = map(4 * MB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    name(memory + MB, 2 * MB, "arena of tests");
    name(memory, MB, "soon gone");
    name(memory, MB, 0);
    name(memory + 3 * MB, MB, "[not allowed]");
    name(map(MB, MAP_SHARED | MAP_ANONYMOUS, -1), MB, "ring");
    int table = memfd_create("table", 0);
    if (ftruncate(table, 2 * MB)) return 2;
    map(2 * MB, MAP_SHARED, table);
    int segment = shmget(0x50455246, MB, IPC_CREAT | 0600);
    char *attached = shmat(segment, 0, 0);
    shmctl(segment, IPC_RMID, 0);
    attached[0] = 1;
    pthread_t thread;
    pthread_create(&thread, 0, in_thread, arguments[1]);
    pthread_join(thread, 0);
    if (fork() == 0) {
        char *part = mmap(0, MB, PROT_READ, MAP_PRIVATE, open(arguments[1], O_RDONLY), MB);
        memory[MB] = part[4096];
        if (count > 2) execl(arguments[0], arguments[0], arguments[1], (char *)0);
        _exit(0);
    }
    wait(0);
    for (volatile int i = 0; i < 300000; i++) {}
    return 0;
}
"#;

/// Total length in bytes of the ranges that get each name in each process, until its next execve.
type Named = BTreeMap<(u16, u64), BTreeMap<String, u64>>;

fn named(trace: &Chunk, until: u32) -> Named {
    let mut found = Named::new();
    let (mut process, mut execs) = (0, BTreeMap::new());
    for (_, event) in trace.events.iter().take_while(|(at, _)| *at <= until) {
        match event {
            ProgramEvent::Switch { process: now, .. } => process = now.0,
            ProgramEvent::Exec => *execs.entry(process).or_default() += 1,
            ProgramEvent::Name { length, name, .. } => {
                let image = (process, execs.get(&process).copied().unwrap_or(0));
                *found.entry(image).or_default().entry(name.clone()).or_default() += length;
            }
            _ => {}
        }
    }
    found
}

const MB: u64 = 1 << 20;

/// Lengths of the memory that the program names or maps by itself, in MB.
fn own(names: &BTreeMap<String, u64>, file: &Path) -> Vec<(String, u64)> {
    let is_foreign =
        |name: &str| ["/lib", "/etc/", "/program"].iter().any(|part| name.contains(part));
    let file = file.to_str().unwrap();
    let own = names.iter().filter(|(name, _)| !name.is_empty() && !is_foreign(name));
    own.map(|(name, bytes)| (name.replace(file, "FILE"), bytes / MB)).collect()
}

fn check(flags: &[&str]) {
    let Some(program) = CProgram::new(PROGRAM, &[flags, &["-pthread"]].concat()) else { return };
    let (data, trace) = (program.folder().join("data file"), program.folder().join("a.trace"));
    std::fs::write(&data, vec![0; 3 * MB as usize]).unwrap();
    let line = [program.path(), data.to_str().unwrap(), "again"];
    let summary = record_quietly(options(&trace, &line)).unwrap();
    let found = named(&read(&trace), u32::MAX);
    let mut expected = vec![
        ("/SYSV50455246 (deleted)".to_owned(), 1),
        ("/memfd:table (deleted)".to_owned(), 2),
        ("FILE".to_owned(), 3),
        ("[anon:arena of tests]".to_owned(), 2),
        ("[anon:soon gone]".to_owned(), 1),
        ("[anon_shmem:ring]".to_owned(), 1),
    ];
    let images: Vec<_> = found.keys().copied().collect();
    assert_eq!(images, [(0, 0), (1, 0), (1, 1), (2, 0)], "{found:?}");
    assert_eq!(own(&found[&(0, 0)], &data), expected);
    assert_eq!(own(&found[&(1, 0)], &data), [("FILE".to_owned(), 1)], "a child has copies");
    assert_eq!(own(&found[&(1, 1)], &data), expected, "of the program that it executes");
    for image in [(0, 0), (1, 1)] {
        let names = &found[&image];
        assert!(names.contains_key(program.path()), "{names:?}");
        let has_library = names.keys().any(|name| name.contains("/libc.so"));
        assert_eq!(has_library, flags.is_empty(), "{names:?}");
    }

    // A recording that begins later begins with the names of that moment.
    let later = program.folder().join("b.trace");
    let mut options = options(&later, &line[..2]);
    let skip = summary.instructions / 2 - 300_000;
    options.selection = Selection { skip, instructions: Some(1000), ..Selection::default() };
    record_quietly(options).unwrap();
    let found = named(&read(&later), 0);
    expected.retain(|(name, _)| !name.contains("soon"));
    assert_eq!(own(&found[&(0, 0)], &data), expected);
}

#[test]
fn memory_of_a_dynamic_program_has_names() {
    check(&[]);
}

#[test]
fn memory_of_a_static_program_has_names() {
    check(&["-static"]);
}
