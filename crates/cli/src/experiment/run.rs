//! Measures the points of experiments and writes the results.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use perforate_commands::{Failure, ResultFolder};
use perforate_experiment::{
    Experiment, ExperimentOptions, Job, Measurement, Outcome, Plan, Shard, Store, Unstated, build,
};
use perforate_record::stop_or_end_on_interrupt;
use perforate_records::ExperimentRecord;
use perforate_report::{ReportOptions, experiments_figures, experiments_html, experiments_table};
use perforate_types::counted;

use super::verdicts::verdicts;
use super::{RunOptions, shards};
use crate::in_process::Told;
use crate::output::{COLUMNS, command, notes, print};
use crate::progress::{Eraser, ShareBar, tell};

/// Measurements to go on with, beside the results of all runs.
pub const POINTS: &str = "points.jsonl";

/// Exit code after Ctrl-C, as shells have it.
const INTERRUPTED: i32 = 130;

/// Time between two looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// The page in the folder.
const REPORT: &str = "report.html";

/// Experiments that are run: what they need, and what is there of it.
pub struct Run {
    experiments: Vec<Experiment>,
    unstated: Vec<Option<Unstated>>,
    wanted: ExperimentOptions,
    plan: Plan,
    store: Store,
    folder: Option<ResultFolder>,
    /// Points that were measured before.
    kept: usize,
    /// Whether the report's figures are wanted as files.
    figures: bool,
}

/// Runs experiments, or a part of their points; `names` are what they are loaded by, `what` what
/// results are called after.
pub fn run(
    what: &str,
    names: &[String],
    experiments: &[Experiment],
    options: &RunOptions,
) -> Result<(), Failure> {
    let mut run = Run::prepare(what, experiments, options)?;
    run.measure(options)?;
    if let (Some(shard), Some(folder)) = (options.shard, &run.folder) {
        return shards::write(folder, shard, names, &run.wanted, &run.plan, &run.store);
    }
    let told = run.finish(&command())?;
    print(if options.json { &told.json } else { &told.text })
}

impl Run {
    /// Finds what there is to be measured, and what was measured before.
    pub fn prepare(
        what: &str,
        experiments: &[Experiment],
        options: &RunOptions,
    ) -> Result<Self, Failure> {
        let folder = match (options.shard, &options.out) {
            (Some(Shard { index, count }), None) => {
                Some(ResultFolder::of_part(what, index, count)?)
            }
            (_, out) => folder(out.as_deref(), options.json, what)?,
        };
        let wanted = options.wanted();
        let experiments: Vec<Experiment> =
            experiments.iter().map(|experiment| experiment.clone().with(&wanted)).collect();
        let build = build()?;
        let unstated = unstated(&experiments, options.unstated.map(|count| count.get() as u16))?;
        let variants = unstated.iter().flatten().flat_map(Unstated::experiments);
        let all: Vec<Experiment> = experiments.iter().chain(variants).cloned().collect();
        let plan = Plan::of(&all, &build)?;
        let store = store(folder.as_ref(), build, options.fresh)?;
        let kept = plan.len() - plan.missing(&store);
        let figures = options.figures;
        Ok(Self { experiments, unstated, wanted, plan, store, folder, kept, figures })
    }

    fn measure(&mut self, options: &RunOptions) -> Result<(), Failure> {
        let cores = available_parallelism().map_or(1, usize::from);
        let workers = options.jobs.map_or(cores, usize::from);
        let shard = options.shard.unwrap_or(Shard::WHOLE);
        let bar = ShareBar::new("points");
        let measured = Arc::new(AtomicUsize::new(0));
        self.end_on_interrupt(options, &measured, bar.eraser())?;
        let show = |step: perforate_experiment::Step| {
            measured.store(step.points, Ordering::Relaxed);
            bar.show(step.done, step.points, step.total);
        };
        Ok(self.plan.measure(&mut self.store, shard, workers, &show)?)
    }

    /// Lets Ctrl-C say what was kept and how to go on, and end the process. Points cannot be stopped in the
    /// middle, and the file of points has lost nothing if its last line is cut off.
    fn end_on_interrupt(
        &self,
        options: &RunOptions,
        measured: &Arc<AtomicUsize>,
        eraser: Eraser,
    ) -> Result<(), Failure> {
        let file = self.folder.as_ref().map(|folder| folder.kept_file(POINTS)).transpose()?;
        let (kept, total) = (self.kept, counted(self.plan.len(), "point"));
        let again = if options.fresh { " without --fresh" } else { "" };
        let (stop, measured) = (stop_or_end_on_interrupt()?, Arc::clone(measured));
        let text = move || match file {
            Some(file) => format!(
                "stopped; {} of {total} are in {}; the same command{again} measures the others",
                kept + measured.load(Ordering::Relaxed),
                file.display()
            ),
            None => "stopped; nothing was kept: --json keeps measurements only with --out".into(),
        };
        let wait = move || {
            wait_until(&stop);
            eraser.erase();
            tell(&text());
            std::process::exit(INTERRUPTED);
        };
        // Where no thread can be started, the second Ctrl-C ends the process.
        drop(thread::Builder::new().spawn(wait));
        Ok(())
    }

