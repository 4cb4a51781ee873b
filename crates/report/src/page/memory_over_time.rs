//! Memory over time: how fragmented what is free is, and bloat.

use super::figure::{Cell, Figure, Grid, Heading, linked};
use super::memory::seeds_note;
use crate::MemorySample;
use crate::chart::{Area, Axis, Ground, Line, LinePoint, Lines, Look, Series};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::{self, bytes, compact};
use crate::palette;

/// Indices of all schemes in one chart each, and bloat scheme by scheme.
pub(super) fn over_time(comparison: &Comparison<'_>, id: &str) -> String {
    let schemes: Vec<&SchemeRuns<'_>> = comparison
        .schemes
        .iter()
        .filter(|scheme| !scheme.first().series.memory.is_empty())
        .collect();
    if schemes.is_empty() {
        return String::new();
    }
    let fails = samples(&schemes).any(|sample| sample.fragmentation_index_2m.is_some());
    let always = if fails { "" } else { " At every sample 2MB could still be had." };
    let unusable = format!(
        "Share of free memory that lies in pieces smaller than 2MB (Linux: unusable index of order 9).{always}"
    );
    let indices: String = [
        index_figure(
            &schemes,
            &format!("{id}-unusable-index"),
            "Free memory unusable for 2MB pages",
            &unusable,
            |sample| sample.unusable_index_2m,
        ),
        index_figure(
            &schemes,
            &format!("{id}-fragmentation-index"),
            "Why no 2MB can be had",
            "Towards 0 %: little is free. Towards 100 %: what is free lies in small pieces (Linux: fragmentation index of order 9). No line: 2MB can be had.",
            |sample| sample.fragmentation_index_2m,
        ),
    ]
    .iter()
    .flatten()
    .map(Figure::html)
    .collect();
    format!(
        "<h2>Memory over time</h2><div class=\"figures\">{indices}</div>{}",
        bloat(comparison, &schemes, id)
    )
}

fn samples<'s>(schemes: &'s [&'s SchemeRuns<'s>]) -> impl Iterator<Item = &'s MemorySample> + 's {
    schemes.iter().flat_map(|scheme| &scheme.first().series.memory)
}

/// The chart of one index; none where no scheme ever has it.
fn index_figure(
    schemes: &[&SchemeRuns<'_>],
    id: &str,
    title: &str,
    caption: &str,
    index: fn(&MemorySample) -> Option<f64>,
) -> Option<Figure> {
    // An index is a share; anything else is not drawn.
    let index = |sample: &MemorySample| index(sample).filter(|value| value.abs() <= 1.0);
    let most = samples(schemes).filter_map(index).reduce(f64::max)?;
    let last = samples(schemes).map(|sample| sample.instruction).fold(0.0, f64::max);
    let line = |(number, scheme): (usize, &&SchemeRuns<'_>)| {
        let point = |sample: &MemorySample| {
            let (x, value) = (sample.instruction, index(sample));
            let share = value.map_or_else(String::new, format::percent);
            let tip = format!("{}: {share}\nafter {} instructions", scheme.name, compact(x));
            LinePoint { x, value, tip, interval: None }
        };
        Line {
            key: scheme.name.to_string(),
            label: scheme.name.to_string(),
            look: Look { colour: palette::of_scheme(scheme.name), number, round: 0 },
            points: scheme.first().series.memory.iter().map(point).collect(),
        }
    };
    let chart = Lines {
        title,
        lines: schemes.iter().enumerate().map(line).collect(),
        ground: Ground::Number { least: 0.0, most: last },
        // A scale that makes something of a thousandth would mislead.
        range: (0.0, most.clamp(0.1, 1.0)),
        format: format::percent,
        tick: (100.0, " %"),
        axis: Axis::INSTRUCTIONS,
        value_label: "",
    };
    let rows = schemes.iter().flat_map(|scheme| {
        scheme.first().series.memory.iter().map(move |sample| {
            vec![
                Cell::scheme(scheme.name),
                Cell::value(Some(sample.instruction), compact),
                Cell::value(index(sample), format::percent),
            ]
        })
    });
    Some(Figure {
        id: id.to_string(),
        name: format!("{} {title}", schemes[0].first().workload),
        title: title.to_string(),
        caption: caption.to_string(),
        data: Grid {
            head: vec![
                "scheme".into(),
                "instructions".into(),
                Heading::with_unit("share", "share of 1"),
            ],
            rows: rows.collect(),
        },
        picture: chart.svg(),
    })
}

/// Touched memory and what is mapped beyond it, one chart per scheme with the same axes.
fn bloat(comparison: &Comparison<'_>, schemes: &[&SchemeRuns<'_>], id: &str) -> String {
    let positive = |value: Option<f64>| value.filter(|v| v.is_finite()).unwrap_or(0.0).max(0.0);
    let most = samples(schemes)
        .map(|sample| positive(sample.mapped_bytes).max(positive(sample.touched_bytes)))
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let units = [(1024f64.powi(4), "TB"), (1024f64.powi(3), "GB"), (1024f64.powi(2), "MB")];
    // Below ten of a unit its axis would have fractions.
    let (unit, name) =
        units.into_iter().find(|unit| most >= 10.0 * unit.0).unwrap_or((1024.0, "KB"));
    let last = samples(schemes).map(|sample| sample.instruction).fold(0.0, f64::max);
    let parts = |sample: &MemorySample| {
        let (touched, mapped) = (positive(sample.touched_bytes), positive(sample.mapped_bytes));
        let resident = touched.min(mapped);
        [resident, mapped - resident, touched - resident]
    };
    // What is swapped out or unmapped is worth a colour only where there is any.
    let is_gone = samples(schemes).any(|sample| parts(sample)[2] > 0.0);
    let series: Vec<Series> = [
        ("touched", "touched", "touched"),
        ("untouched", "mapped, not touched yet", "untouched"),
        ("gone", "touched, swapped out or unmapped", "mixed"),
    ][..2 + usize::from(is_gone)]
        .iter()
        .map(|part| Series { key: part.0.into(), label: part.1.into(), colour: part.2 })
        .collect();
    let one = |(index, scheme): (usize, &&SchemeRuns<'_>)| {
        let memory = &scheme.first().series.memory;
        let points = memory.iter().map(|sample| {
            let parts = parts(sample).into_iter().take(series.len());
            (sample.instruction, parts.map(|part| part / unit).collect())
        });
        let title = format!("Bloat: {}", scheme.name);
        let chart = Area {
            title: &title,
            series: series.clone(),
            samples: points.collect(),
            top: (last, most / unit),
        };
        let rows = memory.iter().map(|sample| {
            vec![
                Cell::value(Some(sample.instruction), compact),
                Cell::value(sample.touched_bytes, bytes),
                Cell::value(sample.mapped_bytes, bytes),
            ]
        });
        Figure {
            id: format!("{id}-bloat-{index}"),
            name: format!("{} {title}", scheme.first().workload),
            title: scheme.name.to_string(),
            caption: String::new(),
            data: Grid {
                head: vec![
                    "instructions".into(),
                    Heading::with_unit("touched", "bytes"),
                    Heading::with_unit("mapped", "bytes"),
                ],
                rows: rows.collect(),
            },
            picture: chart.svg(),
        }
        .html()
    };
    let figures: Vec<String> = schemes.iter().enumerate().map(one).collect();
    format!(
        "<h2>Bloat over time</h2><p class=\"lead\">Memory mapped, in {name}, and how much of it the program has touched so far.{}</p>{}",
        seeds_note(comparison),
        linked(&figures),
    )
}
