//! Memory that a running process uses, by the accessed bits of its pages.
//!
//! Writing 1 to `/proc/PID/clear_refs` clears the bits, and `Referenced` in `/proc/PID/smaps` says how much of
//! each mapping has them set again (Linux: Documentation/filesystems/proc.rst). Several rounds tell how often
//! memory is used. Nothing is stopped, and nothing but the kernel's own ageing of pages uses the bits: memory
//! pressure during the rounds may reclaim pages in another order.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use perforate_advice::{AccessedPlace, AreaKind, Place};
use perforate_record::process_memory::read_text;

use crate::HostError;
use crate::proc::{MappedArea, parse_areas, program_name};

/// Largest number of rounds.
const MAX_ROUNDS: usize = 10_000;

/// Options for watching the accesses of a process.
#[derive(Clone, Debug)]
pub struct AccessOptions {
    /// ID of the process to watch.
    pub pid: u32,
    /// The folder `/proc`, or a folder with copies of its files.
    pub proc: PathBuf,
    /// Number of rounds, at least 1.
    pub rounds: usize,
    /// Length of a round.
    pub interval: Duration,
}

/// Accesses of a process in several rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Name of the program.
    pub program: String,
    /// Number of complete rounds.
    pub rounds: usize,
    /// Areas in order of address, with the accesses of each round.
    pub places: Vec<AccessedPlace>,
    /// Restrictions on what may be concluded, one sentence each.
    pub notes: Vec<String>,
}

/// Watches the accesses of a process. `progress` receives the number of complete rounds and of all rounds; if
/// it returns false, the complete rounds are the result.
///
/// # Errors
/// If there is no such process, its mappings cannot be read, or it ends before a round is complete.
pub fn watch_accesses(
    options: &AccessOptions,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Accesses, HostError> {
    let folder = options.proc.join(options.pid.to_string());
    let smaps = folder.join("smaps");
    if !folder.is_dir() {
        return Err(HostError::file(&folder, "there is no such process"));
    }
    if read_areas(&smaps)?.is_empty() {
        let problem = "no areas: expected the maps of a process (kernel threads have none)";
        return Err(HostError::file(&smaps, problem));
    }
    let mut accesses = Accesses { program: program_name(&folder), ..Accesses::default() };
    let started = start_time(&folder);
    let rounds = options.rounds.clamp(1, MAX_ROUNDS);
    while accesses.rounds < rounds {
        let cleared = fs::write(folder.join("clear_refs"), "1");
        if cleared.is_ok() {
            std::thread::sleep(options.interval);
        }
        let is_same = |areas: &Vec<_>| !areas.is_empty() && start_time(&folder) == started;
        let Some(areas) = read_areas(&smaps).ok().filter(is_same) else {
            return accesses.ended(&folder, rounds, options.interval);
        };
        accesses.add(options.pid, &areas);
        if let Err(error) = cleared {
            accesses.notes.push(format!(
                "{}: {error}: accessed bits are those since the kernel last cleared them, at an \
                 unknown time; memory without them is not used, how often the rest is used is not \
                 known",
                folder.join("clear_refs").display()
            ));
            break;
        }
        if !progress(accesses.rounds, rounds) {
            break;
        }
    }
    accesses.places.sort_by_key(|place| place.place.bytes.start);
    Ok(accesses)
}

/// Reads the mappings of a process with their sizes.
fn read_areas(smaps: &Path) -> Result<Vec<MappedArea>, HostError> {
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => "; root or the process's user may read it",
            ErrorKind::NotFound => {
                "; the process has ended, or the kernel has no CONFIG_PROC_PAGE_MONITOR: then only a \
                 recorded trace or samples of the processor show the use of memory"
            }
            _ => "",
        };
        HostError::file(smaps, format!("{error}{hint}"))
    };
    read_text(smaps).map(|text| parse_areas(&text).0).map_err(failed)
}

