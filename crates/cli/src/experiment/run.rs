//! Measures the points of experiments and writes the results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use crate::actions::{Failure, REPORT, RESULTS, ResultFolder};
use perforate_experiment::{
    Experiment, ExperimentOptions, Job, Measurement, Plan, Shard, Store, Study, build,
};
use perforate_record::{INTERRUPTED, stop_or_end_on_interrupt};
use perforate_records::{ClaimRecord, ExperimentRecord, ExperimentResults, word};
use perforate_report::{ReportOptions, experiments_figures, experiments_html, experiments_table};
use perforate_types::counted;

use super::{RunOptions, shards};
use crate::output::{CommandOutput, columns, command, notes, result_folder, text_columns};
use crate::progress::{Bar, print_message};

/// File name of the measured points, in the folder of all results.
pub const POINTS: &str = "points.jsonl";

/// Time between two checks for Ctrl-C.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

/// A run of experiments: the points that it needs, and the points that are measured.
pub struct ExperimentRun {
    study: Study,
    overrides: ExperimentOptions,
    plan: Plan,
    store: Store,
    folder: Option<ResultFolder>,
    /// Number of points that were measured before this run.
    kept: usize,
    /// True if the figures of the report are also written as files.
    figures: bool,
    /// Command line that the report shows.
    command: String,
}

/// Runs experiments, or a shard of their points. `names` has the name or file of each experiment;
/// a new folder for results is named after `folder_name`.
pub fn run(
    folder_name: &str,
    names: &[String],
    experiments: &[Experiment],
    options: &RunOptions,
) -> Result<(), Failure> {
    let mut run = ExperimentRun::plan(folder_name, experiments, options, command())?;
    run.measure(options)?;
    if let (Some(shard), Some(folder)) = (options.shard, &run.folder) {
        let (overrides, unstated) = (&run.overrides, options.unstated);
        return shards::write(folder, shard, names, overrides, unstated, &run.plan, &run.store);
    }
    run.finish()?.print(options.json)
}

impl ExperimentRun {
    /// Lists the points to measure, and reads the points that were measured before.
    pub fn plan(
        folder_name: &str,
        experiments: &[Experiment],
        options: &RunOptions,
        command: String,
    ) -> Result<Self, Failure> {
        let folder = match (options.shard, &options.out) {
            (Some(Shard { index, count }), None) => {
                Some(ResultFolder::of_part(folder_name, index, count)?)
            }
            (_, out) => result_folder(out.as_deref(), options.json, folder_name)?,
        };
        let overrides = options.overrides();
        let experiments =
            experiments.iter().map(|experiment| experiment.clone().with(&overrides)).collect();
        let build = build()?;
        let study = Study::of(experiments, options.unstated)?;
        let plan = study.plan(&build)?;
        let store = store(folder.as_ref(), build, options.fresh)?;
        let kept = plan.point_count() - plan.missing(&store);
        let figures = options.figures;
        Ok(Self { study, overrides, plan, store, folder, kept, figures, command })
    }

    fn measure(&mut self, options: &RunOptions) -> Result<(), Failure> {
        let cores = available_parallelism().map_or(1, usize::from);
        let workers = options.jobs.map_or(cores, usize::from);
        let shard = options.shard.unwrap_or(Shard::WHOLE);
        let bar = Bar::of("measuring", "points");
        let measured = Arc::new(AtomicUsize::new(0));
        self.end_on_interrupt(options, &measured, bar.eraser())?;
        let show = |step: perforate_experiment::Step| {
            measured.store(step.points, Ordering::Relaxed);
            bar.show_share(step.done, step.points, step.total);
        };
        Ok(self.plan.measure(&mut self.store, shard, workers, &show)?)
    }

