//! Results for several values of one option: what the value does to each scheme.

use maud::{Markup, html};
use perforate_results::{Interval, RunResult, Vocabulary};

use crate::answer::{Difference, difference};
use crate::chart::{Axis, Bars, Ground, Lines, Mark, Series, broken};
use crate::comparison::{Comparison, SchemeRuns, Spread, comparisons};
use crate::format::{self, MISSING};
use crate::html::{Cell, Figure, Grid, Heading, Page};
use crate::metric::per_kilo_instruction;
use crate::palette;
use crate::text::{Column, columns};

/// Anchor of the section.
pub(crate) const ANCHOR: &str = "values";

/// Characters of a value that a heading has room for.
const MOST_IN_HEADING: usize = 12;

/// What a result says of the option that was varied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Varied<'a> {
    /// The option, or the key of the machine.
    pub key: &'a str,
    /// Its value here.
    pub value: &'a str,
    /// The value as a number, if it is one.
    pub number: Option<f64>,
    /// What stands behind the number.
    pub unit: &'a str,
}

impl<'a> Varied<'a> {
    /// That of a run; none where nothing was varied.
    pub fn of(run: &'a RunResult) -> Option<Self> {
        let varied = run.config.get("varied")?;
        let text = |name: &str| varied.get(name).and_then(serde_json::Value::as_str);
        let number = varied.get("number").and_then(serde_json::Value::as_f64);
        let unit = text("unit").unwrap_or_default();
        Some(Self { key: text("key")?, value: text("value")?, number, unit })
    }
}

/// The option that was varied in all of these comparisons, if one was.
pub(crate) fn varied_key<'a>(found: &[Comparison<'a>]) -> Option<&'a str> {
    let mut keys = found.iter().map(|one| Some(Varied::of(one.schemes[0].first())?.key));
    let first = keys.next()??;
    keys.all(|key| key == Some(first)).then_some(first)
}

/// What is compared: instructions per cycle, or where there is no clock, walks.
#[derive(Clone, Copy)]
struct Quantity {
    label: &'static str,
    of: fn(&RunResult) -> Option<f64>,
}

impl Quantity {
    const SPEED: Self = Self { label: "IPC", of: |run| run.ipc };
    const WITH_WORK: Self =
        Self { label: "IPC with OS work", of: |run| run.counter("whole_run_ipc") };
    const WALKS: Self =
        Self { label: "walks/1000 instructions", of: |run| per_kilo_instruction(run, "walks") };
}

/// One scheme with one value.
struct Row<'a> {
    varied: Varied<'a>,
    scheme: &'a str,
    colour: &'static str,
    spread: Option<Spread>,
    /// With the work of the operating system, which some options move to where it is not seen.
    with_work: Option<f64>,
    over_first_value: Option<Interval>,
    over_first_scheme: Option<Interval>,
}

/// All values of one option.
struct Table<'a> {
    key: &'a str,
    quantity: Quantity,
    rows: Vec<Row<'a>>,
}

