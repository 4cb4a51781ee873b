//! Kernel threads that run beside the program: khugepaged, KSM, kcompactd and a guest's balloon
//! driver.
//!
//! Linux wakes them by the clock. Here they wake after so many instructions of the program, so
//! that runs without a clock have them too. A run simulates milliseconds, in which Linux's
//! khugepaged, with its ten seconds of sleep, would never run; so the periods are short, and a
//! choice of the user.

use perforate_config::{Count, Given};
use perforate_os::{
    ContentDistribution, Defrag, Kernel, KhugepagedConfig, KsmConfig, OsError, SelfBalloonConfig,
};
use perforate_types::Update;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{SimError, System};

/// Instructions between two passes where none are named.
const PERIOD: u64 = 1_000_000;

/// A kernel thread: `every=N` and its knobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Daemon<C> {
    /// Instructions of the program between two passes.
    pub every: Count<1>,
    /// Its knobs.
    #[serde(flatten)]
    pub knobs: C,
}

/// What runs beside the program.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Background {
    /// Background promotion.
    pub khugepaged: Option<Daemon<KhugepagedConfig>>,
    /// Same-page merging.
    pub ksm: Option<Daemon<KsmConfig>>,
    /// What is on the pages, for merging.
    pub contents: Option<ContentDistribution>,
    /// Self-ballooning for large pages, in a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_balloon: Option<Daemon<SelfBalloonConfig>>,
}

#[derive(Deserialize)]
struct Period {
    every: Option<Count<1>>,
}

impl<'de, C: DeserializeOwned> Deserialize<'de> for Daemon<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut given = Given::deserialize(deserializer)?;
        given.check_keys::<Period, C>().map_err(D::Error::custom)?;
        let Period { every } = given.take().map_err(D::Error::custom)?;
        let knobs = given.read().map_err(D::Error::custom)?;
        Ok(Self { every: every.unwrap_or(Count::new(PERIOD)), knobs })
    }
}

impl Background {
    /// Short phrases for headings.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut phrases = Vec::new();
        phrases.extend(self.khugepaged.map(|Daemon { every, knobs }| {
            format!("khugepaged every {every} instructions ({knobs})")
        }));
        phrases.extend(self.ksm.map(|Daemon { every, knobs }| {
            format!("same-page merging every {every} instructions ({knobs})")
        }));
        phrases.extend(self.self_balloon.map(|Daemon { every, knobs }| {
            format!("self-ballooning every {every} instructions ({knobs})")
        }));
        phrases.extend(self.contents.map(|contents| format!("contents: {contents}")));
        phrases
    }

    /// Tells the kernel of the knobs.
    pub(crate) fn set_up(&self, kernel: &mut Kernel) -> Result<(), OsError> {
        if let Some(daemon) = self.khugepaged {
            kernel.set_khugepaged(daemon.knobs);
        }
        if let Some(daemon) = self.ksm {
            kernel.set_ksm(daemon.knobs);
        }
        self.contents.map_or(Ok(()), |contents| kernel.set_content_distribution(contents))
    }
}

/// When which kernel thread wakes next.
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
    /// Background compaction, if page faults wake it.
    Kcompactd,
    /// A guest's balloon driver.
    SelfBalloon(SelfBalloonConfig),
}

impl Alarms {
    /// Every thread wakes first after its own period.
    pub(crate) fn new(background: &Background, defrag: Defrag) -> Self {
        let khugepaged =
            background.khugepaged.map(|daemon| (Thread::Khugepaged, daemon.every.get()));
        let ksm = background.ksm.map(|daemon| (Thread::Ksm, daemon.every.get()));
        let kcompactd = defrag.wakes_kcompactd().then_some((Thread::Kcompactd, PERIOD));
        let self_balloon = background
            .self_balloon
            .map(|daemon| (Thread::SelfBalloon(daemon.knobs), daemon.every.get()));
        let threads = [khugepaged, ksm, kcompactd, self_balloon].into_iter().flatten();
        let threads = threads.map(|(thread, every)| Alarm { thread, every, next: every });
        Self { threads: threads.collect() }
    }

    /// The instruction before which the next thread wakes; [`u64::MAX`] without threads.
    pub(crate) fn next(&self) -> u64 {
        self.threads.iter().map(|alarm| alarm.next).min().unwrap_or(u64::MAX)
    }

    /// Runs the threads that wake now, before instruction `now`.
    ///
    /// # Errors
    /// A change that the oracle refuses.
    #[cold]
    pub(crate) fn ring(&mut self, now: u64, system: &mut System) -> Result<(), SimError> {
        self.wake(now, |thread| match thread {
            Thread::SelfBalloon(config) => system.self_balloon_blocks(config),
            _ => system.change_in_background(|kernel, updates| pass(thread, kernel, updates)),
        })
    }

    /// As [`Self::ring`], the threads of the host.
    ///
    /// # Errors
    /// As there.
    #[cold]
    pub(crate) fn ring_host(&mut self, now: u64, system: &mut System) -> Result<(), SimError> {
        self.wake(now, |thread| {
            system
                .change_host_in_background(|host, updates| pass(thread, host.kernel_mut(), updates))
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

/// One round of a kernel thread.
fn pass(thread: Thread, kernel: &mut Kernel, updates: &mut Vec<Update>) -> Result<(), OsError> {
    match thread {
        Thread::Khugepaged => drop(kernel.khugepaged_pass(updates)),
        Thread::Ksm => drop(kernel.ksm_pass(updates)),
        Thread::Kcompactd => drop(kernel.kcompactd_pass(updates)),
        // A host has no hypervisor to exchange memory with.
        Thread::SelfBalloon(_) => {}
    }
    kernel.check_policy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_to_wake_comes_first() {
        let khugepaged = perforate_config::read("every=5000").unwrap();
        let ksm = perforate_config::read("default").unwrap();
        let background = Background { khugepaged, ksm, ..Background::default() };
        assert_eq!(Alarms::new(&background, Defrag::Never).next(), 5000);
        let none = Background::default();
        assert_eq!(Alarms::new(&none, Defrag::Always).next(), u64::MAX);
        assert_eq!(Alarms::new(&none, Defrag::Defer).next(), 1_000_000);
    }
}
