//! Commands for a caller in this process, such as Python: the arguments are words, what came of it is
//! data and a text, and nothing is printed.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::CommandFactory;
use perforate_commands::Failure;
use perforate_config::ConfigError;
use perforate_experiment::{Job, Measurement};
use perforate_host::Reporter;
use perforate_sim::RunResult;

pub use crate::counted::Counted;
use crate::experiment::Run;
use crate::output::{command_of, notes};
pub use crate::recorded::Recorded;
use crate::remarks::{self, Shown};
use crate::{Arguments, Command, calibrate, read_arguments, record, snapshot, validate};

/// Output of a command.
pub struct Told {
    /// JSON: an object, or lines with one each.
    pub json: String,
    /// Text that the command prints.
    pub text: String,
}

/// The notes of results, each once, as a list below a table says them; `rest` is where the notes on how
/// a trace was made are to be found.
pub fn remarks(results: &[RunResult], rest: &str) -> Vec<String> {
    remarks::remarks(results, Shown::Some { rest })
}

/// Notes as lines below a table.
pub fn notes_text(remarks: &[String], columns: usize) -> String {
    notes(remarks, columns)
}

/// Experiments whose points are measured elsewhere: by other processes, on other computers. What they
/// measured is kept where `perforate experiment run` keeps it.
pub struct ExperimentRun {
    run: Run,
    command: String,
}

impl ExperimentRun {
    /// Finds what there is to be measured; `words` are those of `perforate experiment run`, the program
    /// first.
    ///
    /// # Errors
    /// Wrong words, experiments that cannot be run.
    pub fn prepare(words: &[OsString]) -> Result<Self, Failure> {
        let arguments = read_arguments(words)?;
        match &arguments.command {
            Command::Experiment(arguments) => {
                Ok(Self { run: arguments.prepare()?, command: command_of(words) })
            }
            _ => Err(Failure::Usage("only `experiment run` is prepared".into())),
        }
    }

    /// What is not there yet, in the order in which it is best measured.
    pub fn missing(&self) -> Vec<Job> {
        self.run.missing_jobs()
    }

    /// Keeps what was measured of a job, at once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&mut self, job: &Job, measured: Vec<Measurement>) -> Result<(), Failure> {
        self.run.keep(job, measured)
    }

    /// Writes results and report as `experiment run` does, now that all is there.
    ///
    /// # Errors
    /// Something is not there, or a file cannot be written.
    pub fn finish(&self) -> Result<Told, Failure> {
        self.run.finish(&self.command)
    }
}

/// Carries out a command that measures or records: calibrate, record, snapshot or validate.
///
/// `words` are as on a command line, the program first. `stop` ends a recording, which is not kept then.
///
/// # Errors
/// Wrong words, or what went wrong.
pub fn carry_out(
    words: &[OsString],
    reporter: &mut dyn Reporter,
    stop: &Arc<AtomicBool>,
) -> Result<Told, Failure> {
    let arguments = read_arguments(words)?;
    match &arguments.command {
        Command::Record(arguments) => record::told(arguments, reporter, stop),
        Command::Calibrate(arguments) => calibrate::told(arguments, reporter),
        Command::Validate(arguments) => validate::told(arguments, reporter),
        Command::Snapshot(arguments) => snapshot::told(arguments, reporter),
        _ => Err(Failure::Usage(
            "only calibrate, record, snapshot and validate are carried out so".into(),
        )),
    }
}

/// The words of a command's options, given as texts by key; a switch has the text `yes` or `no`. Keys
/// are those of the flags, with `-` or `_`.
///
/// # Errors
/// A key that the command does not have, with the nearest that it has.
pub fn flags(command: &[&str], options: &[(String, String)]) -> Result<Vec<OsString>, ConfigError> {
    let all = Arguments::command();
    let found = command
        .iter()
        .try_fold(&all, |command, name| command.find_subcommand(name))
        .expect("callers name commands that there are");
    let known = found
        .get_arguments()
        .filter_map(|argument| Some((argument.get_long()?, argument.get_action().takes_values())));
    // The caller decides what is printed.
    let known: Vec<(&str, bool)> = known.filter(|(name, _)| *name != "json").collect();
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let mut words = Vec::new();
    for (key, text) in options {
        let name = key.replace('_', "-");
        let Some((_, takes_value)) = known.iter().find(|(known, _)| *known == name) else {
            return Err(ConfigError::unknown_key(key, &names));
        };
        match (takes_value, text.as_str()) {
            (true, text) => words.push(format!("--{name}={text}").into()),
            (false, "yes") => words.push(format!("--{name}").into()),
            (false, "no") => {}
            (false, _) => {
                let problem = format!("expected yes or no, not {text:?}");
                return Err(ConfigError::new(problem).under(name));
            }
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(options: &[(&str, &str)]) -> Result<Vec<OsString>, String> {
        let options: Vec<_> =
            options.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect();
        flags(&["record"], &options).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_become_flags() {
        let found = words(&[("max_size", "2G"), ("overhead", "yes"), ("print-header", "no")]);
        assert_eq!(found.unwrap(), ["--max-size=2G", "--overhead"]);
        assert!(words(&[("max_sise", "2G")]).unwrap_err().ends_with("did you mean max-size?"));
        assert!(words(&[("overhead", "2G")]).unwrap_err().contains("expected yes or no"));
    }

    #[test]
    fn wrong_words_are_wrong_use() {
        struct Nobody;
        impl Reporter for Nobody {
            fn stage(&mut self, _: &str, _: &'static str) {}
            fn progress(&mut self, _: perforate_sim::Progress) {}
        }
        let told = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let failure = carry_out(&words, &mut Nobody, &Arc::default()).err().unwrap();
            (failure.exit_code(), failure.to_string())
        };
        let (code, text) = told(&["perforate", "calibrate", "--rounds=many"]);
        assert!(code == 2 && text.starts_with("--rounds: expected a whole number"), "{text}");
        let (code, text) = told(&["perforate", "record", "--output=x"]);
        assert!(code == 2 && text.contains("PROG ARGS") && !text.contains('\n'), "{text}");
        assert_eq!(told(&["perforate", "list"]).0, 2);
    }
}