/// Time at which the process started, in clock ticks since the machine booted. Another process with the same
/// ID has another.
fn start_time(folder: &Path) -> Option<u64> {
    let stat = read_text(folder.join("stat")).ok()?;
    // The program's name is in parentheses and may contain anything. The state follows as field 3.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

impl Accesses {
    /// Adds the areas of a round.
    fn add(&mut self, process: u32, areas: &[MappedArea]) {
        for place in joined(process, areas) {
            self.add_place(place);
        }
        self.rounds += 1;
        for place in &mut self.places {
            place.accessed_bytes.resize(self.rounds, 0);
        }
    }

    /// Adds an area of a round. It is the same as an earlier area of the same name that it overlaps or touches.
    fn add_place(&mut self, new: AccessedPlace) {
        let is_same = |known: &&mut AccessedPlace| {
            let (known, new) = (&known.place, &new.place);
            (&known.name, known.kind) == (&new.name, new.kind)
                && known.bytes.start <= new.bytes.end
                && new.bytes.start <= known.bytes.end
        };
        let number = self.rounds;
        let Some(known) = self.places.iter_mut().find(is_same) else {
            let mut accessed_bytes = vec![0; number];
            accessed_bytes.extend(&new.accessed_bytes);
            self.places.push(AccessedPlace { accessed_bytes, ..new });
            return;
        };
        let bytes = &mut known.place.bytes;
        *bytes = bytes.start.min(new.place.bytes.start)..bytes.end.max(new.place.bytes.end);
        known.resident_bytes = known.resident_bytes.max(new.resident_bytes);
        known.large_bytes = known.large_bytes.max(new.large_bytes);
        known.accessed_bytes.resize(number + 1, 0);
        known.accessed_bytes[number] += new.accessed_bytes[0];
    }

    /// Result after the process has ended: its complete rounds, if there are any.
    fn ended(
        mut self,
        folder: &Path,
        rounds: usize,
        interval: Duration,
    ) -> Result<Self, HostError> {
        if self.rounds == 0 {
            let problem = format!(
                "the process ended before a round of {} s was complete; expected one that runs on",
                interval.as_secs_f64()
            );
            return Err(HostError::file(folder, problem));
        }
        self.places.sort_by_key(|place| place.place.bytes.start);
        self.notes.push(format!("the process ended after {} of {rounds} rounds", self.rounds));
        Ok(self)
    }
}

/// Areas of a round: mappings of the same name and kind without a gap between them, with the bytes accessed in
/// this round. Reserved addresses (PROT_NONE) belong to none.
fn joined(process: u32, areas: &[MappedArea]) -> Vec<AccessedPlace> {
    let mut places: Vec<AccessedPlace> = Vec::new();
    for area in areas.iter().filter(|area| !area.mapping.permissions.starts_with("---")) {
        let mapping = &area.mapping;
        let kind = AreaKind::of_mapping(&mapping.name, mapping.is_shared());
        let resident = area.resident_bytes.saturating_add(area.hugetlb_bytes);
        let last = places.last_mut().filter(|last| {
            last.place.bytes.end == mapping.range.start
                && (last.place.name.as_str(), last.place.kind) == (mapping.name.as_str(), kind)
        });
        if let Some(last) = last {
            last.place.bytes.end = mapping.range.end;
            last.resident_bytes = last.resident_bytes.saturating_add(resident);
            last.large_bytes = last.large_bytes.saturating_add(area.large_bytes);
            last.accessed_bytes[0] = last.accessed_bytes[0].saturating_add(area.referenced_bytes);
            continue;
        }
        let (name, bytes) = (mapping.name.clone(), mapping.range.clone());
        places.push(AccessedPlace {
            place: Place { process, name, kind, bytes },
            resident_bytes: resident,
            large_bytes: area.large_bytes,
            accessed_bytes: vec![area.referenced_bytes],
        });
    }
    places
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const MB: u64 = 1 << 20;

    fn options(pid: u32, proc: &Path, rounds: usize, milliseconds: u64) -> AccessOptions {
        let interval = Duration::from_millis(milliseconds);
        AccessOptions { pid, proc: proc.into(), rounds, interval }
    }

    /// A child process that reads the first part of a mapping again and again. Dropping the value ends it.
    struct Child(libc::pid_t);

    impl Child {
        fn start(memory: *const u8, bytes: usize) -> Self {
            // SAFETY: the child only reads memory that stays mapped, sleeps, and is killed.
            let pid = unsafe { libc::fork() };
            assert!(pid >= 0);
            if pid == 0 {
                // SAFETY: as above.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                loop {
                    for offset in (0..bytes).step_by(4096) {
                        // SAFETY: inside the mapping.
                        unsafe { memory.add(offset).read_volatile() };
                    }
                    // SAFETY: no pointers.
                    unsafe { libc::usleep(1000) };
                }
            }
            Self(pid)
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            // SAFETY: our own child, which is waited for once.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
        }
    }

    /// Of 64MB between two guard pages, the child reads 16MB.
    #[test]
    fn the_used_part_of_a_process_is_found() {
        let (length, used, guard) = (64 << 20, 16 << 20, 4096);
        // SAFETY: a new mapping, which is never unmapped; its parts are changed within its length.
        let memory = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let whole = length + 2 * guard;
            let start = libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let memory = start.cast::<u8>().add(guard);
            let writable = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(memory.cast(), length, writable), 0);
            libc::madvise(memory.cast(), length, libc::MADV_NOHUGEPAGE);
            memory.write_bytes(1, length);
            memory
        };
        let child = Child::start(memory, used);
        let mut reports = Vec::new();
        let options = options(child.0 as u32, Path::new("/proc"), 3, 400);
        let accesses = watch_accesses(&options, &mut |done, all| {
            reports.push((done, all));
            true
        });
        let accesses = accesses.unwrap();
        assert_eq!((accesses.rounds, reports), (3, vec![(1, 3), (2, 3), (3, 3)]));
        assert_eq!(accesses.notes, [""; 0]);
        let start = memory as u64;
        let is_ours = |place: &&AccessedPlace| place.place.bytes == (start..start + 64 * MB);
        let found = accesses.places.iter().find(is_ours).expect("the mapping is an area");
        assert_eq!(found.place.kind, AreaKind::Anonymous);
        assert_eq!(found.resident_bytes, 64 * MB);
        // The kernel marks a few shared pages as referenced for reasons of its own.
        let most = *found.accessed_bytes.iter().max().unwrap();
        assert!((16 * MB..17 * MB).contains(&most), "{found:?}");
        assert_eq!(found.rounds_accessed(), 3, "{found:?}");
    }

    #[test]
    fn a_process_that_ends_leaves_its_complete_rounds() {
        let sleep = |seconds: &str| {
            let mut command = Command::new("sleep");
            command.arg(seconds).stdout(Stdio::null()).spawn().unwrap()
        };
        let mut child = sleep("60");
        let options_1 = options(child.id(), Path::new("/proc"), 100, 100);
        let accesses = watch_accesses(&options_1, &mut |done, _| {
            if done == 2 {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            true
        });
        child.wait().unwrap();
        let accesses = accesses.unwrap();
        assert_eq!((accesses.rounds, accesses.program.as_str()), (2, "sleep"));
        assert_eq!(accesses.notes, ["the process ended after 2 of 100 rounds"]);

        let mut child = sleep("0.2");
        let options_2 = options(child.id(), Path::new("/proc"), 1, 2000);
        let error = watch_accesses(&options_2, &mut |_, _| true).unwrap_err().to_string();
        assert!(error.contains("ended before a round of 2 s was complete"), "{error}");
        child.wait().unwrap();
        let error = watch_accesses(&options_2, &mut |_, _| true).unwrap_err().to_string();
        assert!(error.ends_with("there is no such process"), "{error}");
    }

    const SMAPS: &str = "\
10000000-10400000 rw-p 00000000 00:00 0    [heap]
Rss:                4096 kB
Referenced:         1024 kB
AnonHugePages:      2048 kB
THPeligible:           1
10400000-10800000 ---p 00000000 00:00 0
10800000-10900000 r-xp 00000000 fe:00 9    /lib/a
Rss:                 512 kB
Referenced:          256 kB
THPeligible:           0
10900000-10a00000 rw-p 00100000 fe:00 9    /lib/a
Rss:                 256 kB
Referenced:           64 kB
";

    /// A folder with copies of a process's files, without `clear_refs`.
    fn copies(smaps: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("7")).unwrap();
        fs::write(folder.path().join("7/smaps"), smaps).unwrap();
        folder
    }

    #[test]
    fn bits_that_cannot_be_cleared_still_tell_what_is_unused() {
        let folder = copies(SMAPS);
        // A folder cannot be written to.
        fs::create_dir(folder.path().join("7/clear_refs")).unwrap();
        let options = options(7, folder.path(), 5, 10);
        let accesses = watch_accesses(&options, &mut |_, _| true).unwrap();
        assert_eq!(accesses.rounds, 1);
        let [note] = &accesses.notes[..] else { panic!("{:?}", accesses.notes) };
        assert!(note.contains("7/clear_refs: ") && note.contains("not known"), "{note}");
        let rows: Vec<_> = accesses
            .places
            .iter()
            .map(|it| (it.place.name.as_str(), it.resident_bytes >> 10, it.accessed_bytes[0] >> 10))
            .collect();
        assert_eq!(rows, [("[heap]", 4096, 1024), ("/lib/a", 768, 320)]);
        assert_eq!(accesses.places[0].large_bytes, 2 * MB);
    }

    #[test]
    fn areas_that_grow_stay_one_area() {
        let mut accesses = Accesses::default();
        let areas = |text: &str| parse_areas(text).0;
        accesses.add(7, &areas(SMAPS));
        accesses.add(7, &areas(&SMAPS.replace("-10400000 rw-p", "-10480000 rw-p")));
        accesses.add(7, &areas("20000000-20001000 rw-p 00000000 00:00 0\nReferenced: 4 kB\n"));
        let rows: Vec<_> = accesses
            .places
            .iter()
            .map(|it| (it.place.bytes.end, it.accessed_bytes.iter().map(|b| b >> 10).collect()))
            .collect();
        let expected: [(u64, Vec<u64>); 3] = [
            (0x1048_0000, vec![1024, 1024, 0]),
            (0x10a0_0000, vec![320, 320, 0]),
            (0x2000_1000, vec![0, 0, 4]),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn processes_without_memory_or_files_get_one_line() {
        for (smaps, expected) in
            [(Some(""), "kernel threads have none"), (None, "CONFIG_PROC_PAGE")]
        {
            let folder = copies(smaps.unwrap_or_default());
            if smaps.is_none() {
                fs::remove_file(folder.path().join("7/smaps")).unwrap();
            }
            let options = options(7, folder.path(), 1, 1);
            let error = watch_accesses(&options, &mut |_, _| true).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
