//! Box at the top of a page that explains how to reproduce it: the command, the machine file, and the results
//! themselves.

use maud::{Markup, html};
use perforate_records::RunResult;
use serde_json::Value;

use super::{Page, ReportOptions, command};

/// File name under which readers save the machine file, the description of the simulated machine.
const MACHINE: &str = "machine.toml";

/// Program versions and machine with which a page's results were computed. Unknown fields are empty.
#[derive(Default)]
pub(crate) struct Origin {
    versions: Vec<String>,
    /// Contents of the machine file, the description of the simulated machine; `None` unless all runs had the
    /// same.
    machine: Option<String>,
}

impl Origin {
    /// Creates an origin with these program versions and without a machine.
    pub fn of_versions<'a>(versions: impl IntoIterator<Item = &'a str>) -> Self {
        let mut versions: Vec<String> = versions.into_iter().map(str::to_owned).collect();
        versions.retain(|version| !version.is_empty());
        versions.sort_unstable();
        versions.dedup();
        Self { versions, ..Self::default() }
    }

    /// Creates the origin of runs, with the machine and all its parameters if it was the same for all runs.
    pub fn of_runs(runs: &[RunResult]) -> Self {
        let versions = Self::of_versions(runs.iter().map(|run| run.version.as_str()));
        Self { machine: machine_of(runs), ..versions }
    }

    /// Returns the box that explains how to reproduce the page.
    pub fn section(self, options: &ReportOptions, page: &mut Page) -> Markup {
        let written = match self.versions.as_slice() {
            [] => String::new(),
            versions => format!("Written by perforate {}. ", versions.join(", ")),
        };
        let results = Some(options.results.clone()).filter(|results| !results.is_empty());
        let has_note = self.machine.is_some() && names_machine(&options.command);
        html! {
            details.again #again {
                summary { "Reproduce" }
                p { (written) "The same version, inputs and seed give the same bytes." }
                @if !options.command.is_empty() { (command(&options.command)) }
                @if has_note {
                    p.beside {
                        "Where the machine that the command names is not to be had, save "
                        (MACHINE) " below: every value as it was resolved. " code { "--machine " (MACHINE) }
                        " then stands for " code { "--machine" } " and " code { "--set" } "."
                    }
                }
                div.tools {
                    @if let Some(results) = results { (page.file("results.jsonl", results)) }
                    @if let Some(machine) = self.machine { (page.file(MACHINE, machine)) }
                    button.tool.link type="button" hidden="hidden" { "Copy a link to this view" }
                }
            }
        }
    }
}

/// True if a command selects a machine or changes one of its parameters.
fn names_machine(command: &str) -> bool {
    command.split(' ').any(|word| word.starts_with("--machine") || word.starts_with("--set"))
}

/// Returns the machine file (description of the simulated machine) of these runs; `None` if they had
/// different machines.
fn machine_of(runs: &[RunResult]) -> Option<String> {
    let mut machines = runs.iter().map(|run| run.config.get("machine"));
    let first = machines.next()??;
    let is_one = machines.all(|other| other == Some(first));
    let text = toml::to_string(&without_nulls(first)).ok()?;
    let note = "# The machine of these results: every value as it was resolved.\n";
    (is_one && first.is_object()).then(|| format!("{note}{text}"))
}

/// Removes null values, which a machine file cannot express, and the key `set`, which records how values were
/// set.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, value)| !value.is_null() && *name != "set")
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}
