//! `perforate advise`: which pages for a program, what they gain and cost, and how to switch them on.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::actions::advice::{
    AdviceObserver, AdviceQuestion, ThpSetting, advise as advise_on, advise_on_process,
    advise_on_samples, verify_advice, with_own_machine,
};
use crate::actions::{Failure, REPORT, ResultFolder};
use clap::Args;
use perforate_config::{Count, Section, Share};
use perforate_host::verify::check;
use perforate_host::{HostError, Reporter};
use perforate_records::{AdviceRecord, json_line};
use perforate_report::{ReportOptions, advice_html, advice_text};
use perforate_sim::{Observer, Progress};
use perforate_trace::bundled;

use crate::options::RunFlags;
use crate::output::{CommandOutput, columns, command};
use crate::program_recording::ProgramRecording;
use crate::verify;

/// File name of the record in the folder of `--out`.
const RECORD: &str = "advice.json";
/// Seconds for which a process is watched.
const SECONDS: usize = 10;
/// Width of the text in characters at most.
const WIDTH: usize = 80;

/// Advise on large pages for a program: what they gain, what they cost, how to switch them on.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate advise redis                       a bundled trace, on the default machine
  perforate advise -- PROG ARGS…               record a program, advise for this machine as it is
  perforate advise my.trace --machine host --now always
  perforate advise my.trace --machine zen4-genoa --out advice     advice.json and report.html
  perforate advise my.trace --json | jq .ranges
  perforate advise my.trace --fail-if-worth 5%         for CI: exit code 3 if 5 % or more can be had
  perforate advise --verify -- PROG ARGS…      the same, and measure what was predicted
  perforate advise --pid 4711 --seconds 30     rank the memory of a running process
  perforate advise --samples samples.txt       rank memory by processor samples
  perforate compare my.trace --scheme 4k,thp-madvise --madvise 0x7effc0000000-0x7effc4000000

The first line is the verdict. Nothing is changed: what to do is printed. A speed-up is the quotient
of two simulations, never computed from misses; its range has the error of predictions whose
measurement is known (docs/advise.md). Exit code 0 for an answer of any kind.")]
pub struct AdviseArguments {
    /// Trace file, bundled trace or workload [default: hpcc, a bundled trace]
    #[arg(value_name = "TRACE|WORKLOAD", help_heading = Section::Program.title())]
    workload: Option<String>,
    /// Program to record and to advise on, sampled from start to end
    ///
    /// As `compare -- PROG`. The machine is this one then, its memory as it is now
    #[arg(last = true, value_name = "PROG ARGS…", help_heading = Section::Program.title())]
    program: Vec<OsString>,
    /// Rank the memory of a running process by the accessed bits of its pages: no time, no trace
    #[arg(
        long,
        value_name = "PID",
        conflicts_with_all = ["workload", "program", "samples"],
        help_heading = Section::Program.title()
    )]
    pid: Option<u32>,
    /// Seconds to watch the process of --pid, each a round [default: 10]
    // clap requires nothing of an option that conflicts with another one, so `advise` checks for --pid.
    #[arg(long, value_name = "N", help_heading = Section::Program.title())]
    seconds: Option<Count<1, 10_000>>,
    /// Rank memory by the processor samples in this text of `perf script` (docs/evidence.md)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workload", "program"],
        help_heading = Section::Program.title()
    )]
    samples: Option<PathBuf>,
    /// Setting transparent_hugepage/enabled that the program has now: always, madvise or never
    /// [default: this machine's]
    #[arg(
        long,
        value_name = "WORD",
        value_parser = str::parse::<ThpSetting>,
        conflicts_with_all = ["pid", "samples"],
        help_heading = Section::System.title()
    )]
    now: Option<ThpSetting>,
    /// Measure the program as it is and with the recommended pages, in turns, and judge the prediction
    ///
    /// Four runs a round, and one before them, without the emulator. A library that is loaded before
    /// the program gives the advice (docs/verify.md)
    #[arg(
        long,
        conflicts_with_all = ["pid", "samples"],
        help_heading = Section::Program.title()
    )]
    verify: bool,
    /// Rounds of four runs of --verify
    #[arg(
        long,
        value_name = "N",
        requires = "verify",
        default_value_t = Count::new(3),
        help_heading = Section::Program.title()
    )]
    rounds: Count<1, 1000>,
    #[command(flatten)]
    simulation: RunFlags<true>,
    /// Folder for advice.json and report.html, a page
    #[arg(short, long, value_name = "DIR", help_heading = Section::Output.title())]
    out: Option<PathBuf>,
    /// Print the advice as one JSON object and nothing else
    #[arg(long, help_heading = Section::Output.title())]
    pub json: bool,
    /// Exit with code 3 if the program would be faster by this share or more, and the verdict is "Worth it"
    #[arg(
        long,
        value_name = "P%",
        conflicts_with_all = ["pid", "samples"],
        help_heading = Section::Output.title()
    )]
    fail_if_worth: Option<Share>,
}

