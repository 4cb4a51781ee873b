//! `perforate experiment`: tables and figures of the papers.

mod run;
mod shards;

use std::path::PathBuf;

use crate::actions::Failure;
use clap::{Args, Subcommand};
use perforate_config::{Count, suggestion};
use perforate_experiment::{Experiment, ExperimentOptions, Shard, Unstated};

use crate::output::{described, print};
pub use run::ExperimentRun;

/// Tables and figures of the papers, with the papers' numbers beside ours.
#[derive(Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:
  perforate experiment list
  perforate experiment run perforated/fig7
  perforate experiment all --quick
  perforate experiment all                  # continues after an interruption")]
pub struct ExperimentArguments {
    #[command(subcommand)]
    command: ExperimentCommand,
}

#[derive(Subcommand)]
enum ExperimentCommand {
    /// List the experiments
    #[command(after_help = "Examples:
  perforate experiment list
  perforate experiment list gtsm")]
    List(ListArguments),
    /// Run experiments by name, by group, or from a file
    #[command(after_help = "Examples:
  perforate experiment run gtsm/fig14
  perforate experiment run perforated --quick        # the whole group
  perforate experiment run perforated/fig7 perforated/fig8 --seeds 6 --out out
  perforate experiment run perforated/fig7 --quick --unstated    # what if the machine were another
  perforate experiment run my-experiment.toml --quick --json
  perforate experiment run experiments/perforated/spec2006.toml --with traces=/data/champsim")]
    Run(RunArguments),
    /// Run all experiments
    #[command(after_help = "Examples:
  perforate experiment all --quick
  perforate experiment all --out all                 # continues after an interruption
  perforate experiment all --unstated joint          # do a paper's claims hold together
  perforate experiment all --shard 2/8 --out part2   # an eighth, in a job array
  perforate experiment merge part* --out all")]
    All(RunOptions),
    /// Merge the parts that --shard wrote
    #[command(after_help = "Example:
  perforate experiment all --quick --shard 1/2 --out one
  perforate experiment all --quick --shard 2/2 --out two
  perforate experiment merge one two --out all")]
    Merge(MergeArguments),
}

#[derive(Args)]
struct ListArguments {
    /// Groups: what stands before the slash in names [default: all]
    #[arg(value_name = "GROUP")]
    groups: Vec<String>,
}

/// Experiments to run, and options.
#[derive(Args)]
pub struct RunArguments {
    /// Names or groups from `perforate experiment list`, or experiment files (.toml)
    #[arg(value_name = "NAME|FILE", required = true)]
    names: Vec<String>,
    /// Value of a placeholder in the [inputs] of an experiment file, such as a folder of traces
    #[arg(
        long = "with",
        value_name = "NAME=VALUE",
        value_parser = input,
        conflicts_with = "shard"
    )]
    inputs: Vec<(String, String)>,
    /// Options.
    #[command(flatten)]
    pub options: RunOptions,
}

/// Options of experiments.
#[derive(Args)]
pub struct RunOptions {
    /// Coarser: shorter runs, fewer seeds and points; every experiment, and every claim but those
    /// that need full runs
    #[arg(long)]
    quick: bool,
    /// Runs of everything, with seeds that follow each other [default: as the file says]
    #[arg(long, value_name = "N")]
    seeds: Option<Count<1, MOST_SEEDS>>,
    /// The first seed [default: as the file says]
    #[arg(long, value_name = "N")]
    seed: Option<Count>,
    /// Slices or blocks drawn for each point, for example 100M [default: as the file says]
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    samples: Option<Count<1, MOST_SAMPLES>>,
    /// Measure claims again with other values of what the papers leave open, one at a time and N
    /// times many together, and say how far our numbers depend on it. With joint, all claims of a
    /// paper in the same N readings [default: 64], and how many hold together
    #[arg(long, value_name = "N|joint[:N]", num_args = 0..=1, default_missing_value = "16")]
    unstated: Option<Unstated>,
    /// Runs at the same time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Measure only part I of N, to be joined by `perforate experiment merge`
    #[arg(long, value_name = "I/N", conflicts_with = "json")]
    shard: Option<Shard>,
    /// Measure everything again, including points of earlier runs
    #[arg(long)]
    fresh: bool,
    /// Folder for results.jsonl, report.html, and measurements to go on with [default: a new one in
    /// results, to which results/latest leads; measurements are kept in results. With --shard
    /// results/NAME-part-I-of-N, which has all of the part]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the report's figures as SVG and CSV into a folder figures beside it, too
    #[arg(long, conflicts_with = "shard", value_parser = crate::figures::flag)]
    pub figures: bool,
    /// Print the results as JSON lines and nothing else; files only with --out
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct MergeArguments {
    /// Folders that `--shard I/N` wrote
    #[arg(value_name = "DIR", required = true)]
    parts: Vec<PathBuf>,
    /// Folder for results.jsonl and report.html [default: a new one in results, to which
    /// results/latest leads]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the results as JSON lines and nothing else; files only with --out
    #[arg(long)]
    json: bool,
}

/// Name of the folder for results of several experiments.
const ALL: &str = "experiments";
/// Maximum number of seeds of an experiment.
const MOST_SEEDS: u64 = Experiment::MOST_SEEDS;
/// Maximum number of random draws for a point; sums over so many draws fit into 64 bits.
const MOST_SAMPLES: u64 = 1_000_000_000_000;

impl RunOptions {
    /// Values that override those of the experiment files.
    pub fn overrides(&self) -> ExperimentOptions {
        let (seed, samples) = (self.seed.map(Count::get), self.samples.map(Count::get));
        ExperimentOptions { quick: self.quick, seeds: self.seeds.map(Count::get), seed, samples }
    }

