//! Advice on large pages, verified: a program runs as it is, advised, advised, as it is, several times, and
//! a predicted ratio of the times is judged by the measured one.
//!
//! Advice is for areas by name and offset ([`AdvisedArea`]), because addresses change between runs. A
//! library that is loaded before the program gives it (`preload_advice/`); the program is not changed, and
//! no setting of the system is. The library comes with this program and needs no compiler. Linux gives such
//! advice for other processes only as MADV_COLLAPSE (`process_madvise`), after the memory was touched in
//! small pages, and cannot take it back.
//!
//! Where `transparent_hugepage/enabled` is `madvise`, memory without advice has 4KB pages. Where it is
//! `always`, runs with advice have large pages in the advised areas only (PR_THP_DISABLE_EXCEPT_ADVISED,
//! Linux 6.18), and runs as it is have them everywhere. Where it is `never`, there is nothing to measure.

mod area;
mod collapse;
mod numbering;
mod preload;
mod sample;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use perforate_records::{
    AreaPages, Clock, GainRatio, Judgement, Verification, VerifiedArea, VerifiedRun,
};
use perforate_sim::Progress;

use crate::counters::Readings;
use crate::machine::{LargePageSettings, kernel_version};
use crate::preloading::check_preloading;
use crate::program::{Killed, Limits, ProgramTime, Start};
use crate::validate::order;
use crate::{HostError, Reporter};

pub use area::{AdvisedArea, AreaPart};
pub use numbering::AreaNumbers;

use collapse::collapse;
use preload::{AdvicePreload, PURPOSE, Parameters, Report};

/// Number of runs of a round.
const RUNS: u64 = 4;
/// Shortest run in seconds that can be measured: the kernel counts processor time in steps of milliseconds.
const LEAST_SECONDS: f64 = 0.05;
/// Share of an area that should be in large pages after advice; below it, a note is added.
const FOLLOWED: f64 = 0.5;
/// Resident memory in bytes below which an area's pages are not judged.
const LEAST_AREA_BYTES: u64 = 4 << 20;
/// Growth in bytes of shared memory that is not in large pages yet after which it is collapsed again.
const LEAST_COLLAPSED_BYTES: u64 = 2 << 20;
/// Spread of the runs' times, as a share of the median, above which a note is added.
const WIDE_SPREAD: f64 = 0.10;

/// State to which runs with advice are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// The program as it is, under the system's settings.
    #[default]
    AsItIs,
    /// The program with 4KB pages only (PR_SET_THP_DISABLE).
    SmallPages,
}

/// Options of a verification.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of rounds of four runs.
    pub rounds: u32,
    /// Processor to which the program is pinned; `None` to allow all processors.
    pub processor: Option<usize>,
    /// Longest time of one run, after which the program is killed.
    pub limit: Duration,
    /// True if programs that the program executes get the advice as well.
    pub inherits: bool,
    /// State to which runs with advice are compared.
    pub base: Base,
    /// Kind of time that the prediction is for.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 3,
            processor: None,
            limit: Duration::from_secs(600),
            inherits: false,
            base: Base::AsItIs,
            clock: Clock::Processor,
        }
    }
}

/// Checks, before any long work, that advice has an effect on this system and can be given to a program.
///
/// # Errors
/// If the kernel follows no advice, or the program is not found, is statically linked or is setuid.
pub fn check(program: &[OsString]) -> Result<(), HostError> {
    setting()?;
    check_preloading(program, PURPOSE)
}

/// Setting `transparent_hugepage/enabled` of the system, unless the kernel follows no advice.
fn setting() -> Result<String, HostError> {
    let setting = LargePageSettings::now().get("enabled").unwrap_or("never").to_owned();
    if setting == "never" {
        return Err(HostError::Verify(
            "transparent_hugepage/enabled is never: the kernel follows no advice; expected madvise or \
             always"
                .into(),
        ));
    }
    Ok(setting)
}

