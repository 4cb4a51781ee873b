//! Table of all counters of a comparison, and the configuration of the runs.

use std::collections::BTreeSet;

use maud::{Markup, html};
use perforate_types::{CounterValue, noun};
use serde_json::{Number, Value};

use crate::comparison::{Comparison, SchemeRuns};
use crate::html::{Cell, Grid, Heading, Page, all};

/// Returns the table of all counters, with a column for each scheme.
pub(super) fn counters(comparison: &Comparison<'_>, id: &str) -> Markup {
    let runs = comparison.schemes.iter().flat_map(|scheme| &scheme.runs);
    let names: BTreeSet<&str> =
        runs.flat_map(|run| run.counters.iter().map(|(name, _)| name)).collect();
    let mut head = vec![Heading::from("counter")];
    head.extend(comparison.schemes.iter().map(|scheme| scheme.name.into()));
    let rows = names.iter().map(|name| {
        let values = comparison.schemes.iter().map(|scheme| cell(scheme, name));
        std::iter::once(Cell::counter_name(name)).chain(values).collect()
    });
    let grid = Grid { head, rows: rows.collect() };
    let file = format!("{id}-counters");
    html! {
        @if names.is_empty() { p.lead { "These results hold no counters." } } @else {
            p.lead { @if comparison.seeds() > 1 { "Medians over the seeds. " } "Units are in the names." }
            (grid.filtered(&file, "counters", "All counters by scheme", "counters"))
        }
    }
}

/// Returns a cell with the exact value of a counter; with several seeds, the median.
fn cell(scheme: &SchemeRuns<'_>, name: &str) -> Cell {
    if let [only] = scheme.runs.as_slice() {
        let found = only.counters.iter().find(|(known, _)| *known == name);
        return found.map_or_else(Cell::missing, |(_, value)| exact(value));
    }
    let median = scheme.counter(name).map(|median| match median.fract() == 0.0 {
        true if (0.0..1e15).contains(&median) => CounterValue::Count(median as u64),
        _ => CounterValue::Ratio(median),
    });
    median.map_or_else(Cell::missing, exact)
}

fn exact(value: CounterValue) -> Cell {
    match value {
        CounterValue::Count(count) => Cell::count(count),
        CounterValue::Ratio(ratio) => {
            Number::from_f64(ratio).as_ref().map_or_else(Cell::missing, Cell::number)
        }
    }
}

/// Returns the configuration of each scheme's runs, with all defaults filled in, in closed sections.
pub(super) fn configuration(comparison: &Comparison<'_>, page: &mut Page) -> Markup {
    let mut one = |scheme: &SchemeRuns<'_>| {
        let seeds: Vec<String> = scheme.runs.iter().map(|run| run.seed.to_string()).collect();
        let word = noun(seeds.len() as u64, "seed") + " ";
        let text = match &scheme.first().config {
            Value::Null => "not in the results file".to_string(),
            config => serde_json::to_string_pretty(config).unwrap_or_default(),
        };
        page.folded(html! { (scheme.name) " " small { (word) (seeds.join(", ")) } }, text)
    };
    all(comparison.schemes.iter().map(&mut one).collect::<Vec<_>>())
}
