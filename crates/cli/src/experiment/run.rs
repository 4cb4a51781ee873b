//! Measures what experiments need, and writes what came of it.

use std::path::Path;
use std::thread::available_parallelism;

use perforate_commands::{Failure, ResultFolder, write_text};
use perforate_experiment::{Experiment, Outcome, Plan, Shard, Store, Unstated, build};
use perforate_report::{
    ReportOptions, experiments_figures, experiments_html, experiments_table, read_experiments,
};

use super::verdicts::verdicts;
use super::{RunOptions, shards};
use crate::output::{COLUMNS, command, print};
use crate::progress::ShareBar;

/// Measurements to go on with, beside the results of all runs.
pub const POINTS: &str = "points.jsonl";

/// Runs experiments, or a part of their points; `names` are as the user gave them.
pub fn run(
    names: &[String],
    experiments: &[Experiment],
    options: &RunOptions,
) -> Result<(), Failure> {
    let what = match names {
        [only] => only.as_str(),
        _ => "experiments",
    };
    let folder = folder(options.out.as_deref(), options.json, what)?;
    let wanted = options.wanted();
    let experiments: Vec<Experiment> =
        experiments.iter().map(|experiment| experiment.clone().with(&wanted)).collect();
    let build = build()?;
    let unstated = unstated(&experiments, options.unstated.map(|count| count.get() as u16))?;
    let variants = unstated.iter().flatten().flat_map(Unstated::experiments);
    let all: Vec<Experiment> = experiments.iter().chain(variants).cloned().collect();
    let plan = Plan::of(&all, &build)?;
    let mut store = match &folder {
        Some(folder) if options.fresh => {
            write_text(&folder.kept_file(POINTS), "")?;
            Store::open(&folder.kept_file(POINTS), build)?
        }
        Some(folder) => Store::open(&folder.kept_file(POINTS), build)?,
        None => Store::in_memory(build),
    };
    let kept = plan.len() - plan.missing(&store);
    measure(&plan, &mut store, options)?;
    if let (Some(shard), Some(folder)) = (options.shard, &folder) {
        return shards::write(folder, shard, names, &wanted, &plan, &store);
    }
    let lines = lines(experiments, &unstated, &plan, &store, options.quick)?;
    if options.json {
        print(&lines)?;
    }
    let Some(folder) = folder else { return Ok(()) };
    let points = format!("points:  {}, of which {kept} were measured before\n", plan.len());
    write_files(&folder, &lines, (options.json, options.figures), &points)
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

fn measure(plan: &Plan, store: &mut Store, options: &RunOptions) -> Result<(), Failure> {
    let cores = available_parallelism().map_or(1, usize::from);
    let workers = options.jobs.map_or(cores, usize::from);
    let shard = options.shard.unwrap_or(Shard::WHOLE);
    let bar = ShareBar::new("points");
    Ok(plan.measure(store, shard, workers, &|step| bar.show(step.done, step.points, step.total))?)
}

/// The records of all experiments, a line each.
pub fn lines(
    experiments: Vec<Experiment>,
    unstated: &[Option<Unstated>],
    plan: &Plan,
    store: &Store,
    quick: bool,
) -> Result<String, Failure> {
    let mut lines = String::new();
    for (experiment, unstated) in experiments.into_iter().zip(unstated) {
        let outcome = Outcome::of(experiment, plan, store)?;
        let ranges = unstated.as_ref().map(|unstated| unstated.ranges(plan, store)).transpose()?;
        for record in outcome.records(quick, &ranges.unwrap_or_default()) {
            lines += &serde_json::to_string(&record).expect("records are plain data");
            lines.push('\n');
        }
    }
    Ok(lines)
}

/// Writes results and report, with its figures as files if they are wanted, and prints the tables unless the lines were printed already.
pub fn write_files(
    folder: &ResultFolder,
    lines: &str,
    (json, figures): (bool, bool),
    points: &str,
) -> Result<(), Failure> {
    let results = read_experiments(lines)?;
    let title = match results.len() {
        1 => results[0].title().to_owned(),
        several => format!("{several} experiments"),
    };
    let (file, report) = (folder.file("results.jsonl"), folder.file("report.html"));
    write_text(&file, lines)?;
    write_text(&folder.file("verdicts.txt"), &verdicts(lines))?;
    let vocabulary = perforate_sim::vocabulary();
    let options =
        ReportOptions { title, command: command(), results: lines.to_owned(), vocabulary };
    let page = experiments_html(&results, &options);
    write_text(&report, &page)?;
    let drawn = match figures {
        true => crate::figures::write(folder, &experiments_figures(&results, &options)?)?,
        false => String::new(),
    };
    if json {
        return Ok(());
    }
    print(&format!(
        "{}\n{points}results: {}\nreport:  {} (open it in a browser)\n{drawn}",
        experiments_table(&results, COLUMNS),
        folder.results_text(),
        report.display()
    ))
}
