//! Stacked bar charts: cycles, the operating system's work, references per walk, contents of the L2
//! TLB, and memory.

use std::collections::BTreeSet;

use perforate_records::{ContentsPoint, RunResult};
use perforate_types::counted;

use crate::chart::{Axis, Mark, Series, Stacks, broken};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::{bytes, ratio};
use crate::html::{Cell, Figure, Grid, Heading};
use crate::ids;
use crate::labels::{MEMORY_PARTS, counter_parts, part, parts, present_parts, with_unknown};
use crate::palette;

/// Returns the chart of the cycle stack, which is the first chart if there is only one scheme.
pub(super) fn first(comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
    cycles(comparison).figure(comparison, id)
}

/// Returns the stacked charts of a comparison, without empty ones and without the cycle stack (see
/// [`first`]).
pub(super) fn figures(comparison: &Comparison<'_>, id: &str) -> Vec<Figure> {
    let found = [
        operating_system(comparison),
        references(comparison),
        contents(comparison),
        memory(comparison),
        tables(comparison),
    ];
    found.into_iter().filter_map(|stack| stack.figure(comparison, id)).collect()
}

/// One bar of a stacked chart, with a value for each series.
struct Row {
    label: String,
    colour: &'static str,
    values: Vec<Option<f64>>,
}

impl Row {
    /// Returns the sum of the bar's values; `None` if all are missing.
    fn total(&self) -> Option<f64> {
        self.values.iter().flatten().copied().reduce(|sum, value| sum + value)
    }
}

/// A stacked chart with everything needed to draw it.
struct Stack {
    key: &'static str,
    title: &'static str,
    caption: &'static str,
    series: Vec<Series>,
    rows: Vec<Row>,
    format: fn(f64) -> String,
    /// Unit of the values in the chart.
    unit: &'static str,
    /// Share of the longest bar below which a series is too small to be visible. Such series are joined into
    /// one.
    least_share: f64,
}

/// Returns the size in bytes of the unit for an axis that ends at `most` bytes, and the unit's name.
fn unit_of_bytes(most: f64) -> (f64, &'static str) {
    let units = [" KB", " MB", " GB", " TB"].into_iter().zip(1..);
    let units = units.map(|(name, power)| (1024f64.powi(power), name));
    units.filter(|unit| most >= unit.0).last().unwrap_or((1.0, " B"))
}

impl Stack {
    /// Removes series that are 0 or missing in every bar of the chart.
    fn drop_empty_series(&mut self) {
        let rows = &self.rows;
        let says = |index: &usize| {
            rows.iter().any(|row| row.values[*index].is_some_and(|value| value > 0.0))
        };
        let kept: Vec<usize> = (0..self.series.len()).filter(says).collect();
        self.series = kept.iter().map(|&index| self.series[index].clone()).collect();
        for row in &mut self.rows {
            row.values = kept.iter().map(|&index| row.values[index]).collect();
        }
    }

    /// Joins series that are too small to be visible into one series at the end; `most` is the length of the
    /// longest bar.
    fn join_small_series(&mut self, most: f64) {
        let least = self.least_share * most;
        let is_small = |index: &usize| {
            self.rows.iter().all(|row| row.values[*index].is_none_or(|value| value < least))
        };
        let small: Vec<usize> = (0..self.series.len()).filter(is_small).collect();
        if small.len() < 2 {
            return;
        }
        let is_kept = |index: usize| !small.contains(&index);
        for row in &mut self.rows {
            let rest = small.iter().filter_map(|&index| row.values[index]).sum();
            let values = row.values.iter().enumerate();
            let kept = values.filter(|(index, _)| is_kept(*index)).map(|(_, value)| *value);
            row.values = kept.chain([Some(rest)]).collect();
        }
        let label = counted(small.len(), "other");
        let others = Series { label, colour: palette::known("other"), ..Series::default() };
        let series = std::mem::take(&mut self.series).into_iter().enumerate();
        let kept = series.filter(|(index, _)| is_kept(*index)).map(|(_, series)| series);
        self.series = kept.chain([others]).collect();
    }

