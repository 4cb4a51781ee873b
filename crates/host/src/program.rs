//! Timing of a user's program with and without 2MB pages.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::resume_unwind;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use perforate_record::find_program;
use perforate_record::process_memory::read_text;
use rustix::process::{Signal, set_parent_process_death_signal, setpgid};

use crate::benchmark::Paging;
use crate::counters::{Absence, Counting, Readings};
use crate::process_settings::{disable_large_pages, pin, thread_time};
use crate::{HostError, Residency};

/// Tunable of glibc (2.35 or later) that makes malloc advise MADV_HUGEPAGE.
const TUNABLE: &str = "glibc.malloc.hugetlb=1";
/// Duration between two samples of a running program's memory.
const SAMPLE_PERIOD: Duration = Duration::from_millis(20);
/// Longest duration between two samples of a program that is timed.
const LONGEST_SAMPLE_PERIOD: Duration = Duration::from_secs(2);
/// Longest duration between two questions whether the user stops a program that is timed.
const STOP_PERIOD: Duration = Duration::from_millis(100);

/// By how much this process may grow between the reading of its peak and the start of a program.
const MARGIN_BYTES: u64 = 4 << 20;

/// Durations and counts of one run of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramTime {
    /// Processor time in user mode of the program and its ended children.
    pub user: Duration,
    /// Processor time in kernel mode of the program and its ended children.
    pub system: Duration,
    /// Elapsed (wall-clock) time of the run.
    pub wall: Duration,
    /// Page faults of the program and its ended children.
    pub page_faults: u64,
    /// Largest resident memory in bytes of the program or of one of its ended children; absent if it is less than this
    /// process had when it started the program, as Linux cannot say then.
    pub max_resident_bytes: Option<u64>,
    /// Exit code of the program; absent if a signal killed it.
    pub exit_code: Option<i32>,
    /// Readings of hardware counters over the whole run, user mode only; empty if there are none.
    pub counters: Readings,
}

/// Parameters for starting a program. The program's standard output is discarded.
#[derive(Default)]
pub(crate) struct Start<'a> {
    /// The program and its arguments.
    pub program: &'a [OsString],
    /// Processor to which the program is pinned; `None` to allow all processors.
    pub processor: Option<usize>,
    /// Environment variables in addition to those of this process.
    pub environment: Vec<(String, OsString)>,
    /// True to disable transparent huge pages for the program.
    pub disables_large_pages: bool,
    /// True to make the program the leader of a process group, which is killed with this process.
    pub leads_group: bool,
}

/// Ends of a program that is timed, other than its own.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    /// Longest time of the run.
    pub time: Duration,
    /// True once the user wants no more runs.
    pub stop: &'a AtomicBool,
}

impl Limits<'_> {
    /// The limit that a program has reached which has run for `elapsed`.
    fn reached(&self, elapsed: Duration) -> Option<Killed> {
        if self.stop.load(Ordering::Relaxed) {
            Some(Killed::Stopped)
        } else {
            (elapsed >= self.time).then_some(Killed::Late)
        }
    }
}

/// Reason for which a timed program was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    /// It took too long.
    Late,
    /// The user wants no more runs.
    Stopped,
}

impl<'a> Start<'a> {
    /// Parameters for a run on one processor with 2MB pages enabled or disabled.
    fn new(program: &'a [OsString], paging: Paging, processor: usize) -> Self {
        let mut environment = Vec::new();
        if paging == Paging::Large {
            let mut tunables = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
            if !tunables.is_empty() {
                tunables.push(":");
            }
            tunables.push(TUNABLE);
            environment.push(("GLIBC_TUNABLES".to_owned(), tunables));
        }
        let processor = Some(processor);
        Self {
            program,
            processor,
            environment,
            disables_large_pages: paging == Paging::Small,
            leads_group: false,
        }
    }

    pub fn spawn(&self) -> Result<Child, HostError> {
        let mut command = find_program(self.program)?.command();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let Self { processor, disables_large_pages, leads_group, .. } = *self;
        // SAFETY: between fork and exec, only system calls are made and nothing is allocated.
        unsafe {
            command.pre_exec(move || {
                processor.map_or(Ok(()), pin)?;
                if leads_group {
                    setpgid(None, None)?;
                    set_parent_process_death_signal(Some(Signal::KILL))?;
                }
                if disables_large_pages { disable_large_pages() } else { Ok(()) }
            });
        }
        command.spawn().map_err(HostError::system("starting the program"))
    }

