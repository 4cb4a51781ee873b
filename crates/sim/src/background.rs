//! Timers for kernel threads, which run in parallel with the program (khugepaged, KSM, kcompactd, a guest's balloon
//! driver), and for frames that fail.

use perforate_os::{Daemon, Kernel, KernelConfig, OsError, SelfBalloonConfig};

use crate::{SimError, System};

/// Wake-up timers of kernel threads.
pub(crate) struct Alarms {
    threads: Vec<Alarm>,
}

#[derive(Clone, Copy)]
struct Alarm {
    thread: Thread,
    every: u64,
    next: u64,
}

#[derive(Clone, Copy)]
enum Thread {
    Khugepaged,
    Ksm,
    /// Background compaction, if the `defrag` option lets page faults wake kcompactd.
    Kcompactd,
    /// The memory itself: frames that fail.
    HardFaults,
    /// A guest's balloon driver.
    SelfBalloon(SelfBalloonConfig),
}

impl Alarms {
    /// Creates the timers for the threads of a kernel with this configuration. Each thread first
    /// wakes after one period.
    pub(crate) fn new(config: &KernelConfig) -> Self {
        let KernelConfig { khugepaged, ksm, defrag, hard_faults, self_balloon, .. } = config;
        let khugepaged = khugepaged.map(|daemon| (Thread::Khugepaged, daemon.every.get()));
        let ksm = ksm.map(|daemon| (Thread::Ksm, daemon.every.get()));
        let kcompactd =
            defrag.wakes_kcompactd().then_some((Thread::Kcompactd, Daemon::<()>::PERIOD));
        let hard_faults = hard_faults.map(|daemon| (Thread::HardFaults, daemon.every.get()));
        let self_balloon =
            self_balloon.map(|daemon| (Thread::SelfBalloon(daemon.knobs), daemon.every.get()));
        let threads = [khugepaged, ksm, kcompactd, hard_faults, self_balloon].into_iter().flatten();
        let threads = threads.map(|(thread, every)| Alarm { thread, every, next: every });
        Self { threads: threads.collect() }
    }

    /// Returns the instruction before which the next thread wakes; [`u64::MAX`] if there are no
    /// threads.
    pub(crate) fn next(&self) -> u64 {
        self.threads.iter().map(|alarm| alarm.next).min().unwrap_or(u64::MAX)
    }

    /// Runs all threads that are due before instruction `now`.
    ///
    /// # Errors
    /// The kernel fails, or the oracle refuses an update.
    #[cold]
    pub(crate) fn ring(&mut self, now: u64, system: &mut System) -> Result<(), SimError> {
        self.wake(now, |thread| match thread {
            Thread::SelfBalloon(config) => system.self_balloon_blocks(config),
            _ => system.change_in_background(|kernel| pass(thread, kernel)),
        })
    }

    /// Runs all threads of the host's kernel that are due before instruction `now`.
    ///
    /// # Errors
    /// As [`Self::ring`].
    #[cold]
    pub(crate) fn ring_host(&mut self, now: u64, system: &mut System) -> Result<(), SimError> {
        self.wake(now, |thread| {
            system.change_host_in_background(|host| pass(thread, host.kernel_mut()))
        })
    }

    fn wake(
        &mut self,
        now: u64,
        mut run: impl FnMut(Thread) -> Result<(), SimError>,
    ) -> Result<(), SimError> {
        for alarm in self.threads.iter_mut().filter(|alarm| alarm.next <= now) {
            alarm.next = now.saturating_add(alarm.every);
            run(alarm.thread)?;
        }
        Ok(())
    }
}

/// Lets a kernel thread do its work of one period, such as scanning memory.
fn pass(thread: Thread, kernel: &mut Kernel) -> Result<(), OsError> {
    match thread {
        Thread::Khugepaged => drop(kernel.khugepaged_pass()),
        Thread::Ksm => drop(kernel.ksm_pass()),
        Thread::Kcompactd => drop(kernel.kcompactd_pass()),
        Thread::HardFaults => kernel.hard_fault_pass(),
        // A host cannot exchange memory with a hypervisor.
        Thread::SelfBalloon(_) => {}
    }
    kernel.check_policy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_to_wake_comes_first() {
        let next = |options: &str| Alarms::new(&perforate_config::read(options).unwrap()).next();
        assert_eq!(next("khugepaged=every=5000,ksm=default"), 5000);
        assert_eq!(next("defrag=always"), u64::MAX);
        assert_eq!(next("defrag=defer"), 1_000_000);
    }

    /// Each thread wakes after its own period, and again after as long from when it woke.
    #[test]
    fn threads_wake_after_their_periods() {
        let config = "khugepaged=every=5k,ksm=every=3k,contents=zero=1%,defrag=defer";
        let config: KernelConfig = perforate_config::read(config).unwrap();
        let mut alarms = Alarms::new(&config);
        let mut woken = Vec::new();
        for now in [2_999, 3_000, 5_001, 6_000, 10_000, 10_001, 2_000_000] {
            let run = |thread| {
                let name = match thread {
                    Thread::Khugepaged => 'k',
                    Thread::Ksm => 's',
                    Thread::Kcompactd => 'c',
                    Thread::HardFaults => 'h',
                    Thread::SelfBalloon(_) => 'b',
                };
                woken.push((now, name));
                Ok(())
            };
            alarms.wake(now, run).unwrap();
        }
        let expected = [
            (3_000, 's'),
            (5_001, 'k'),
            (6_000, 's'),
            (10_000, 's'),
            (10_001, 'k'),
            (2_000_000, 'k'),
            (2_000_000, 's'),
            (2_000_000, 'c'),
        ];
        assert_eq!(woken, expected);
        assert_eq!(alarms.next(), 2_003_000);
        let balloon = KernelConfig {
            self_balloon: Some(perforate_config::read("every=7k").unwrap()),
            ..KernelConfig::default()
        };
        assert_eq!(Alarms::new(&balloon).next(), 7_000);
        assert_eq!(Alarms::new(&KernelConfig::default()).next(), u64::MAX);
    }
}
