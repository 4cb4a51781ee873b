//! The page of a comparison.

mod counters;
mod headline;
mod matrices;
mod memory;
mod over_time;
mod pictures;
mod relative;
mod stacks;

pub(crate) use memory::single_map;

use maud::{Markup, html};

use crate::RunResult;
use crate::comparison::{Comparison, SchemeRuns, comparisons};
use crate::format::compact;
use crate::html::{
    Cell, Grid, Heading, Page, ReportOptions, all, figures, header, notes, run_again,
};
use crate::labels::GLOSSARY;
use crate::metric::{Metric, metrics};
use crate::{sampled, threads, varied};

/// The results as one self-contained HTML page.
///
/// The same results and options give the same bytes. All text is escaped.
pub fn html(results: &[RunResult], options: &ReportOptions) -> String {
    let found = comparisons(results, &options.vocabulary);
    let mut page = Page::default();
    let sections = found.iter().enumerate().map(|(index, comparison)| {
        section(comparison, &format!("c{index}"), found.len() == 1, &mut page)
    });
    let sections = all(sections.collect::<Vec<_>>());
    let body = html! {
        (top(&found, options))
        (varied::section(&found, &mut page))
        (sections)
        (run_again(results.iter().map(|run| run.version.as_str()), options))
        (words())
    };
    page.write(options, &body)
}

fn top(found: &[Comparison<'_>], options: &ReportOptions) -> Markup {
    let mut sections = Vec::new();
    let mut add = |anchor: &str, name: &str| sections.push((anchor.to_owned(), name.to_owned()));
    if let [only] = found {
        add("c0-summary", "Summary");
        if only.schemes.iter().any(|scheme| scheme.pair().is_some()) {
            add("c0-pairs", "Guests on hosts");
        }
        add("c0-figures", "Figures");
        add("c0-counters", "All counters");
        add("c0-configuration", "Configuration");
    }
    if varied::varied_key(found).is_some() {
        add(varied::ANCHOR, "Values");
    }
    add("again", "Run it again");
    add("words", "Words");
    let headline = html! {
        @if let [only] = found { (headline(only)) } @else {
            ul.headlines {
                @for (index, comparison) in found.iter().enumerate() {
                    li {
                        a href={ "#c" (index) } { (name(comparison)) }
                        (headline::sentence(comparison))
                    }
                }
            }
        }
    };
    header("Address translation report", options, &headline, &sections)
}

fn headline(comparison: &Comparison<'_>) -> Markup {
    headline::paragraphs(comparison)
}

fn name(comparison: &Comparison<'_>) -> String {
    let parts = [comparison.workload, comparison.machine, comparison.difference.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

fn section(comparison: &Comparison<'_>, id: &str, is_only: bool, page: &mut Page) -> Markup {
    // What is seen without scrolling: the answer, where the time goes, and the speeds.
    let first = stacks::first(comparison, id).into_iter().chain(relative::figure(comparison, id));
    html! {
        section.comparison id=(id) {
            h2 id={ (id) "-summary" } { @if is_only { "Summary" } @else { (name(comparison)) } }
            @if !is_only { (headline(comparison)) }
            (about(comparison))
            (figures(first, page))
            (main_table(comparison).scrolling("Main figures by scheme", "main"))
            (sampled_table(comparison))
            (threads::section(comparison, id))
            (folded_notes(&remarks(comparison)))
            (matrices::matrices(comparison, id, page))
            h2 id={ (id) "-figures" } { "Figures" }
            (figures(stacks::figures(comparison, id), page))
            (pictures::contents(comparison, id, page))
            (pictures::holes(comparison, id, page))
            (memory::maps(comparison, id, page))
            (over_time::over_time(comparison, id, page))
            h2 id={ (id) "-counters" } { "All counters" }
            (folded("Show all counters", &counters::counters(comparison, id)))
            h2 id={ (id) "-configuration" } { "Configuration" }
            (folded("Show the configuration", &counters::configuration(comparison, page)))
        }
    }
}

/// What not every reader wants, behind a line that opens it.
fn folded(line: &str, content: &Markup) -> Markup {
    html! { details.more { summary { (line) } (content) } }
}

/// The notes behind a line with their number.
fn folded_notes(lines: &[Markup]) -> Markup {
    let count = lines.len();
    let line = format!("{count} {}", if count == 1 { "note" } else { "notes" });
    html! { @if count > 0 { (folded(&line, &notes(lines))) } }
}

/// Workload, machine, length and seeds in one line.
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

/// Most schemes that have a column each; more have a row each.
const MOST_COLUMNS: usize = 6;

fn main_table(comparison: &Comparison<'_>) -> Grid {
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

/// A figure of a scheme with its interval, or with its range over the seeds.
fn main_cell(metric: &Metric, scheme: usize) -> Cell {
    match metric.intervals.get(scheme) {
        Some(Some(one)) if one.half_width_95.is_some() => {
            Cell::number_as(&metric.text(scheme), Some(one.mean))
        }
        _ => Cell::spread(metric.values[scheme], |value| metric.write(value)),
    }
}

/// What the windows of a sampled trace say of the program, with confidence intervals.
fn sampled_table(comparison: &Comparison<'_>) -> Markup {
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
            p.lead { (caption) "." }
            (grid.scrolling("Estimates for the whole program by scheme", "main"))
        }
    }
}

/// Every note once, with the schemes it belongs to unless it belongs to all.
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
            (folded("What the words mean", &html! {
                dl { @for (word, meaning) in GLOSSARY { div { dt { (word) } dd { (meaning) } } } }
            }))
        }
    }
}