    /// Installs a handler for Ctrl-C that prints what was measured and how to continue, and ends the process.
    /// A point cannot be stopped halfway; in the file of points, an incomplete last line does no harm.
    fn end_on_interrupt(
        &self,
        options: &RunOptions,
        measured: &Arc<AtomicUsize>,
        erase_bar: impl Fn() + Send + 'static,
    ) -> Result<(), Failure> {
        let file = self.folder.as_ref().map(|folder| folder.kept_file(POINTS)).transpose()?;
        let (kept, total) = (self.kept, counted(self.plan.point_count(), "point"));
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
            erase_bar();
            print_message(&text());
            std::process::exit(INTERRUPTED);
        };
        // If no thread can be started, the second Ctrl-C ends the process.
        drop(thread::Builder::new().spawn(wait));
        Ok(())
    }

    /// Jobs that are not measured yet, the longest first.
    pub fn missing_jobs(&self) -> Vec<Job> {
        self.plan.missing_jobs(&self.store, Shard::WHOLE)
    }

    /// Stores the measurements of a job.
    ///
    /// # Errors
    /// The file of points cannot be written.
    pub fn keep(&mut self, job: &Job, measured: Vec<Measurement>) -> Result<(), Failure> {
        Ok(job.keep(measured, &mut self.store)?)
    }

    /// Writes results and report, and returns records and tables.
    ///
    /// # Errors
    /// A point is not measured, or a file cannot be written.
    pub fn finish(&self) -> Result<CommandOutput, Failure> {
        let mut points = format!(
            "points:  {}, of which {} were measured before\n",
            self.plan.point_count(),
            self.kept
        );
        points += &notes(&self.store.remarks(), text_columns());
        let found = self.study.results(&self.plan, &self.store, self.overrides.quick)?;
        write_files(self.folder.as_ref(), &found, &self.command, &points, self.figures)
    }
}

fn wait_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        thread::sleep(CHECK_PERIOD);
    }
}

/// Opens the file of measured points. Without a folder, the points are only stored in memory.
fn store(folder: Option<&ResultFolder>, build: String, fresh: bool) -> Result<Store, Failure> {
    let Some(folder) = folder else { return Ok(Store::in_memory(build)) };
    let file = folder.kept_file(POINTS)?;
    if fresh {
        Store::<Measurement>::forget(&file, &build)?;
    }
    Ok(Store::open(&file, build)?)
}

/// Writes results and report into the folder, if there is one, and returns records and tables. With
/// `figures`, writes the figures of the report as files, too.
pub fn write_files(
    folder: Option<&ResultFolder>,
    results: &ExperimentResults,
    command: &str,
    points: &str,
    figures: bool,
) -> Result<CommandOutput, Failure> {
    let json = results.lines();
    let table = experiments_table(results, columns());
    let Some(folder) = folder else { return Ok(CommandOutput { json, text: table }) };
    let title = match results.experiments.len() {
        1 => results.experiments[0].title.clone(),
        several => counted(several, "experiment"),
    };
    let vocabulary = perforate_sim::vocabulary();
    let (command, results_text) = (command.to_owned(), json.clone());
    let options = ReportOptions { title, command, results: results_text, vocabulary };
    let drawn = figures.then(|| experiments_figures(results, &options)).transpose()?;
    let mut files = vec![
        (RESULTS.to_owned(), json.clone()),
        ("verdicts.txt".to_owned(), verdicts(&results.experiments)),
        (REPORT.to_owned(), experiments_html(results, &options)),
    ];
    files.extend(drawn.iter().flat_map(|drawn| crate::figures::files(drawn)));
    let written = folder.write(&files)?;
    let text = format!(
        "{table}\n{points}results: {written}\nreport:  {} (open it in a browser)\n{}",
        written.file(REPORT).display(),
        crate::figures::summary(&written, drawn.as_deref()),
    );
    Ok(CommandOutput { json, text })
}

/// Lists the verdicts on claims, one a line, for `diff` with those of another build: experiment, id,
/// statement, verdict.
fn verdicts(results: &[ExperimentRecord]) -> String {
    let line = |ClaimRecord { experiment, id, statement, verdict, .. }: &ClaimRecord| {
        format!("{experiment} | {id} | {statement} | {}\n", word(verdict))
    };
    results.iter().flat_map(|result| &result.claims).map(line).collect()
}

#[cfg(test)]
mod tests {
    use perforate_records::read_experiments;

    use super::*;

    #[test]
    fn claims_have_a_line() {
        let records = r#"{"record":"experiment","experiment":"a/b","title":"T","curves":[]}
{"record":"claim","experiment":"a/b","id":"P-C2","statement":"S","ours":1.5,"verdict":"reproduced"}
"#;
        let results = read_experiments(records).unwrap();
        assert_eq!(verdicts(&results.experiments), "a/b | P-C2 | S | reproduced\n");
    }
}
