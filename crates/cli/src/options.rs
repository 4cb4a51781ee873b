//! Options that several commands share, as flags: the options of a run, and `--set`.

use std::cell::OnceCell;
use std::sync::LazyLock;

use crate::actions::{Failure, MachineSettings, RunRequest};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use perforate_config::{Key, OptionTexts, Section, Table};
use perforate_sim::{MemoryOptions, PlacementOptions, Progress, RunSpec};

use crate::progress::Bar;

/// Options of a run, as flags. Options of warm-up, timing and checks are included only if `MEASURED` is true.
#[derive(Clone)]
pub struct RunFlags<const MEASURED: bool> {
    texts: OptionTexts,
    settings: SettingFlags,
}

impl<const MEASURED: bool> RunFlags<MEASURED> {
    /// Returns the keys of the options. Several commands have the same, and they take a while to derive.
    fn keys() -> Vec<Key> {
        static MEASURED_ONES: LazyLock<Vec<Key>> = LazyLock::new(RunSpec::keys);
        static OTHERS: LazyLock<Vec<Key>> =
            LazyLock::new(|| [PlacementOptions::keys(), MemoryOptions::keys()].concat());
        if MEASURED { MEASURED_ONES.clone() } else { OTHERS.clone() }
    }

    /// True if none of these options is given.
    pub fn are_absent(&self) -> bool {
        self.texts.is_empty() && self.settings.all.is_empty()
    }

    /// Makes a request for a run with these options.
    pub fn request(&self) -> Result<RunRequest, Failure> {
        RunRequest::new(self.texts.clone(), self.settings.settings())
    }
}

impl<const MEASURED: bool> Args for RunFlags<MEASURED> {
    fn augment_args(command: Command) -> Command {
        SettingFlags::augment_args(command.args(Self::keys().into_iter().map(argument)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const MEASURED: bool> FromArgMatches for RunFlags<MEASURED> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let texts = texts(Self::keys(), matches);
        Ok(Self { texts, settings: SettingFlags::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Options of placement, as flags, for commands that run no scheme: workload, machine and seed.
#[derive(Clone)]
pub struct WorkloadFlags(RunFlags<false>);

impl WorkloadFlags {
    /// Options of placement that say how threads share the processors. They do not change the
    /// program's memory accesses, which these commands look at.
    const OF_PROCESSORS: [&str; 3] = ["cores", "threads-per-core", "side-by-side"];

    fn keys() -> Vec<Key> {
        let mut keys = PlacementOptions::keys();
        keys.retain(|key| !Self::OF_PROCESSORS.contains(&key.name.as_str()));
        keys
    }

    /// Makes a request for a run with these options.
    pub fn request(&self) -> Result<RunRequest, Failure> {
        self.0.request()
    }
}

impl Args for WorkloadFlags {
    fn augment_args(command: Command) -> Command {
        SettingFlags::augment_args(command.args(Self::keys().into_iter().map(argument)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WorkloadFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let texts = texts(Self::keys(), matches);
        Ok(Self(RunFlags { texts, settings: SettingFlags::from_arg_matches(matches)? }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Texts of the options that the command line has.
fn texts(keys: Vec<Key>, matches: &ArgMatches) -> OptionTexts {
    let mut texts = OptionTexts::default();
    for key in keys {
        if is_switch(&key) {
            if matches.get_flag(&key.name) {
                texts.insert(key.name, "yes");
            }
        } else if let Some(text) = matches.get_one::<String>(&key.name) {
            texts.insert(key.name, text);
        }
    }
    texts
}

/// True if the option is a switch on the command line: a flag without a value.
fn is_switch(key: &Key) -> bool {
    key.form == "yes|no"
}

fn argument(key: Key) -> Arg {
    let default = Some(key.default.as_str()).filter(|text| !["", "none", "no", "0"].contains(text));
    let default = default.map_or(String::new(), |default| format!(" [default: {default}]"));
    let section = key.section.expect("every option of a run is the row of a table");
    let argument = Arg::new(key.name.clone()).long(key.name.clone());
    let argument = argument
        .help(format!("{}{default}", key.brief))
        .long_help(format!("{}{default}", key.help))
        .help_heading(section.title())
        .hide_short_help(key.is_rare);
    if is_switch(&key) {
        return argument.action(ArgAction::SetTrue);
    }
    // A long list of words would leave no room for the help beside it; the help names them.
    let value_name = if key.form.len() > 20 { "WORD".into() } else { key.form.clone() };
    // A negative size gets an error of its own.
    argument.allow_hyphen_values(key.form == "SIZE").value_name(value_name)
}

/// Overrides of machine keys, in the order of the flags.
#[derive(Args, Clone, Debug, Default)]
pub struct SettingFlags {
    /// Another value for a key of the machine, such as tlb.l2.entries=3072
    ///
    /// `perforate machines show NAME` has the keys; absent removes a key; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting, help_heading = Section::Machine.title())]
    all: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("{text:?} has no value; expected KEY=VALUE such as tlb.l2.entries=3072")),
    }
}

impl SettingFlags {
    /// Overrides of the machine's keys, in the order of the flags.
    pub fn settings(&self) -> MachineSettings {
        MachineSettings(self.all.clone())
    }
}

/// Progress bar for reading this machine's memory. It appears with the first progress.
pub fn own_memory_bar() -> impl Fn(u64, Option<u64>) {
    let bar = OnceCell::new();
    move |done, total| {
        let bar = bar.get_or_init(|| Bar::of("reading this machine's memory", "frames"));
        bar.show(Progress { done, total });
    }
}
