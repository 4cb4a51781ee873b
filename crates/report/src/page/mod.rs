//! HTML page of comparisons.

mod counters;
mod matrices;
mod memory;
mod over_time;
mod pictures;
mod relative;
mod stacks;
mod why;

pub(crate) use memory::single_map;

use maud::{Markup, html};
use perforate_records::RunResult;
use perforate_types::counted;

use crate::ReportError;
use crate::answer::{answer, headline};
use crate::comparison::{Comparison, MOST_COLUMNS, SchemeRuns, comparisons};
use crate::format::compact;
use crate::html::{
    Cell, Grid, Heading, Origin, Page, ReportOptions, all, figures as beside, header, notes,
};
use crate::labels::glossary;
use crate::metric::{Metric, metrics};
use crate::svg::{self, SavedFigure};
use crate::{sampled, threads, varied};

/// Returns the results as one self-contained HTML page.
///
/// Equal results and options give equal bytes. All text is escaped.
pub fn html(results: &[RunResult], options: &ReportOptions) -> String {
    let mut page = Page::default();
    let body = body(results, options, &mut page);
    page.write(options, &body)
}

/// Returns the figures of the page that [`html()`] writes, as SVG pictures with their data, in the order of
/// the page.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn figures(
    results: &[RunResult],
    options: &ReportOptions,
) -> Result<Vec<SavedFigure>, ReportError> {
    let mut page = Page::default();
    body(results, options, &mut page);
    svg::save(page.kept())
}

/// Maximum number of values of a varied option for which a page shows every comparison in full, with charts.
const MOST_VALUES: usize = 32;

