//! Script of a Slurm job array: shards of about equal length, and a job that merges them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::actions::Failure;
use perforate_config::Program;
use perforate_experiment::{Job, Plan, Shard};
use perforate_types::counted;

use super::estimate::Estimate;
use crate::output::quoted;
use crate::progress::time;

/// Slurm job array that measures points: number and length of its jobs.
pub struct Array {
    points: usize,
    jobs: usize,
    cpus: usize,
    length: Duration,
    /// Estimated duration of all points on one processor, in seconds.
    total: f64,
    /// Estimated duration of the array's longest job, in seconds.
    longest: f64,
    source: String,
}

/// Commands and files of a Slurm job array.
pub struct Submission<'a> {
    /// Command that writes the script again.
    pub command: String,
    /// Arguments of `experiment run` in each job.
    pub run: Vec<String>,
    /// Folder of the parts and of the merged results.
    pub folder: &'a Path,
    /// Path of the script.
    pub script: &'a Path,
}

impl Array {
    /// Plans the smallest number of array jobs that each take at most `length`. If a single run, which cannot
    /// be divided, takes longer, its time is the limit instead.
    pub fn of(plan: &Plan, estimate: Estimate, length: Duration, cpus: usize) -> Self {
        let Estimate { per_work, source } = estimate;
        let seconds = |shard| plan.jobs(shard).map(|job: &Job| job.work() * per_work);
        // A run cannot be split, so the longest one is a lower limit.
        let limit = seconds(Shard::WHOLE).fold(length.as_secs_f64(), f64::max);
        let of_shard = |index, count| {
            let seconds = || seconds(Shard { index, count });
            f64::max(seconds().sum::<f64>() / cpus as f64, seconds().fold(0.0, f64::max))
        };
        let longest = |count| (1..=count).map(|index| of_shard(index, count)).fold(0.0, f64::max);
        let total: f64 = seconds(Shard::WHOLE).sum();
        let most = plan.jobs(Shard::WHOLE).count().max(1);
        let least = (total / cpus as f64 / limit).ceil().clamp(1.0, most as f64) as usize;
        let jobs = (least..=most).find(|&count| longest(count) <= limit).unwrap_or(most);
        Self {
            points: plan.point_count(),
            jobs,
            cpus,
            length,
            total,
            longest: longest(jobs),
            source,
        }
    }

    /// Sentence with the numbers of points and jobs, and their durations.
    pub fn summary(&self) -> String {
        let Self { points, jobs, cpus, total, longest, .. } = self;
        let processors = match cpus {
            1 => String::new(),
            _ => format!(" on {}", counted(*cpus, "processor")),
        };
        format!(
            "{} in an array of {}, {} each at most{processors}; {} of one processor's time in all",
            counted(*points, "point"),
            counted(*jobs, "job"),
            time(*longest),
            time(*total)
        )
    }

    /// Comment for the script, if one run takes longer than the wanted length of a job.
    fn warning(&self) -> Option<String> {
        let is_longer = self.longest > self.length.as_secs_f64();
        is_longer.then(|| {
            let length = humantime::format_duration(self.length);
            format!("# One run alone takes longer than {length}: the limit below is for that.\n")
        })
    }

    /// Slurm's time limit of each job in minutes: twice the expected duration, because nodes differ in speed.
    fn limit(&self) -> u64 {
        let expected = f64::max(self.longest, self.length.as_secs_f64());
        (2.0 * expected / 60.0).ceil().max(1.0) as u64
    }
}

/// Makes the text of the script.
pub fn script(array: &Array, submission: &Submission<'_>) -> Result<String, Failure> {
    let (program, here) = (program()?, here()?);
    let run: Vec<String> = submission.run.iter().map(quoted).collect();
    let folder = quoted(operand(submission.folder));
    let Array { jobs, cpus, source, .. } = array;
    Ok(format!(
        "#!/bin/bash
#SBATCH --job-name=perforate
#SBATCH --array=1-{jobs}
#SBATCH --cpus-per-task={cpus}
#SBATCH --time={limit}
#
# {summary}.
# Estimated from {source}.
{warning}# The limit above, in minutes, is twice the expected time, as nodes differ. A job that is ended early
# goes on where it was when it is submitted again.
#
# Made by: {command}
#
# Submit it, and the job that joins the parts once all are there:
{submit}
set -euo pipefail
cd {here}
exec {program} experiment run {run} --shard \"$SLURM_ARRAY_TASK_ID/{jobs}\" --jobs {cpus} \\
  --out {folder}/part-\"$SLURM_ARRAY_TASK_ID\"
",
        limit = array.limit(),
        summary = array.summary(),
        warning = array.warning().unwrap_or_default(),
        command = submission.command,
        submit = submit(submission)?.lines().map(|line| format!("#   {line}\n")).collect::<String>(),
        run = run.join(" "),
    ))
}

/// Makes two commands for the user: one submits the script, one merges the parts.
pub fn submit(submission: &Submission<'_>) -> Result<String, Failure> {
    let (program, here) = (program()?, here()?);
    let folder = quoted(operand(submission.folder));
    let merge = format!("cd {here} && {program} experiment merge {folder}/part-* --out {folder}");
    // `--wrap` is run by sh, which may not know the quotes $'…'.
    let wrapped = if merge.contains("$'") { format!("bash -c {}", quoted(&merge)) } else { merge };
    Ok(format!(
        "job=$(sbatch --parsable {})\nsbatch --dependency=afterok:\"$job\" --wrap {}\n",
        quoted(operand(submission.script)),
        quoted(&wrapped)
    ))
}

/// Changes a path so that it cannot be mistaken for an option.
pub fn operand(path: &Path) -> PathBuf {
    if path.as_os_str().as_encoded_bytes().starts_with(b"-") {
        Path::new(".").join(path)
    } else {
        path.to_owned()
    }
}

/// Command that starts this program, quoted for a shell. All parts must be measured by the same build.
fn program() -> Result<String, Failure> {
    let failed = |source| Failure::Machine { action: "finding this program", source };
    let command = Program::own().map_err(failed)?.command;
    Ok(command.iter().map(quoted).collect::<Vec<_>>().join(" "))
}

/// Current folder, to which file names are relative, quoted for a shell.
fn here() -> Result<String, Failure> {
    let failed = |source| Failure::Machine { action: "finding this folder", source };
    Ok(quoted(std::env::current_dir().map_err(failed)?))
}
