//! Every counter, and the configuration behind the figures.

use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::figure::{Cell, Grid, Heading};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::escape;

/// The table of all counters, schemes as columns.
pub(crate) fn counters(comparison: &Comparison<'_>, id: &str) -> String {
    let runs = comparison.schemes.iter().flat_map(|scheme| &scheme.runs);
    let names: BTreeSet<&str> =
        runs.flat_map(|run| run.counters.keys()).map(String::as_str).collect();
    if names.is_empty() {
        return "<p class=\"lead\">These results hold no counters.</p>".to_string();
    }
    let mut head = vec![Heading::from("counter")];
    head.extend(comparison.schemes.iter().map(|scheme| scheme.name.into()));
    let rows = names.iter().map(|name| {
        let mut row = vec![Cell::counter_name(name)];
        row.extend(comparison.schemes.iter().map(|scheme| cell(scheme, name)));
        row
    });
    let grid = Grid { head, rows: rows.collect() };
    let seeds = if comparison.seeds() > 1 { "Medians over the seeds. " } else { "" };
    format!(
        "<div class=\"filtered\" data-name=\"{}-counters\"><p class=\"lead\">{seeds}Units are in the names.</p>{}</div>",
        escape(id),
        grid.scrolling("All counters by scheme", "counters")
    )
}

/// The number as it is in the results; with several seeds their median.
fn cell(scheme: &SchemeRuns<'_>, name: &str) -> Cell {
    if let [only] = scheme.runs.as_slice() {
        return only.counters.get(name).map_or_else(Cell::missing, Cell::number);
    }
    match scheme.counter(name) {
        Some(median) if median.fract() == 0.0 && (0.0..1e15).contains(&median) => {
            Cell::number(&Number::from(median as u64))
        }
        median => {
            median.and_then(Number::from_f64).as_ref().map_or_else(Cell::missing, Cell::number)
        }
    }
}

/// The resolved configuration of each scheme, folded away.
pub(crate) fn configuration(comparison: &Comparison<'_>) -> String {
    let one = |scheme: &SchemeRuns<'_>| {
        let run = scheme.first();
        let seeds: Vec<String> = scheme.runs.iter().map(|run| run.seed.to_string()).collect();
        let word = if seeds.len() == 1 { "seed" } else { "seeds" };
        let text = match &run.config {
            Value::Null => "not in the results file".to_string(),
            config => serde_json::to_string_pretty(config).unwrap_or_default(),
        };
        format!(
            "<details class=\"configuration\"><summary>{} <small>{word} {}</small></summary><pre tabindex=\"0\">{}</pre></details>",
            escape(scheme.name),
            seeds.join(", "),
            escape(&text)
        )
    };
    comparison.schemes.iter().map(one).collect()
}