    /// Runs the program to its end and measures it.
    pub fn time(&self) -> Result<ProgramTime, HostError> {
        let counting = Counting::of_next_program().ok();
        let inherited_bytes = lower_own_peak();
        let started = Instant::now();
        let child = self.spawn()?;
        let (status, usage) = wait(&child).map_err(HostError::system("waiting for the program"))?;
        let counters = counting.map_or_else(Readings::default, |mut counting| counting.read());
        Ok(ProgramTime::new(started.elapsed(), status, (&usage, inherited_bytes), counters))
    }

    /// Runs the program to its end, measures it, and meanwhile calls `sample` with its process id, with at most
    /// 1 % of a processor's time. Kills the program's process group at a limit, and then returns the reason;
    /// otherwise at the end of the program, so that nothing it left behind disturbs later runs. The program
    /// must lead a group.
    pub fn observe(
        &self,
        limits: Limits<'_>,
        mut sample: impl FnMut(u32) + Send,
    ) -> Result<Result<ProgramTime, Killed>, HostError> {
        const FAILED: &str = "waiting for the program";
        let counting = Counting::of_next_program().ok();
        let inherited_bytes = lower_own_peak();
        let started = Instant::now();
        let child = self.spawn()?;
        let process = child.id();
        let (ended, end) = mpsc::channel::<()>();
        let (waited, killed) = std::thread::scope(|scope| {
            let sampler = scope.spawn(move || {
                let mut next_sample = SAMPLE_PERIOD;
                loop {
                    let pause = next_sample.min(limits.time).saturating_sub(started.elapsed());
                    match end.recv_timeout(pause.min(STOP_PERIOD)) {
                        Err(mpsc::RecvTimeoutError::Timeout) => {}
                        _ => return None,
                    }
                    let killed = limits.reached(started.elapsed());
                    if killed.is_some() {
                        kill_group(process);
                        return killed;
                    }
                    if started.elapsed() < next_sample {
                        continue;
                    }
                    let before = thread_time();
                    sample(process);
                    let taken = thread_time().saturating_sub(before);
                    let pause = (99 * taken).clamp(SAMPLE_PERIOD, LONGEST_SAMPLE_PERIOD);
                    next_sample = started.elapsed() + pause;
                }
            });
            // The process id stays the program's until the sampler no longer uses it.
            let waited = wait_without_reaping(process);
            let elapsed = started.elapsed();
            kill_group(process);
            drop(ended);
            let killed = sampler.join().unwrap_or_else(|panic| resume_unwind(panic));
            (waited.map(|()| elapsed), killed)
        });
        let elapsed = waited.map_err(HostError::system(FAILED))?;
        let (status, usage) = wait(&child).map_err(HostError::system(FAILED))?;
        let counters = counting.map_or_else(Readings::default, |mut counting| counting.read());
        let time = ProgramTime::new(elapsed, status, (&usage, inherited_bytes), counters);
        Ok(killed.map_or(Ok(time), Err))
    }

    /// Runs the program to its end, and meanwhile calls `sample` with its process id. Returns the exit
    /// code; `None` if a signal killed the program.
    pub fn watch(&self, mut sample: impl FnMut(u32)) -> Result<Option<i32>, HostError> {
        let mut child = self.spawn()?;
        loop {
            let ended = child.try_wait().map_err(HostError::system("waiting for the program"))?;
            if let Some(status) = ended {
                return Ok(status.code());
            }
            let before = Instant::now();
            sample(child.id());
            // Sampling much memory takes long and delays the program, so samples take at most a fifth
            // of the time.
            std::thread::sleep(SAMPLE_PERIOD.max(4 * before.elapsed()));
        }
    }
}