    /// True if all bars of the chart look equal; `most` is the length of the longest bar.
    fn is_flat(&self, most: f64) -> bool {
        let [first, rest @ ..] = self.rows.as_slice() else { return true };
        let differ = |row: &Row| {
            let pairs = row.values.iter().zip(&first.values);
            let value = |value: &Option<f64>| value.unwrap_or(0.0);
            pairs
                .map(|(one, other)| (value(one) - value(other)).abs())
                .any(|gap| gap > most / 500.0)
        };
        !rest.is_empty() && !rest.iter().any(differ)
    }

    /// Returns the figure with this chart; `None` if the chart would be empty, or if all bars would be equal.
    fn figure(mut self, comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
        self.drop_empty_series();
        let most = self.rows.iter().filter_map(Row::total).fold(0.0, f64::max);
        if most <= 0.0 || self.is_flat(most) {
            return None;
        }
        let data = self.data();
        self.join_small_series(most);
        let (unit, suffix) = if self.unit == "bytes" { unit_of_bytes(most) } else { (1.0, "") };
        let marks = self.rows.iter().flat_map(|row| {
            let values = self.series.iter().zip(&row.values);
            values.filter_map(|(series, value)| {
                let value = value.filter(|value| value.is_finite())?;
                Some(Mark {
                    place: broken(&row.label),
                    series: series.label.clone(),
                    value: Some(value / unit),
                    text: (self.format)(value),
                    ..Mark::default()
                })
            })
        });
        let chart = Stacks {
            marks: marks.collect(),
            places: self.rows.iter().map(|row| broken(&row.label)).collect(),
            series: self.series.clone(),
            value: Axis { label: "", suffix },
            place: "scheme",
        };
        Some(Figure {
            id: format!("{id}-{}", self.key),
            name: format!("{} {}", comparison.workload, self.title),
            title: self.title.into(),
            caption: self.caption.into(),
            chart: chart.spec(),
            data,
        })
    }