    /// Overrides of the experiment files as command-line flags.
    pub fn flags(&self) -> Vec<String> {
        let ExperimentOptions { quick, seeds, seed, samples } = self.overrides();
        let numbers = [("--seeds", seeds), ("--seed", seed), ("--samples", samples)];
        let given = numbers.into_iter().filter_map(|(name, number)| Some((name, number?)));
        let given = given.flat_map(|(name, number)| [name.to_owned(), number.to_string()]);
        quick.then(|| "--quick".to_owned()).into_iter().chain(given).collect()
    }
}

impl RunArguments {
    /// Loads the experiments. Also returns the name or file that the user gave for each.
    pub fn load(&self) -> Result<(Vec<String>, Vec<Experiment>), Failure> {
        let (mut names, mut found) = (Vec::new(), Vec::new());
        for name in &self.names {
            let members = group(name);
            if members.is_empty() {
                names.push(name.clone());
                found.push(Experiment::load(name)?);
            }
            names.extend(members.iter().map(|member| member.name.clone()));
            found.extend(members);
        }
        let with_inputs = |one: Experiment| one.with_inputs(&self.inputs);
        let found = found.into_iter().map(with_inputs).collect::<Result<Vec<_>, _>>()?;
        Ok((names, distinct(found)?))
    }

    /// Runs the experiments, and prints or writes the results.
    pub fn run(&self) -> Result<(), Failure> {
        let (names, found) = self.load()?;
        run::run(self.folder_name(), &names, &found, &self.options)
    }

    /// Lists the points of the experiments without measuring. `command` is the command line that the report
    /// shows.
    pub fn plan(&self, command: String) -> Result<ExperimentRun, Failure> {
        let (_, found) = self.load()?;
        ExperimentRun::plan(self.folder_name(), &found, &self.options, command)
    }

    /// Name that a new folder for results contains.
    fn folder_name(&self) -> &str {
        if let [only] = self.names.as_slice() { only } else { ALL }
    }
}

/// Lists, runs or merges experiments.
pub fn experiment(arguments: &ExperimentArguments) -> Result<(), Failure> {
    match &arguments.command {
        ExperimentCommand::List(arguments) => print(&list(&in_groups(&arguments.groups)?)),
        ExperimentCommand::Run(arguments) => arguments.run(),
        ExperimentCommand::All(options) => {
            let all = Experiment::bundled();
            let names: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
            run::run(ALL, &names, &all, options)
        }
        ExperimentCommand::Merge(arguments) => shards::merge(arguments),
    }
}

/// Parses `NAME=VALUE`, the value of a placeholder in an experiment file.
fn input(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| format!("{text:?}: expected NAME=VALUE, such as traces=/data/champsim"))
}

/// Loads the bundled experiments of a group; empty if there is no such group.
fn group(name: &str) -> Vec<Experiment> {
    let is_in = |one: &Experiment| one.name.split_once('/').is_some_and(|(group, _)| group == name);
    Experiment::bundled().into_iter().filter(is_in).collect()
}

/// Loads the bundled experiments of these groups, or all bundled experiments if `groups` is empty.
fn in_groups(groups: &[String]) -> Result<Vec<Experiment>, Failure> {
    let bundled = Experiment::bundled();
    if groups.is_empty() {
        return Ok(bundled);
    }
    let mut found = Vec::new();
    for name in groups {
        let members = group(name);
        if members.is_empty() {
            let mut known: Vec<&str> =
                bundled.iter().filter_map(|one| Some(one.name.split_once('/')?.0)).collect();
            known.dedup();
            let suggestion = suggestion(name, &known);
            return Err(Failure::Usage(format!("no group {name:?}; {suggestion}")));
        }
        found.extend(members);
    }
    Ok(found)
}

/// Text of a list of experiments with the papers that they are from.
pub fn list(experiments: &[Experiment]) -> String {
    let mut text = "Experiments (perforate experiment run NAME)\n".to_owned();
    for experiment in experiments {
        text += &described("  ", &experiment.name, 27, &experiment.title);
        text += &described("  ", "", 27, &format!("source: {}", experiment.source));
    }
    text
}

/// Refuses several experiments of one name, because records identify an experiment by its name.
fn distinct(experiments: Vec<Experiment>) -> Result<Vec<Experiment>, Failure> {
    for (index, experiment) in experiments.iter().enumerate() {
        if experiments[..index].iter().any(|other| other.name == experiment.name) {
            let name = &experiment.name;
            return Err(Failure::Usage(format!("experiment {name:?} is named twice")));
        }
    }
    Ok(experiments)
}
