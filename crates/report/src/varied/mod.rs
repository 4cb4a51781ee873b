//! Results for several values of one or two options: the effect of the options on each scheme.

mod sentence;
mod setting;
#[cfg(test)]
mod tests;

use maud::{Markup, html};
use perforate_records::{Interval, RunResult, Vocabulary};

use crate::answer::{Difference, difference};
use crate::chart::{Axis, Bars, Ground, Lines, Mark, Series, broken};
use crate::comparison::{Comparison, SchemeRuns, Spread, comparisons};
use crate::format::{self, MISSING};
use crate::html::{Cell, Figure, Grid, Heading, Page};
use crate::ids;
use crate::metric::{ipc_of_whole_run, per_kilo_instruction};
use crate::palette;
use crate::text::{Column, blocks, columns, wrapped};
use sentence::sentences;
pub(crate) use setting::Varied;

/// Anchor of the page's section about varied options (options with several values).
pub(crate) const ANCHOR: &str = "values";

/// Maximum number of characters of an option's value in a heading.
const MOST_IN_HEADING: usize = 12;

/// Returns the names of the one or two options that were varied in all of these comparisons; `None` if there
/// is no such option.
fn varied_keys<'a>(found: &[Comparison<'a>]) -> Option<(&'a str, Option<&'a str>)> {
    let mut keys = found.iter().map(|one| Some(Varied::of(one.schemes[0].first())?.keys()));
    let first = keys.next()??;
    keys.all(|key| key == Some(first)).then_some(first)
}

/// True if the same options were varied in all of these comparisons.
pub(crate) fn is_varied(found: &[Comparison<'_>]) -> bool {
    varied_keys(found).is_some()
}

/// Figure by which the values of a varied option are compared: instructions per cycle, or page walks for runs
/// without timing.
#[derive(Clone, Copy)]
struct Quantity {
    label: &'static str,
    of: fn(&RunResult) -> Option<f64>,
}

impl Quantity {
    const SPEED: Self = Self { label: "IPC", of: |run| run.ipc };
    const WITH_WORK: Self = Self { label: "IPC with OS work", of: ipc_of_whole_run };
    const WALKS: Self =
        Self { label: "walks/1000 instructions", of: |run| per_kilo_instruction(run, ids::WALKS) };

    fn is_speed(self) -> bool {
        self.label == Self::SPEED.label
    }
}

/// Results of one scheme with one value of the varied option, or with one value of each of two options.
struct Row<'a> {
    varied: Varied<'a>,
    scheme: &'a str,
    colour: &'static str,
    /// Runs of the scheme with these values, one per seed.
    runs: &'a SchemeRuns<'a>,
    spread: Option<Spread>,
    /// IPC with the operating system's work included, because some options move costs into that work; `None`
    /// if unknown.
    with_work: Option<f64>,
    over_first_value: Option<Interval>,
    over_first_scheme: Option<Interval>,
}

impl<'a> Row<'a> {
    /// Returns the value that the first varied option has in the row.
    fn value(&self) -> &'a str {
        self.varied.first.value
    }

    /// Returns the value that the second varied option has in the row; `None` if only one option was varied.
    fn second_value(&self) -> Option<&'a str> {
        self.varied.second.map(|second| second.value)
    }
}

/// Results for all values of one or two varied options.
struct Table<'a> {
    key: &'a str,
    /// Name of the second option; `None` if only one option was varied.
    second_key: Option<&'a str>,
    quantity: Quantity,
    rows: Vec<Row<'a>>,
}

