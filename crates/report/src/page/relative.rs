//! Bars of speed relative to 4KB pages and to ideal.

use crate::chart::{Axis, Bars, Mark, Series, broken};
use crate::comparison::{Comparison, SchemeRuns, Spread};
use crate::format::{self, MISSING};
use crate::html::{Cell, Figure, Grid, Heading};

/// Most schemes whose speed is drawn as bars where matrices show it too.
const MOST_BARS: usize = 12;

/// Speed relative to the reference and to ideal, where matrices do not show it better.
pub(super) fn figures(comparison: &Comparison<'_>, id: &str) -> Vec<Figure> {
    let has_pairs = comparison.schemes.iter().any(|scheme| scheme.pair().is_some());
    if !comparison.is_timed() || has_pairs && comparison.schemes.len() > MOST_BARS {
        return Vec::new();
    }
    let references = std::iter::once(comparison.reference).chain(comparison.ideal);
    references.map(|reference| relative(comparison, reference, id)).collect()
}

fn relative(comparison: &Comparison<'_>, reference: usize, id: &str) -> Figure {
    let to_ideal = Some(reference) == comparison.ideal;
    let base = if to_ideal { comparison.ideal_name() } else { comparison.reference_name() };
    let title = format!("IPC relative to {base}");
    let (write, unit): (fn(f64) -> String, &str) =
        if to_ideal { (format::percent, "share of 1") } else { (format::times, "×") };
    let factor = if to_ideal { 100.0 } else { 1.0 };
    let schemes = comparison.schemes.iter().enumerate();
    let values: Vec<(&SchemeRuns<'_>, Option<Spread>)> = schemes
        .map(|(index, scheme)| (scheme, comparison.relative_ipc(index, reference)))
        .collect();
    let mark = |&(scheme, value): &(&SchemeRuns<'_>, Option<Spread>)| {
        let range = value.filter(|value| value.runs > 1);
        Mark {
            place: broken(scheme.name),
            series: scheme.name.to_owned(),
            value: value.map(|value| value.median * factor),
            low: range.map(|value| value.least * factor),
            high: range.map(|value| value.most * factor),
            text: value.map_or(MISSING.to_owned(), |value| write(value.median)),
            interval: range.map_or(String::new(), |value| value.range(write)),
            ..Mark::default()
        }
    };
    let series = |&(scheme, _): &(&SchemeRuns<'_>, _)| Series {
        label: scheme.name.to_owned(),
        colour: scheme.colour,
        ..Series::default()
    };
    let chart = Bars {
        series: values.iter().map(series).collect(),
        places: values.iter().map(|(scheme, _)| broken(scheme.name)).collect(),
        marks: values.iter().map(mark).collect(),
        is_grouped: false,
        value: Axis { label: "", suffix: if to_ideal { " %" } else { "×" } },
        place: "scheme",
        reference: Some(factor),
    };
    let row = |&(scheme, value): &(&SchemeRuns<'_>, Option<Spread>)| {
        let part = |pick: fn(Spread) -> f64| Cell::value(value.map(pick), write);
        let parts: [fn(Spread) -> f64; 3] =
            [|value| value.median, |value| value.least, |value| value.most];
        std::iter::once(Cell::scheme(scheme.name, scheme.colour)).chain(parts.map(part)).collect()
    };
    let head = ["median", "least", "most"].map(|name| Heading::with_unit(name, unit));
    let whiskers =
        if comparison.seeds() > 1 { " Whiskers: least to most over the seeds." } else { "" };
    let meaning = if to_ideal {
        "How much of the speed on unfragmented memory each scheme keeps."
    } else {
        "Instructions per cycle, divided by those of the dashed line. Longer is faster."
    };
    Figure {
        id: format!("{id}-ipc-to-{}", if to_ideal { "ideal" } else { "reference" }),
        name: format!("{} {title}", comparison.workload),
        caption: format!("{meaning}{whiskers}"),
        chart: chart.spec(),
        data: Grid {
            head: std::iter::once("scheme".into()).chain(head).collect(),
            rows: values.iter().map(row).collect(),
        },
        title,
    }
}