impl<'a> Table<'a> {
    fn of(found: &[Comparison<'a>]) -> Option<Self> {
        let key = varied_key(found)?;
        let is_timed = found.iter().any(Comparison::is_timed);
        let quantity = if is_timed { Quantity::SPEED } else { Quantity::WALKS };
        let median = |comparison: &Comparison<'a>, scheme: &str, quantity: Quantity| {
            let runs = comparison.schemes.iter().find(|one| one.name == scheme)?;
            Some(runs.spread(quantity.of)?.median)
        };
        let mut rows = Vec::new();
        for comparison in found {
            for scheme in &comparison.schemes {
                let spread = scheme.spread(quantity.of);
                let over = |base: &SchemeRuns<'_>| {
                    let below = base.spread(quantity.of)?.median;
                    let mean = (below > 0.0).then_some(spread?.median / below)?;
                    let is_same = std::ptr::eq(base, scheme);
                    let speed = scheme.speed_over(base).filter(|_| is_timed && !is_same);
                    let half_width_95 = speed.and_then(|speed| speed.half_width_95);
                    Some(Interval { mean, half_width_95 })
                };
                let of_first_value = found[0].schemes.iter().find(|one| one.name == scheme.name);
                rows.push(Row {
                    varied: Varied::of(scheme.first())?,
                    scheme: scheme.name,
                    colour: scheme.colour,
                    spread,
                    with_work: median(comparison, scheme.name, Quantity::WITH_WORK),
                    over_first_value: of_first_value.and_then(over),
                    over_first_scheme: over(&comparison.schemes[0]),
                });
            }
        }
        Some(Self { key, quantity, rows })
    }

    /// The columns behind value and scheme.
    fn columns(&self) -> Vec<Figures> {
        let first = &self.rows[0];
        let of = |label: String, figure, is_change| Figures { label, figure, is_change };
        let value = of(
            self.quantity.label.to_owned(),
            |row| row.spread.map(|spread| sure(spread.median)),
            false,
        );
        let is_short = first.varied.value.chars().count() <= MOST_IN_HEADING;
        let first_value = if is_short { first.varied.value } else { "the first" };
        let over_value = of(format!("over {first_value}"), |row| row.over_first_value, true);
        let mut all = vec![value, over_value];
        if self.rows.iter().any(|row| row.scheme != first.scheme) {
            let label = format!("over {}", first.scheme);
            all.push(of(label, |row| row.over_first_scheme, true));
        }
        if self.rows.iter().any(|row| row.with_work.is_some()) {
            let label = Quantity::WITH_WORK.label.to_owned();
            all.push(of(label, |row| row.with_work.map(sure), false));
        }
        all
    }

    /// The value where there is one number for each, and what stands behind all of them.
    fn numbers(&self) -> Option<(Vec<f64>, &'static str)> {
        let numbers: Option<Vec<f64>> = self.rows.iter().map(|row| row.varied.number).collect();
        let unit = self.rows[0].varied.unit;
        let is_one_unit = self.rows.iter().all(|row| row.varied.unit == unit);
        let suffix = [" %", "M"].into_iter().find(|known| *known == unit).unwrap_or("");
        Some((numbers.filter(|_| is_one_unit)?, suffix))
    }

    fn series(&self, vocabulary: &Vocabulary) -> Vec<Series> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.scheme) {
                names.push(row.scheme);
            }
        }
        let looks = palette::of_curves(vocabulary, names.iter().map(|name| (*name, *name)));
        let series = names.iter().zip(looks).enumerate();
        series
            .map(|(number, (name, (colour, round)))| {
                let label = (*name).to_owned();
                Series { key: label.clone(), label, colour, number, round }
            })
            .collect()
    }

    fn mark(&self, row: &Row<'_>) -> Mark {
        let range = row.spread.filter(|spread| spread.runs > 1);
        Mark {
            place: broken(row.varied.value),
            x: row.varied.number,
            series: row.scheme.to_owned(),
            value: row.spread.map(|spread| spread.median),
            low: range.map(|spread| spread.least),
            high: range.map(|spread| spread.most),
            text: row.spread.map_or(MISSING.into(), |spread| format::ratio(spread.median)),
            interval: range.map_or(String::new(), |spread| spread.range(format::ratio)),
            ..Mark::default()
        }
    }

    /// Lines over numbers, bars beside names.
    fn chart(&self, vocabulary: &Vocabulary) -> serde_json::Value {
        let series = self.series(vocabulary);
        let marks: Vec<Mark> = self.rows.iter().map(|row| self.mark(row)).collect();
        let value = Axis { label: self.quantity.label, suffix: "" };
        let Some((numbers, suffix)) = self.numbers() else {
            let mut places: Vec<String> = marks.iter().map(|mark| mark.place.clone()).collect();
            places.dedup();
            let reference = None;
            let place = self.key;
            let range = None;
            return Bars {
                series,
                places,
                marks,
                is_grouped: true,
                value,
                range,
                place,
                reference,
            }
            .spec();
        };
        let mut marks = marks;
        marks.sort_by(|a, b| a.x.unwrap_or(0.0).total_cmp(&b.x.unwrap_or(0.0)));
        let range = range(&marks);
        let axis = Axis { label: self.key, suffix };
        Lines { series, marks, ground: Ground::of_numbers(numbers), axis, value, range }.spec()
    }

    fn grid(&self) -> Grid {
        let columns = self.columns();
        let head = [self.key, "scheme"].map(Heading::from);
        let figures = columns.iter().map(|one| match one.is_change {
            true => Heading::with_unit(&one.label, "share of 1"),
            false => Heading::from(one.label.as_str()),
        });
        let row = |row: &Row<'_>| {
            let cell = |one: &Figures| match (one.figure)(row) {
                Some(value) => Cell::number_as(&one.text(value), Some(value.mean)),
                None => Cell::missing(),
            };
            let cells = columns.iter().map(cell);
            [Cell::text(row.varied.value), Cell::scheme(row.scheme, row.colour)]
                .into_iter()
                .chain(cells)
                .collect()
        };
        Grid {
            head: head.into_iter().chain(figures).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }

    fn figure(&self, vocabulary: &Vocabulary) -> Figure {
        let is_timed = self.quantity.label == Quantity::SPEED.label;
        let meaning = if is_timed { "Higher is faster." } else { "Lower is better." };
        let title = format!("{} by {}", self.quantity.label, self.key);
        Figure {
            id: format!("{ANCHOR}-chart"),
            name: title.clone(),
            caption: meaning.into(),
            chart: self.chart(vocabulary),
            data: self.grid(),
            title,
        }
    }
}

