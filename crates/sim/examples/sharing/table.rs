//! The tables: one row a figure, one column a scheme.

use std::fmt::Write;

use crate::study::{Case, Figures, Moment, Reads};

const LABEL_COLUMNS: usize = 28;
const COLUMNS: usize = 18;

/// One row of a table.
struct Row {
    what: &'static str,
    figure: fn(&Figures) -> f64,
    /// The cases in which it says something.
    cases: &'static [Case],
}

const ALL: &[Case] = &[Case::ParentWrites, Case::ChildWrites, Case::ChildProtects];
/// Memory that is not shared, so that writes copy.
const PRIVATE: &[Case] = &[Case::ParentWrites, Case::ChildWrites];
/// Nothing is left to mend where only the child's pages changed.
const MENDED: &[Case] = &[Case::ParentWrites];

const fn row(what: &'static str, cases: &'static [Case], figure: fn(&Figures) -> f64) -> Row {
    Row { what, figure, cases }
}

/// A heading of rows.
const fn part(what: &'static str, cases: &'static [Case]) -> Row {
    row(what, cases, |_| f64::NAN)
}

const MB: f64 = (1 << 20) as f64;

const ROWS: &[Row] = &[
    part("fork", ALL),
    row("  entries added, protected", ALL, |f| {
        (f.fork.work.pages_mapped + f.fork.work.pages_protected) as f64
    }),
    row("  page-table frames cleared", ALL, |f| f.fork.work.frames_zeroed_tables as f64),
    row("  OS cycles", ALL, |f| f.fork.cycles as f64),
    part("the changes", ALL),
    row("  frames copied", ALL, |f| f.changes.work.frames_copied as f64),
    row("  2MB pages split", ALL, |f| f.changes.work.large_pages_split as f64),
    row("  sub-pages punched", ALL, |f| f.changes.work.subpages_punched as f64),
    row("  shootdowns: batches", ALL, |f| f.changes.work.shootdown_batches as f64),
    row("    entries invalidated", ALL, |f| f.changes.work.entries_invalidated as f64),
    row("    flushes", ALL, |f| f.changes.work.spaces_flushed as f64),
    row("  OS cycles", ALL, |f| f.changes.cycles as f64),
    part("after them, two processes", ALL),
    row("  2MB pages", ALL, |f| f.shared.large_pages as f64),
    row("  perforated pages", ALL, |f| f.shared.perforated_pages as f64),
    row("  4KB pages", ALL, |f| f.shared.base_pages as f64),
    row("  page tables, MB", ALL, |f| f.shared.table_bytes as f64 / MB),
    row("  memory beyond heap, MB", ALL, |f| beyond_mb(&f.shared)),
    row("  parent: L2 misses/1000", ALL, |f| f.parent.misses_per_1000),
    row("    walks, holes included", ALL, |f| f.parent.walks_per_1000),
    row("  child: L2 misses/1000", ALL, |f| f.child.misses_per_1000),
    row("    walks, holes included", ALL, |f| f.child.walks_per_1000),
    part("after the child's end", PRIVATE),
    row("  OS cycles of the end", PRIVATE, |f| f.exit.cycles as f64),
    row("  memory beyond heap, MB", PRIVATE, |f| beyond_mb(&f.alone)),
    row("  parent: L2 misses/1000", PRIVATE, |f| misses(&f.parent_alone)),
    row("    walks, holes included", PRIVATE, |f| f.parent_alone.walks_per_1000),
    part("after khugepaged", MENDED),
    row("  frames scanned", MENDED, |f| f.khugepaged.work.frames_scanned as f64),
    row("  frames copied, to collapse", MENDED, |f| f.khugepaged.work.frames_migrated as f64),
    row("  frames copied, to patch", MENDED, |f| f.khugepaged.work.frames_copied as f64),
    row("  sub-pages patched", MENDED, |f| f.khugepaged.work.subpages_patched as f64),
    row("  shootdowns: batches", MENDED, |f| f.khugepaged.work.shootdown_batches as f64),
    row("    entries invalidated", MENDED, |f| f.khugepaged.work.entries_invalidated as f64),
    row("    flushes", MENDED, |f| f.khugepaged.work.spaces_flushed as f64),
    row("  OS cycles", MENDED, |f| f.khugepaged.cycles as f64),
    row("  2MB pages", MENDED, |f| f.mended.large_pages as f64),
    row("  perforated pages", MENDED, |f| f.mended.perforated_pages as f64),
    row("  memory beyond heap, MB", MENDED, |f| beyond_mb(&f.mended)),
    row("  parent: L2 misses/1000", MENDED, |f| misses(&f.parent_mended)),
    row("    walks, holes included", MENDED, |f| f.parent_mended.walks_per_1000),
];

fn beyond_mb(moment: &Moment) -> f64 {
    moment.beyond_heap_bytes as f64 / MB
}

fn misses(reads: &Reads) -> f64 {
    reads.misses_per_1000
}

/// The table of one case and share: `columns` are schemes with the figures of their seeds.
pub fn table(case: Case, columns: &[(&str, &[Figures])]) -> String {
    let mut text = format!("{:<LABEL_COLUMNS$}", "");
    for (heading, _) in columns {
        let _ = write!(text, "{heading:>COLUMNS$}");
    }
    for row in ROWS.iter().filter(|row| row.cases.contains(&case)) {
        let mut line = format!("{:<LABEL_COLUMNS$}", row.what);
        for (_, figures) in columns {
            let values: Vec<f64> = figures.iter().map(row.figure).collect();
            let _ = write!(line, "{:>COLUMNS$}", spread(&values));
        }
        text += "\n";
        text += line.trim_end();
    }
    text
}

/// Least, median and greatest, or one number where they read the same; nothing for headings.
pub fn spread(values: &[f64]) -> String {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let are_whole = values.iter().all(|value| value.fract() == 0.0);
    let ends = [values[0], values[values.len() / 2], values[values.len() - 1]];
    let ends = ends.map(|value| short(value, are_whole));
    if ends[0] == ends[2] { ends[0].clone() } else { ends.join("–") }
}

/// A number in at most five characters, whole ones below 1000 without decimals.
pub fn short(value: f64, is_whole: bool) -> String {
    if value.is_nan() {
        return String::new();
    }
    // Where rounding to three digits would need a fourth, the next unit begins.
    let (scaled, unit) = match value {
        value if value < 999.5 => (value, ""),
        value if value < 999.5e3 => (value / 1e3, "k"),
        value if value < 999.5e6 => (value / 1e6, "M"),
        value if value < 999.5e9 => (value / 1e9, "G"),
        value => (value / 1e12, "T"),
    };
    match scaled {
        whole if unit.is_empty() && is_whole => format!("{whole:.0}"),
        small if small < 9.995 => format!("{small:.2}{unit}"),
        middling if middling < 99.95 => format!("{middling:.1}{unit}"),
        large => format!("{large:.0}{unit}"),
    }
}
