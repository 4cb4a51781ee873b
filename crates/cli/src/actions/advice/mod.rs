//! Advice on large pages for one program: analysis of its accesses, timed runs, a verdict, and what to do.

mod defaults;
mod plan;
mod ranges;
mod ranking;
mod records;
mod risks;
mod runs;
mod sizes;
mod switches;
mod verification;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use perforate_advice::remedy::{Library, Surroundings};
use perforate_advice::{Analysis, ModelError, Outcome, WalkCounts, effect_sources, speed_of};
use perforate_host::machine::{LargePageSettings, kernel_version, program_files, versioned};
use perforate_records::{
    AdviceError, AdviceEvidence, AdviceRecord, AdviceVerdict, EvidenceKind, LEAST_ACCESSES,
    SpeedRecord, Verification,
};
use perforate_report::text::compact;
use perforate_sim::{Observer, Progress, ResolvedRun, WarmupLength, open_workload};

use super::{Failure, RunRequest};
pub use defaults::{ThpSetting, with_own_machine};
use plan::Plan;
use ranges::{range_record, ranges};
pub use ranking::{advise_on_process, advise_on_samples};
use records::{areas, curve, pieces};
use risks::Figures;
use runs::{Choices, Timed};
use switches::Switches;
pub use verification::verify_advice;

/// Observer of the stages of the work.
pub trait AdviceObserver: Observer {
    /// Called when a stage begins. Its progress is counted in `unit`.
    fn on_stage(&mut self, name: &str, unit: &'static str);
}

/// Program that advice is sought for.
pub struct AdviceQuestion<'a> {
    /// Path of a trace, or name of a workload.
    pub workload: &'a str,
    /// File of the program, to find the libraries that it loads; `None` for a trace.
    pub program: Option<&'a Path>,
    /// Setting of transparent large pages that the program has as it is.
    pub now: ThpSetting,
    /// Failure with which the recorded program ended, as a clause.
    pub failure: Option<String>,
    /// Notes on the recording, the machine and the memory.
    pub notes: Vec<String>,
}

/// Advice whose verdict a measurement may still replace.
pub struct Advice {
    /// Record of the advice, as it is printed.
    pub record: AdviceRecord,
    switches: Switches,
}

impl Advice {
    /// Adds a measurement, whose verdict and steps replace those of the simulation.
    pub fn add_verification(&mut self, found: Verification) {
        self.record.add_verification(found);
        self.record.steps = self.switches.steps(self.record.verdict);
    }
}

/// Analyses a trace or workload, times the program as it is, with large pages and as recommended, and writes
/// down what follows.
///
/// # Errors
/// An invalid or ineffective option, a damaged trace, or a cancelled run.
pub fn advise(
    request: &RunRequest,
    question: &AdviceQuestion<'_>,
    observer: &mut dyn AdviceObserver,
) -> Result<Advice, Failure> {
    if request.spec.measuring.functional {
        let problem = "--functional: advice needs times; expected no --functional";
        return Err(Failure::Usage(problem.into()));
    }
    let hosts = defaults::hosts(request);
    let schemes = runs::pairs(&runs::schemes(question.now), &hosts)?;
    let run = request.resolve(Some(question.workload), schemes, &|_, _| ())?;
    let analysis = analyse(&run, observer)?;
    if analysis.accesses < LEAST_ACCESSES {
        let record = AdviceRecord {
            verdict: AdviceVerdict::TooLittle,
            notes: question.notes.clone(),
            ..evidence_record(question, &run, &analysis)
        };
        return Ok(Advice { record, switches: Switches::default() });
    }
    let plans = if analysis.has_events { Plan::candidates(&analysis) } else { Vec::new() };
    let choices = Choices {
        sizes: sizes::other_sizes(&run.machine.tlb, &analysis.areas),
        all: analysis.has_events.then(|| Plan::All.requests(&analysis)),
        plans: plans.iter().map(|(name, plan)| (*name, plan.requests(&analysis))).collect(),
    };
    let timed = Timed::run(request, question, &hosts, choices, analysis.instructions, observer)?;
    let error = ModelError::of(&effect_sources()?, !hosts.is_empty())?;
    Ok(assemble(question, &run, &analysis, plans, &timed, &error))
}

/// Longest time between two questions whether the user cancels the analysis.
const CANCELLATION_INTERVAL: Duration = Duration::from_millis(100);

