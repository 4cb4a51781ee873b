//! Kernel threads that run beside the program: khugepaged, KSM and kcompactd.
//!
//! Linux wakes them by the clock. Here they wake after so many instructions of the program, so
//! that runs without a clock have them too. A run simulates milliseconds, in which Linux's
//! khugepaged, with its ten seconds of sleep, would never run; so the periods are short, and a
//! choice of the user.

use std::str::FromStr;

use perforate_os::{ContentDistribution, Defrag, Kernel, KhugepagedConfig, KsmConfig, OsError};
use perforate_types::Update;
use serde::Serialize;

use crate::{SimError, System};

/// Instructions between two passes where none are named.
const PERIOD: u64 = 1_000_000;

/// A kernel thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Daemon<C> {
    /// Instructions of the program between two passes.
    pub every: u64,
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
}

/// The texts of the options that make a [`Background`].
#[derive(Clone, Copy, Debug, Default)]
pub struct BackgroundOptions<'a> {
    /// `--khugepaged`: `default` or `[every=N,]pages-to-scan=4096,…`.
    pub khugepaged: Option<&'a str>,
    /// `--ksm`: `default` or `[every=N,]pages-to-scan=100,…`.
    pub ksm: Option<&'a str>,
    /// `--contents`: `zero=5%,duplicate=20%,distinct=64,…`.
    pub contents: Option<&'a str>,
}

impl Background {
    /// Reads the options.
    ///
    /// # Errors
    /// What cannot be read, and contents or merging without the other.
    pub fn parse(options: BackgroundOptions<'_>) -> Result<Self, SimError> {
        let wrong = |problem: &str| Err(SimError::Past(problem.into()));
        match (options.ksm, options.contents) {
            (Some(_), None) => {
                return wrong("--ksm needs --contents: without them no two pages are equal");
            }
            (None, Some(_)) => return wrong("--contents without --ksm has no effect"),
            _ => {}
        }
        let contents = options.contents.map(str::parse).transpose();
        let contents = contents.map_err(|error| named("--contents", error))?;
        Ok(Self {
            khugepaged: parse_daemon("--khugepaged", options.khugepaged)?,
            ksm: parse_daemon("--ksm", options.ksm)?,
            contents,
        })
    }

    /// Short phrases for headings.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut phrases = Vec::new();
        phrases.extend(self.khugepaged.map(|Daemon { every, knobs }| {
            format!("khugepaged every {every} instructions ({knobs})")
        }));
        phrases.extend(self.ksm.map(|Daemon { every, knobs }| {
            format!("same-page merging every {every} instructions ({knobs})")
        }));
        phrases.extend(self.contents.map(|contents| format!("contents: {contents}")));
        phrases
    }

    /// Tells the kernel of the knobs.
    pub(crate) fn set_up(&self, kernel: &mut Kernel) -> Result<(), OsError> {
        if let Some(daemon) = self.khugepaged {
            kernel.set_khugepaged(daemon.knobs)?;
        }
        if let Some(daemon) = self.ksm {
            kernel.set_ksm(daemon.knobs)?;
        }
        self.contents.map_or(Ok(()), |contents| kernel.set_content_distribution(contents))
    }
}

fn named(option: &str, error: OsError) -> SimError {
    SimError::Past(format!("{option}: {error}"))
}

/// Reads `default`, or knobs with `every=N` among them.
fn parse_daemon<C: FromStr<Err = OsError>>(
    option: &str,
    text: Option<&str>,
) -> Result<Option<Daemon<C>>, SimError> {
    let Some(text) = text.filter(|text| *text != "none") else { return Ok(None) };
    let mut every = None;
    let mut knobs = Vec::new();
    for word in text.split(',').filter(|word| *word != "default") {
        let Some(number) = word.strip_prefix("every=") else {
            knobs.push(word);
            continue;
        };
        let given = number.parse().ok().filter(|&every| every > 0).ok_or_else(|| {
            let expected = "a number of instructions from 1 on";
            SimError::Past(format!("{option}: every is {expected}, not \"{number}\""))
        })?;
        if every.replace(given).is_some() {
            return Err(SimError::Past(format!("{option}: every is given twice")));
        }
    }
    let knobs = knobs.join(",").parse().map_err(|error| named(option, error))?;
    Ok(Some(Daemon { every: every.unwrap_or(PERIOD), knobs }))
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
}

impl Alarms {
    /// Every thread wakes first after its own period.
    pub(crate) fn new(background: &Background, defrag: Defrag) -> Self {
        let khugepaged = background.khugepaged.map(|daemon| (Thread::Khugepaged, daemon.every));
        let ksm = background.ksm.map(|daemon| (Thread::Ksm, daemon.every));
        let kcompactd = defrag.wakes_kcompactd().then_some((Thread::Kcompactd, PERIOD));
        let threads = [khugepaged, ksm, kcompactd].into_iter().flatten();
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
        self.wake(now, |thread| {
            system.change_in_background(|kernel, updates| {
                pass(thread, kernel, updates);
                Ok(())
            })
        })
    }

    /// As [`Self::ring`], the threads of the host.
    ///
    /// # Errors
    /// As there.
    #[cold]
    pub(crate) fn ring_host(&mut self, now: u64, system: &mut System) -> Result<(), SimError> {
        self.wake(now, |thread| {
            system.change_host_in_background(|host, updates| {
                pass(thread, host.kernel_mut(), updates);
                Ok(())
            })
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
fn pass(thread: Thread, kernel: &mut Kernel, updates: &mut Vec<Update>) {
    match thread {
        Thread::Khugepaged => drop(kernel.khugepaged_pass(updates)),
        Thread::Ksm => drop(kernel.ksm_pass(updates)),
        Thread::Kcompactd => drop(kernel.kcompactd_pass(updates)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_and_knobs() {
        let options = BackgroundOptions {
            khugepaged: Some("every=5000,max-ptes-none=0"),
            ksm: Some("default"),
            contents: Some("zero=10%"),
        };
        let background = Background::parse(options).unwrap();
        let khugepaged = background.khugepaged.unwrap();
        assert_eq!((khugepaged.every, khugepaged.knobs.max_ptes_none), (5000, 0));
        assert_eq!(khugepaged.knobs.pages_to_scan, 4096, "the rest is as in Linux");
        assert_eq!(background.ksm.unwrap().every, 1_000_000);
        assert_eq!(Alarms::new(&background, Defrag::Never).next(), 5000);
        let none = Background::default();
        assert_eq!(Alarms::new(&none, Defrag::Always).next(), u64::MAX);
        assert_eq!(Alarms::new(&none, Defrag::Defer).next(), 1_000_000);
        assert_eq!(Background::parse(BackgroundOptions::default()).unwrap(), Background::default());
    }

    #[test]
    fn wrong_knobs_name_the_option() {
        let none = BackgroundOptions::default();
        for (options, problem) in [
            (
                BackgroundOptions { khugepaged: Some("every=0"), ..none },
                "--khugepaged: every is a number of instructions from 1 on, not \"0\"",
            ),
            (
                BackgroundOptions { khugepaged: Some("max-ptes-none=512"), ..none },
                "max-ptes-none is at most 511, not 512",
            ),
            (BackgroundOptions { khugepaged: Some("every=5,every=6"), ..none }, "given twice"),
            (BackgroundOptions { ksm: Some("default"), ..none }, "--ksm needs --contents"),
            (BackgroundOptions { contents: Some("zero=1%"), ..none }, "has no effect"),
        ] {
            let error = Background::parse(options).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
