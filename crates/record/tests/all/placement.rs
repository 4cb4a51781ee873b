//! Places of mappings in traces of a real program.

use perforate_types::{Advice, ProgramEvent};

use crate::c_program::CProgram;
use crate::{options, read, record_quietly};

/// Program that maps memory of whole and of broken large pages in turn, and starts a thread, also after a fork
/// and in another program.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define MB (1 << 20)

static uintptr_t map(size_t length) {
    char *memory = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(1);
    *memory = 1;
    return (uintptr_t)memory % (2 * MB);
}

static void *in_thread(void *unused) {
    return (void *)map(4 * MB);
}

int main(int count, char **arguments) {
    uintptr_t misplaced = 0;
    map(12345);
    misplaced |= map(2 * MB);
    map(4096);
    map(3 * MB);
    misplaced |= map(6 * MB);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 10 * MB);
    pthread_t thread;
    void *result;
    pthread_create(&thread, &attributes, in_thread, 0);
    pthread_join(thread, &result);
    misplaced |= (uintptr_t)result;
    int status;
    if (fork() == 0) {
        misplaced |= map(14 * MB);
        if (!misplaced && count > 1) execv(arguments[0], (char *[]){arguments[0], 0});
        exit(misplaced != 0);
    }
    wait(&status);
    return misplaced || status;
}
"#;

#[test]
fn mappings_of_whole_large_pages_are_where_linux_places_them() {
    const MB: u64 = 1 << 20;
    let Some(program) = CProgram::new(PROGRAM, &["-pthread"]) else { return };
    let output = program.folder().join("x.trace");
    let options = options(&output, &[program.path(), "again"]);
    let summary = record_quietly(options).unwrap();
    // The program looks, too.
    assert!(!summary.ending.is_failure(), "{:?}", summary.ending);
    assert_eq!(summary.mappings_misplaced, 0);

    let events = read(&output).events;
    let places = |wanted: u64| -> Vec<u64> {
        let all = events.iter().filter_map(|(_, event)| match event {
            ProgramEvent::Map { start, length, .. } if *length == wanted => Some(start.value()),
            _ => None,
        });
        all.collect()
    };
    // Both programs map each length, the first one also after its fork.
    for (length, times) in [(2, 2), (6, 2), (4, 2), (14, 2)] {
        let found = places(length * MB);
        assert_eq!(found.len(), times, "{length} MB: {found:x?}");
        assert!(found.iter().all(|start| start % (2 * MB) == 0), "{length} MB: {found:x?}");
    }
    assert!(places(3 * MB).iter().any(|start| start % (2 * MB) != 0), "behind the last mapping");
    let refused: Vec<u64> = events
        .iter()
        .filter_map(|(_, event)| match event {
            ProgramEvent::Advise { length, advice: Advice::NoHugePage, .. } => Some(*length),
            _ => None,
        })
        .collect();
    // The C library adds a page that nobody may touch.
    assert_eq!(refused, [10 * MB + 4096; 2], "only the threads' stacks");
}