/// A figure without an interval.
fn sure(mean: f64) -> Interval {
    Interval { mean, half_width_95: None }
}

/// A column of figures.
struct Figures {
    label: String,
    figure: fn(&Row<'_>) -> Option<Interval>,
    /// Whether it is a quotient, shown as what is gained.
    is_change: bool,
}

impl Figures {
    fn text(&self, value: Interval) -> String {
        let change = (value.mean - 1.0) * 100.0;
        match (self.is_change, value.half_width_95) {
            (false, _) => format::ratio(value.mean),
            (true, Some(half)) if difference(value) == Difference::None => {
                format!("~0 {} %", format::plus_minus(half * 100.0, 1))
            }
            (true, Some(half)) => {
                format!("{change:+.1} {} %", format::plus_minus(half * 100.0, 1))
            }
            // A change that is shown as none has no sign.
            (true, None) if (change * 10.0).round() == 0.0 => "0 %".into(),
            (true, None) => format!("{change:+.1} %"),
        }
    }

    fn cell(&self, row: &Row<'_>) -> String {
        (self.figure)(row).map_or(MISSING.into(), |value| self.text(value))
    }
}

/// Smallest and largest value; 0 is among them unless all lie close together far from it.
fn range(marks: &[Mark]) -> (f64, f64) {
    let ends = marks.iter().flat_map(|mark| [mark.value, mark.low, mark.high]).flatten();
    let (least, most) =
        ends.fold((f64::INFINITY, 0.0_f64), |(least, most), end| (least.min(end), most.max(end)));
    if least > 0.6 * most && least.is_finite() { (least, most) } else { (0.0, most) }
}

/// The results as a table with a row for each value and scheme, if one option was varied.
pub fn varied_table(
    results: &[RunResult],
    vocabulary: &Vocabulary,
    width: usize,
) -> Option<String> {
    let found = comparisons(results, vocabulary);
    let table = Table::of(&found)?;
    let texts = |text: fn(&Row<'_>) -> String| table.rows.iter().map(text).collect();
    let mut all = vec![
        Column::texts(table.key, texts(|row| row.varied.value.to_owned())),
        Column::texts("scheme", texts(|row| row.scheme.to_owned())),
    ];
    let figures = table.columns();
    all.extend(figures.iter().map(|one| {
        Column::numbers(&one.label, table.rows.iter().map(|row| one.cell(row)).collect())
    }));
    let first = &found[0];
    let seeds = match first.seeds() {
        1 => String::new(),
        seeds => format!(" · medians of {seeds} seeds"),
    };
    let title = format!("{} · machine {}{seeds}", first.workload, first.machine);
    let is_unsure =
        |row: &Row<'_>| row.over_first_value.is_some_and(|one| one.half_width_95.is_some());
    let about = match table.rows.iter().any(is_unsure) {
        true => "±: half of the 95 % interval; ~0: no difference that this run can show\n",
        false => "",
    };
    Some(format!("{}\n\n{}{about}", crate::text::cut(&title, width), columns(&all, width)))
}

/// Most schemes that the sentence names.
const MOST_NAMED: usize = 4;

/// What the last value does against the first, in a sentence.
fn sentence(table: &Table<'_>) -> Option<String> {
    let (first, last) = (table.rows.first()?, table.rows.last()?);
    let column = table.columns().into_iter().find(|column| column.is_change)?;
    let of_last = |row: &&Row<'_>| row.varied.value == last.varied.value;
    let changes: Vec<String> = table
        .rows
        .iter()
        .filter(of_last)
        .filter(|row| row.over_first_value.is_some())
        .map(|row| format!("{} by {}", row.scheme, column.cell(row)))
        .collect();
    let others = match changes.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        count => format!(", and those of {count} more schemes"),
    };
    let named = changes.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", of ");
    let (from, to) = (first.varied.value, last.varied.value);
    (!named.is_empty() && from != to).then(|| {
        format!(
            "From {from} to {to}, {} changes the {} of {named}{others}.",
            table.key, table.quantity.label
        )
    })
}