    /// What there is to be measured by others.
    pub fn missing_jobs(&self) -> Vec<Job> {
        self.plan.missing_jobs(&self.store, Shard::WHOLE)
    }

    /// Keeps what others measured.
    pub fn keep(&mut self, job: &Job, measured: Vec<Measurement>) -> Result<(), Failure> {
        Ok(job.keep(measured, &mut self.store)?)
    }

    /// Writes the files, and tells records and tables; `command` is what the report says it is from.
    pub fn finish(&self, command: &str) -> Result<Told, Failure> {
        let mut points =
            format!("points:  {}, of which {} were measured before\n", self.plan.len(), self.kept);
        points += &notes(&self.store.remarks(), COLUMNS);
        let quick = self.wanted.quick;
        let found = records(&self.experiments, &self.unstated, &self.plan, &self.store, quick)?;
        write_files(self.folder.as_ref(), &found, command, &points, self.figures)
    }
}

/// Waits until the flag is set.
fn wait_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
    }
}

/// The measurements that are there.
fn store(folder: Option<&ResultFolder>, build: String, fresh: bool) -> Result<Store, Failure> {
    let Some(folder) = folder else { return Ok(Store::in_memory(build)) };
    let file = folder.kept_file(POINTS)?;
    if fresh {
        Store::<Measurement>::forget(&file, &build)?;
    }
    Ok(Store::open(&file, build)?)
}

/// The variants of each experiment, if they are asked for.
fn unstated(
    experiments: &[Experiment],
    together: Option<u16>,
) -> Result<Vec<Option<Unstated>>, Failure> {
    let Some(together) = together else { return Ok(vec![None; experiments.len()]) };
    let of = |experiment| Unstated::of(experiment, together.into());
    Ok(experiments.iter().map(of).collect::<Result<_, _>>()?)
}

/// The folder for results; none where lines alone are wanted.
pub fn folder(out: Option<&Path>, json: bool, what: &str) -> Result<Option<ResultFolder>, Failure> {
    match (out, json) {
        (None, true) => Ok(None),
        (out, _) => ResultFolder::of(out, what).map(Some),
    }
}

/// The records of experiments.
pub fn records(
    experiments: &[Experiment],
    unstated: &[Option<Unstated>],
    plan: &Plan,
    store: &Store,
    quick: bool,
) -> Result<Vec<ExperimentRecord>, Failure> {
    let record = |(experiment, unstated): (&Experiment, &Option<Unstated>)| {
        let outcome = Outcome::of(experiment.clone(), plan, store)?;
        let ranges = unstated.as_ref().map(|unstated| unstated.ranges(plan, store)).transpose()?;
        Ok(outcome.record(quick, ranges.unwrap_or_default()))
    };
    experiments.iter().zip(unstated).map(record).collect()
}

/// Writes results and report if there is a folder for them, with the report's figures as files if
/// they are wanted, and tells records and tables.
pub fn write_files(
    folder: Option<&ResultFolder>,
    results: &[ExperimentRecord],
    command: &str,
    points: &str,
    figures: bool,
) -> Result<Told, Failure> {
    let json: String = results.iter().map(ExperimentRecord::lines).collect();
    let table = experiments_table(results, COLUMNS);
    let Some(folder) = folder else { return Ok(Told { json, text: table }) };
    let title = match results.len() {
        1 => results[0].title.clone(),
        several => counted(several, "experiment"),
    };
    let vocabulary = perforate_sim::vocabulary();
    let (command, results_text) = (command.to_owned(), json.clone());
    let options = ReportOptions { title, command, results: results_text, vocabulary };
    let drawn = figures.then(|| experiments_figures(results, &options)).transpose()?;
    let mut files = vec![
        ("results.jsonl".to_owned(), json.clone()),
        ("verdicts.txt".to_owned(), verdicts(results)),
        (REPORT.to_owned(), experiments_html(results, &options)),
    ];
    files.extend(drawn.iter().flat_map(|drawn| crate::figures::files(drawn)));
    let written = folder.write(&files)?;
    let text = format!(
        "{table}\n{points}results: {written}\nreport:  {} (open it in a browser)\n{}",
        written.file(REPORT).display(),
        crate::figures::told(&written, drawn.as_deref()),
    );
    Ok(Told { json, text })
}
