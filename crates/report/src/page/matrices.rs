//! Pairs of guest and host: one picture per figure, guests as rows, hosts as columns.

use super::figure::{Cell, Figure, Grid, Heading};
use crate::chart::{Heat, HeatCell};
use crate::comparison::{Comparison, Spread};
use crate::format::MISSING;
use crate::matrix::{Matrix, Pairs, matrices as all_matrices};

/// All matrices; nothing for results without pairs.
pub(crate) fn matrices(comparison: &Comparison<'_>, id: &str) -> String {
    let Some(pairs) = Pairs::of(comparison) else { return String::new() };
    let matrices = all_matrices(comparison, &pairs);
    let figures: String =
        matrices.iter().map(|matrix| figure(matrix, comparison, &pairs, id).html()).collect();
    if figures.is_empty() {
        return figures;
    }
    let native = if pairs.has_native {
        " The column apart is the guest's scheme without virtualization."
    } else {
        ""
    };
    let has_gap = pairs.is_missing_some()
        || matrices
            .iter()
            .any(|matrix| pairs.schemes().any(|scheme| matrix.value(Some(scheme)).is_none()));
    let gaps = if has_gap {
        format!(" {MISSING}: not run, or without this figure; the notes say what is known.")
    } else {
        String::new()
    };
    let seeds = if comparison.seeds() > 1 { " Medians of the seeds." } else { "" };
    format!(
        "<h2 id=\"{id}-pairs\">Guests on hosts</h2><p class=\"lead\">Rows: the guest's scheme. Columns: the host's.{native}{gaps}{seeds}</p>\
         <div class=\"figures\">{figures}</div>"
    )
}

fn figure(matrix: &Matrix, comparison: &Comparison<'_>, pairs: &Pairs<'_>, id: &str) -> Figure {
    let label = &matrix.metric.label;
    let unit = matrix.metric.unit();
    let title = format!("{}{}", capital(label), if unit == " %" { ", %" } else { "" });
    let columns: Vec<&str> = pairs.columns().collect();
    let cells = |guest: usize| -> Vec<HeatCell> {
        let cell = |(column, host): (usize, &&str)| {
            let value = matrix.value(pairs.scheme(guest, column));
            let text = value.map_or(String::new(), |value| matrix.metric.write(value.median));
            HeatCell {
                value: value.map(|value| value.median),
                tip: tip(matrix, value, pairs.guests[guest], host, column < pairs.hosts.len()),
                text: text.trim_end_matches(unit).to_string(),
            }
        };
        columns.iter().enumerate().map(cell).collect()
    };
    let heat = Heat {
        title: &format!("{title}, by guest and host"),
        rows: pairs.guests.clone(),
        apart: pairs.hosts.len(),
        cells: (0..pairs.guests.len()).map(cells).collect(),
        is_more_better: matrix.is_more_better,
        columns: columns.clone(),
    };
    Figure {
        id: format!("{id}-pairs-{}", matrix.key),
        name: format!("{} {title} by guest and host", comparison.workload),
        caption: matrix.meaning.to_string(),
        picture: heat.svg(),
        data: data(matrix, pairs, &columns),
        title,
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), characters.as_str())
}

fn tip(matrix: &Matrix, value: Option<Spread>, guest: &str, column: &str, is_host: bool) -> String {
    let Some(value) = value else { return String::new() };
    let write = |value| matrix.metric.write(value);
    let who = if is_host { format!("{guest} on {column}") } else { format!("{guest}, {column}") };
    let median = format!("{who}: {}", write(value.median));
    if value.runs == 1 {
        return median;
    }
    let (least, most) = (write(value.least), write(value.most));
    format!("{median} (median of {} seeds, {least} to {most})", value.runs)
}

/// One row per cell, so that a saved file needs no further work.
fn data(matrix: &Matrix, pairs: &Pairs<'_>, columns: &[&str]) -> Grid {
    let row = |guest: usize, column: usize| {
        let value = matrix.value(pairs.scheme(guest, column));
        let part = |pick: fn(Spread) -> f64| {
            Cell::value(value.map(pick), |value| matrix.metric.write(value))
        };
        vec![
            Cell::text(pairs.guests[guest]),
            Cell::text(columns[column]),
            part(|value| value.median),
            part(|value| value.least),
            part(|value| value.most),
        ]
    };
    let places = (0..pairs.guests.len())
        .flat_map(|guest| (0..columns.len()).map(move |column| (guest, column)));
    Grid {
        head: ["guest", "host"]
            .map(Heading::from)
            .into_iter()
            .chain(["median", "least", "most"].map(|name| matrix.metric.heading(name)))
            .collect(),
        rows: places.map(|(guest, column)| row(guest, column)).collect(),
    }
}
