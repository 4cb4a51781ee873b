//! Heat maps over pairs of guest and host: one for each figure, with a row for each guest and a
//! column for each host.

use maud::{Markup, html};

use crate::chart::{Heat, HeatCell};
use crate::comparison::{Comparison, Spread};
use crate::format::{MISSING, capital};
use crate::html::{Cell, Figure, Grid, Page, figures};
use crate::matrix::{Matrix, NATIVE, Pairs, matrices as all_matrices};

/// Returns a heat map of guests by hosts for each figure; empty for a comparison without pairs.
pub(super) fn matrices(comparison: &Comparison<'_>, id: &str, page: &mut Page) -> Markup {
    let Some(pairs) = Pairs::of(comparison) else { return html! {} };
    let matrices = all_matrices(comparison, &pairs);
    let has_gap = pairs.has_gap(&matrices);
    let drawn = matrices.iter().map(|matrix| figure(matrix, comparison, &pairs, id));
    let drawn = figures(drawn, page);
    html! {
        @if !matrices.is_empty() {
            h2 id={ (id) "-pairs" } { "Guests on hosts" }
            p.lead {
                "Rows: the guest's scheme. Columns: the host's."
                @if pairs.has_native { " The column apart is the guest's scheme without virtualization." }
                @if has_gap { " " (MISSING) ": not run, or without this figure; the notes say what is known." }
                @if comparison.seeds() > 1 { " Medians of the seeds." }
            }
            (drawn)
        }
    }
}

fn figure(matrix: &Matrix, comparison: &Comparison<'_>, pairs: &Pairs<'_>, id: &str) -> Figure {
    let unit = matrix.metric.unit();
    let title = capital(&matrix.metric.label) + if unit == " %" { ", %" } else { "" };
    let columns: Vec<&str> = pairs.columns().collect();
    let cell = |guest: usize, column: usize| {
        let scheme = pairs.scheme(guest, column);
        let said = matrix.text(scheme).unwrap_or_default();
        HeatCell {
            value: matrix.value(scheme).map(|value| value.median),
            text: said.trim_end_matches(unit).to_owned(),
            said,
            interval: matrix.uncertainty(scheme),
        }
    };
    let row = |guest: usize| (0..columns.len()).map(|column| cell(guest, column)).collect();
    let heat = Heat {
        rows: &pairs.guests,
        columns: &columns,
        apart: pairs.has_native.then_some(NATIVE),
        cells: (0..pairs.guests.len()).map(row).collect(),
        is_more_better: matrix.is_more_better,
    };
    Figure {
        id: format!("{id}-pairs-{}", matrix.key),
        name: format!("{} {title} by guest and host", comparison.workload),
        caption: matrix.meaning.to_string(),
        chart: heat.spec(),
        data: data(matrix, pairs, &columns),
        title,
    }
}

/// Returns a data table with a row for each cell of the heat map, so that saved files can be used directly.
fn data(matrix: &Matrix, pairs: &Pairs<'_>, columns: &[&str]) -> Grid {
    let row = |guest: usize, column: usize| {
        let scheme = pairs.scheme(guest, column);
        let value = matrix.value(scheme);
        let part = |pick: fn(Spread) -> f64| {
            Cell::value(value.map(pick), |value| matrix.metric.write(value))
        };
        vec![
            Cell::text(pairs.guests[guest]),
            Cell::text(columns[column]),
            part(|value| value.median),
            Cell::value(matrix.half_width(scheme), |value| matrix.metric.write(value)),
            part(|value| value.least),
            part(|value| value.most),
        ]
    };
    let places = (0..pairs.guests.len())
        .flat_map(|guest| (0..columns.len()).map(move |column| (guest, column)));
    let numbers = ["median", "± 95 %", "least", "most"].map(|name| matrix.metric.heading(name));
    Grid {
        head: ["guest", "host"].map(Into::into).into_iter().chain(numbers).collect(),
        rows: places.map(|(guest, column)| row(guest, column)).collect(),
    }
}
