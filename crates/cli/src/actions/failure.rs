//! Failures of commands, and their exit codes.

use std::io;
use std::path::PathBuf;

use perforate_advice::AdviceError;
use perforate_config::ConfigError;
use perforate_experiment::ExperimentError;
use perforate_experiment::linear_model::ModelError;
use perforate_host::HostError;
use perforate_record::{INTERRUPTED, RecordError};
use perforate_records::RecordsError;
use perforate_report::ReportError;
use perforate_sim::SimError;
use perforate_trace::TraceError;

use super::with_keywords;

/// Exit code for invalid arguments or options.
const WRONG_USE: u8 = 2;
/// Exit code for any other failure.
const FAILED: u8 = 1;
/// Exit code of `advise --fail-if-worth` if large pages are worth more.
const WORTH_MORE: u8 = 3;

/// Reason for the failure of a command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The arguments of the command contradict each other, or are incomplete.
    #[error("{0}")]
    Usage(String),
    /// A key of the machine file was overridden (`--set KEY=VALUE`) with an invalid value.
    #[error("{}: {problem}", flags(settings))]
    Setting {
        /// Overridden machine keys and their values, in the order of the flags.
        settings: Vec<(String, String)>,
        /// Problem of the machine file with these values.
        problem: String,
    },
    /// Failure of the simulation.
    #[error("{}", describe(.0))]
    Simulation(#[from] SimError),
    /// The pairs of predicted and measured effects cannot be used.
    #[error(transparent)]
    Pairs(#[from] perforate_advice::PairsError),
    /// The recommended pages gain more than the user allows (`--fail-if-worth`).
    #[error("{0}")]
    WorthMore(String),
    /// A trace cannot be read or written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace cannot be analysed.
    #[error(transparent)]
    Advice(AdviceError),
    /// A file of processor samples cannot be read, or has no addresses.
    #[error(transparent)]
    Samples(#[from] perforate_advice::SampleError),
    /// Failure of the trace recorder.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The recorded program failed, with this message; its trace is complete.
    #[error("{0}; what was recorded of it is kept")]
    Program(String),
    /// Failure of an operation on the machine that the program runs on.
    #[error(transparent)]
    Host(HostError),
    /// Failure of an experiment.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The linear model cannot be computed from its input.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Parts of an experiment (`--shard`) cannot be merged.
    #[error("{0}")]
    Parts(String),
    /// Records of results cannot be read.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// Failure of the report generator.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A file cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// Path of the file that cannot be written.
        path: PathBuf,
        /// Error that the operating system reported.
        source: io::Error,
    },
    /// The operating system refused an action.
    #[error("{action}: {source}")]
    Machine {
        /// Action that the operating system refused.
        action: &'static str,
        /// Error that the operating system reported.
        source: io::Error,
    },
    /// A stored snapshot cannot be read.
    #[error("{}: {problem}", path.display())]
    Snapshot {
        /// Path of the snapshot.
        path: PathBuf,
        /// Reason for which the snapshot cannot be read.
        problem: String,
    },
    /// The command panicked, with this message, which is always an internal error.
    #[error("a mistake in perforate itself: {0}")]
    Internal(String),
    /// The command was stopped with Ctrl-C while it recorded a program.
    #[error(
        "stopped while recording; nothing was compared. To keep a recording that Ctrl-C ends: \
         perforate record -o FILE -- PROG ARGS…"
    )]
    Interrupted,
    /// The command was stopped with Ctrl-C in this stage of its work, before it wrote any file.
    #[error("stopped ({0}); nothing was written")]
    Stopped(String),
    /// Standard output cannot be written.
    #[error("standard output: {0}")]
    Output(io::Error),
    /// The reader of standard output closed the pipe, so the command ends silently.
    #[error("standard output was closed")]
    ClosedPipe,
}

impl Failure {
    /// Returns the error message with Python keywords in place of command-line flags.
    pub fn keyword_text(&self) -> String {
        with_keywords(&self.text_of_path())
    }

    /// Returns the error message, with Python keywords for the option or machine keys that are
    /// wrong.
    fn text_of_path(&self) -> String {
        match self {
            Self::Setting { settings, problem } => {
                let pairs: Vec<_> =
                    settings.iter().map(|(key, value)| format!("{key:?}: {value:?}")).collect();
                format!("set={{{}}}: {problem}", pairs.join(", "))
            }
            Self::Simulation(SimError::Config(error)) => {
                of_option(error, |option| option.replace('-', "_"))
            }
            other => other.to_string(),
        }
    }