/// Analyses the accesses of a run.
fn analyse(run: &ResolvedRun, observer: &mut dyn AdviceObserver) -> Result<Analysis, Failure> {
    observer.on_stage("analysing", "instructions");
    let mut source = open_workload(&run.workload, &run.memory, run.seed)?;
    let warmup = match run.measuring.warmup {
        Some(WarmupLength::Instructions(instructions)) => instructions,
        Some(WarmupLength::Detected) | None => source.metadata().default_warmup().unwrap_or(0),
    };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    // The analysis reports from several threads, the observer belongs to this one.
    let (sender, receiver) = sync_channel(1);
    let mut report = move |progress: perforate_advice::Progress| {
        // Without room for it, the observer has enough to show.
        let _ = sender.try_send(progress);
    };
    let tlb = &run.machine.tlb;
    let stop = &AtomicBool::new(false);
    let analysis = thread::scope(|scope| {
        let work = move || {
            perforate_advice::analyse(source.as_mut(), warmup, tlb, threads, stop, &mut report)
        };
        let analysis = scope.spawn(work);
        let mut last = 0;
        loop {
            stop.store(observer.is_cancelled(), Ordering::Relaxed);
            let progress = match receiver.recv_timeout(CANCELLATION_INTERVAL) {
                Ok(progress) => progress,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            // After its pass over the trace, the analysis counts simulated choices.
            if progress.done < last {
                observer.on_stage("comparing page sizes", "choices");
            }
            last = progress.done;
            observer.on_progress(Progress { done: progress.done, total: progress.total });
        }
        analysis.join().expect("the analysis does not panic")
    });
    Ok(analysis?)
}

/// Facts about this machine and the program that decide which switches there are.
fn surroundings(question: &AdviceQuestion<'_>, analysis: &Analysis) -> Surroundings {
    let mut files: Vec<_> = question.program.map(program_files).unwrap_or_default();
    let mapped = analysis.areas.iter().filter(|area| area.name.starts_with('/'));
    let mut names: Vec<&str> = mapped.map(|area| area.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    files.extend(names.into_iter().map(versioned));
    let mut settings = LargePageSettings::now().all().clone();
    // What the question says of the setting goes before what it is here.
    if let Some(enabled) = settings.get_mut("enabled") {
        *enabled = question.now.to_string();
    }
    Surroundings {
        kernel: kernel_version(),
        settings,
        libraries: files.into_iter().map(|(path, version)| Library { path, version }).collect(),
    }
}

/// Assembles the advice of an analysis and its timed runs.
fn assemble(
    question: &AdviceQuestion<'_>,
    run: &ResolvedRun,
    analysis: &Analysis,
    plans: Vec<(&'static str, Plan)>,
    timed: &Timed,
    error: &ModelError,
) -> Advice {
    let facts = surroundings(question, analysis);
    let chosen = timed.recommended();
    let plan = chosen.map_or(Plan::All, |index| plans[index].1.clone());
    let speed = |pairs: &[(f64, f64)]| speed_of(pairs, error);
    let gain = speed(&timed.speeds(chosen));
    let gained = speed(&timed.now_over_small());
    let outcome = gain.zip(gained).map(|(gain, gained)| Outcome {
        gain,
        free: speed(&timed.free_over_now()),
        first_touch_share: first_touch_share(analysis).unwrap_or(0.0),
        gained,
        large_pages_now: timed.large_pages_now(),
        additional_bytes_now: timed.additional_bytes_now(),
        resident_bytes: timed.resident_bytes(),
    });
    let verdict = outcome.as_ref().map_or(AdviceVerdict::Ranking, Outcome::verdict);
    let advised = ranges(analysis, &plan);
    let gives_ranges = !matches!(verdict, AdviceVerdict::CostsMemory | AdviceVerdict::AlreadyOn);
    let mut notes = question.notes.clone();
    notes.extend(timed.notes());
    notes.extend(records::notes(analysis, &plan));
    let record = AdviceRecord {
        verdict,
        gain,
        gained: gained.map(|gained| match timed.is_small_now() {
            true => SpeedRecord::SAME,
            false => gained,
        }),
        gain_share: timed.gain_share(chosen),
        additional_bytes: timed.additional_bytes(chosen),
        advised_bytes: plan.bytes(analysis),
        eligible_bytes: Plan::All.bytes(analysis),
        runs: timed.records(chosen, &speed),
        areas: areas(analysis, &plan),
        pieces: pieces(analysis, &plan),
        curve: curve(analysis, &plan),
        ranges: advised.iter().filter(|_| gives_ranges).map(range_record).collect(),
        risks: risks::risks(
            analysis,
            &plan,
            &facts,
            &Figures {
                additional_bytes: timed.additional_bytes(chosen),
                speed: gain.map_or(1.0, |gain| gain.speed),
                large_bytes: timed.large_bytes(chosen),
                unfragmented: timed.unfragmented(),
                is_own_memory: run.memory.snapshot.is_some(),
            },
        ),
        error: AdviceError {
            pairs: error.pairs,
            least_factor: error.factor.0,
            largest_factor: error.factor.1,
            least_difference: error.difference.0,
            largest_difference: error.difference.1,
            sources: error.sources.clone(),
        },
        notes,
        ..evidence_record(question, run, analysis)
    };
    let switches = Switches { facts, ranges: advised, frugal_size: timed.frugal_size() };
    let steps = switches.steps(verdict);
    Advice { record: AdviceRecord { steps, ..record }, switches }
}

/// Record of a program and of the evidence, without a verdict.
fn evidence_record(
    question: &AdviceQuestion<'_>,
    run: &ResolvedRun,
    analysis: &Analysis,
) -> AdviceRecord {
    AdviceRecord {
        evidence: AdviceEvidence {
            kind: EvidenceKind::Trace,
            description: description(analysis),
            accesses: Some(analysis.accesses),
            ..AdviceEvidence::default()
        },
        workload: analysis.workload.clone(),
        failure: question.failure.clone().or_else(|| analysis.failure.clone()),
        machine: run.machine.name.clone(),
        now: question.now.to_string(),
        first_touch_share: first_touch_share(analysis),
        version: env!("CARGO_PKG_VERSION").into(),
        ..AdviceRecord::default()
    }
}

/// Share of the page walks with 4KB pages that are the first access to a page; `None` without walks.
fn first_touch_share(analysis: &Analysis) -> Option<f64> {
    let WalkCounts { walks, first_walks } = analysis.base;
    let all = walks + first_walks;
    (all > 0).then(|| first_walks as f64 / all as f64)
}

/// Describes the extent of the evidence.
fn description(analysis: &Analysis) -> String {
    let workload = &analysis.workload;
    let walks = analysis.base.walks as f64;
    let per_kilo = walks * 1000.0 / analysis.instructions.max(1) as f64;
    format!(
        "{} instructions and {} data accesses of {workload}, with {} page walks with 4KB pages besides first touches \
         ({per_kilo:.2} for 1,000 instructions)",
        compact(analysis.instructions as f64),
        compact(analysis.accesses as f64),
        compact(walks),
    )
}