    fn data(&self) -> Grid {
        let names = self.series.iter().map(|series| series.label.as_str()).chain(["total"]);
        let head = names.map(|name| Heading::with_unit(name, self.unit));
        let row = |row: &Row| {
            let values = row.values.iter().copied().chain([row.total()]);
            let cells = values.map(|value| Cell::value(value, self.format));
            std::iter::once(Cell::scheme(&row.label, row.colour)).chain(cells).collect()
        };
        Grid {
            head: std::iter::once("scheme".into()).chain(head).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

/// Returns the series for the components of the total `whole` that any run of the comparison has.
fn series(comparison: &Comparison<'_>, whole: &str) -> Vec<Series> {
    let runs = comparison.schemes.iter().flat_map(|scheme| scheme.runs.iter().copied());
    present_parts(comparison.vocabulary, whole, runs)
}

/// Returns a bar for each scheme: the counters of the series, divided by `divisor` of the same run (such as
/// its instructions). With several seeds, the run with the median total is used, because medians of
/// components would not add up.
fn rows(
    comparison: &Comparison<'_>,
    series: &[Series],
    divisor: fn(&RunResult) -> Option<f64>,
) -> Vec<Row> {
    let one_run = |scheme: &SchemeRuns<'_>, run: &RunResult| {
        let below = divisor(run).filter(|&below| below > 0.0);
        let value = |key: &str| Some(run.counter(key)? / below?);
        let values = series.iter().map(|one| value(&one.key)).collect();
        Row { label: scheme.name.to_string(), colour: scheme.colour, values }
    };
    let middle = |scheme: &SchemeRuns<'_>| {
        let mut rows: Vec<Row> = scheme.runs.iter().map(|run| one_run(scheme, run)).collect();
        let total = |row: &Row| row.total().unwrap_or(f64::NEG_INFINITY);
        rows.sort_by(|a, b| total(a).total_cmp(&total(b)));
        rows.swap_remove((rows.len() - 1) / 2)
    };
    comparison.schemes.iter().map(middle).collect()
}

fn kilo_instructions(run: &RunResult) -> Option<f64> {
    run.instructions().map(|count| count / 1000.0)
}

/// Returns the chart of the cycle stack, with the operating system's work as its last component.
fn cycles(comparison: &Comparison<'_>) -> Stack {
    let mut series = series(comparison, ids::STACK_CYCLES);
    let mut rows = rows(comparison, &series, RunResult::instructions);
    series.push(Series {
        key: ids::OPERATING_SYSTEM_CYCLES.into(),
        label: "OS work".into(),
        colour: palette::known("unmovable"),
        ..Series::default()
    });
    for (row, scheme) in rows.iter_mut().zip(&comparison.schemes) {
        row.values.push(scheme.spread(work_per_instruction).map(|spread| spread.median));
    }
    Stack {
        key: "cycle-stack",
        title: "Where the time goes",
        caption: "Cycles per instruction on the critical path, by what the program was waiting for. The parts add up to the run time; latency hidden behind something longer does not count.",
        rows,
        series,
        format: ratio,
        unit: "cycles per instruction",
        least_share: 0.01,
    }
}

/// Returns the cycles of the operating system's work per instruction. In a sampled trace, these cycles cover
/// all instructions that the trace represents.
fn work_per_instruction(run: &RunResult) -> Option<f64> {
    let instructions = match run.instructions_represented {
        Some(represented) => Some(represented as f64),
        None => run.instructions(),
    };
    Some(run.counter(ids::OPERATING_SYSTEM_CYCLES)? / instructions.filter(|&count| count > 0.0)?)
}

/// Returns the chart of the operating system's cycles, by cause.
fn operating_system(comparison: &Comparison<'_>) -> Stack {
    let series = series(comparison, ids::PARTS_OF_WORK);
    Stack {
        key: "operating-system-cycles",
        title: "What the operating system's work takes",
        caption: "Cycles per 1,000 instructions that come on top of the steady state, by cause.",
        rows: rows(comparison, &series, kilo_instructions),
        series,
        format: ratio,
        unit: "cycles per 1,000 instructions",
        least_share: 0.0,
    }
}

fn references(comparison: &Comparison<'_>) -> Stack {
    let mut series = series(comparison, ids::WALK_REFERENCES);
    let bitmaps = self::series(comparison, ids::BITMAP_REFERENCES);
    let has_pairs = comparison.schemes.iter().any(|scheme| scheme.pair().is_some());
    let caption = match (has_pairs, bitmaps.is_empty()) {
        (true, _) => {
            "Entries of the guest's tables, then of the host's, read from memory in an average walk, by level, and lines of hole bitmaps read besides. Walk caches and the nested TLB save some."
        }
        (false, true) => {
            "Page-table entries read from memory in an average walk, by level. Walk caches save the upper levels."
        }
        (false, false) => {
            "Page-table entries read from memory in an average walk, by level, and lines of hole bitmaps read besides. Walk caches save the upper levels."
        }
    };
    series.extend(bitmaps);
    Stack {
        key: "references-per-walk",
        title: "References per walk",
        caption,
        rows: rows(comparison, &series, |run| run.counter(ids::WALKS)),
        series,
        format: ratio,
        unit: "references per walk",
        least_share: 0.0,
    }
}

/// Returns the chart of L2 TLB entries by kind, averaged over the first run of each scheme.
fn contents(comparison: &Comparison<'_>) -> Stack {
    let series = kinds_of_entries(comparison);
    let row = |scheme: &SchemeRuns<'_>| {
        let samples = &scheme.first().series.l2_tlb_contents;
        let sum = |kind: &str| samples.iter().map(|sample| entries(sample, kind)).sum::<f64>();
        let mean =
            |one: &Series| (!samples.is_empty()).then(|| sum(&one.key) / samples.len() as f64);
        Row {
            label: scheme.name.to_string(),
            colour: scheme.colour,
            values: series.iter().map(mean).collect(),
        }
    };
    Stack {
        key: "l2-tlb",
        title: "What the L2 TLB holds",
        caption: "Entries by kind, on average over the run.",
        rows: comparison.schemes.iter().map(row).collect(),
        series,
        format: ratio,
        unit: "entries",
        least_share: 0.0,
    }
}

