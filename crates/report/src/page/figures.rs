//! Bar charts: speed, translation cycles, references per walk, memory.

use std::collections::BTreeSet;

use super::figure::{Cell, Figure, Grid, Heading};
use crate::RunResult;
use crate::chart::{Bar, Bars, Row, Series, Stacked};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::{self, bytes, ratio};
use crate::metric::{is_translation_cycles, is_walk_references};
use crate::palette;
use crate::word::{BITMAP_REFERENCES, CYCLE_PARTS, Part, WALK_LEVELS, WORK_PARTS, with_unknown};

/// Most schemes whose speed is drawn as bars where matrices show it too.
const MOST_BARS: usize = 12;

/// All bar charts of a comparison that have something to show.
pub(crate) fn figures(comparison: &Comparison<'_>, id: &str) -> String {
    let mut found = Vec::new();
    // Matrices show many pairs better than bars do.
    let has_pairs = comparison.schemes.iter().any(|scheme| scheme.pair().is_some());
    let are_bars_clear = !has_pairs || comparison.schemes.len() <= MOST_BARS;
    if comparison.is_timed() && are_bars_clear {
        found.push(relative(comparison, comparison.reference, id));
        found.extend(comparison.ideal.map(|ideal| relative(comparison, ideal, id)));
    }
    found.extend(cycles(comparison, id));
    found.extend(operating_system(comparison, id));
    found.extend(references(comparison, id));
    found.extend(memory(comparison, id));
    found.extend(tables(comparison, id));
    let figures: String = found.iter().map(Figure::html).collect();
    format!("<div class=\"figures\">{figures}</div>")
}

/// IPC relative to the reference or to ideal.
fn relative(comparison: &Comparison<'_>, reference: usize, id: &str) -> Figure {
    let to_ideal = Some(reference) == comparison.ideal;
    let base = if to_ideal { comparison.ideal_name() } else { comparison.reference_name() };
    let title = format!("IPC relative to {base}");
    let format: fn(f64) -> String = if to_ideal { format::percent } else { format::times };
    let values: Vec<_> = (0..comparison.schemes.len())
        .map(|scheme| comparison.relative_ipc(scheme, reference))
        .collect();
    let bars = comparison.schemes.iter().zip(&values).map(|(scheme, value)| Bar {
        label: scheme.name.to_string(),
        value: *value,
        colour: palette::of_scheme(scheme.name),
    });
    let unit = if to_ideal { "share of 1" } else { "×" };
    let tick = if to_ideal { (100.0, " %") } else { (1.0, "×") };
    let chart = Bars { title: &title, bars: bars.collect(), format, tick, reference: 1.0 };
    let rows = comparison.schemes.iter().zip(&values).map(|(scheme, value)| {
        let part =
            |pick: fn(crate::comparison::Spread) -> f64| Cell::value(value.map(pick), format);
        vec![
            Cell::scheme(scheme.name),
            part(|value| value.median),
            part(|value| value.least),
            part(|value| value.most),
        ]
    });
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
        picture: chart.svg(),
        data: Grid {
            head: vec![
                "scheme".into(),
                Heading::with_unit("median", unit),
                Heading::with_unit("least", unit),
                Heading::with_unit("most", unit),
            ],
            rows: rows.collect(),
        },
        title,
    }
}

/// A stacked chart before it is drawn.
struct Stack {
    id: String,
    workload: String,
    title: &'static str,
    caption: &'static str,
    series: Vec<Series>,
    rows: Vec<Row>,
    format: fn(f64) -> String,
    unit: (f64, &'static str),
    /// What the values of the rows count.
    data_unit: &'static str,
}

impl Stack {
    /// Leaves out series that are 0 or missing in every row.
    fn drop_empty_series(&mut self) {
        let says = |index: usize| {
            self.rows.iter().any(|row| row.values[index].is_some_and(|value| value > 0.0))
        };
        let kept: Vec<usize> = (0..self.series.len()).filter(|&index| says(index)).collect();
        self.series = kept.iter().map(|&index| self.series[index].clone()).collect();
        for row in &mut self.rows {
            row.values = kept.iter().map(|&index| row.values[index]).collect();
        }
    }