/// What is seen first of a page where an option was varied: a sentence and a chart over its values.
pub(crate) fn first(found: &[Comparison<'_>], page: &mut Page) -> Markup {
    let Some(table) = Table::of(found) else { return html! {} };
    html! {
        @if let Some(sentence) = sentence(&table) { p.headline { (sentence) } }
        div.first { (table.figure(found[0].vocabulary).place(page)) }
    }
}

/// All values together as a table; nothing where none was varied.
pub(crate) fn section(found: &[Comparison<'_>]) -> Markup {
    let table = Table::of(found);
    html! {
        @if let Some(table) = &table {
            section.comparison {
                h2 id=(ANCHOR) { (table.key) }
                details.more id="values-table" {
                    summary { "All values as a table" }
                    (table.grid().scrolling(&format!("Values of {}", table.key), "main"))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::tests::vocabulary;
    use crate::{ReportOptions, html, read_results};

    fn results(key: &str, values: &[(&str, Option<f64>, f64)]) -> Vec<RunResult> {
        let lines: Vec<String> = values
            .iter()
            .flat_map(|(value, number, ipc)| {
                [("4k", *ipc), ("thp", 2.0 * ipc)].map(|(scheme, ipc)| {
                    let number = number.map_or("null".to_owned(), |number| number.to_string());
                    format!(
                        "{{\"scheme\":\"{scheme}\",\"workload\":\"w\",\"machine\":\"m\",\"ipc\":{ipc},\
                         \"config\":{{\"varied\":{{\"key\":\"{key}\",\"value\":\"{value}\",\
                         \"number\":{number},\"unit\":\"\"}}}}}}"
                    )
                })
            })
            .collect();
        read_results(&lines.join("\n")).unwrap()
    }

    #[test]
    fn a_row_for_each_value_and_scheme() {
        let results = results("tlb.l2.entries", &[("8", Some(8.0), 0.2), ("16", Some(16.0), 0.25)]);
        let vocabulary = vocabulary();
        let text = varied_table(&results, &vocabulary, 100).unwrap();
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["16", "thp", "0.500", "+25.0", "%", "+100.0", "%"], "{text}");
        assert!(text.contains("over 8") && text.contains("over 4k"), "{text}");
        let found = comparisons(&results, &vocabulary);
        assert_eq!(found[1].difference, "tlb.l2.entries 16");
        let chart = Table::of(&found).unwrap().chart(&vocabulary);
        assert!(chart["encoding"]["x"]["type"] == "quantitative", "lines over numbers: {chart}");
        // 0.25 ÷ 0.2, and 0.5 ÷ 0.4.
        assert_eq!(
            sentence(&Table::of(&found).unwrap()).unwrap(),
            "From 8 to 16, tlb.l2.entries changes the IPC of 4k by +25.0 %, of thp by +25.0 %."
        );
        let options = ReportOptions { vocabulary, ..ReportOptions::default() };
        assert!(html(&results, &options).contains("id=\"values\""));
    }

    #[test]
    fn names_have_bars() {
        let results = results("defrag", &[("never", None, 0.2), ("always", None, 0.2)]);
        let vocabulary = vocabulary();
        let found = comparisons(&results, &vocabulary);
        let chart = Table::of(&found).unwrap().chart(&vocabulary);
        assert_eq!(chart["encoding"]["y"]["scale"]["domain"][1], "always", "{chart}");
        let text = varied_table(&results, &vocabulary, 100).unwrap();
        assert!(text.contains("0 %") && !text.contains("+0.0"), "{text}");
    }

    #[test]
    fn results_of_one_value_each_are_no_table_of_values() {
        let text = r#"{"scheme":"4k","workload":"w","ipc":0.5,"config":{}}"#;
        let results = read_results(text).unwrap();
        assert!(varied_table(&results, &vocabulary(), 100).is_none());
    }
}
