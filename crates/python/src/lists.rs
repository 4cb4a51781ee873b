//! Lists of options, schemes, workloads, machines and counters.

use perforate_cli::actions::with_keywords;
use perforate_sim::{Machine, RunSpec, scheme};
use perforate_trace::bundled;
use perforate_workloads::WORKLOADS;
use pyo3::prelude::*;

/// An option for Python: keyword, form of the values, default, help.
type Keyword = (String, String, String, String);

/// Lists the options of a run.
#[pyfunction]
pub fn keywords() -> Vec<Keyword> {
    let keyword = |key: perforate_config::Key| {
        (key.name.replace('-', "_"), key.form, key.default, with_keywords(&key.help))
    };
    RunSpec::keys().into_iter().map(keyword).collect()
}

/// Lists names and summaries of the schemes.
#[pyfunction]
pub fn schemes() -> Vec<(String, String)> {
    let all = scheme::all().chain(scheme::hosts_only());
    all.map(|scheme| (scheme.name.to_owned(), with_keywords(scheme.summary))).collect()
}

/// Lists names and summaries of the workloads and of the bundled traces.
#[pyfunction]
pub fn workloads() -> Vec<(String, String)> {
    let own = WORKLOADS.iter().map(|one| (one.name.to_owned(), with_keywords(one.summary)));
    let traces = bundled::all().into_iter();
    own.chain(traces.map(|(name, path)| (name, path.display().to_string()))).collect()
}

/// Lists names and summaries of the bundled machines.
#[pyfunction]
pub fn machines() -> Vec<(String, String)> {
    let all = Machine::bundled().into_iter();
    all.map(|machine| (machine.name.to_string(), machine.summary.to_string())).collect()
}

/// Lists the counters: name, unit, heading, meaning.
#[pyfunction]
pub fn counters() -> Vec<(String, String, String, String)> {
    let counter = |one: perforate_types::Counter| {
        let unit = one.unit.name().to_owned();
        (one.id.to_string(), unit, one.group.to_owned(), with_keywords(&one.meaning))
    };
    perforate_sim::counters().into_iter().map(counter).collect()
}

/// Makes a sentence about an unknown key, which names the nearest known key.
#[pyfunction]
pub fn unknown(key: &str, known: Vec<String>) -> String {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    format!("there is no {key:?}; {}", perforate_config::suggestion(key, &names))
}