    /// Exit code: 2 for wrong use, 3 for large pages that are worth more than allowed, 130 after Ctrl-C,
    /// 1 for other failures.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::Setting { .. }
            | Self::Simulation(
                SimError::UnknownMachine { .. }
                | SimError::Scheme(_)
                | SimError::NoLargeEntries { .. }
                | SimError::GuestTooLarge { .. }
                | SimError::Host(_)
                | SimError::Config(_)
                | SimError::UnknownWorkload { .. }
                | SimError::MemoryBeyondCaches { .. }
                | SimError::MachineTooLarge { .. }
                | SimError::SkipBeyondEnd { .. }
                | SimError::SkipOfGenerated { .. }
                | SimError::WarmupTooLong { .. }
                | SimError::NoTimedWindow { .. }
                | SimError::SampledTwice
                | SimError::SampledTiming
                | SimError::WindowWarmup
                | SimError::Trace(TraceError::Workload { .. }),
            )
            | Self::Trace(TraceError::Workload { .. })
            | Self::Model(ModelError::Share(_))
            | Self::Experiment(ExperimentError::Unknown { .. }) => WRONG_USE,
            Self::Interrupted
            | Self::Stopped(_)
            | Self::Host(HostError::Stopped)
            | Self::Record(RecordError::Interrupted) => INTERRUPTED as u8,
            Self::WorthMore(_) => WORTH_MORE,
            _ => FAILED,
        }
    }
}

impl From<AdviceError> for Failure {
    fn from(error: AdviceError) -> Self {
        match error {
            AdviceError::Trace(error) => Self::Trace(error),
            AdviceError::Stopped => Self::Simulation(SimError::Stopped),
            error => Self::Advice(error),
        }
    }
}

/// Formats overrides of machine keys as command-line flags, `--set KEY=VALUE`.
fn flags(settings: &[(String, String)]) -> String {
    let flags: Vec<_> =
        settings.iter().map(|(key, value)| format!("--set {key}={value}")).collect();
    flags.join(" ")
}

/// Describes an error of the simulation; an error of an option begins with its flag.
fn describe(error: &SimError) -> String {
    match error {
        SimError::Config(error) => of_option(error, |option| format!("--{option}")),
        error => error.to_string(),
    }
}

/// Describes an error of an option. The text begins with the option's name. `name` converts names such as
/// `memory` or `host-memory` to the form that the user knows.
fn of_option(error: &ConfigError, name: fn(&str) -> String) -> String {
    let path: Vec<&str> = error.path().collect();
    let (option, keys) = match path.as_slice() {
        ["host", key, keys @ ..] => (Some(name(&format!("host-{key}"))), keys),
        [key, keys @ ..] => (Some(name(key)), keys),
        [] => (None, &[][..]),
    };
    let parts = option.as_deref().into_iter().chain(keys.iter().copied());
    parts.chain([error.problem()]).collect::<Vec<_>>().join(": ")
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Simulation(error.into())
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Simulation(error) => Self::Simulation(error),
            HostError::Record(error) => Self::Record(error),
            HostError::Size(problem) => Self::Usage(format!("--size: {problem}")),
            HostError::Layouts(problem) => Self::Usage(format!("--layouts: {problem}")),
            error @ HostError::UnknownProcessor { .. } => Self::Usage(error.to_string()),
            error @ HostError::Processor { .. } => Self::Usage(format!("--cpu {error}")),
            error => Self::Host(error),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ClosedPipe
        } else {
            Self::Output(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_named_as_flags_or_as_keywords() {
        for (path, flag, keyword) in [
            (vec!["memory"], "--memory: wrong", "memory: wrong"),
            (vec!["io-gap"], "--io-gap: wrong", "io_gap: wrong"),
            (vec!["host", "io-gap"], "--host-io-gap: wrong", "host_io_gap: wrong"),
            (vec!["khugepaged", "every"], "--khugepaged: every: wrong", "khugepaged: every: wrong"),
            (vec![], "wrong", "wrong"),
        ] {
            let error =
                path.iter().rev().fold(ConfigError::new("wrong"), |error, key| error.under(*key));
            let failure = Failure::from(error);
            assert_eq!(
                (failure.to_string(), failure.keyword_text()),
                (flag.into(), keyword.into())
            );
            assert_eq!(failure.exit_code(), 2);
        }
    }

    #[test]
    fn values_of_the_machine_are_named_as_flags_or_as_a_keyword() {
        let pair = |key: &str| (key.to_owned(), "3".to_owned());
        let failure =
            Failure::Setting { settings: vec![pair("a.b"), pair("c")], problem: "no".into() };
        assert_eq!(failure.to_string(), "--set a.b=3 --set c=3: no");
        assert_eq!(failure.keyword_text(), "set={\"a.b\": \"3\", \"c\": \"3\"}: no");
        assert_eq!(failure.exit_code(), 2);
    }
}
