//! Running a user's program with and without large pages, and timing it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::benchmark::Paging;
use super::settings::{allowed_processors, pin, without_large_pages};
use super::smaps::{Residency, parse_smaps};
use crate::CaptureError;
use crate::program::find_program;

/// What glibc (2.35 or later) is told so that malloc asks for large pages with madvise.
const TUNABLE: &str = "glibc.malloc.hugetlb=1";
/// Time between two looks at a running program's memory.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// What one run of a program took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramTime {
    /// Processor time in user mode of the program and its ended children, in nanoseconds.
    pub user_nanoseconds: u64,
    /// The same in the kernel, in nanoseconds.
    pub system_nanoseconds: u64,
    /// Time that passed, in nanoseconds.
    pub wall_nanoseconds: u64,
    /// Exit code; absent if a signal ended it.
    pub exit_code: Option<i32>,
}

impl ProgramTime {
    /// The last processor that this process may run on: the first serves most interrupts.
    pub fn default_processor() -> usize {
        allowed_processors().last().copied().unwrap_or(0)
    }
}

/// Starts the program with its large pages on or off; standard output goes nowhere.
fn start(program: &[OsString], paging: Paging, processor: usize) -> Result<Child, CaptureError> {
    let mut command = find_program(program)?.command();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if paging == Paging::Large {
        let others = std::env::var_os("GLIBC_TUNABLES").filter(|others| !others.is_empty());
        let mut tunables = others.map(|mut others| {
            others.push(":");
            others
        });
        tunables.get_or_insert_default().push(TUNABLE);
        command.env("GLIBC_TUNABLES", tunables.unwrap_or_default());
    }
    // SAFETY: between fork and exec only system calls are made, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            pin(processor)?;
            if paging == Paging::Small { without_large_pages() } else { Ok(()) }
        });
    }
    command.spawn().map_err(|error| CaptureError::system("starting the program", error))
}

/// Runs the program to its end on one processor. With [`Paging::Large`], malloc of glibc is told to
/// ask for large pages; nothing else of the system is changed.
///
/// # Errors
/// If it cannot be run.
pub fn time_program(
    program: &[OsString],
    paging: Paging,
    processor: usize,
) -> Result<ProgramTime, CaptureError> {
    let started = Instant::now();
    let child = start(program, paging, processor)?;
    let (status, usage) =
        wait(&child).map_err(|error| CaptureError::system("waiting for the program", error))?;
    let nanoseconds =
        |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Ok(ProgramTime {
        user_nanoseconds: nanoseconds(usage.ru_utime),
        system_nanoseconds: nanoseconds(usage.ru_stime),
        wall_nanoseconds: started.elapsed().as_nanos() as u64,
        exit_code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
    })
}

/// Waits for the end of a child and what it used.
fn wait(child: &Child) -> io::Result<(libc::c_int, libc::rusage)> {
    let mut status = 0;
    // SAFETY: plain numbers, for which zeros are right.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the child is ours and nobody has waited for it; both results are written to
        // places of ours.
        let ended = unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage) };
        if ended > 0 {
            return Ok((status, usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Runs the program once more, looks at its memory again and again, and returns how much of it was
/// resident and in large pages when it was largest. Its children are not looked at.
///
/// # Errors
/// If it cannot be run.
pub fn large_share_of_program(
    program: &[OsString],
    paging: Paging,
    processor: usize,
) -> Result<Residency, CaptureError> {
    let mut child = start(program, paging, processor)?;
    let path = format!("/proc/{}/smaps_rollup", child.id());
    let mut largest = Residency::default();
    loop {
        let ended = child.try_wait();
        if ended.map_err(|error| CaptureError::system("waiting for the program", error))?.is_some()
        {
            return Ok(largest);
        }
        let now = parse_smaps(&fs::read(&path).unwrap_or_default(), 0..u64::MAX);
        if now.resident_bytes > largest.resident_bytes {
            largest = now;
        }
        std::thread::sleep(LOOK_PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(program: &[&str]) -> Vec<OsString> {
        program.iter().map(Into::into).collect()
    }

    #[test]
    fn times_and_exit_codes() {
        let processor = ProgramTime::default_processor();
        let program = words(&["sh", "-c", "exit 3"]);
        for paging in [Paging::Small, Paging::Large] {
            let time = time_program(&program, paging, processor).unwrap();
            assert_eq!(time.exit_code, Some(3));
            assert!(time.wall_nanoseconds > 0);
        }
        let program = words(&["sh", "-c", "kill -9 $$"]);
        assert_eq!(time_program(&program, Paging::Small, processor).unwrap().exit_code, None);
        assert!(time_program(&words(&["no-such-program"]), Paging::Small, processor).is_err());
        assert!(time_program(&[], Paging::Small, processor).is_err());
    }

    #[test]
    fn a_running_program_is_looked_at() {
        let program = words(&["sleep", "0.2"]);
        let processor = ProgramTime::default_processor();
        let largest = large_share_of_program(&program, Paging::Large, processor).unwrap();
        assert!(largest.resident_bytes > 0);
    }

    /// THP off must reach the program: the kernel tells in /proc/self/status (since Linux 5.0).
    #[test]
    fn large_pages_are_off_in_the_program() {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if !status.contains("THP_enabled:\t1") {
            println!("skipped: this kernel does not tell, or has them off");
            return;
        }
        let check = |value| format!("grep -q 'THP_enabled:.{value}' /proc/self/status");
        let processor = ProgramTime::default_processor();
        for (paging, value) in [(Paging::Small, 0), (Paging::Large, 1)] {
            let program = words(&["sh", "-c", &check(value)]);
            let time = time_program(&program, paging, processor).unwrap();
            assert_eq!(time.exit_code, Some(0), "{paging:?}");
        }
    }
}