    /// The figure; none where there is nothing to draw.
    fn figure(mut self) -> Option<Figure> {
        self.drop_empty_series();
        let most = self.rows.iter().filter_map(Row::total).fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        let with_unit = |name: &str| Heading::with_unit(name, self.data_unit);
        let mut head = vec![Heading::from("scheme")];
        head.extend(self.series.iter().map(|series| with_unit(&series.label)));
        head.push(with_unit("total"));
        let rows = self.rows.iter().map(|row| {
            let mut cells = vec![Cell::scheme(&row.label)];
            cells.extend(row.values.iter().map(|&value| Cell::value(value, self.format)));
            cells.push(Cell::value(row.total(), self.format));
            cells
        });
        let data = Grid { head, rows: rows.collect() };
        let chart = Stacked {
            title: self.title,
            series: self.series,
            rows: self.rows,
            format: self.format,
            unit: self.unit,
            value_label: "",
        };
        Some(Figure {
            id: self.id,
            name: format!("{} {}", self.workload, self.title),
            title: self.title.into(),
            caption: self.caption.into(),
            picture: chart.svg(),
            data,
        })
    }
}

/// Series for every counter that `belongs`, known parts first, leaving out what is 0 everywhere.
fn series(
    comparison: &Comparison<'_>,
    parts: &[Part],
    prefix: &str,
    belongs: fn(&str) -> bool,
) -> Vec<Series> {
    let counters = comparison.schemes.iter().flat_map(|scheme| &scheme.runs).flat_map(|run| {
        run.counters
            .keys()
            .filter(|name| belongs(name) && run.counter(name).is_some_and(|value| value > 0.0))
    });
    let present: BTreeSet<String> =
        counters.filter_map(|name| name.strip_prefix(prefix)).map(String::from).collect();
    let present: Vec<String> = present.into_iter().collect();
    with_unknown(parts, &present)
        .into_iter()
        .map(|(key, label, colour)| Series { key, label, colour })
        .collect()
}

/// Rows of counters divided by another figure of the same run. With several seeds a row is the
/// run whose total is in the middle: medians of the parts would not add up.
fn rows(
    comparison: &Comparison<'_>,
    series: &[Series],
    prefix: &str,
    divisor: fn(&RunResult) -> Option<f64>,
) -> Vec<Row> {
    let one_run = |scheme: &SchemeRuns<'_>, run: &RunResult| {
        let below = divisor(run).filter(|&below| below > 0.0);
        let value = |key: &str| Some(run.counter(&format!("{prefix}{key}"))? / below?);
        let values = series.iter().map(|one| value(&one.key)).collect();
        Row { label: scheme.name.to_string(), values }
    };
    let middle = |scheme: &SchemeRuns<'_>| {
        let mut rows: Vec<Row> = scheme.runs.iter().map(|run| one_run(scheme, run)).collect();
        let total = |row: &Row| row.total().unwrap_or(f64::NEG_INFINITY);
        rows.sort_by(|a, b| total(a).total_cmp(&total(b)));
        rows.swap_remove((rows.len() - 1) / 2)
    };
    comparison.schemes.iter().map(middle).collect()
}

fn cycles(comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
    let prefix = "translation_cycles_";
    let series = series(comparison, CYCLE_PARTS, prefix, is_translation_cycles);
    let rows =
        rows(comparison, &series, prefix, |run| run.instructions.map(|count| count / 1000.0));
    Stack {
        id: format!("{id}-translation-cycles"),
        workload: comparison.workload.to_string(),
        title: "Where translation cycles go",
        caption: "Cycles per 1,000 instructions, summed over all translations. An out-of-order core hides some of them behind other work.",
        series,
        rows,
        format: ratio,
        unit: (1.0, ""),
        data_unit: "cycles per 1,000 instructions",
    }
    .figure()
}

/// What the operating system's work in the measured instructions took.
fn operating_system(comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
    let prefix = "operating_system_cycles_";
    let series =
        series(comparison, WORK_PARTS, prefix, |name| name.starts_with("operating_system_cycles_"));
    let rows =
        rows(comparison, &series, prefix, |run| run.instructions.map(|count| count / 1000.0));
    Stack {
        id: format!("{id}-operating-system-cycles"),
        workload: comparison.workload.to_string(),
        title: "What the operating system's work takes",
        caption: "Cycles per 1,000 instructions that come on top of the steady state, by cause.",
        series,
        rows,
        format: ratio,
        unit: (1.0, ""),
        data_unit: "cycles per 1,000 instructions",
    }
    .figure()
}