/// Returns the series for the kinds of entries that were in the L2 TLB under any scheme.
pub(super) fn kinds_of_entries(comparison: &Comparison<'_>) -> Vec<Series> {
    let runs = comparison.schemes.iter().map(SchemeRuns::first);
    let samples = runs.flat_map(|run| &run.series.l2_tlb_contents);
    let held = samples.flat_map(|sample| {
        let kinds = sample.entries.0.iter().map(|(kind, _)| kind);
        kinds.filter(|kind| entries(sample, kind) > 0.0)
    });
    let held: BTreeSet<String> = held.cloned().collect();
    with_unknown(parts(comparison.vocabulary, ids::L2_TLB_CONTENTS), &held)
}

/// Returns the number of TLB entries of a kind in a sample.
pub(super) fn entries(sample: &ContentsPoint, kind: &str) -> f64 {
    sample.entries.get(kind).unwrap_or(0) as f64
}

/// Returns the chart of a program's memory: touched and mapped bytes, mapped but untouched bytes, and touched
/// bytes that are no longer mapped (swapped out or unmapped).
fn memory(comparison: &Comparison<'_>) -> Stack {
    let row = |scheme: &SchemeRuns<'_>| {
        let touched = scheme.counter(ids::TOUCHED_BYTES);
        let mapped = scheme.counter(ids::MAPPED_BYTES);
        let resident = touched.map(|touched| touched.min(mapped.unwrap_or(touched)));
        let untouched = mapped.map(|mapped| (mapped - touched.unwrap_or(0.0)).max(0.0));
        let gone = touched.map(|touched| touched - resident.unwrap_or(touched));
        let gone = gone.filter(|&gone| gone > 0.0);
        let values = vec![resident, untouched, gone];
        Row { label: scheme.name.to_string(), colour: scheme.colour, values }
    };
    Stack {
        key: "memory",
        title: "Memory mapped",
        caption: "Large pages may map memory that the program never touches.",
        series: MEMORY_PARTS.iter().map(part).collect(),
        rows: comparison.schemes.iter().map(row).collect(),
        format: bytes,
        unit: "bytes",
        least_share: 0.0,
    }
}

