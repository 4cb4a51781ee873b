//! Options that several commands share: what can be said of a run, as flags.

use std::cell::OnceCell;
use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use perforate_commands::{Failure, RunRequest};
use perforate_config::{Key, OptionTexts, Table};
use perforate_sim::{MeasuringOptions, MemoryOptions, PlacementOptions, Progress};

use crate::progress::Bar;
use crate::settings::SettingFlags;

/// A struct of options whose keys are flags.
pub trait Flags {
    /// Options that become flags, in the order of the help.
    fn keys() -> Vec<Key>;
}

impl Flags for PlacementOptions {
    fn keys() -> Vec<Key> {
        <Self as Table>::keys()
    }
}

impl Flags for MeasuringOptions {
    fn keys() -> Vec<Key> {
        <Self as Table>::keys()
    }
}

impl Flags for MemoryOptions {
    fn keys() -> Vec<Key> {
        Self::keys()
    }
}

/// The flags of a struct of options, as they were given.
#[derive(Clone)]
pub struct FlagsOf<T> {
    given: OptionTexts,
    options: PhantomData<T>,
}

impl<T: Flags> Args for FlagsOf<T> {
    fn augment_args(command: Command) -> Command {
        command.args(T::keys().into_iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Flags> FromArgMatches for FlagsOf<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = OptionTexts::default();
        for key in T::keys() {
            if is_switch(&key) {
                if matches.get_flag(&key.name) {
                    given.insert(key.name, "yes");
                }
            } else if let Some(text) = matches.get_one::<String>(&key.name) {
                given.insert(key.name, text);
            }
        }
        Ok(Self { given, options: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// True for an option without a value.
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
    // Many words would leave no room for the help beside them, which names them.
    let is_long = key.form.len() > 20;
    // A negative size gets an error of its own.
    argument.allow_hyphen_values(key.form == "SIZE").value_name(if is_long {
        "WORD".into()
    } else {
        key.form
    })
}

/// Machine, memory, and part of the workload.
#[derive(clap::Args, Clone)]
pub struct PlacementArguments {
    #[command(flatten)]
    placement: FlagsOf<PlacementOptions>,
    #[command(flatten)]
    settings: SettingFlags,
    #[command(flatten)]
    memory: FlagsOf<MemoryOptions>,
}

/// A placement and how it is simulated.
#[derive(clap::Args, Clone)]
pub struct SimulationArguments {
    #[command(flatten)]
    placement: PlacementArguments,
    #[command(flatten)]
    measuring: FlagsOf<MeasuringOptions>,
}

impl PlacementArguments {
    /// Options that were given.
    fn given(&self) -> OptionTexts {
        self.placement.given.clone().and(self.memory.given.clone())
    }

    /// The run that is asked for.
    pub fn request(&self) -> Result<RunRequest, Failure> {
        RunRequest::new(self.given(), self.settings.settings())
    }
}

impl SimulationArguments {
    /// The run that is asked for.
    pub fn request(&self) -> Result<RunRequest, Failure> {
        let given = self.placement.given().and(self.measuring.given.clone());
        RunRequest::new(given, self.placement.settings.settings())
    }
}

/// Shows how far this machine's memory is read, if it is.
pub fn own_memory_bar() -> impl Fn(u64, Option<u64>) {
    let bar = OnceCell::new();
    move |done, total| {
        let bar = bar.get_or_init(|| Bar::of("reading this machine's memory", "frames"));
        bar.show(Progress { done, total });
    }
}
