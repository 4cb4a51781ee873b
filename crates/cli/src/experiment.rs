//! `perforate experiment`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use perforate_report::{ReportOptions, experiments_html, experiments_table, read_experiments};
use perforate_sim::SimError;
use perforate_sim::experiment::{Experiment, ExperimentOptions, Outcome};

use crate::failure::Failure;
use crate::live::{LiveArguments, live};
use crate::output::{Bar, COLUMNS, RESULT_FOLDER, ResultFolder, command, print, write_text};

/// Tables and figures of the papers, with the papers' numbers beside ours.
#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct ExperimentArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the experiments
    List,
    /// Run experiments by name, or from a file
    #[command(after_help = "Examples:
  perforate experiment run gtsm/fig14
  perforate experiment run gtsm/fig3 gtsm/fig7 --samples 100M --out out
  perforate experiment run my-experiment.toml --quick --json")]
    Run(RunArguments),
    /// Run all experiments
    All(RunOptions),
    /// Ask this machine for memory in large pages, and how much more could be perforated (P §III.C)
    Live(LiveArguments),
}

#[derive(Args)]
struct RunArguments {
    /// Names from `perforate experiment list`, or experiment files (.toml)
    #[arg(value_name = "NAME|FILE", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    options: RunOptions,
}

#[derive(Args)]
struct RunOptions {
    /// Slices or blocks drawn for each point, for example 100M [default: as the file says]
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "quick")]
    samples: Option<u64>,
    /// Seed of the draws [default: as the file says]
    #[arg(long)]
    seed: Option<u64>,
    /// Fewer draws: coarse, but every point and every claim
    #[arg(long)]
    quick: bool,
    /// Folder for results.jsonl and report.html [default: results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the results as JSON lines and nothing else; files only with --out
    #[arg(long)]
    json: bool,
}

/// A number with k, M, G or T for powers of 1000.
fn count(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        "T" => Some(1_000_000_000_000),
        _ => None,
    };
    let number = digits.parse().ok().zip(factor).and_then(|(n, by): (u64, u64)| n.checked_mul(by));
    match number {
        Some(number @ 1..=ExperimentOptions::MOST_SAMPLES) => Ok(number),
        _ => Err("expected 1 to 1T, such as 1000000, 500k or 100M".into()),
    }
}

/// Lists or runs experiments.
pub fn experiment(arguments: &ExperimentArguments) -> Result<(), Failure> {
    match &arguments.what {
        What::List => print(&list()),
        What::Run(arguments) => {
            let load = |name: &String| Experiment::load(name);
            let found: Result<Vec<_>, SimError> = arguments.names.iter().map(load).collect();
            run(&distinct(found?)?, &arguments.options)
        }
        What::All(options) => run(&Experiment::bundled(), options),
        What::Live(arguments) => live(arguments),
    }
}

/// The list of experiments.
pub fn list() -> String {
    let mut text = "Experiments (perforate experiment run NAME)\n".to_owned();
    for experiment in Experiment::bundled() {
        text += &format!("  {:<20} {}\n", experiment.name, experiment.title);
        text += &format!("  {:<20} source: {}\n", "", experiment.source);
    }
    text
}

/// Records carry the name only, so that no two experiments of a file may have the same.
fn distinct(experiments: Vec<Experiment>) -> Result<Vec<Experiment>, Failure> {
    for (index, experiment) in experiments.iter().enumerate() {
        if experiments[..index].iter().any(|other| other.name == experiment.name) {
            let name = &experiment.name;
            return Err(Failure::Usage(format!("experiment {name:?} is named twice")));
        }
    }
    Ok(experiments)
}

fn run(experiments: &[Experiment], options: &RunOptions) -> Result<(), Failure> {
    let folder = match (&options.out, options.json) {
        (None, true) => None,
        (out, _) => {
            Some(ResultFolder::prepare(out.as_deref().unwrap_or(Path::new(RESULT_FOLDER)))?)
        }
    };
    let RunOptions { samples, seed, quick, .. } = *options;
    let wanted = ExperimentOptions { samples, seed, quick };
    let mut lines = String::new();
    for experiment in experiments {
        let bar = Bar::of(&experiment.name, "points");
        lines += &json_lines(&experiment.run(&wanted, &mut |progress| bar.show(progress))?);
    }
    if options.json {
        print(&lines)?;
    }
    folder.map_or(Ok(()), |folder| write_files(&folder, &lines, experiments, options))
}

fn json_lines(outcome: &Outcome) -> String {
    let line = |record| serde_json::to_string(record).expect("records are plain data") + "\n";
    outcome.records().iter().map(line).collect()
}

/// Writes results and report, and prints the tables unless the lines were printed already.
fn write_files(
    folder: &ResultFolder,
    lines: &str,
    experiments: &[Experiment],
    options: &RunOptions,
) -> Result<(), Failure> {
    let results = read_experiments(lines)?;
    let title = match experiments {
        [only] => only.title.clone(),
        several => format!("{} experiments", several.len()),
    };
    let (file, report) = (folder.file("results.jsonl"), folder.file("report.html"));
    write_text(&file, lines)?;
    let page = experiments_html(&results, &ReportOptions { title, command: command() });
    write_text(&report, &page)?;
    if options.json {
        return Ok(());
    }
    print(&format!(
        "{}\nresults: {}\nreport:  {} (open it in a browser)\n",
        experiments_table(&results, COLUMNS),
        file.display(),
        report.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_with_a_letter() {
        assert_eq!(count("100M"), Ok(100_000_000));
        assert_eq!(count("7"), Ok(7));
        for wrong in ["", "0", "M", "1m", "2T", "-1", "1.5M", "99999999999999999999", "1é"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }
}