/// Runs a program as it is and with advice on areas of its memory, and judges a predicted ratio of the times
/// (as it is ÷ advised). One run as it is comes before those that are measured. Setting `stop` ends the present
/// run and leaves the whole rounds before it.
///
/// # Errors
/// If advice has no effect on this system or cannot be given to the program, and if a run fails, ends at
/// once, takes longer than the limit, or has none of the areas; or if `stop` was set before the end of the first
/// round.
pub fn verify(
    program: &[OsString],
    advice: &[AdvisedArea],
    predicted: Option<GainRatio>,
    options: &Options,
    stop: &AtomicBool,
    reporter: &mut dyn Reporter,
) -> Result<Verification, HostError> {
    let setting = setting()?;
    if advice.is_empty() {
        return Err(HostError::Verify("no area has advice; expected one at least".into()));
    }
    let preload = AdvicePreload::new(program, advice)?;
    let measurement = Measurement { program, advice, options, preload, setting, stop };
    reporter.stage("measuring the program", "runs");
    let rounds = options.rounds.max(1);
    let total = u64::from(rounds) * RUNS;
    let mut report = |done: usize| {
        reporter.progress(Progress { done: done as u64 + 1, total: Some(total + 1) });
    };
    let mut runs = Vec::new();
    measurement.run(false, "the first run")?;
    report(0);
    for is_advised in (0..rounds).flat_map(order) {
        let number = runs.len() + 1;
        match measurement.run(is_advised, &format!("run {number} of {total}")) {
            Ok(run) => runs.push(run),
            Err(HostError::Stopped) if runs.len() as u64 >= RUNS => break,
            Err(error) => return Err(error),
        }
        report(number);
    }
    let measured_rounds = runs.len() as u64 / RUNS;
    runs.truncate((measured_rounds * RUNS) as usize);
    let mut found = measurement.outcome(runs, predicted)?;
    if measured_rounds < u64::from(rounds) {
        found.notes.push(format!("stopped after {measured_rounds} of {rounds} rounds"));
    }
    Ok(found)
}

/// A program, and how it is measured.
struct Measurement<'a> {
    program: &'a [OsString],
    advice: &'a [AdvisedArea],
    options: &'a Options,
    preload: AdvicePreload<'a>,
    setting: String,
    stop: &'a AtomicBool,
}

/// The library's report at the end of a run, and the program's own setting.
struct RunReport {
    is_advised: bool,
    report: Report,
    /// True if the program disabled large pages for itself.
    is_disabled: bool,
}

