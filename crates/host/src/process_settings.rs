//! Settings of a process that end with it: processor affinity, use of transparent huge pages, and
//! priority for the OOM killer.

use std::fs;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use rustix::thread::{
    CpuSet, disable_transparent_huge_pages, sched_getaffinity, sched_setaffinity,
};
use rustix::time::{ClockId, clock_gettime};

use crate::HostError;

/// Pins the calling thread, and the processes that it starts, to one processor.
///
/// # Errors
/// If there is no such processor, or this process may not use it.
pub fn pin(processor: usize) -> io::Result<()> {
    if processor >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

/// Runs `work` on one processor, in a separate thread, so that the calling thread is not pinned.
/// `progress` receives the numbers that `work` passes to its argument.
///
/// # Errors
/// If this process may not use the processor, a thread cannot be started, or `work` fails.
pub fn on_processor<T: Send>(
    processor: usize,
    work: impl FnOnce(&dyn Fn(u64)) -> Result<T, HostError> + Send,
    progress: &mut dyn FnMut(u64),
) -> Result<T, HostError> {
    std::thread::scope(|scope| {
        let (sender, numbers) = mpsc::channel();
        let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
            pin(processor).map_err(|source| HostError::Processor { number: processor, source })?;
            work(&|number| {
                let _ = sender.send(number); // the receiver lives longer
            })
        });
        let thread = thread.map_err(HostError::system("starting a thread"))?;
        numbers.into_iter().for_each(progress);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Numbers of the processors on which this process may run.
pub fn allowed_processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect()
}

/// Last processor on which this process may run. (The first one serves most interrupts.)
pub fn last_allowed_processor() -> usize {
    allowed_processors().pop().unwrap_or(0)
}

/// Disables transparent huge pages for this process and the processes that it starts
/// (PR_SET_THP_DISABLE, inherited over fork and exec).
///
/// # Errors
/// If the kernel has no such setting (before Linux 3.15).
pub fn disable_large_pages() -> io::Result<()> {
    Ok(disable_transparent_huge_pages(true)?)
}

/// Makes this process the OOM killer's first choice.
///
/// # Errors
/// If `/proc` cannot be written.
pub fn be_killed_first() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "1000")
}

/// Processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_do_not_exist() {
        assert!(pin(usize::MAX).is_err());
        for processor in CpuSet::MAX_CPU - 1..=CpuSet::MAX_CPU + 1 {
            assert!(pin(processor).is_err(), "{processor}");
        }
        assert!(last_allowed_processor() < CpuSet::MAX_CPU);
    }

    #[test]
    fn the_clock_of_a_thread_advances() {
        let before = thread_time();
        let mut sum = 0_u64;
        while thread_time() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(thread_time() > before);
    }
}