/// Records the program if there is one, and advises on it. Returns the output, and the failure of the
/// measurement or the one that `--fail-if-worth` demands.
///
/// # Errors
/// Wrong options, a program that cannot be recorded, a damaged trace; or `stop` was set.
pub fn advise(
    arguments: &AdviseArguments,
    reporter: &mut dyn Reporter,
    stop: &Arc<AtomicBool>,
) -> Result<(CommandOutput, Result<(), Failure>), Failure> {
    let folder = arguments.out.as_deref().map(ResultFolder::named).transpose()?;
    if arguments.seconds.is_some() && arguments.pid.is_none() {
        let problem = "--seconds is how long the process of --pid is watched: expected --pid PID";
        return Err(Failure::Usage(problem.into()));
    }
    if arguments.verify && arguments.program.is_empty() {
        let problem =
            "--verify runs the program that advice is for: expected -- PROG ARGS…, and no trace";
        return Err(Failure::Usage(problem.into()));
    }
    let mut failure = None;
    let record = match (arguments.pid, &arguments.samples) {
        (None, None) => {
            let (record, failed) = simulated(arguments, reporter, stop)?;
            failure = failed;
            record
        }
        _ if !arguments.simulation.are_absent() => {
            let problem =
                "--pid and --samples rank memory without a simulation: expected no options of runs";
            return Err(Failure::Usage(problem.into()));
        }
        (None, Some(file)) => advise_on_samples(file)?,
        (Some(pid), _) => {
            let seconds = arguments.seconds.map_or(SECONDS, |seconds| seconds.get() as usize);
            advise_on_process(pid, seconds, reporter, &|| stop.load(Ordering::Relaxed))?
        }
    };
    let mut text = advice_text(&record, columns().min(WIDTH));
    if let Some(found) = &record.verification {
        text += &format!("\nMeasured\n{}", verify::tables(found));
    }
    let json = json_line(&record);
    if let Some(folder) = &folder {
        let options = ReportOptions {
            title: format!("Should {} use large pages?", record.workload),
            command: command(),
            ..ReportOptions::default()
        };
        let page = advice_html(&record, &options);
        let written = folder.write(&vec![(RECORD.into(), json.clone()), (REPORT.into(), page)])?;
        for (what, name) in [("\nadvice:  ", RECORD), ("report:  ", REPORT)] {
            text += &format!("{what}{}\n", written.file(name).display());
        }
    }
    let judged = failure.map_or_else(|| judge(&record, arguments.fail_if_worth), Err);
    Ok((CommandOutput { json, text }, judged))
}