impl ProgramTime {
    /// `inherited_bytes` is the peak of this process that Linux counts as the program's, too.
    fn new(
        wall: Duration,
        status: ExitStatus,
        (usage, inherited_bytes): (&libc::rusage, u64),
        counters: Readings,
    ) -> Self {
        let max_resident_bytes = usage.ru_maxrss as u64 * 1024;
        let time =
            |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
        Self {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            wall,
            page_faults: (usage.ru_minflt + usage.ru_majflt) as u64,
            max_resident_bytes: (max_resident_bytes > inherited_bytes.saturating_add(MARGIN_BYTES))
                .then_some(max_resident_bytes),
            exit_code: status.code(),
            counters,
        }
    }

    /// Processor time in user and kernel mode of the program and its ended children.
    pub fn processor(&self) -> Duration {
        self.user + self.system
    }
}

/// Gives back memory that this process no longer uses, and sets the peak of its resident memory to what it has now.
/// Returns that peak in bytes: when a program is started, Linux counts it as the program's (`begin_new_exec` takes the
/// peak from before the exec), so that a smaller program's own peak cannot be seen. A system that shows no peak of the
/// present memory shows that of the whole process, which is not lower.
fn lower_own_peak() -> u64 {
    // SAFETY: the call has no conditions.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
    // Where this is refused, the peak stays what it was, and is what the next line reads.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    kilobytes.map_or_else(peak_of_process, |kilobytes| kilobytes * 1024)
}

/// Largest resident memory of this process so far, in bytes.
fn peak_of_process() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a local variable, which the call may write.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0;
    // SAFETY: `zeroed` made a valid value, because all fields are integers.
    let kilobytes = unsafe { usage.assume_init() }.ru_maxrss;
    if failed { u64::MAX } else { kilobytes as u64 * 1024 }
}

/// Waits until the program ends. Returns its exit status, and what it and its ended children used.
fn wait(child: &Child) -> io::Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to local variables, which the call may write.
    while unsafe { libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) } < 0 {
        retry_if_interrupted()?;
    }
    // SAFETY: `zeroed` made a valid value, because all fields are integers; the call overwrote it.
    Ok((ExitStatus::from_raw(status), unsafe { usage.assume_init() }))
}

/// Waits until a process ends, without freeing its process id.
fn wait_without_reaping(process: u32) -> io::Result<()> {
    let mut found = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: the pointer is to a local variable, which the call may write.
    while unsafe { libc::waitid(libc::P_PID, process, found.as_mut_ptr(), options) } < 0 {
        retry_if_interrupted()?;
    }
    Ok(())
}