/// False if an option has more values than a reader can look through, or a browser can draw quickly; the page
/// then shows only the table of values.
fn is_shown_one_by_one(found: &[Comparison<'_>]) -> bool {
    found.len() <= MOST_VALUES || !varied::is_varied(found)
}

fn body(results: &[RunResult], options: &ReportOptions, page: &mut Page) -> Markup {
    let found = comparisons(results, &options.vocabulary);
    let top = top(&found, results, options, page);
    let varied = varied::section(&found);
    let shown = if is_shown_one_by_one(&found) { &found[..] } else { &[] };
    let sections = shown.iter().enumerate().map(|(index, comparison)| {
        section(comparison, &format!("c{index}"), found.len() == 1, page)
    });
    let sections = all(sections.collect::<Vec<_>>());
    html! { (top) (varied) (sections) (words()) }
}

/// Returns the top of the page, which is visible without scrolling: the answer in one sentence, and one
/// chart.
fn top(
    found: &[Comparison<'_>],
    results: &[RunResult],
    options: &ReportOptions,
    page: &mut Page,
) -> Markup {
    let mut sections = Vec::new();
    let mut add = |anchor: &str, name: &str| sections.push((anchor.to_owned(), name.to_owned()));
    if let [only] = found {
        add("c0-summary", heading(only));
        if only.schemes.iter().any(|scheme| scheme.pair().is_some()) {
            add("c0-pairs", "Guests on hosts");
        }
        add("c0-figures", "Figures");
        add("c0-counters", "All counters");
        add("c0-configuration", "Configuration");
    }
    if varied::is_varied(found) {
        add(varied::ANCHOR, "Values");
    }
    add("words", "Words");
    let first = match found {
        [only] => html! { (short_answer(only)) (first_chart(only, "c0", page)) },
        _ => varied::first(found, page),
    };
    let again = Origin::of_runs(results).section(options, page);
    html! {
        (header("Address translation report", options, &first, &again, &sections))
        @if !is_shown_one_by_one(found) {
            p { "All figures of each of these " (found.len()) " comparisons are in results.jsonl." }
        } @else if found.len() > 1 {
            (headlines(found))
        }
    }
}

/// Returns a list with the one-sentence answer of each comparison.
fn headlines(found: &[Comparison<'_>]) -> Markup {
    html! {
        ul.headlines {
            @for (index, comparison) in found.iter().enumerate() {
                li {
                    a href={ "#c" (index) } { (comparison.name()) }
                    (headline(comparison).markup())
                }
            }
        }
    }
}

/// Returns the one-sentence answer of a comparison, as a paragraph.
fn short_answer(comparison: &Comparison<'_>) -> Markup {
    html! { p.headline { (headline(comparison).markup()) } }
}

/// Returns the full answer of a comparison; empty if it has only one sentence.
fn full_answer(comparison: &Comparison<'_>) -> Markup {
    let (sentences, short) = (answer(comparison), headline(comparison).text());
    let more = sentences.iter().any(|sentence| sentence.text() != short);
    html! {
        @if more { p.answer { @for sentence in &sentences { (sentence.markup()) " " } } }
    }
}

/// Returns the first chart of a comparison: speeds of the schemes, or the cycle stack if there is only one
/// scheme.
fn first_chart(comparison: &Comparison<'_>, id: &str, page: &mut Page) -> Markup {
    let alone = || stacks::first(comparison, id).filter(|_| comparison.schemes.len() == 1);
    let figure = relative::figure(comparison, id).or_else(alone);
    html! { @if let Some(figure) = figure { div.first { (figure.place(page)) } } }
}

/// Returns the heading of the section after the first chart: `Why`, or `Summary` for runs without timing,
/// whose speeds are unknown.
fn heading(comparison: &Comparison<'_>) -> &'static str {
    if comparison.is_timed() { "Why" } else { "Summary" }
}

fn section(comparison: &Comparison<'_>, id: &str, is_only: bool, page: &mut Page) -> Markup {
    let several = comparison.schemes.len() > 1;
    let time = stacks::first(comparison, id).filter(|_| several);
    let why: Vec<_> = why::figure(comparison, id).into_iter().chain(time).collect();
    html! {
        section.comparison id=(id) {
            h2 id={ (id) "-summary" } { @if is_only { (heading(comparison)) } @else { (comparison.name()) } }
            @if !is_only { (short_answer(comparison)) (first_chart(comparison, id, page)) }
            @if !why.is_empty() { (beside(why, page)) }
            (full_answer(comparison))
            (about(comparison))
            (folded(&format!("{id}-table"), "The main figures as a table", &html! {
                (main_table(comparison))
            }))
            (sampled_table(comparison, id))
            (threads::section(comparison, id))
            (folded_notes(comparison, id))
            (matrices::matrices(comparison, id, page))
            h2 id={ (id) "-figures" } { "Figures" }
            (beside(stacks::figures(comparison, id), page))
            (pictures::contents(comparison, id, page))
            (pictures::holes(comparison, id, page))
            (memory::maps(comparison, id, page))
            (over_time::over_time(comparison, id, page))
            h2 id={ (id) "-counters" } { "All counters" }
            (folded(&format!("{id}-all-counters"), "Show all counters", &counters::counters(comparison, id)))
            h2 id={ (id) "-configuration" } { "Configuration" }
            (folded(&format!("{id}-all-configuration"), "Show the configuration", &counters::configuration(comparison, page)))
        }
    }
}

/// Returns a section that opens when its heading is clicked.
fn folded(id: &str, line: &str, content: &Markup) -> Markup {
    html! { details.more id=(id) { summary { (line) } (content) } }
}

/// Returns the notes on a comparison in a closed section, whose heading has the number of notes.
fn folded_notes(comparison: &Comparison<'_>, id: &str) -> Markup {
    let lines = remarks(comparison);
    let count = lines.len();
    let line = counted(count, "note");
    html! { @if count > 0 { (folded(&format!("{id}-notes"), &line, &notes(&lines))) } }
}

/// Returns a line with the workload, machine, number of instructions and seeds of a comparison.
fn about(comparison: &Comparison<'_>) -> Markup {
    let first = comparison.schemes[comparison.reference].first();
    let seeds = comparison.seeds();
    html! {
        p.about {
            "workload " b { (comparison.workload) }
            @if !comparison.machine.is_empty() { " · machine " b { (comparison.machine) } }
            @if !comparison.difference.is_empty() { " · " b { (comparison.difference) } }
            @if let Some(count) = first.instructions() { " · " b { (compact(count)) } " instructions" }
            @if seeds == 1 { " · seed " b { (comparison.schemes[0].first().seed) } }
            @else { " · medians of " b { (seeds) " seeds" } ", least to most in brackets" }
            @if !comparison.is_timed() { " · functional run: events counted, no cycles" }
        }
    }
}

/// Returns the table of main figures. Schemes are columns, or compact rows if there are many.
fn main_table(comparison: &Comparison<'_>) -> Markup {
    let class = if comparison.schemes.len() <= MOST_COLUMNS { "main" } else { "main dense" };
    main_grid(comparison).scrolling("Main figures by scheme", class)
}

fn main_grid(comparison: &Comparison<'_>) -> Grid {
    let metrics = metrics(comparison);
    let shown: Vec<&Metric> = metrics.iter().filter(|metric| metric.is_main).collect();
    let schemes = &comparison.schemes;
    if schemes.len() <= MOST_COLUMNS {
        let heading = |scheme: &SchemeRuns<'_>| Heading::scheme(scheme.name, scheme.colour);
        let row = |metric: &&Metric| {
            let name = std::iter::once(Cell::text(&metric.label));
            name.chain((0..schemes.len()).map(|scheme| main_cell(metric, scheme))).collect()
        };
        return Grid {
            head: std::iter::once("".into()).chain(schemes.iter().map(heading)).collect(),
            rows: shown.iter().map(row).collect(),
        };
    }
    let head = shown.iter().map(|metric| metric.heading(&metric.label));
    let row = |(index, scheme): (usize, &SchemeRuns<'_>)| {
        let name = std::iter::once(Cell::scheme(scheme.name, scheme.colour));
        name.chain(shown.iter().map(|metric| main_cell(metric, index))).collect()
    };
    Grid {
        head: std::iter::once("scheme".into()).chain(head).collect(),
        rows: schemes.iter().enumerate().map(row).collect(),
    }
}

/// Returns a scheme's value of a metric with its interval, or with its range over the seeds.
fn main_cell(metric: &Metric, scheme: usize) -> Cell {
    match metric.intervals.get(scheme) {
        Some(Some(one)) if one.half_width_95.is_some() => {
            Cell::number_as(&metric.text(scheme), Some(one.mean))
        }
        _ => Cell::spread(metric.values[scheme], |value| metric.write(value)),
    }
}

/// Returns the table of estimates for the whole program from a sampled trace, with confidence
/// intervals.
fn sampled_table(comparison: &Comparison<'_>, id: &str) -> Markup {
    let rows = sampled::rows(comparison);
    let mut head = vec![Heading::from("scheme")];
    head.extend(rows.iter().map(|row| Heading::from(row.label)));
    let schemes = comparison.schemes.iter().enumerate().map(|(index, scheme)| {
        let cell = |row: &sampled::SampledRow| match row.values[index] {
            Some(figure) => Cell::value(Some(figure.mean), |_| row.text(figure)),
            None => Cell::missing(),
        };
        std::iter::once(Cell::scheme(scheme.name, scheme.colour))
            .chain(rows.iter().map(cell))
            .collect()
    });
    let grid = Grid { head, rows: schemes.collect() };
    html! {
        @if let Some(caption) = sampled::caption(comparison) {
            (folded(&format!("{id}-sampled"), "Estimates for the whole program", &html! {
                p.lead { (caption) "." }
                (grid.scrolling("Estimates for the whole program by scheme", "main"))
            }))
        }
    }
}

/// Returns every note of the runs once. A note that does not apply to all schemes names those to which it
/// applies.
fn remarks(comparison: &Comparison<'_>) -> Vec<Markup> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for scheme in &comparison.schemes {
        for note in scheme.runs.iter().flat_map(|run| &run.notes) {
            match found.iter_mut().find(|other| other.0 == note) {
                Some((_, schemes)) if schemes.contains(&scheme.name) => {}
                Some((_, schemes)) => schemes.push(scheme.name),
                None => found.push((note, vec![scheme.name])),
            }
        }
    }
    let line = |(note, schemes): &(&str, Vec<&str>)| {
        let is_of_all = schemes.len() == comparison.schemes.len();
        html! { @if !is_of_all { b { (schemes.join(", ")) } ": " } (note) }
    };
    found.iter().map(line).collect()
}

fn words() -> Markup {
    html! {
        section #words {
            h2 { "Words" }
            (folded("what-words-mean", "What the words mean", &html! {
                dl { @for (word, meaning) in glossary() { div { dt { (word) } dd { (meaning) } } } }
            }))
        }
    }
}
