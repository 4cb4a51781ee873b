//! `perforate sweep`: an experiment's points on this computer, or as a job array of Slurm's.

mod estimate;
mod slurm;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::actions::{Failure, ResultFolder};
use clap::Args;
use perforate_config::Count;
use perforate_experiment::{Experiment, Plan, build};

use crate::experiment::RunArguments;
use crate::output::{command, print};
use estimate::Estimate;
use slurm::{Array, script};

/// Measure all points of experiments, on this computer or on a cluster
#[derive(Args)]
#[command(after_help = "Examples:
  perforate sweep my-experiment.toml                     on this computer, as `experiment run`
  perforate sweep my-experiment.toml --slurm-script --job-length 30m > sweep.sbatch
  perforate sweep perforated/fig7 --quick --slurm-script --cpus 8 --out fig7
                                                         writes fig7/sweep.sbatch

For Dask, submitit and other executors of Python's, see perforate.sweep in docs/python.md.")]
pub struct SweepArguments {
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    slurm: SlurmOptions,
}

#[derive(Args)]
#[command(next_help_heading = "Slurm")]
struct SlurmOptions {
    /// Print a script for sbatch instead: a job array whose jobs measure a part of the points each, and
    /// how the parts are joined. With --out it is written to DIR/sweep.sbatch
    #[arg(long, conflicts_with_all = ["shard", "jobs", "json", "unstated", "fresh", "inputs"])]
    slurm_script: bool,
    /// Time of each job, for example 30m or 2h; points are packed into jobs of this length [default: 1h]
    #[arg(long, value_name = "TIME", requires = "slurm_script", value_parser = time)]
    job_length: Option<Duration>,
    /// Processors of each job, which measures as many points at the same time [default: 1]
    #[arg(long, value_name = "N", requires = "slurm_script")]
    cpus: Option<Count<1, 1024>>,
    /// Processor time of a point, on average, for example 20s [default: a few are measured first]
    #[arg(long, value_name = "TIME", requires = "slurm_script", value_parser = time)]
    point_time: Option<Duration>,
}

/// Length of a job by default.
const JOB_LENGTH: Duration = Duration::from_secs(3600);
/// Default folder for the parts of the points, one part measured by each job.
const FOLDER: &str = "sweep";
/// File name of the script in the folder of the parts.
const SCRIPT: &str = "sweep.sbatch";

/// Runs the experiments, or prints a script that runs them.
pub fn sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    if !arguments.slurm.slurm_script {
        return arguments.run.run();
    }
    let options = &arguments.slurm;
    let (names, experiments) = arguments.run.load()?;
    let experiments: Vec<Experiment> =
        experiments.into_iter().map(|one| one.with(&arguments.run.options.overrides())).collect();
    let plan = Plan::of(&experiments, &build()?)?;
    let out = arguments.run.options.out.as_deref();
    let folder = out.map(ResultFolder::named).transpose()?;
    let estimate = match options.point_time {
        Some(time) => Estimate::stated(&plan, time),
        None => Estimate::measured(&plan)?,
    };
    let cpus = options.cpus.map_or(1, Count::get) as usize;
    let names: Vec<String> = names
        .iter()
        .map(|name| slurm::operand(Path::new(name)).to_string_lossy().into_owned())
        .collect();
    let array = Array::of(&plan, estimate, options.job_length.unwrap_or(JOB_LENGTH), cpus);
    let script_file = out.map_or_else(|| PathBuf::from(SCRIPT), |out| out.join(SCRIPT));
    let submission = slurm::Submission {
        command: command(),
        run: names.into_iter().chain(arguments.run.options.flags()).collect(),
        folder: out.unwrap_or(Path::new(FOLDER)),
        script: &script_file,
    };
    let text = script(&array, &submission)?;
    let Some(folder) = folder else { return print(&text) };
    folder.write(&vec![(SCRIPT.to_owned(), text)])?;
    let submit = slurm::submit(&submission)?;
    print(&format!("{}\nscript: {}\n{submit}", array.summary(), script_file.display()))
}

/// Parses a duration that is not 0.
pub fn time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if !time.is_zero() => Ok(time),
        Ok(_) => Err("a time of 0; expected 30m, 2h or the like".into()),
        Err(error) => Err(format!("{text:?}: {error}; expected 30m, 2h or the like")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("30m"), Ok(Duration::from_secs(1800)));
        assert_eq!(time("1h 30m"), Ok(Duration::from_secs(5400)));
        for wrong in ["30", "0s", "soon", "-1h", ""] {
            assert!(time(wrong).unwrap_err().contains("expected 30m"), "{wrong}");
        }
    }
}