/// Returns the chart of the memory that page tables and hole bitmaps take.
fn tables(comparison: &Comparison<'_>) -> Stack {
    let series = counter_parts(comparison.vocabulary, ids::TRANSLATION_MEMORY);
    let row = |scheme: &SchemeRuns<'_>| Row {
        label: scheme.name.to_string(),
        colour: scheme.colour,
        values: series.iter().map(|one| scheme.counter(&one.key)).collect(),
    };
    Stack {
        key: "tables",
        title: "Memory for translation",
        caption: "Page tables with their shadow nodes, and the hole bitmap of the whole machine.",
        rows: comparison.schemes.iter().map(row).collect(),
        series,
        format: bytes,
        unit: "bytes",
        least_share: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(rows: &[&[Option<f64>]], least_share: f64) -> Stack {
        let row = |values: &&[Option<f64>]| Row {
            label: "s".into(),
            colour: "other",
            values: values.to_vec(),
        };
        let series =
            |number: usize| Series { label: format!("part {number}"), ..Series::default() };
        Stack {
            key: "k",
            title: "t",
            caption: "",
            series: (0..rows[0].len()).map(series).collect(),
            rows: rows.iter().map(row).collect(),
            format: ratio,
            unit: "u",
            least_share,
        }
    }

    fn labels(stack: &Stack) -> Vec<&str> {
        stack.series.iter().map(|one| one.label.as_str()).collect()
    }

    #[test]
    fn bytes_have_the_largest_unit_that_fits() {
        let unit = |most: f64| unit_of_bytes(most).1;
        let kb = 1024.0_f64;
        assert_eq!(
            [1023.0, kb, kb * kb - 1.0, kb * kb, kb.powi(3), kb.powi(4), kb.powi(6)].map(unit),
            [" B", " KB", " KB", " MB", " GB", " TB", " TB"]
        );
        assert_eq!(unit_of_bytes(kb * kb), (kb * kb, " MB"));
    }

    /// Parts below a tenth of the longest bar under every scheme are joined if there are two of them.
    #[test]
    fn small_parts_are_joined_and_empty_ones_dropped() {
        let some = Some;
        let mut joined = stack(
            &[
                &[some(50.0), some(9.9), None, some(10.0), some(0.0)],
                &[some(1.0), some(2.0), some(3.0), some(4.0), None],
            ],
            0.1,
        );
        joined.drop_empty_series();
        assert_eq!(labels(&joined), ["part 0", "part 1", "part 2", "part 3"]);
        joined.join_small_series(100.0);
        assert_eq!(labels(&joined), ["part 0", "part 3", "2 others"]);
        assert_eq!(joined.rows[0].values, [some(50.0), some(10.0), some(9.9)]);
        assert_eq!(joined.rows[1].values, [some(1.0), some(4.0), some(5.0)]);
        assert_eq!(joined.rows[1].total(), some(10.0));
        let mut one = stack(&[&[some(50.0), some(9.0), some(20.0)]], 0.1);
        one.join_small_series(100.0);
        assert_eq!(labels(&one), ["part 0", "part 1", "part 2"]);
        assert_eq!(stack(&[&[None, None]], 0.0).rows[0].total(), None);
    }

    /// Bars are equal within a 500th of the longest, part by part.
    #[test]
    fn equal_bars_are_flat() {
        let some = Some;
        let is_flat = |rows: &[&[Option<f64>]]| stack(rows, 0.0).is_flat(1000.0);
        assert!(is_flat(&[&[some(500.0), None], &[some(502.0), some(2.0)]]));
        assert!(!is_flat(&[&[some(500.0), None], &[some(502.1), None]]));
        assert!(!is_flat(&[&[some(500.0), None], &[some(500.0), None], &[some(500.0), some(2.1)]]));
        assert!(!is_flat(&[&[some(500.0)]]), "a single bar has nothing that it equals");
    }

    #[test]
    fn mapped_memory_is_touched_or_not() {
        let vocabulary = crate::ids::tests::vocabulary();
        let values = |counters: &str| {
            let line = format!(r#"{{"scheme":"4k","workload":"w","counters":{{{counters}}}}}"#);
            let results = perforate_records::read_results(&line).unwrap();
            memory(&crate::comparison::comparisons(&results, &vocabulary)[0]).rows.remove(0).values
        };
        let (touched, mapped) = (r#""touched_bytes":8"#, r#""mapped_bytes":5"#);
        assert_eq!(values(&format!("{touched},{mapped}")), [Some(5.0), Some(0.0), Some(3.0)]);
        assert_eq!(values(r#""touched_bytes":3,"mapped_bytes":5"#), [Some(3.0), Some(2.0), None]);
        assert_eq!(values(r#""touched_bytes":5,"mapped_bytes":5"#), [Some(5.0), Some(0.0), None]);
        assert_eq!(values(touched), [Some(8.0), None, None]);
        assert_eq!(values(mapped), [None, Some(5.0), None]);
    }
}