/// Advises on a trace, a workload, or a program that is recorded first. Returns the advice, and the failure of the
/// measurement.
fn simulated(
    arguments: &AdviseArguments,
    reporter: &mut dyn Reporter,
    stop: &Arc<AtomicBool>,
) -> Result<(AdviceRecord, Option<Failure>), Failure> {
    let has_program = !arguments.program.is_empty();
    if let (true, Some(workload)) = (has_program, &arguments.workload) {
        let problem = format!("advise takes {workload} or a program after --, not both");
        return Err(Failure::Usage(problem));
    }
    let can_measure = check(&arguments.program);
    let is_measurable = has_program && can_measure.is_ok();
    if arguments.verify {
        can_measure?;
    }
    let request = arguments.simulation.request()?;
    let (mut request, mut notes) = with_own_machine(request, has_program, &mut |done, total| {
        if done == 0 {
            reporter.stage("reading this machine's memory", "frames");
        }
        reporter.progress(Progress { done, total });
    })?;
    let recording = has_program.then(|| {
        reporter.stage("recording", "instructions");
        let placement = &request.spec.placement;
        ProgramRecording::with_reporter(&arguments.program, placement, reporter, stop)
    });
    let recording = recording.transpose()?;
    if let Some(ended) = recording.as_ref().and_then(ProgramRecording::program_failure)
        && arguments.verify
    {
        let problem = format!("--verify: {ended}; expected a program that succeeds");
        return Err(HostError::Verify(problem).into());
    }
    let recorded = recording.as_ref().map(|recording| recording.path().to_string_lossy());
    if let Some(recording) = &recording {
        request = request.with("skip", "0").map_err(|_| Failure::Usage("--skip".into()))?;
        notes.extend(recording.notes().iter().cloned());
    }
    let now = arguments.now.or_else(ThpSetting::of_this_machine).unwrap_or_else(|| {
        notes.push("this kernel has no transparent large pages: as it is means 4KB pages".into());
        ThpSetting::Never
    });
    let question = AdviceQuestion {
        workload: recorded.as_deref().or(arguments.workload.as_deref()).unwrap_or(bundled::DEFAULT),
        program: arguments.program.first().map(Path::new),
        now,
        failure: recording.as_ref().and_then(ProgramRecording::failure).map(str::to_owned),
        notes,
    };
    let mut observer = ReporterAndStop { reporter, stop, stage: String::new() };
    let outcome = advise_on(&request, &question, &mut observer);
    let mut advice = outcome.map_err(|failure| match failure {
        Failure::Simulation(perforate_sim::SimError::Stopped) => Failure::Stopped(observer.stage),
        other => other,
    })?;
    advice.record.is_measurable = is_measurable;
    let mut failure = None;
    if let Some(recording) = recording.filter(|_| arguments.verify) {
        let (program, rounds) = (&arguments.program, arguments.rounds.get() as u32);
        match verify_advice(&advice.record, recording.path(), program, rounds, stop, reporter) {
            Ok(found) => advice.add_verification(found),
            Err(failed) => {
                advice.record.verification_failure = Some(failed.to_string());
                failure = Some(failed);
            }
        }
    }
    Ok((advice.record, failure))
}

/// Returns the failure of `--fail-if-worth` if the advice is worth more than the limit.
fn judge(record: &AdviceRecord, limit: Option<Share>) -> Result<(), Failure> {
    let is_worth = record.verdict == perforate_records::AdviceVerdict::Worth;
    let measured = record.verification.as_ref().filter(|found| found.unmeasured.is_none());
    let speed = measured.map(|found| found.measured.ratio).or(record.gain.map(|gain| gain.speed));
    match (limit, speed.filter(|_| is_worth)) {
        (Some(limit), Some(speed)) if speed - 1.0 >= limit.value() => {
            Err(Failure::WorthMore(format!(
                "large pages would make {} {:.1} % faster; --fail-if-worth {limit}",
                record.workload,
                (speed - 1.0) * 100.0
            )))
        }
        _ => Ok(()),
    }
}

/// Observer that passes progress to a reporter, and cancels runs when `stop` is set.
struct ReporterAndStop<'a> {
    reporter: &'a mut dyn Reporter,
    stop: &'a AtomicBool,
    /// Name of the present stage.
    stage: String,
}

impl Observer for ReporterAndStop<'_> {
    fn on_progress(&mut self, progress: Progress) {
        self.reporter.progress(progress);
    }

    fn is_cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl AdviceObserver for ReporterAndStop<'_> {
    fn on_stage(&mut self, name: &str, unit: &'static str) {
        self.stage = name.to_owned();
        self.reporter.stage(name, unit);
    }
}

#[cfg(test)]
mod tests {
    use perforate_records::{AdviceVerdict, SpeedRecord};

    use super::*;

    #[test]
    fn only_what_is_worth_it_fails_and_from_the_limit_on() {
        let record = |verdict, speed| AdviceRecord {
            verdict,
            workload: "w".into(),
            gain: Some(SpeedRecord { speed, sampling_half_width: 0.0, low: 1.0, high: 2.0 }),
            ..AdviceRecord::default()
        };
        let code = |record: &AdviceRecord, limit: &str| {
            let limit = Some(limit.parse::<Share>().unwrap());
            judge(record, limit).err().map(|failure| failure.exit_code())
        };
        let worth = record(AdviceVerdict::Worth, 1.12);
        assert_eq!(code(&worth, "5%"), Some(3));
        assert_eq!(code(&worth, "13%"), None);
        assert_eq!(code(&record(AdviceVerdict::Unclear, 1.12), "5%"), None);
        assert!(judge(&worth, None).is_ok());
    }
}
