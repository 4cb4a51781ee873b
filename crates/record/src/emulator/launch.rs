//! Start of the emulator, and termination of all its processes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::Duration;

use perforate_config::NewFile;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use super::program::CommandLine;
use super::reception::Reception;
use super::shared::SharedMemory;
use super::spool::runs;
use crate::options::RecordOptions;
use crate::{RecordError, environment};

/// Option for the emulated processor: all features of the emulator except fast string copies (ERMS).
/// Libraries would prefer ERMS, and the emulator copies byte by byte.
pub const PROCESSOR: &str = "max,-erms";

/// Checks, before the long run, that the trace can be written. Returns a folder for temporary data: the
/// output's folder, or the system's if the output is a device or a pipe.
pub fn check_output(output: &Path) -> Result<PathBuf, RecordError> {
    let folder = NewFile::folder(output);
    let folder = folder.map_err(|error| RecordError::file(output, error.to_string()))?;
    Ok(folder.unwrap_or_else(std::env::temp_dir))
}

/// Starts the emulator with the plugin and the program to record.
pub fn spawn(
    options: &RecordOptions,
    emulator: &Path,
    line: &CommandLine,
    reception: &Reception,
) -> Result<Child, RecordError> {
    let mut command = Command::new(emulator);
    command.args(["-cpu", PROCESSOR]);
    command.arg("-plugin").arg(reception.plugin_option());
    mask_environment(&mut command, std::env::vars_os());
    for (name, value) in &options.environment {
        let mut variable = OsString::from(format!("{name}="));
        variable.push(value);
        command.arg("-E").arg(variable);
    }
    line.add_to(&mut command);
    if options.prints_to_stderr {
        command.stdout(io::stderr());
    }
    // SAFETY: between fork and exec, only a system call is made. (Without the recorder, the program
    // would wait forever at its first full ring.)
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    command.spawn().map_err(RecordError::system("starting the emulator"))
}

/// Masks those environment variables that the emulator would take for its own options. The plugin restores
/// them for the program.
fn mask_environment(
    command: &mut Command,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) {
    for (name, value) in variables {
        let masked = environment::masked(name.as_bytes());
        if masked != name.as_bytes() {
            command.env_remove(&name).env(OsStr::from_bytes(&masked), value);
        }
    }
}

/// Makes a command for an emulator without the environment variables that it would take for its options.
pub fn plain_emulator(path: &Path) -> Command {
    let mut command = Command::new(path);
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.as_bytes().starts_with(environment::NAMES)) {
        command.env_remove(name);
    }
    command
}

/// Maximum number of rounds in which all recorded processes are killed: one may fork just before it is
/// killed.
const KILL_ROUNDS: u32 = 50;
/// Pause between two rounds of killing the recorded processes.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// Kills all processes that use rings (ring buffers of records in shared memory, one per virtual CPU). First
/// sets a flag, with which the plugins no longer wait for room in their rings.
pub fn kill_all(shared: &SharedMemory, emulator: &Path) {
    shared.header().closed.store(1, Ordering::Release);
    for _ in 0..KILL_ROUNDS {
        let users = (0..shared.rings()).filter(|&ring| !shared.is_ended(ring));
        let users = users.filter_map(|ring| shared.user(ring));
        let running = users.filter(|process| runs(*process, emulator));
        let pids = running.filter_map(|process| Pid::from_raw(process as i32));
        if pids.filter(|pid| kill_process(*pid, Signal::KILL).is_ok()).count() == 0 {
            return;
        }
        std::thread::sleep(KILL_PAUSE);
    }
}

/// Processor time of all child processes that have ended, and of their children, in seconds.
pub fn children_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place has room for the structure, for which zeros are valid.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Time between two checks of the [`Guard`] that the recorder still runs.
const GUARD_PERIOD: Duration = Duration::from_millis(50);

/// A process that kills the recorded processes if the recorder itself is killed (SIGKILL). The kernel's
/// parent-death signal would reach only the first recorded process.
pub struct Guard(libc::pid_t);

impl Guard {
    /// Starts the guard process. When the recorder is killed, it also removes the recorder's temporary
    /// `folder`.
    pub fn start(
        shared: &SharedMemory,
        emulator: &Path,
        folder: &Path,
    ) -> Result<Self, RecordError> {
        let recorder = std::process::id();
        // SAFETY: the child calls only system calls and the C library's memory allocation, which may be
        // used after a fork. It never returns and runs no destructors.
        match unsafe { libc::fork() } {
            -1 => {
                let failed = RecordError::system("starting the recorder's guard");
                Err(failed(io::Error::last_os_error()))
            }
            0 => {
                // SAFETY: as above. Ctrl-C goes to all processes of a terminal, and only the recorder
                // handles it.
                unsafe {
                    libc::signal(libc::SIGINT, libc::SIG_IGN);
                    libc::signal(libc::SIGTERM, libc::SIG_IGN);
                }
                while std::os::unix::process::parent_id() == recorder {
                    std::thread::sleep(GUARD_PERIOD);
                }
                kill_all(shared, emulator);
                let _ = fs::remove_dir_all(folder); // there is no process to report an error to
                // SAFETY: ends this process only.
                unsafe { libc::_exit(0) }
            }
            guard => Ok(Self(guard)),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: the process is our own child, and no other code waits for it.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// A child process that is killed at the end of the recording.
pub struct KilledChild(pub Child);

impl KilledChild {
    /// Kills the child process, if it still runs, and waits for its end.
    pub fn end(&mut self) {
        // Fails only if the child has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for KilledChild {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_for_the_emulator_reach_only_the_program() {
        let mut command = Command::new("emulator");
        let variables = [("QEMU_CPU", "max"), ("PATH", "QEMU_x"), ("QEMU_", "")];
        mask_environment(&mut command, variables.map(|(name, value)| (name.into(), value.into())));
        let mut seen: Vec<_> = command.get_envs().collect();
        seen.sort_unstable();
        let expected = [
            ("\x02PFT_", Some("")),
            ("\x02PFT_CPU", Some("max")),
            ("QEMU_", None),
            ("QEMU_CPU", None),
        ];
        let expected = expected.map(|(name, value)| (OsStr::new(name), value.map(OsStr::new)));
        assert_eq!(seen, expected);
    }

    #[test]
    fn nothing_is_left_of_a_guard() {
        let (shared, nowhere) = (SharedMemory::new().unwrap(), Path::new("/no/such/file"));
        let guard = Guard::start(&shared, nowhere, nowhere).unwrap();
        let process = guard.0;
        drop(guard);
        // SAFETY: changes no memory. There is no child of this number to wait for.
        let left = unsafe { libc::waitpid(process, std::ptr::null_mut(), libc::WNOHANG) };
        assert_eq!(left, -1);
    }

    #[test]
    fn children_have_used_processor_time_once_they_have_ended() {
        let before = children_seconds();
        let busy = "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done";
        let mut child = KilledChild(Command::new("sh").args(["-c", busy]).spawn().unwrap());
        assert!(child.0.wait().unwrap().success());
        let used = children_seconds() - before;
        assert!(used > 0.0 && used < 60.0, "{used}");
    }
}