impl Measurement<'_> {
    /// Runs the program once. `name` is for errors.
    fn run(&self, is_advised: bool, name: &str) -> Result<(VerifiedRun, RunReport), HostError> {
        let failed = |problem: String| {
            let advice = if is_advised { "with advice" } else { "as it is" };
            let program = self.program[0].to_string_lossy();
            HostError::Verify(format!("{program}, {name} ({advice}): {problem}"))
        };
        let Options { inherits, base, processor, limit, .. } = *self.options;
        let only_advised = is_advised && self.setting == "always";
        let start = Start {
            program: self.program,
            processor,
            environment: self.preload.environment(Parameters {
                inherits,
                only_advised,
                is_advised,
            })?,
            disables_large_pages: !is_advised && base == Base::SmallPages,
            leads_group: true,
        };
        let (mut most, mut is_disabled) = (Vec::new(), false);
        let resident =
            |areas: &[AreaPages]| areas.iter().map(|area| area.resident_bytes).sum::<u64>();
        let mut left = vec![0; self.advice.len()];
        let limits = Limits { time: limit, stop: self.stop };
        let time = start.observe(limits, |process| {
            let Ok(report) = self.preload.report() else { return };
            let mut now = sample::pages(process, self.advice, &report);
            if is_advised && self.collapse_shared(process, &report, &now, &mut left) {
                now = sample::pages(process, self.advice, &report);
            }
            if resident(&now) >= resident(&most) {
                most = now;
                is_disabled = has_disabled_large_pages(process);
            }
        })?;
        let time = time.map_err(|killed| match killed {
            Killed::Late => {
                failed(format!("took longer than {} s and was killed", limit.as_secs_f64()))
            }
            Killed::Stopped => HostError::Stopped,
        })?;
        match time.exit_code {
            Some(0) => {}
            Some(code) => {
                return Err(failed(format!(
                    "exited with code {code}; expected a program that succeeds"
                )));
            }
            None => return Err(failed("a signal ended it; expected a program that exits".into())),
        }
        let report = self.preload.report()?;
        if !report.has_begun {
            return Err(failed(
                "did not load the library that gives advice; expected a program that the dynamic linker \
                 of glibc starts, without privileges of its own (setuid)"
                    .into(),
            ));
        }
        if !report.is_patched {
            return Err(failed(
                "the library that gives advice could not change the C library's code; expected a system \
                 that lets a process write to its own code"
                    .into(),
            ));
        }
        if time.processor().as_secs_f64() < LEAST_SECONDS {
            let milliseconds = time.processor().as_millis();
            return Err(failed(format!(
                "ended after {milliseconds} ms of processor time; expected a program that takes \
                 {:.0} ms at least",
                LEAST_SECONDS * 1000.0
            )));
        }
        if (0..self.advice.len()).all(|area| self.is_absent(area, &report)) {
            let names: Vec<String> = self.advice.iter().map(ToString::to_string).collect();
            return Err(failed(format!(
                "the program made no memory with advice while it ran: {}; expected areas that it has",
                names.join(" ")
            )));
        }
        Ok((run_record(is_advised, &time, most), RunReport { is_advised, report, is_disabled }))
    }

    /// True if the program made no memory of an area in a run. Anonymous memory is at no one place, and never absent.
    fn is_absent(&self, area: usize, report: &Report) -> bool {
        self.advice[area].part != AreaPart::Anonymous && report.addresses[area].is_none()
    }

    /// Reason why runs say nothing about the advice: it gave the program no large page. `None` if it did.
    fn unmeasured(&self, runs: &[VerifiedRun]) -> Option<String> {
        let most = |bytes: fn(&AreaPages) -> u64| {
            let advised = runs.iter().filter(|run| run.is_advised);
            let areas = advised.map(|run| run.areas.iter().take(self.advice.len()));
            areas.map(|areas| areas.map(bytes).sum::<u64>()).max().unwrap_or(0)
        };
        (most(|pages| pages.large_bytes) == 0).then(|| {
            let megabytes = most(|pages| pages.resident_bytes) >> 20;
            format!("nothing of the memory with advice, {megabytes} MB, was in large pages")
        })
    }

    /// Collapses shared areas that have more memory in small pages than was left in them the last time
    /// (`left`, in bytes by area). Errors show in the shares of large pages. Returns true if it made any.
    fn collapse_shared(
        &self,
        process: u32,
        report: &Report,
        now: &[AreaPages],
        left: &mut [u64],
    ) -> bool {
        let mut has_made = false;
        for (index, area) in self.advice.iter().enumerate() {
            let (AreaPart::Shared(_), Some(addresses)) = (&area.part, &report.addresses[index])
            else {
                continue;
            };
            let small_bytes = now[index].resident_bytes.saturating_sub(now[index].large_bytes);
            if small_bytes >= left[index] + LEAST_COLLAPSED_BYTES {
                let ranges = area.within(addresses);
                let made = ranges.iter().map(|range| collapse(process, range).unwrap_or(0));
                let made = made.sum::<u64>() > 0;
                left[index] = if made { 0 } else { small_bytes };
                has_made |= made;
            }
        }
        has_made
    }

    /// Judges the measured runs.
    fn outcome(
        &self,
        runs: Vec<(VerifiedRun, RunReport)>,
        predicted: Option<GainRatio>,
    ) -> Result<Verification, HostError> {
        let (runs, reports): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
        let clock = self.options.clock;
        let measured = Verification::ratio(&runs, clock).ok_or_else(|| {
            HostError::Verify(
                "a run took no time by the chosen clock; expected a longer program".into(),
            )
        })?;
        let words: Vec<_> = self.program.iter().map(|word| word.to_string_lossy()).collect();
        let areas = sample::names(self.advice).into_iter();
        let unmeasured = self.unmeasured(&runs);
        let judged = predicted.filter(|_| unmeasured.is_none());
        let mut verification = Verification {
            program: words.join(" ").chars().filter(|c| !c.is_control()).take(200).collect(),
            setting: self.setting.clone(),
            areas: areas.map(|(name, is_advised)| VerifiedArea { name, is_advised }).collect(),
            clock,
            measured,
            predicted,
            unmeasured,
            judgement: judged.map(|predicted| Judgement::of(&measured, &predicted)),
            effect_error: judged
                .and_then(|predicted| Verification::error_of_effect(&measured, &predicted)),
            runs,
            notes: Vec::new(),
        };
        verification.notes = self.notes(&verification, &reports);
        Ok(verification)
    }

    fn notes(&self, verification: &Verification, reports: &[RunReport]) -> Vec<String> {
        let mut notes = Vec::new();
        let advised = || reports.iter().filter(|report| report.is_advised);
        if advised().any(|report| report.is_disabled) {
            notes.push(
                "the program disables large pages for itself (PR_SET_THP_DISABLE), so that it has none in \
                 spite of advice; look for its own switch"
                    .into(),
            );
        }
        for (index, area) in self.advice.iter().enumerate() {
            if advised().all(|report| self.is_absent(index, &report.report)) {
                notes.push(format!("{area}: the program made no such memory while it ran"));
                continue;
            }
            let [before, after] =
                [false, true].map(|is_advised| verification.pages(is_advised, index));
            if after.resident_bytes >= LEAST_AREA_BYTES && after.large_share() < FOLLOWED {
                notes.push(format!(
                    "{area}: the kernel did not follow the advice: {:.0} % of {} MB resident were in large \
                     pages",
                    100.0 * after.large_share(),
                    after.resident_bytes >> 20
                ));
            }
            if before.resident_bytes >= LEAST_AREA_BYTES && before.large_share() >= FOLLOWED {
                notes.push(format!(
                    "{area}: {:.0} % were in large pages without the advice as well",
                    100.0 * before.large_share()
                ));
            }
        }
        let refused = advised().map(|report| report.report.refused).max().unwrap_or(0);
        if refused > 0 {
            notes.push(format!("the kernel refused {refused} madvise calls of a run"));
        }
        if self.setting == "always" && !keeps_to_advice() {
            notes.push(
                "transparent_hugepage/enabled is always, and kernels before 6.18 cannot keep large pages to \
                 the advised areas: the runs with advice have them elsewhere as well"
                    .into(),
            );
        }
        for (is_advised, name) in [(false, "as it is"), (true, "with advice")] {
            let spread = verification.spread(is_advised, verification.clock).unwrap_or(0.0);
            if spread > WIDE_SPREAD {
                notes.push(format!(
                    "the runs {name} differ by {:.0} % of their median; repeat on a quieter machine",
                    100.0 * spread
                ));
            }
        }
        notes
    }
}

/// True if this kernel has PR_THP_DISABLE_EXCEPT_ADVISED.
fn keeps_to_advice() -> bool {
    kernel_version().is_some_and(|version| version >= (6, 18))
}

/// True if a process has disabled large pages for itself, as its status shows since Linux 5.0.
fn has_disabled_large_pages(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("THP_enabled:") && line.ends_with('0'))
}

fn run_record(is_advised: bool, time: &ProgramTime, areas: Vec<AreaPages>) -> VerifiedRun {
    let Readings { cycles, instructions, tlb_misses, walk_cycles } = time.counters;
    let counters = [
        ("cycles", cycles),
        ("instructions", instructions),
        ("tlb_misses", tlb_misses),
        ("walk_cycles", walk_cycles),
    ];
    let counters = counters.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?)));
    VerifiedRun {
        is_advised,
        wall_seconds: time.wall.as_secs_f64(),
        user_seconds: time.user.as_secs_f64(),
        system_seconds: time.system.as_secs_f64(),
        page_faults: time.page_faults,
        max_resident_bytes: time.max_resident_bytes,
        counters: counters.collect::<BTreeMap<_, _>>(),
        areas,
    }
}
