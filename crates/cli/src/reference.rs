//! Reference pages of commands as Markdown, from the same declarations as `--help`.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// Makes the Markdown page of a command: file name and text. Subcommands are links to their pages.
pub fn page(command: &Command) -> (String, String) {
    let name = full_name(command);
    let about = command.get_long_about().or(command.get_about());
    let mut text = format!("# {name}\n\n{}\n", with_options(&prose(about)));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = write!(text, "\n```text\n{usage}\n```\n");
    let shown: Vec<&Command> =
        command.get_subcommands().filter(|inner| !inner.is_hide_set()).collect();
    if !shown.is_empty() {
        text += "\n## Commands\n\n| | |\n|---|---|\n";
    }
    for inner in shown {
        let (file, about) = (file_name(inner), prose(inner.get_about()));
        let _ = writeln!(text, "| [`{}`]({file}) | {} |", inner.get_name(), cell(&about));
    }
    text += &options(command);
    if let Some(lines) = examples(command) {
        let _ = write!(text, "\n## Examples\n\n```sh\n{}\n```\n", lines.trim_end());
    }
    (file_name(command), text)
}

/// Examples from the help of a command, without their heading; `None` if there are none.
pub fn examples(command: &Command) -> Option<String> {
    let help = command.get_after_long_help().or(command.get_after_help())?.to_string();
    Some(help.trim_start_matches("Examples:\n").trim_start_matches("Example:\n").to_owned())
}

/// Full name of a command, such as `perforate trace info`.
fn full_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn file_name(command: &Command) -> String {
    full_name(command).replace(' ', "-") + ".md"
}

/// Makes the tables of a command's arguments and options, one under each heading.
fn options(command: &Command) -> String {
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    let heading = |argument: &Arg| match argument.get_help_heading() {
        Some(heading) => heading.to_owned(),
        None if argument.is_positional() => "Arguments".into(),
        None => "Options".into(),
    };
    let mut headings: Vec<String> = Vec::new();
    for argument in shown() {
        if !headings.contains(&heading(argument)) {
            headings.push(heading(argument));
        }
    }
    let table = |name: &String| {
        let rows = shown().filter(|argument| heading(argument) == *name).map(row);
        format!("\n## {name}\n\n| | |\n|---|---|\n{}", rows.collect::<String>())
    };
    headings.iter().map(table).collect()
}

fn row(argument: &Arg) -> String {
    let help = prose(argument.get_long_help().or(argument.get_help()));
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let takes_value = argument.get_action().takes_values();
    // The help of some options describes the default in words.
    let default = match takes_value && !defaults.is_empty() && !help.contains("[default") {
        true => format!(" [default: {}]", cell(&defaults.join(", "))),
        false => String::new(),
    };
    let values = argument.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set() && takes_value);
    let values: Vec<String> = values.map(|value| format!("`{}`", value.get_name())).collect();
    let values =
        if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) };
    format!("| {} | {}{values}{default} |\n", called(argument), cell(&with_options(&help)))
}

/// Form of an argument on the command line, such as `-o`, `--out DIR`.
fn called(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let value = match names {
        [] => String::new(),
        names => names.iter().map(|name| format!(" {name}")).collect(),
    };
    let value = if takes_value { value } else { String::new() };
    if argument.is_positional() {
        return code(value.trim());
    }
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let all: Vec<String> = short.into_iter().chain(long).collect();
    code(&format!("{}{value}", all.join(", ")))
}

fn code(text: &str) -> String {
    format!("`{}`", cell(text))
}

fn prose(text: Option<impl ToString>) -> String {
    text.map_or_else(String::new, |text| text.to_string())
}

/// Escapes a text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    let paragraphs: Vec<String> = text
        .split("\n\n")
        .map(|one| one.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    paragraphs.join("<br>").replace('|', "\\|")
}

/// Marks options in a text as code, so that Markdown keeps their hyphens.
fn with_options(text: &str) -> String {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '-';
    let mut is_code = false;
    let words = text.split_inclusive([' ', '\n']).map(|word| {
        let was_code = is_code;
        is_code ^= word.matches('`').count() % 2 == 1;
        match word.starts_with("--") && !was_code {
            true => {
                let (name, rest) =
                    word.split_at(word.find(|letter| !is_of_name(letter)).unwrap_or(word.len()));
                format!("`{name}`{rest}")
            }
            false => word.to_owned(),
        }
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use clap::value_parser;

    use super::*;

    #[test]
    fn a_page_has_usage_options_under_their_headings_and_examples() {
        let mut command =
            Command::new("tool").about("Does it.").after_help("Examples:\n  tool x").arg(
                Arg::new("size")
                    .long("size")
                    .short('s')
                    .value_name("A|B")
                    .help("How much")
                    .long_help("How much\n\nAs --all, not `a --b`")
                    .default_value("A")
                    .help_heading("Sizes")
                    .value_parser(value_parser!(String)),
            );
        command.build();
        let (name, text) = page(&command);
        assert_eq!(name, "tool.md");
        assert_eq!(
            text,
            "# tool\n\nDoes it.\n\n```text\ntool [OPTIONS]\n```\n\n## Sizes\n\n| | |\n|---|---|\n\
             | `-s, --size A\\|B` | How much<br>As `--all`, not `a --b` [default: A] |\n\n## Options\n\n| | |\n|---|---|\n\
             | `-h, --help` | Print help (see a summary with '-h') |\n\n## Examples\n\n```sh\n  tool x\n```\n"
        );
    }
}
