//! Commands as functions that take keywords and return JSON and text: the interface for Python.
//! Nothing is printed.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::actions::Failure;
use clap::{Args, Command};
use perforate_config::ConfigError;
use perforate_host::Reporter;

pub use crate::experiment::ExperimentRun;
use crate::experiment::RunArguments;
pub use crate::merged_notes::merged_notes;
pub use crate::native_counters::NativeCounters;
use crate::output::command_of;
pub use crate::output::{CommandOutput, notes};
pub use crate::program_recording::ProgramRecording;
use crate::{advise, calibrate, curves, record, snapshot, usage_error, validate};

/// Options of a command as texts by name, with `-` or `_`. A switch has the text `yes` or `no`.
pub type Keywords = [(String, String)];

/// Measures this machine and writes a machine file.
///
/// # Errors
/// Wrong options, or a measurement that fails.
pub fn calibrate(
    keywords: &Keywords,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    calibrate::calibrate(&arguments(keywords, vec![])?, reporter)
}

/// Compares measurements of this machine, and of a program if `program` is not empty, with predictions.
///
/// # Errors
/// Wrong options, or a measurement that fails.
pub fn validate(
    program: Vec<OsString>,
    keywords: &Keywords,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    validate::validate(&arguments(keywords, after_dashes(program))?, reporter)
}

/// Advises on large pages for a trace or workload, or for a program if `program` is not empty. Setting `stop`
/// ends the work. If a measurement fails, the record has the prediction and the reason.
///
/// # Errors
/// Wrong options, a program that cannot be recorded, or large pages that are worth more than `fail_if_worth`
/// allows.
pub fn advise(
    workload: Option<OsString>,
    program: Vec<OsString>,
    keywords: &Keywords,
    reporter: &mut dyn Reporter,
    stop: &Arc<AtomicBool>,
) -> Result<CommandOutput, Failure> {
    let positional = [workload.into_iter().collect(), after_dashes(program)].concat();
    let (output, judged) = advise::advise(&arguments(keywords, positional)?, reporter, stop)?;
    match judged {
        Err(worth_more @ Failure::WorthMore(_)) => Err(worth_more),
        Err(_) | Ok(()) => Ok(output),
    }
}

/// Records a program. Setting `stop` ends the recording and deletes it.
///
/// # Errors
/// Wrong options, or a program that cannot be recorded.
pub fn record(
    program: Vec<OsString>,
    keywords: &Keywords,
    reporter: &mut dyn Reporter,
    stop: &Arc<AtomicBool>,
) -> Result<CommandOutput, Failure> {
    record::record_quietly(&arguments(keywords, after_dashes(program))?, reporter, stop)
}

/// Makes the miss-ratio curves of a workload or trace; of the default trace if `workload` is `None`.
///
/// # Errors
/// Wrong options, or a trace that cannot be read.
pub fn curves(
    workload: Option<OsString>,
    keywords: &Keywords,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    curves::curves(&arguments(keywords, workload.into_iter().collect())?, reporter)
}

/// Takes a snapshot of this machine's memory.
///
/// # Errors
/// Wrong options, or files of `/proc` that cannot be read.
pub fn snapshot_host(
    keywords: &Keywords,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    snapshot::host(&arguments(keywords, vec![])?, reporter)
}

/// Takes a snapshot of a process.
///
/// # Errors
/// Wrong options, or a process that cannot be read.
pub fn snapshot_process(
    pid: OsString,
    keywords: &Keywords,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    snapshot::process(&arguments(keywords, vec![pid])?, reporter)
}

/// Describes a stored snapshot.
///
/// # Errors
/// Wrong options, or a file that is not a snapshot.
pub fn snapshot_file(file: OsString, keywords: &Keywords) -> Result<CommandOutput, Failure> {
    snapshot::show(&arguments(keywords, vec![file])?)
}

