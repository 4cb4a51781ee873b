//! Help in sections. `-h` has the common options, `--help` has all.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use perforate_config::Section;

/// Arguments of a command, sorted by section: clap shows sections in the order of their first arguments.
pub struct InSections<T>(pub T);

impl<T: Args> Args for InSections<T> {
    fn augment_args(command: Command) -> Command {
        let plain = T::augment_args(Command::new("plain"));
        let mut arguments: Vec<Arg> = plain.get_arguments().cloned().collect();
        arguments.push(help_flag());
        arguments.sort_by_key(place);
        // Within a section, arguments keep their order of declaration.
        let arguments = arguments.into_iter().enumerate();
        let arguments = arguments.map(|(index, argument)| argument.display_order(index));
        let examples = plain.get_after_help().map(ToString::to_string).unwrap_or_default();
        let more =
            format!("`perforate {} --help` has details and all options.", command.get_name());
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
    flag.help("Print help; --help has all options")
        .long_help("Print help; -h is shorter")
        .help_heading(Section::Output.title())
}

/// Position of an argument's section among the sections of the help.
fn place(argument: &Arg) -> usize {
    let is_section = |section: &Section| argument.get_help_heading() == Some(section.title());
    Section::ALL.iter().position(is_section).unwrap_or(Section::ALL.len())
}
