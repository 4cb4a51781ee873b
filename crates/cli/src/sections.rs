//! Help in sections: what is used most stands first, and what few need only in `--help`.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// The program that runs.
pub const WHAT: &str = "What to run";
/// What translates.
pub const SCHEMES: &str = "Schemes";
/// Memory and its past.
pub const MEMORY: &str = "Memory";
/// The processor.
pub const MACHINE: &str = "Machine";
/// Part of the program, repetitions, checks.
pub const LENGTH: &str = "How long and how exact";
/// Linux's knobs, and policies of schemes.
pub const SYSTEM: &str = "Operating system";
/// Guest and host.
pub const VIRTUAL: &str = "Virtual machine";
/// Where results go.
pub const OUTPUT: &str = "Output";

const ORDER: [&str; 8] = [WHAT, SCHEMES, MEMORY, MACHINE, LENGTH, SYSTEM, VIRTUAL, OUTPUT];

/// Options that only `--help` tells of, besides all of a host's.
const RARE: [&str; 21] = [
    "swap",
    "threads",
    "threads-per-core",
    "side-by-side",
    "beside",
    "faulty",
    "zones",
    "window-warmup",
    "precision",
    "compaction",
    "ksm",
    "contents",
    "perforation",
    "segment",
    "superpages",
    "layout",
    "policy",
    "io-gap",
    "hot-add",
    "self-balloon",
    "modes",
];

/// Where an option stands that no section has; a test excludes it.
pub const NOWHERE: &str = "Options";

/// The section of an option of a simulation.
pub fn section(option: &str) -> &'static str {
    match option {
        "memory" | "memory-from" | "swap" | "fragmentation" | "age" | "faulty" | "zones" => MEMORY,
        "machine" | "cores" | "threads-per-core" => MACHINE,
        "beside" | "threads" => WHAT,
        "compaction" | "defrag" | "khugepaged" | "ksm" | "contents" | "perforation" | "segment"
        | "superpages" | "layout" | "policy" => SYSTEM,
        "io-gap" | "hot-add" | "self-balloon" | "modes" => VIRTUAL,
        _ if option.starts_with("host-") => VIRTUAL,
        "side-by-side" => MACHINE,
        "seed" | "skip" | "instructions" | "warmup" | "window-warmup" | "timing" | "precision"
        | "functional" | "check" => LENGTH,
        _ => NOWHERE,
    }
}

/// True for an option that few need.
pub fn is_rare(option: &str) -> bool {
    RARE.contains(&option) || option.starts_with("host-")
}

/// The arguments of a command, its help in sections: clap shows sections in the order in which
/// arguments first name them.
pub struct InSections<T>(pub T);

impl<T: Args> Args for InSections<T> {
    fn augment_args(command: Command) -> Command {
        let plain = T::augment_args(Command::new("plain"));
        let mut arguments: Vec<Arg> = plain.get_arguments().cloned().collect();
        arguments.push(help_flag());
        arguments.sort_by_key(place);
        // Within their section they stand in the order in which they are declared.
        let arguments = arguments.into_iter().enumerate();
        let arguments = arguments.map(|(index, argument)| argument.display_order(index));
        let examples = plain.get_after_help().map(ToString::to_string).unwrap_or_default();
        let more =
            format!("`perforate {} --help` says more, and has all options.", command.get_name());
        command
            .disable_help_flag(true)
            .args(arguments)
            .after_help(format!("{examples}\n\n{more}"))
            .after_long_help(examples)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for InSections<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

fn help_flag() -> Arg {
    let flag = Arg::new("help").short('h').long("help").action(ArgAction::Help);
    flag.help("Print this; --help says more")
        .long_help("Print this; -h is shorter")
        .help_heading(OUTPUT)
}

/// The place of an argument's section.
fn place(argument: &Arg) -> usize {
    let is_its = |section: &&str| argument.get_help_heading() == Some(*section);
    ORDER.iter().position(is_its).unwrap_or(ORDER.len())
}