/// Plans the points of the experiment with this name or in this file. Files are written only if `out`
/// names a folder.
///
/// # Errors
/// Wrong options, or an experiment that cannot be run.
pub fn plan_experiment(
    name: String,
    keywords: &Keywords,
    out: Option<OsString>,
) -> Result<ExperimentRun, Failure> {
    let files = out.map_or_else(|| vec!["--json".into()], |out| vec!["--out".into(), out]);
    let arguments = [vec![name.into()], flags::<RunArguments>(keywords)?, files].concat();
    let command = ["perforate", "experiment", "run"].map(OsString::from);
    let command = command_of(&[&command[..], &arguments].concat());
    parse::<RunArguments>(&arguments)?.plan(command)
}

/// Puts `--` before a program and its arguments; empty if there is no program.
fn after_dashes(program: Vec<OsString>) -> Vec<OsString> {
    if program.is_empty() { program } else { [vec!["--".into()], program].concat() }
}

/// Parses the arguments of a command from keywords and positional arguments.
fn arguments<A: Args>(keywords: &Keywords, positional: Vec<OsString>) -> Result<A, Failure> {
    parse(&[flags::<A>(keywords)?, positional].concat())
}

fn parse<A: Args>(arguments: &[OsString]) -> Result<A, Failure> {
    let command = A::augment_args(Command::new("perforate").no_binary_name(true));
    let parsed = command.try_get_matches_from(arguments);
    parsed.and_then(|matches| A::from_arg_matches(&matches)).map_err(|error| usage_error(&error))
}

/// Converts keywords to flags of the command that has the arguments `A`.
fn flags<A: Args>(keywords: &Keywords) -> Result<Vec<OsString>, ConfigError> {
    let command = A::augment_args(Command::new("perforate"));
    let known = command
        .get_arguments()
        .filter_map(|argument| Some((argument.get_long()?, argument.get_action().takes_values())));
    // The caller gets JSON and text in any case.
    let known: Vec<(&str, bool)> = known.filter(|(name, _)| *name != "json").collect();
    let mut flags = Vec::new();
    for (key, text) in keywords {
        let name = key.replace('_', "-");
        let Some((_, takes_value)) = known.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return Err(ConfigError::unknown_key(key, &names));
        };
        match (takes_value, text.as_str()) {
            (true, text) => flags.push(format!("--{name}={text}").into()),
            (false, "yes") => flags.push(format!("--{name}").into()),
            (false, "no") => {}
            (false, _) => {
                let problem = format!("expected yes or no, not {text:?}");
                return Err(ConfigError::new(problem).under(name));
            }
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordArguments;

    fn texts(keywords: &[(&str, &str)]) -> Vec<(String, String)> {
        keywords.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect()
    }

    #[test]
    fn keywords_become_flags() {
        let flags = |keywords: &[(&str, &str)]| {
            flags::<RecordArguments>(&texts(keywords)).map_err(|error| error.to_string())
        };
        let found = flags(&[("max_size", "2G"), ("overhead", "yes"), ("print-header", "no")]);
        assert_eq!(found.unwrap(), ["--max-size=2G", "--overhead"]);
        assert!(flags(&[("max_sise", "2G")]).unwrap_err().ends_with("did you mean max-size?"));
        assert!(flags(&[("overhead", "2G")]).unwrap_err().contains("expected yes or no"));
    }

    #[test]
    fn wrong_values_are_wrong_use() {
        struct Silent;
        impl Reporter for Silent {
            fn stage(&mut self, _: &str, _: &'static str) {}
            fn progress(&mut self, _: perforate_sim::Progress) {}
        }
        let problem = |outcome: Result<CommandOutput, Failure>| {
            let failure = outcome.err().unwrap();
            assert_eq!(failure.exit_code(), 2);
            failure.to_string()
        };
        let text = problem(calibrate(&texts(&[("rounds", "many")]), &mut Silent));
        assert!(text.starts_with("--rounds: expected a whole number"), "{text}");
        let text = problem(calibrate(&texts(&[("json", "yes")]), &mut Silent));
        assert!(text.starts_with("there is no \"json\""), "{text}");
        let output = texts(&[("output", "x")]);
        let text = problem(record(vec![], &output, &mut Silent, &Arc::default()));
        assert!(text.contains("PROG ARGS") && !text.contains('\n'), "{text}");
    }
}