/// The error of the last system call, unless a signal interrupted it.
fn retry_if_interrupted() -> io::Result<()> {
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// Kills the processes of a process group.
fn kill_group(group: u32) {
    // SAFETY: the call has no conditions.
    unsafe { libc::kill(-(group as i32), libc::SIGKILL) };
}

/// Runs the program to its end on one processor and measures it. With [`Paging::Large`], malloc of
/// glibc asks for large pages; no setting of the system is changed.
///
/// # Errors
/// If the program cannot be run.
pub fn time_program(
    program: &[OsString],
    paging: Paging,
    processor: usize,
) -> Result<ProgramTime, HostError> {
    Start::new(program, paging, processor).time()
}

/// Runs the program once, unmodified, with hardware counters. Does not run it if there are no
/// counters; then returns the reason.
///
/// # Errors
/// If the program cannot be run.
pub fn count_program(program: &[OsString]) -> Result<Result<ProgramTime, Absence>, HostError> {
    if let Err(absence) = Counting::of_next_program() {
        return Ok(Err(absence));
    }
    Start { program, ..Start::default() }.time().map(Ok)
}

/// Runs the program once and samples its memory, without its children's. Returns the sample with the
/// most resident memory.
///
/// # Errors
/// If the program cannot be run.
pub fn largest_residency(
    program: &[OsString],
    paging: Paging,
    processor: usize,
) -> Result<Residency, HostError> {
    let mut largest = Residency::default();
    Start::new(program, paging, processor).watch(|process| {
        let now = residency_of(process);
        if now.resident_bytes > largest.resident_bytes {
            largest = now;
        }
    })?;
    Ok(largest)
}

/// Current resident memory of a process; zero bytes if the process has ended.
fn residency_of(process: u32) -> Residency {
    let text = read_text(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    Residency::of(&text, 0..u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::process_settings::last_allowed_processor;

    fn words(program: &[&str]) -> Vec<OsString> {
        program.iter().map(Into::into).collect()
    }

    #[test]
    fn times_and_exit_codes() {
        let processor = last_allowed_processor();
        let program = words(&["sh", "-c", "exit 3"]);
        for paging in [Paging::Small, Paging::Large] {
            let time = time_program(&program, paging, processor).unwrap();
            assert_eq!(time.exit_code, Some(3));
            assert!(time.wall > Duration::ZERO);
        }
        let program = words(&["sh", "-c", "kill -9 $$"]);
        assert_eq!(time_program(&program, Paging::Small, processor).unwrap().exit_code, None);
        assert!(time_program(&words(&["no-such-program"]), Paging::Small, processor).is_err());
        assert!(time_program(&[], Paging::Small, processor).is_err());
    }

    /// A program smaller than this process has no peak of its own that can be seen, a larger one has: `tail` of a
    /// pipe keeps what it is to print.
    #[test]
    fn the_peak_of_a_program_is_not_that_of_this_process() {
        let held = vec![1_u8; 64 << 20];
        let peak = |bytes: u64| {
            let pipe = format!("head -c {bytes} /dev/zero | tail -c {bytes} > /dev/null");
            let program = words(&["sh", "-c", &pipe]);
            time_program(&program, Paging::Small, last_allowed_processor())
                .unwrap()
                .max_resident_bytes
        };
        assert_eq!(peak(1 << 20), None);
        // Other tests in this process may hold some 100MB meanwhile.
        let (bytes, large) = [256 << 20, 512 << 20, 1 << 30]
            .into_iter()
            .find_map(|bytes| Some((bytes, peak(bytes)?)))
            .expect("1GB is more than this process holds");
        assert!((bytes..bytes + (44 << 20)).contains(&large), "{large}");
        drop(held);
    }

    #[test]
    fn programs_are_counted_where_there_are_counters() {
        match count_program(&words(&["sh", "-c", "exit 3"])).unwrap() {
            Ok(time) => {
                assert_eq!(time.exit_code, Some(3));
                assert!(!time.counters.is_empty());
            }
            Err(absence) => println!("skipped: {absence}"),
        }
    }

    /// A sleeping program is killed at either limit, long before its end.
    #[test]
    fn timed_programs_end_at_their_limits() {
        let program = words(&["sleep", "600"]);
        let start = Start {
            leads_group: true,
            ..Start::new(&program, Paging::Large, last_allowed_processor())
        };
        for (milliseconds, stops, expected) in
            [(50, false, Killed::Late), (600_000, true, Killed::Stopped)]
        {
            let stop = AtomicBool::new(false);
            let limits = Limits { time: Duration::from_millis(milliseconds), stop: &stop };
            // The program runs when it is sampled.
            let killed = start.observe(limits, |_| stop.store(stops, Ordering::Relaxed)).unwrap();
            assert_eq!(killed, Err(expected));
        }
    }

    /// Samples a running `cat`: it has echoed a byte, so its memory is set up, and it runs until
    /// its input ends.
    #[test]
    fn running_programs_are_sampled() {
        use std::io::{Read, Write};
        let mut command = Command::new("cat");
        let mut cat = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert!(residency_of(cat.id()).resident_bytes > 0);
        drop(cat.stdin.take());
        cat.wait().unwrap();
        let processor = last_allowed_processor();
        assert!(largest_residency(&words(&["true"]), Paging::Large, processor).is_ok());
    }

    /// Checks the setting in the program's `/proc/self/status`, which shows it since Linux 5.0.
    #[test]
    fn large_pages_are_off_in_the_program() {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if !status.contains("THP_enabled:\t1") {
            println!("skipped: this kernel does not show the setting, or has large pages off");
            return;
        }
        let check = |value| format!("grep -q 'THP_enabled:.{value}' /proc/self/status");
        let processor = last_allowed_processor();
        for (paging, value) in [(Paging::Small, 0), (Paging::Large, 1)] {
            let program = words(&["sh", "-c", &check(value)]);
            let time = time_program(&program, paging, processor).unwrap();
            assert_eq!(time.exit_code, Some(0), "{paging:?}");
        }
    }
}