fn references(comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
    let prefix = "walk_references_";
    let walks = |run: &RunResult| run.counter("walks");
    if comparison.schemes.iter().all(|scheme| scheme.pair().is_none()) {
        let series = series(comparison, WALK_LEVELS, prefix, is_walk_references);
        let rows = rows(comparison, &series, prefix, walks);
        return reference_stack(comparison, id, NATIVE_REFERENCES, series, rows);
    }
    // With bitmaps, whose counters have another prefix: names in full.
    let full = |series: &mut Series| series.key.insert_str(0, prefix);
    let mut series = series(comparison, WALK_LEVELS, prefix, is_walk_references);
    series.iter_mut().for_each(full);
    series.extend(BITMAP_REFERENCES.iter().map(known));
    let rows = rows(comparison, &series, "", walks);
    reference_stack(comparison, id, NESTED_REFERENCES, series, rows)
}

const NATIVE_REFERENCES: &str = "Page-table entries read from memory in an average walk, by level. Walk caches save the upper levels.";
const NESTED_REFERENCES: &str = "Entries of the guest's tables, then of the host's, read from memory in an average walk, by level, and lines of hole bitmaps read besides. Walk caches and the nested TLB save some.";

fn known(part: &Part) -> Series {
    Series { key: part.0.into(), label: part.1.into(), colour: part.2 }
}

fn reference_stack(
    comparison: &Comparison<'_>,
    id: &str,
    caption: &'static str,
    series: Vec<Series>,
    rows: Vec<Row>,
) -> Option<Figure> {
    Stack {
        id: format!("{id}-references-per-walk"),
        workload: comparison.workload.to_string(),
        title: "References per walk",
        caption,
        series,
        rows,
        format: ratio,
        unit: (1.0, ""),
        data_unit: "references per walk",
    }
    .figure()
}

/// Touched memory as far as it is mapped, what is mapped beyond it, and what was touched and is in
/// memory no more: swapped out or unmapped.
fn memory(comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
    let names = [
        ("touched", "touched", "touched"),
        ("untouched", "mapped, never touched", "untouched"),
        ("gone", "touched, swapped out or unmapped", "mixed"),
    ];
    let row = |scheme: &SchemeRuns<'_>| {
        let touched = scheme.counter("touched_bytes");
        let mapped = scheme.counter("mapped_bytes");
        let resident = touched.map(|touched| touched.min(mapped.unwrap_or(touched)));
        let untouched = mapped.map(|mapped| (mapped - touched.unwrap_or(0.0)).max(0.0));
        let gone = touched.map(|touched| touched - resident.unwrap_or(touched));
        let gone = gone.filter(|&gone| gone > 0.0);
        Row { label: scheme.name.to_string(), values: vec![resident, untouched, gone] }
    };
    byte_stack(
        comparison,
        &names,
        row,
        id,
        "memory",
        "Memory mapped",
        "Large pages may map memory that the program never touches.",
    )
}

/// Page tables and hole bitmap.
fn tables(comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
    let names =
        [("page_tables", "page tables", "level1"), ("hole_bitmap", "hole bitmap", "bitmap")];
    let row = |scheme: &SchemeRuns<'_>| Row {
        label: scheme.name.to_string(),
        values: vec![scheme.counter("page_table_bytes"), scheme.counter("hole_bitmap_bytes")],
    };
    byte_stack(
        comparison,
        &names,
        row,
        id,
        "tables",
        "Memory for translation",
        "Page tables with their shadow nodes, and the hole bitmap of the whole machine.",
    )
}

fn byte_stack(
    comparison: &Comparison<'_>,
    names: &[Part],
    row: impl Fn(&SchemeRuns<'_>) -> Row,
    id: &str,
    name: &str,
    title: &'static str,
    caption: &'static str,
) -> Option<Figure> {
    let rows: Vec<Row> = comparison.schemes.iter().map(row).collect();
    let most = rows.iter().filter_map(Row::total).fold(0.0, f64::max);
    let unit = [
        (1024f64.powi(4), " TB"),
        (1024f64.powi(3), " GB"),
        (1024f64.powi(2), " MB"),
        (1024.0, " KB"),
    ]
    .into_iter()
    .find(|unit| most >= unit.0)
    .unwrap_or((1.0, " B"));
    Stack {
        id: format!("{id}-{name}"),
        workload: comparison.workload.to_string(),
        title,
        caption,
        series: names.iter().map(known).collect(),
        rows,
        format: bytes,
        unit,
        data_unit: "bytes",
    }
    .figure()
}
