//! Options that several commands share: what can be said of a run, as flags.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use perforate_config::{Given, Key, keys};
use perforate_sim::{
    Comparison, Composition, Machine, MeasuringOptions, MemoryOptions, MemoryState,
    PlacementOptions, SimError, Workload, idle_option,
};
use perforate_trace::bundled;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::settings::MachineSettings;
use crate::{machines, sections, snapshot};

/// Fragmentation where none is named: the point that P §VII.B and §VII.C take for the real machine
/// of §III.C.
const DEFAULT_FRAGMENTATION: &str = "portion=50%,holes=25%,clustered";

/// A struct of options whose keys are flags.
pub trait Flags: DeserializeOwned {
    /// The flags.
    fn keys() -> Vec<Key>;
}

impl Flags for PlacementOptions {
    fn keys() -> Vec<Key> {
        keys::<Self>()
    }
}

impl Flags for MeasuringOptions {
    fn keys() -> Vec<Key> {
        keys::<Self>()
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
    given: Given,
    options: PhantomData<T>,
}

impl<T: Flags> FlagsOf<T> {
    /// Reads the options.
    pub fn read(&self) -> Result<T, SimError> {
        Ok(self.given.clone().grouped("host").read()?)
    }
}

impl<T: Flags> FlagsOf<T> {
    /// The same with this value of an option; none if there is no such option.
    fn with(&self, key: &str, text: &str) -> Option<Self> {
        let known = T::keys().into_iter().find(|known| known.name == key.replace('_', "-"))?;
        let mut changed = Self { given: self.given.clone(), options: PhantomData };
        changed.given.replace(known.name, text);
        Some(changed)
    }
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
        let mut given = Given::default();
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
    let default = match key.name.as_str() {
        "fragmentation" => Some(DEFAULT_FRAGMENTATION),
        _ => Some(key.default.as_str()).filter(|text| !["", "none", "no", "0"].contains(text)),
    };
    let default = default.map_or(String::new(), |default| format!(" [default: {default}"));
    let (brief, mut help) = (key.brief.clone() + &default, key.help.clone() + &default);
    let end = if default.is_empty() { "" } else { "]" };
    if key.name == "fragmentation" {
        help += "; none with --age or --memory-from";
    }
    let argument = Arg::new(key.name.clone()).long(key.name.clone());
    let argument = argument
        .help(brief + end)
        .long_help(help + end)
        .help_heading(sections::section(&key.name))
        .hide_short_help(sections::is_rare(&key.name));
    if is_switch(&key) {
        return argument.action(ArgAction::SetTrue);
    }
    // Many words would leave no room for the help beside them, which names them.
    let is_long = key.form.len() > 20;
    // A negative size is told to be none.
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
    settings: MachineSettings,
    #[command(flatten)]
    memory: FlagsOf<MemoryOptions>,
}

/// A placement and how it is simulated.
#[derive(clap::Args, Clone)]
pub struct SimulationArguments {
    #[command(flatten)]
    pub placement: PlacementArguments,
    #[command(flatten)]
    measuring: FlagsOf<MeasuringOptions>,
}

impl PlacementArguments {
    /// Machine, seed, and which part of the workload.
    pub fn read(&self) -> Result<PlacementOptions, SimError> {
        self.placement.read()
    }

    /// The machine asked for.
    pub fn machine(&self) -> Result<Machine, Failure> {
        machines::load(&self.read()?.machine, &self.settings)
    }

    /// The memory asked for.
    pub fn memory(&self) -> Result<MemoryState, SimError> {
        let mut memory = self.memory.clone();
        let says_its_state = ["fragmentation", "age", "memory-from"];
        if !says_its_state.iter().any(|key| memory.given.contains(key)) {
            memory.given.insert("fragmentation", DEFAULT_FRAGMENTATION);
        }
        memory.read()?.resolve_with(&snapshot::load)
    }

    /// Whether there are page sizes for parts of memory.
    pub fn has_layout(&self) -> bool {
        self.memory.given.contains("layout")
    }

    /// Refuses options that can change nothing under these schemes.
    pub fn check_effects(&self, schemes: &[Composition]) -> Result<(), SimError> {
        let memory = self.memory()?;
        let keys = MemoryOptions::keys().into_iter();
        let mut given = keys.filter(|key| self.memory.given.contains(&key.name));
        let idle = given.find_map(|key| idle_option(&key.name, schemes, &memory));
        idle.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The workload of this name; the default trace where none is named.
pub fn workload(name: Option<&str>) -> String {
    bundled::resolve(name.unwrap_or(bundled::DEFAULT))
}

/// A part of the workload of this name.
pub fn part_of(name: Option<&str>, placement: &PlacementOptions) -> Workload {
    Workload::new(workload(name), placement)
}

impl SimulationArguments {
    /// The comparison asked for.
    pub fn comparison(
        &self,
        name: Option<&str>,
        schemes: Vec<Composition>,
    ) -> Result<Comparison, Failure> {
        let (placement, measuring) = (self.placement.read()?, self.measuring()?);
        let machine = self.placement.machine()?;
        let memory = self.placement.memory()?;
        let options = (&placement, &measuring);
        Ok(Comparison::new(workload(name), machine, schemes, memory, options))
    }

    /// The same with this value of an option, or of a key of the machine; none if no option is called
    /// so and it has no point, as keys of machines have.
    pub fn with(&self, key: &str, value: &str) -> Option<Self> {
        let mut changed = self.clone();
        let PlacementArguments { placement, settings, memory } = &mut changed.placement;
        if let Some(flags) = placement.with(key, value) {
            *placement = flags;
        } else if let Some(flags) = memory.with(key, value) {
            *memory = flags;
        } else if let Some(flags) = changed.measuring.with(key, value) {
            changed.measuring = flags;
        } else if key.contains('.') {
            *settings = settings.with(key, value);
        } else {
            return None;
        }
        Some(changed)
    }

    /// Names of all options.
    pub fn option_names() -> Vec<String> {
        let keys =
            [PlacementOptions::keys(), MeasuringOptions::keys(), MemoryOptions::keys()].concat();
        keys.into_iter().map(|key| key.name).collect()
    }

    /// Warm-up, clock and checks of the run.
    pub fn measuring(&self) -> Result<MeasuringOptions, SimError> {
        self.measuring.read()
    }
}
