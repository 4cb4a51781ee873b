//! Tests of all arguments of all commands: their help texts, and the accepted forms of counts and sizes.

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Command, CommandFactory};
use perforate_config::Key;
use perforate_sim::RunSpec;
use perforate_workloads::{WORKLOADS, WorkloadSpec};

use crate::Arguments;

/// Width of help texts in columns, where no terminal width is known.
const WIDTH: usize = 100;

/// Lists all commands, each with the words that call it.
fn commands() -> Vec<(Vec<String>, Command)> {
    fn add(path: &[String], command: &Command, found: &mut Vec<(Vec<String>, Command)>) {
        let path = [path, &[command.get_name().to_owned()]].concat();
        found.push((path.clone(), command.clone()));
        command.get_subcommands().for_each(|inner| add(&path, inner, found));
    }
    let mut all = Arguments::command().term_width(WIDTH);
    all.build();
    let mut found = Vec::new();
    add(&[], &all, &mut found);
    found
}

fn command(name: &str) -> Command {
    let is_its = |(path, _): &(Vec<String>, Command)| path.len() == 2 && path[1] == name;
    commands().into_iter().find(is_its).expect(name).1
}

/// Lists all arguments that take a value, each with the words that call its command.
fn values() -> Vec<(Vec<String>, Arg)> {
    let of = |(path, command): (Vec<String>, Command)| {
        let takes_value = |argument: &&Arg| argument.get_action().takes_values();
        let arguments: Vec<Arg> = command.get_arguments().filter(takes_value).cloned().collect();
        arguments.into_iter().map(move |argument| (path.clone(), argument))
    };
    commands().into_iter().flat_map(of).collect()
}

fn value_name(argument: &Arg) -> &str {
    argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str())
}

/// Parses `value` as this option of a command. Returns the error, if any; missing arguments are ignored.
fn problem(path: &[String], argument: &Arg, value: &str) -> Option<String> {
    let flag = format!("--{}={value}", argument.get_long()?);
    let error = Arguments::command().try_get_matches_from([path, &[flag]].concat()).err()?;
    let is_value = matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue);
    let of = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    (is_value && of.contains(argument.get_long()?)).then(|| error.to_string())
}

#[test]
fn the_tree_of_commands_is_sound() {
    Arguments::command().debug_assert();
}

#[test]
fn arguments_of_simulations_stand_in_sections() {
    for name in ["compare", "run", "explain"] {
        for argument in command(name).get_arguments() {
            assert!(argument.get_help_heading().is_some(), "{name} {}", argument.get_id());
        }
    }
}

#[test]
fn no_help_is_wider_than_a_page() {
    for (path, mut command) in commands() {
        for help in [command.render_help(), command.render_long_help()] {
            for line in help.to_string().lines() {
                assert!(line.chars().count() <= WIDTH, "{path:?}: {line}");
            }
        }
    }
}

/// Texts below the options have line breaks of their own: a longer line would leave a word alone in the next one.
#[test]
fn examples_and_remarks_need_no_further_line_breaks() {
    for (path, command) in commands() {
        for text in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten()
        {
            for line in text.to_string().lines() {
                assert!(line.chars().count() <= WIDTH, "{path:?}: {line}");
            }
        }
    }
}

#[test]
fn the_short_help_of_compare_fits_and_leads_to_the_long_one() {
    let mut compare = command("compare");
    let (short, long) = (compare.render_help(), compare.render_long_help());
    let (short, long) = (short.to_string(), long.to_string());
    assert!(short.lines().count() <= 70, "{short}");
    assert!(short.contains("`perforate compare --help`") && !long.contains("compare --help`"));
    for rare in ["--host-memory", "--ksm", "--zones", "--modes"] {
        assert!(!short.contains(rare) && long.contains(rare), "{rare}");
    }
    for used in ["[TRACE|WORKLOAD]", "--scheme", "--fragmentation", "--set", "Examples:"] {
        assert!(short.contains(used) && long.contains(used), "{used}");
    }
    let sections = ["What to run:", "Schemes:", "Memory:", "Machine:", "Output:", "Examples:"];
    let places = sections.map(|section| short.find(section).expect(section));
    assert!(places.is_sorted(), "{short}");
}

/// Options that are numbers but not counts.
const NUMBERS: [(&str, &str); 3] = [
    ("level", "of a compression: a name for an effort"),
    ("cpu", "the name of a processor"),
    ("jobs", "threads, of which a computer has no thousands"),
];

#[test]
fn counts_take_letters() {
    let mut counts = 0;
    for (path, argument) in values() {
        let id = argument.get_id().as_str();
        if !matches!(value_name(&argument), "N" | "N|auto")
            || NUMBERS.iter().any(|(name, _)| *name == id)
        {
            continue;
        }
        counts += 1;
        for count in ["1k", "0.001M", "1e3"] {
            assert_eq!(problem(&path, &argument, count), None, "{path:?} {id}");
        }
        let is_known =
            ["9x", "many"].iter().all(|count| problem(&path, &argument, count).is_some());
        let is_read_later = RunSpec::keys().iter().any(|key| key.name == id);
        assert!(is_known || is_read_later, "{path:?} {id}");
    }
    assert!(counts > 15, "{counts}");
}

#[test]
fn sizes_take_letters() {
    let mut sizes = 0;
    for (path, argument) in values() {
        if value_name(&argument) == "SIZE" {
            sizes += 1;
            for size in ["4G", "512M", "64MiB", "2048KB"] {
                assert_eq!(problem(&path, &argument, size), None, "{path:?} {argument}");
            }
        }
    }
    assert!(sizes > 5, "{sizes}");
}

/// Flags of a simulation are texts for clap; their counts and sizes are read later.
#[test]
fn counts_and_sizes_of_simulations_take_letters() {
    let read = |key: &Key, value: &str| {
        let given = [(key.name.as_str(), value)].into_iter().collect();
        RunSpec::read(given).map(drop).map_err(|error| error.to_string())
    };
    for key in RunSpec::keys() {
        let values: &[&str] = match key.form.as_str() {
            "N" | "N|auto" => &["2k"],
            "SIZE" => &["4G", "512M", "64MiB", "2048KB"],
            _ => continue,
        };
        for value in values {
            assert_eq!(read(&key, value), Ok(()), "{}", key.name);
        }
    }
}

#[test]
fn counts_and_sizes_of_workloads_take_letters() {
    for workload in WORKLOADS {
        for option in workload.options() {
            let value = match option.form.as_str() {
                "N" => "1k",
                "SIZE" => "64MiB",
                _ => continue,
            };
            let text = format!("{}:{}={value}", workload.name, option.name);
            if let Err(error) = WorkloadSpec::parse(&text) {
                let error = error.to_string();
                let is_misread = ["expected a whole number", "expected a size"];
                assert!(!is_misread.iter().any(|problem| error.contains(problem)), "{error}");
            }
        }
    }
}
