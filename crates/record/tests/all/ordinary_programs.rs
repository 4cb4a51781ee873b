//! Tests with programs that act like services and shells: they spawn, change users, and make
//! namespaces.

use std::path::Path;

use perforate_record::{Ending, RecordSummary};
use perforate_types::{Chunk, ProgramEvent};

use crate::c_program::CProgram;
use crate::end_to_end::{assert_accesses_are_mapped, programs};
use crate::{emulator_is_missing, is_missing, is_not_root, options, read, record_quietly};

/// Records a program, which must exit with 0 and access only mapped memory.
fn recorded(folder: &Path, program: &[&str]) -> (RecordSummary, Chunk) {
    let file = folder.join("recorded.trace");
    let summary = record_quietly(options(&file, program)).unwrap();
    assert_eq!(summary.ending, Ending::Exited(0), "{program:?}");
    assert_eq!((summary.accesses_unmapped, summary.programs_unrecorded), (0, 0), "{program:?}");
    let trace = read(&file);
    assert_accesses_are_mapped(&trace);
    (summary, trace)
}

#[test]
fn a_spawned_child_runs_in_its_parents_memory_until_it_executes() {
    let source = r#"
        #define _GNU_SOURCE
        #include <spawn.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        extern char **environ;
        int main(void) {
            char *line[] = {"true", 0};
            int child, status;
            for (int i = 0; i < 5; i++) {
                if (posix_spawn(&child, "/bin/true", 0, 0, line, environ)) return 1;
                if (waitpid(child, &status, 0) != child || status) return 2;
            }
            child = vfork();
            if (!child) _exit(7);
            if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) return 3;
            return system("exit 3") != 3 << 8;
        }"#;
    let Some(program) = CProgram::new(source, &[]) else { return };
    let (summary, trace) = recorded(program.folder(), &[program.path()]);
    assert_eq!(programs(&summary).concat().iter().filter(|name| *name == "true").count(), 5);
    let forks = trace.events.iter().filter(|(_, event)| matches!(event, ProgramEvent::Fork { .. }));
    assert_eq!(forks.count(), 0, "no memory was copied");
}

#[test]
fn programs_that_drop_their_rights_are_recorded() {
    if emulator_is_missing() || is_missing("setpriv", "util-linux") || is_not_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let drop = ["setpriv", "--reuid", "65534", "--clear-groups"];
    let script = "/bin/echo nobody > /dev/null; /bin/true";
    let (summary, _) = recorded(folder.path(), &[&drop[..], &["/bin/sh", "-c", script]].concat());
    let found = programs(&summary).concat();
    for wanted in ["setpriv", "sh", "echo", "true"] {
        assert!(found.iter().any(|name| name == wanted), "{wanted}: {found:?}");
    }
}

#[test]
fn processes_have_other_numbers_in_a_namespace_of_their_own() {
    if emulator_is_missing() || is_missing("unshare", "util-linux") || is_not_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for mounts in [&["unshare", "-pf"][..], &["unshare", "-pf", "--mount-proc"]] {
        let script = "test $$ = 1 && /bin/echo one > /dev/null && /bin/echo two > /dev/null; :";
        let (summary, _) = recorded(folder.path(), &[mounts, &["sh", "-c", script]].concat());
        let found = programs(&summary).concat();
        assert_eq!(found.iter().filter(|name| *name == "echo").count(), 2, "{found:?}");
    }
}

#[test]
fn a_program_without_a_name_is_executed() {
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        extern char **environ;
        int main(int count, char **arguments) {
            char buffer[4096];
            // The third time it is executed by its own link.
            if (count == 3) return 0;
            if (count == 2) {
                char *line[] = {"third", "a", "b", 0};
                execve("/proc/self/exe", line, environ);
                return 4;
            }
            int from = open("/proc/self/exe", O_RDONLY);
            int to = memfd_create("nameless", MFD_CLOEXEC);
            ssize_t bytes;
            while ((bytes = read(from, buffer, sizeof buffer)) > 0)
                if (write(to, buffer, bytes) != bytes) return 1;
            int copy = open(arguments[0], O_RDONLY);
            if (copy < 0) return 2;
            char *line[] = {"second", "a", 0};
            fexecve(to, line, environ);
            return 3;
        }"#;
    let Some(program) = CProgram::new(source, &[]) else { return };
    let (summary, _) = recorded(program.folder(), &[program.path()]);
    let found = programs(&summary).concat();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[1].contains("nameless"), "{found:?}");
}

#[test]
fn a_mapping_stays_behind_when_its_pages_move() {
    let source = r#"
        #define _GNU_SOURCE
        #include <string.h>
        #include <sys/mman.h>
        #ifndef MREMAP_DONTUNMAP
        #define MREMAP_DONTUNMAP 4
        #endif
        int main(void) {
            char *old = mmap(0, 65536, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(old, 1, 65536);
            char *new = mremap(old, 65536, 65536, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
            if (new == MAP_FAILED) return 77;
            if (new[4096] != 1) return 1;
            memset(old, 2, 65536);
            return old[4096] != 2 || new[4096] != 1;
        }"#;
    let Some(program) = CProgram::new(source, &[]) else { return };
    let (_, trace) = recorded(program.folder(), &[program.path()]);
    let remaps =
        trace.events.iter().filter(|(_, event)| matches!(event, ProgramEvent::Remap { .. }));
    assert_eq!(remaps.count(), 1);
}

/// Variables that the emulator would take for its own options.
#[test]
fn variables_of_the_emulators_names_reach_the_program() {
    if emulator_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let inner = r#"test "$QEMU_PLUGIN" = file=no,such=plugin && test "$QEMU_CPU" = 486"#;
    let script = format!("QEMU_PLUGIN=file=no,such=plugin QEMU_CPU=486 exec sh -c '{inner}'");
    let (summary, _) = recorded(folder.path(), &["sh", "-c", &script]);
    assert_eq!(programs(&summary).concat().len(), 2);
}

#[test]
fn segments_of_shared_memory_are_mapped() {
    let source = r#"
        #include <sys/ipc.h>
        #include <sys/shm.h>
        int main(void) {
            int segment = shmget(IPC_PRIVATE, 10000, IPC_CREAT | 0600);
            if (segment < 0) return 77;
            volatile char *memory = shmat(segment, 0, 0);
            shmctl(segment, IPC_RMID, 0);
            if ((long)memory == -1) return 78;
            for (int i = 0; i < 10000; i++) memory[i] = 1;
            return shmdt((void *)memory);
        }"#;
    let Some(program) = CProgram::new(source, &[]) else { return };
    let (_, trace) = recorded(program.folder(), &[program.path()]);
    let attached = |(_, event): &&(u32, ProgramEvent)| {
        matches!(event, ProgramEvent::Map { length: 12288, shared: true, .. })
    };
    assert_eq!(trace.events.iter().filter(attached).count(), 1);
}