impl<'a> Table<'a> {
    fn of(found: &'a [Comparison<'a>]) -> Option<Self> {
        let (key, second_key) = varied_keys(found)?;
        let is_timed = found.iter().any(Comparison::is_timed);
        let quantity = if is_timed { Quantity::SPEED } else { Quantity::WALKS };
        let median = |comparison: &Comparison<'a>, scheme: &str, quantity: Quantity| {
            let runs = comparison.schemes.iter().find(|one| one.name == scheme)?;
            Some(runs.spread(quantity.of)?.median)
        };
        let mut rows = Vec::new();
        for comparison in found {
            let varied = Varied::of(comparison.schemes[0].first())?;
            // Baseline: the comparison with the first value of the first option, and with an equal value of
            // the second option.
            let of_first = found.iter().find(|other| {
                let other = Varied::of(other.schemes[0].first());
                other.is_some_and(|other| other.second == varied.second)
            })?;
            for scheme in &comparison.schemes {
                let over = |base: &SchemeRuns<'_>| ratio(scheme, base, quantity);
                let of_first_value = of_first.schemes.iter().find(|one| one.name == scheme.name);
                rows.push(Row {
                    varied,
                    scheme: scheme.name,
                    colour: scheme.colour,
                    runs: scheme,
                    spread: scheme.spread(quantity.of),
                    with_work: median(comparison, scheme.name, Quantity::WITH_WORK),
                    over_first_value: of_first_value.and_then(over),
                    over_first_scheme: over(&comparison.schemes[0]),
                });
            }
        }
        Some(Self { key, second_key, quantity, rows })
    }

    /// Returns the columns to the right of the columns for value and scheme.
    fn columns(&self) -> Vec<Figures> {
        let first = &self.rows[0];
        let of = |label: String, figure, is_change| Figures { label, figure, is_change };
        let value = of(
            self.quantity.label.to_owned(),
            |row| row.spread.map(|spread| sure(spread.median)),
            false,
        );
        let is_short = first.value().chars().count() <= MOST_IN_HEADING;
        let first_value = if is_short { first.value() } else { "the first" };
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

    /// Returns the first option's values as numbers, and their unit; `None` unless all values are numbers of
    /// one unit.
    fn numbers(&self) -> Option<(Vec<f64>, &'static str)> {
        let numbers: Option<Vec<f64>> =
            self.rows.iter().map(|row| row.varied.first.number).collect();
        let unit = self.rows[0].varied.first.unit;
        let is_one_unit = self.rows.iter().all(|row| row.varied.first.unit == unit);
        let suffix = [" %", "M"].into_iter().find(|known| *known == unit).unwrap_or("");
        Some((numbers.filter(|_| is_one_unit)?, suffix))
    }

    /// Returns the schemes of the table, in order of first occurrence.
    fn schemes(&self) -> Vec<&'a str> {
        distinct(self.rows.iter().map(|row| row.scheme))
    }

    /// Returns the label of the curve to which a row belongs: its scheme, or for two options its value of the
    /// second one.
    fn curve(&self, row: &Row<'a>) -> String {
        match row.varied.second {
            Some(second) => format!("{} {}", second.key, second.value),
            None => row.scheme.to_owned(),
        }
    }

    fn series(&self, rows: &[&Row<'a>], vocabulary: &Vocabulary) -> Vec<Series> {
        let labels = distinct(rows.iter().map(|row| self.curve(row)));
        let keys = match self.second_key {
            Some(_) => distinct(rows.iter().map(|row| row.second_value().unwrap_or_default())),
            None => self.schemes(),
        };
        let looks = palette::of_curves(vocabulary, keys.iter().map(|key| (*key, *key)));
        let series = labels.into_iter().zip(looks).enumerate();
        series
            .map(|(number, (label, (colour, round)))| Series {
                key: label.clone(),
                label,
                colour,
                number,
                round,
            })
            .collect()
    }

    fn mark(&self, row: &Row<'a>) -> Mark {
        let range = row.spread.filter(|spread| spread.runs > 1);
        Mark {
            place: broken(row.value()),
            x: row.varied.first.number,
            series: self.curve(row),
            value: row.spread.map(|spread| spread.median),
            low: range.map(|spread| spread.least),
            high: range.map(|spread| spread.most),
            text: row.spread.map_or(MISSING.into(), |spread| format::ratio(spread.median)),
            interval: range.map_or(String::new(), |spread| spread.range(format::ratio)),
            ..Mark::default()
        }
    }

    /// Returns a chart over the first option's values: lines if these are numbers, otherwise bars.
    fn chart(&self, rows: &[&Row<'a>], vocabulary: &Vocabulary) -> serde_json::Value {
        let series = self.series(rows, vocabulary);
        let marks: Vec<Mark> = rows.iter().map(|row| self.mark(row)).collect();
        let value = Axis { label: self.quantity.label, suffix: "" };
        let Some(lines) = self.lines(rows, vocabulary) else {
            let places = distinct(marks.iter().map(|mark| mark.place.clone()));
            let place = self.key;
            let bars =
                Bars { series, places, marks, is_grouped: true, value, place, ..Bars::default() };
            return bars.spec();
        };
        lines.spec()
    }

    /// Returns a line chart over the first option's values; `None` unless these are numbers.
    fn lines(&self, rows: &[&Row<'a>], vocabulary: &Vocabulary) -> Option<Lines<'a>> {
        let (numbers, suffix) = self.numbers()?;
        let mut marks: Vec<Mark> = rows.iter().map(|row| self.mark(row)).collect();
        marks.sort_by(|a, b| a.x.unwrap_or(0.0).total_cmp(&b.x.unwrap_or(0.0)));
        Some(Lines {
            series: self.series(rows, vocabulary),
            range: range(&marks),
            marks,
            ground: Ground::of_numbers(numbers),
            axis: Axis { label: self.key, suffix },
            value: Axis { label: self.quantity.label, suffix: "" },
        })
    }

    fn grid(&self, rows: &[&Row<'a>]) -> Grid {
        let columns = self.columns();
        let keys = std::iter::once(self.key).chain(self.second_key).chain(["scheme"]);
        let figures = columns.iter().map(|one| match one.is_change {
            true => Heading::with_unit(&one.label, "share of 1"),
            false => Heading::from(one.label.as_str()),
        });
        let row = |row: &&Row<'a>| {
            let cell = |one: &Figures| match (one.figure)(row) {
                Some(value) => Cell::number_as(&one.text(value), Some(value.mean)),
                None => Cell::missing(),
            };
            let cells = columns.iter().map(cell);
            std::iter::once(row.value())
                .chain(row.second_value())
                .map(Cell::text)
                .chain([Cell::scheme(row.scheme, row.colour)])
                .chain(cells)
                .collect()
        };
        Grid {
            head: keys.map(Heading::from).chain(figures).collect(),
            rows: rows.iter().map(row).collect(),
        }
    }

    /// Returns one chart for all schemes. For two options, returns a chart for each scheme, with a curve for
    /// each value of the second option.
    fn figures(&self, vocabulary: &Vocabulary) -> Vec<Figure> {
        let of = |name: Option<&str>, place: usize| {
            let is_of = |row: &&Row<'a>| name.is_none_or(|name| row.scheme == name);
            let rows: Vec<&Row<'a>> = self.rows.iter().filter(is_of).collect();
            self.figure(&rows, name, place, vocabulary)
        };
        match self.second_key {
            None => vec![of(None, 0)],
            Some(_) => {
                let schemes = self.schemes().into_iter().enumerate();
                schemes.map(|(place, scheme)| of(Some(scheme), place)).collect()
            }
        }
    }

    fn figure(
        &self,
        rows: &[&Row<'a>],
        scheme: Option<&str>,
        place: usize,
        vocabulary: &Vocabulary,
    ) -> Figure {
        let meaning =
            if self.quantity.is_speed() { "Higher is faster." } else { "Lower is better." };
        let of = scheme.map_or(String::new(), |scheme| format!(" of {scheme}"));
        let second = self.second_key.map_or(String::new(), |key| format!(" and {key}"));
        let title = format!("{}{of} by {}{second}", self.quantity.label, self.key);
        let number = if place == 0 { String::new() } else { format!("-{}", place + 1) };
        Figure {
            id: format!("{ANCHOR}-chart{number}"),
            name: title.clone(),
            caption: meaning.to_owned()
                + &self.lines(rows, vocabulary).map_or(String::new(), |lines| lines.coincidence()),
            chart: self.chart(rows, vocabulary),
            data: self.grid(rows),
            title,
        }
    }

    /// Returns an explanation of the symbols `±` and `~0` in the table; empty if the table has no intervals.
    fn about_intervals(&self) -> &'static str {
        let is_unsure =
            |row: &Row<'_>| row.over_first_value.is_some_and(|one| one.half_width_95.is_some());
        match self.rows.iter().any(is_unsure) {
            true => "±: half of the 95 % interval; ~0: no difference that this run can show\n",
            false => "",
        }
    }

    /// Returns all rows of the table.
    fn all(&self) -> Vec<&Row<'a>> {
        self.rows.iter().collect()
    }

    /// Draws a table with a row for each value and scheme.
    fn listed(&self, width: usize) -> String {
        let texts = |text: fn(&Row<'_>) -> String| self.rows.iter().map(text).collect();
        let mut all = vec![
            Column::texts_under(KEY_WIDTH, self.key, texts(|row| row.value().to_owned())),
            Column::texts("scheme", texts(|row| row.scheme.to_owned())),
        ];
        let figures = self.columns();
        all.extend(figures.iter().map(|one| {
            Column::numbers(&one.label, self.rows.iter().map(|row| one.cell(row)).collect())
        }));
        columns(&all, width)
    }

    /// Draws a grid for each scheme: a row for each value of the first option, a column for each value of the
    /// second one.
    fn grids(&self, second_key: &str, width: usize) -> String {
        let label = self.quantity.label;
        let grid = |scheme: &str| {
            let rows: Vec<&Row<'_>> = self.rows.iter().filter(|row| row.scheme == scheme).collect();
            let values = distinct(rows.iter().map(|row| row.value()));
            let labels = Column::texts("", values.iter().map(|&value| value.into()).collect());
            let cell = |value: &str, second: Option<&str>| {
                let is_own = |row: &&&Row<'_>| row.value() == value && row.second_value() == second;
                let spread = rows.iter().find(is_own).and_then(|row| row.spread);
                spread.map_or(MISSING.into(), |spread| format::ratio(spread.median))
            };
            let seconds = distinct(rows.iter().filter_map(|row| row.second_value()));
            let all: Vec<Column> = seconds
                .iter()
                .map(|&second| {
                    let cells = values.iter().map(|value| cell(value, Some(second)));
                    Column::numbers(second, cells.collect())
                })
                .collect();
            let title = format!("{label} of {scheme}, {} down and {second_key} across", self.key);
            wrapped("", &title, width) + &blocks(&labels, &all, width).join("\n")
        };
        self.schemes().into_iter().map(grid).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the medians of a quantity of `runs` and of `base` as a ratio, with an interval for the variation
/// between seeds, and of speeds within runs; `None` if a median is unknown or that of `base` is 0. A scheme
/// compared with itself has no interval.
fn ratio(runs: &SchemeRuns<'_>, base: &SchemeRuns<'_>, quantity: Quantity) -> Option<Interval> {
    let below = base.spread(quantity.of)?.median;
    let mean = (below > 0.0).then_some(runs.spread(quantity.of)?.median / below)?;
    let interval = match quantity.is_speed() {
        true => runs.speed_over(base),
        false => runs.ratio_over(base, quantity.of),
    };
    let interval = interval.filter(|_| !std::ptr::eq(base, runs));
    Some(Interval { mean, half_width_95: interval.and_then(|one| one.half_width_95) })
}

/// Width in characters at which the heading of the column of values is broken.
const KEY_WIDTH: usize = 20;

/// Returns the distinct items, in order of first occurrence.
pub(crate) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// Creates an interval of unknown width around `mean`.
fn sure(mean: f64) -> Interval {
    Interval { mean, half_width_95: None }
}

/// A column of figures in the table that has a row for each value of the varied option.
struct Figures {
    label: String,
    figure: fn(&Row<'_>) -> Option<Interval>,
    /// True for a speed ratio, which is displayed as a gain.
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
            // A change that is rounded to 0 has no sign.
            (true, None) if (change * 10.0).round() == 0.0 => "0 %".into(),
            (true, None) => format!("{change:+.1} %"),
        }
    }

    fn cell(&self, row: &Row<'_>) -> String {
        (self.figure)(row).map_or(MISSING.into(), |value| self.text(value))
    }
}

/// Returns the ends of the chart's value axis. It starts at 0, unless all values are close together and far
/// from 0.
fn range(marks: &[Mark]) -> (f64, f64) {
    let ends = marks.iter().flat_map(|mark| [mark.value, mark.low, mark.high]).flatten();
    let (least, most) =
        ends.fold((f64::INFINITY, 0.0_f64), |(least, most), end| (least.min(end), most.max(end)));
    if least > 0.6 * most && least.is_finite() { (least, most) } else { (0.0, most) }
}

/// Returns the results for several values of options as text: sentences, then a table with a row for each
/// value and scheme. For two options there is a grid for each scheme instead. `None` if no option was varied.
pub fn varied_table(
    results: &[RunResult],
    vocabulary: &Vocabulary,
    width: usize,
) -> Option<String> {
    let found = comparisons(results, vocabulary);
    let table = Table::of(&found)?;
    let first = &found[0];
    let seeds = match first.seeds() {
        1 => String::new(),
        seeds => format!(" · medians of {seeds} seeds"),
    };
    let title = format!("{} · machine {}{seeds}", first.workload, first.machine);
    let answer: String =
        sentences(&table).iter().map(|sentence| wrapped("", sentence, width)).collect();
    let answer = if answer.is_empty() { answer } else { answer + "\n" };
    let (body, about) = match table.second_key {
        Some(key) => (table.grids(key, width), ""),
        None => (table.listed(width), table.about_intervals()),
    };
    Some(format!("{}\n\n{answer}{body}{about}", crate::text::cut(&title, width)))
}

/// Returns the top of a page for varied options: sentences, and charts over the values.
pub(crate) fn first(found: &[Comparison<'_>], page: &mut Page) -> Markup {
    let Some(table) = Table::of(found) else { return html! {} };
    html! {
        @for sentence in sentences(&table) { p.headline { (sentence) } }
        @for figure in table.figures(found[0].vocabulary) {
            div.first { (figure.place(page)) }
        }
    }
}

/// Returns the page's section with a table of all values; empty if no option was varied.
pub(crate) fn section(found: &[Comparison<'_>]) -> Markup {
    let table = Table::of(found);
    html! {
        @if let Some(table) = &table {
            section.comparison {
                h2 id=(ANCHOR) {
                    (table.key) @if let Some(second) = table.second_key { " and " (second) }
                }
                details.more id="values-table" {
                    summary { "All values as a table" }
                    (table.grid(&table.all()).scrolling(&format!("Values of {}", table.key), "main"))
                }
            }
        }
    }
}
