//! Starting the emulator, and leaving nothing behind.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::CaptureError;
use crate::options::RecordOptions;
use crate::program::CommandLine;
use crate::shared::{MemoryFile, SharedMemory};
use crate::spool::runs;

/// The emulated processor: all that the emulator can do, except for the string instructions
/// that copy fast on real hardware and one byte at a time here.
pub const PROCESSOR: &str = "max,-erms";

/// Refuses early what could only fail after a long run; returns the output's folder.
pub fn check_output(output: &Path) -> Result<PathBuf, CaptureError> {
    let problem = |problem: &str| {
        Err(CaptureError::Output { path: output.to_owned(), problem: problem.to_owned() })
    };
    if output.is_dir() {
        return problem("a directory; expected a file to write the trace to");
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return problem("its folder does not exist");
    }
    Ok(folder.to_owned())
}

/// Starts the emulator with the plugin and the program.
pub fn spawn(
    options: &RecordOptions,
    emulator: &Path,
    line: &CommandLine,
    plugin: &MemoryFile,
    shared: &SharedMemory,
) -> Result<Child, CaptureError> {
    let (plugin, records) = (plugin.path(), shared.path());
    let mut command = Command::new(emulator);
    command.args(["-cpu", PROCESSOR]);
    command.arg("-plugin");
    command.arg(format!("{},shared={}", plugin.display(), records.display()));
    line.add_to(&mut command);
    if options.prints_to_stderr {
        command.stdout(io::stderr());
    }
    // SAFETY: prctl may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // Without the recorder the program would wait for ever at its first full ring.
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        });
    }
    command.spawn().map_err(|error| CaptureError::system("starting the emulator", error))
}

/// Rounds of killing: a process may fork just before it is killed.
const KILL_ROUNDS: u32 = 50;
/// Time between them.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// Ends all processes that write to rings, and nobody has to read what they wrote last.
pub fn kill_all(shared: &SharedMemory, emulator: &Path) {
    shared.header().closed.store(1, Ordering::Release);
    for _ in 0..KILL_ROUNDS {
        let users = (0..shared.rings()).filter(|&ring| !shared.is_ended(ring));
        let users = users.filter_map(|ring| shared.user(ring));
        let alive = users.filter(|process| runs(*process, emulator)).filter(|process| {
            // SAFETY: only sends a signal, to a process that the plugin runs in.
            unsafe { libc::kill(*process as i32, libc::SIGKILL) == 0 }
        });
        if alive.count() == 0 {
            return;
        }
        std::thread::sleep(KILL_PAUSE);
    }
}

/// Processor time in seconds of all children that have ended, and of theirs.
pub fn children_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place is valid for the structure; zeros are a valid one.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Time between looks of the [`Guard`].
const GUARD_PERIOD: Duration = Duration::from_millis(50);

/// A process that ends what is recorded when the recorder itself is killed (SIGKILL), which then
/// can do nothing: the kernel's parent-death signal reaches the first program only.
pub struct Guard(libc::pid_t);

impl Guard {
    /// Starts to watch.
    pub fn start(shared: &SharedMemory, emulator: &Path) -> Result<Self, CaptureError> {
        let recorder = std::process::id();
        // SAFETY: the child calls nothing but the C library's memory allocation, which may be used
        // after a fork, and system calls; it returns nowhere and runs no destructors.
        match unsafe { libc::fork() } {
            -1 => {
                let error = io::Error::last_os_error();
                Err(CaptureError::system("starting the recorder's guard", error))
            }
            0 => {
                // SAFETY: as above. Ctrl-C goes to all processes of a terminal; the recorder
                // decides.
                unsafe {
                    libc::signal(libc::SIGINT, libc::SIG_IGN);
                    libc::signal(libc::SIGTERM, libc::SIG_IGN);
                }
                while std::os::unix::process::parent_id() == recorder {
                    std::thread::sleep(GUARD_PERIOD);
                }
                kill_all(shared, emulator);
                // SAFETY: ends this process only.
                unsafe { libc::_exit(0) }
            }
            guard => Ok(Self(guard)),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: our own child, which nobody else waits for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// A child process that does not outlive the recording.
pub struct Killed(pub Child);

impl Killed {
    /// Kills it, if it has not ended, and waits for its end.
    pub fn end(&mut self) {
        // Fails only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.end();
    }
}

/// The name of an unfinished file, which is removed unless it is finished.
pub struct Partial {
    /// The file's name.
    pub path: PathBuf,
    /// Whether there is anything to remove.
    pub is_created: bool,
}

impl Partial {
    /// The name for a file that will be `output`.
    pub fn new(output: &Path) -> Self {
        let mut path = output.as_os_str().to_owned();
        path.push(".partial");
        Self { path: path.into(), is_created: false }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.is_created {
            // Nothing more can be done about it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
