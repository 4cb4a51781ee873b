//! The HTML page.
//!
//! One file, no requests: style and script are inside, charts are inline SVG. The page says
//! everything without its script; the script adds hover values, switches for series, sorting,
//! filtering and downloads. The markup is also well-formed XML, which the tests check.

mod counters;
pub(crate) mod figure;
mod figures;
mod headline;
mod interactive;
mod matrices;
mod memory;
mod memory_over_time;
mod pictures;

pub(crate) use memory::single_map;

use crate::RunResult;
use crate::comparison::{Comparison, comparisons};
use crate::format::escape;
use crate::metric::{Metric, metrics};
use crate::palette::COLOURS;
use crate::sampled::{self, SampledRow};
use crate::word::GLOSSARY;

use figure::{Cell, Grid, Heading};

/// What the page says besides the results.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Title of the page.
    pub title: String,
    /// Command that makes the same results again; left out when empty.
    pub command: String,
}

/// The results as one self-contained HTML page.
///
/// The same results and options give the same bytes. All text is escaped.
pub fn html(results: &[RunResult], options: &ReportOptions) -> String {
    let found = comparisons(results);
    let mut body = header(&found, options);
    for (index, comparison) in found.iter().enumerate() {
        body.push_str(&section(comparison, index, found.len() == 1));
    }
    let versions = results.iter().map(|run| run.version.as_str()).collect();
    body.push_str(&run_again(versions, options));
    body.push_str(&words());
    document(&options.title, &body)
}

/// A whole page around its body.
pub(crate) fn document(title: &str, body: &str) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:\"/>\
         <link rel=\"icon\" href=\"data:,\"/><title>{}</title><style>{}{}</style></head>\n<body><main>\n",
        escape(title),
        colour_rules(),
        interactive::STYLE,
    );
    page.push_str(body);
    page.push_str("</main>\n<div id=\"tip\" hidden=\"hidden\"></div>\n<script>");
    page.push_str(&interactive::script());
    page.push_str("</script>\n</body></html>\n");
    page
}

/// One rule per colour; dark ones apply on screens only, paper is white.
fn colour_rules() -> String {
    let rules = |dark: bool| -> String {
        let rule = |colour: &crate::palette::Colour| {
            let value = if dark { colour.dark } else { colour.light };
            format!(
                ".f-{0}{{fill:{value};background:{value}}}.s-{0}{{stroke:{value}}}",
                colour.name
            )
        };
        COLOURS.iter().map(rule).collect()
    };
    format!("{}@media screen and (prefers-color-scheme:dark){{{}}}\n", rules(false), rules(true))
}

fn header(found: &[Comparison<'_>], options: &ReportOptions) -> String {
    let mut text = format!(
        "<header><p class=\"kicker\">Address translation report</p><h1>{}</h1>",
        escape(&options.title)
    );
    if let [only] = found {
        text.push_str(&format!("<p class=\"headline\">{}</p>", headline::sentence(only)));
        text.push_str(&headline::tiles(only));
        text.push_str("<nav aria-label=\"Sections\"><a href=\"#c0-summary\">Summary</a>");
        if only.schemes.iter().any(|scheme| scheme.pair().is_some()) {
            text.push_str("<a href=\"#c0-pairs\">Guests on hosts</a>");
        }
        text.push_str("<a href=\"#c0-figures\">Figures</a><a href=\"#c0-counters\">All counters</a><a href=\"#c0-configuration\">Configuration</a>");
    } else {
        text.push_str("<ul class=\"headlines\">");
        for (index, comparison) in found.iter().enumerate() {
            text.push_str(&format!(
                "<li><a href=\"#c{index}\">{}</a>{}</li>",
                escape(&name(comparison)),
                headline::sentence(comparison)
            ));
        }
        text.push_str("</ul><nav aria-label=\"Sections\">");
    }
    text.push_str(
        "<a href=\"#again\">Run it again</a><a href=\"#words\">Words</a></nav></header>\n",
    );
    text
}

fn name(comparison: &Comparison<'_>) -> String {
    let parts = [comparison.workload, comparison.machine, comparison.difference.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

fn section(comparison: &Comparison<'_>, index: usize, is_only: bool) -> String {
    let id = format!("c{index}");
    let metrics = metrics(comparison);
    let mut text = format!("<section class=\"comparison\" id=\"{id}\">");
    if is_only {
        text.push_str(&format!("<h2 id=\"{id}-summary\">Summary</h2>"));
    } else {
        text.push_str(&format!("<h2 id=\"{id}-summary\">{}</h2>", escape(&name(comparison))));
        text.push_str(&format!("<p class=\"headline\">{}</p>", headline::sentence(comparison)));
        text.push_str(&headline::tiles(comparison));
    }
    text.push_str(&about(comparison));
    text.push_str(&main_table(comparison, &metrics).scrolling("Main figures by scheme", "main"));
    text.push_str(&sampled_table(comparison));
    text.push_str(&notes(comparison));
    text.push_str(&matrices::matrices(comparison, &id));
    text.push_str(&format!("<h2 id=\"{id}-figures\">Figures</h2>"));
    text.push_str(&figures::figures(comparison, &id));
    text.push_str(&pictures::contents(comparison, &id));
    text.push_str(&pictures::holes(comparison, &id));
    text.push_str(&memory::memory(comparison, &id));
    text.push_str(&format!("<h2 id=\"{id}-counters\">All counters</h2>"));
    text.push_str(&counters::counters(comparison, &id));
    text.push_str(&format!("<h2 id=\"{id}-configuration\">Configuration</h2>"));
    text.push_str(&counters::configuration(comparison));
    text.push_str("</section>\n");
    text
}

/// Workload, machine, length and seeds in one line.
fn about(comparison: &Comparison<'_>) -> String {
    let mut parts = vec![format!("workload <b>{}</b>", escape(comparison.workload))];
    if !comparison.machine.is_empty() {
        parts.push(format!("machine <b>{}</b>", escape(comparison.machine)));
    }
    if !comparison.difference.is_empty() {
        parts.push(format!("<b>{}</b>", escape(&comparison.difference)));
    }
    if let Some(count) = comparison.schemes[comparison.reference].first().instructions {
        parts.push(format!("<b>{}</b> instructions", crate::format::compact(count)));
    }
    match comparison.seeds() {
        1 => parts.push(format!("seed <b>{}</b>", comparison.schemes[0].first().seed)),
        seeds => parts.push(format!("medians of <b>{seeds} seeds</b>, least to most in brackets")),
    }
    if !comparison.is_timed() {
        parts.push("functional run: events counted, no cycles".into());
    }
    format!("<p class=\"about\">{}</p>", parts.join(" · "))
}

fn main_table(comparison: &Comparison<'_>, metrics: &[Metric]) -> Grid {
    let shown: Vec<&Metric> = metrics.iter().filter(|metric| metric.is_main).collect();
    let mut head = vec![Heading::from("scheme")];
    head.extend(shown.iter().map(|metric| metric.heading(&metric.label)));
    let rows = comparison.schemes.iter().enumerate().map(|(index, scheme)| {
        let mut row = vec![Cell::scheme(scheme.name)];
        row.extend(
            shown
                .iter()
                .map(|metric| Cell::spread(metric.values[index], |value| metric.write(value))),
        );
        row
    });
    Grid { head, rows: rows.collect() }
}

/// What the windows of a sampled trace say of the program, with confidence intervals.
fn sampled_table(comparison: &Comparison<'_>) -> String {
    let Some(caption) = sampled::caption(comparison) else {
        return String::new();
    };
    let rows = sampled::rows(comparison);
    let mut head = vec![Heading::from("scheme")];
    head.extend(rows.iter().map(|row| Heading::from(row.label.to_string())));
    let schemes = comparison.schemes.iter().enumerate().map(|(index, scheme)| {
        let cell = |row: &SampledRow| match row.values[index] {
            Some(figure) => Cell::value(Some(figure.mean), |_| row.text(figure)),
            None => Cell::missing(),
        };
        std::iter::once(Cell::scheme(scheme.name)).chain(rows.iter().map(cell)).collect()
    });
    let grid = Grid { head, rows: schemes.collect() };
    let table = grid.scrolling("Estimates for the whole program by scheme", "main");
    format!("<p class=\"lead\">{}.</p>{table}", escape(&caption))
}

/// Every note once, with the schemes it belongs to unless it belongs to all.
fn notes(comparison: &Comparison<'_>) -> String {
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
    if found.is_empty() {
        return String::new();
    }
    let line = |(note, schemes): &(&str, Vec<&str>)| {
        if schemes.len() == comparison.schemes.len() {
            format!("<li>{}</li>", escape(note))
        } else {
            format!("<li><b>{}</b>: {}</li>", escape(&schemes.join(", ")), escape(note))
        }
    };
    let lines: String = found.iter().map(line).collect();
    format!("<aside class=\"notes\"><h3>Notes</h3><ul>{lines}</ul></aside>")
}

/// A command that can be copied.
pub(crate) fn command(text: &str) -> String {
    format!("<div class=\"command\"><pre tabindex=\"0\">{}</pre></div>", escape(text))
}

pub(crate) fn run_again(mut versions: Vec<&str>, options: &ReportOptions) -> String {
    let mut text = "<section id=\"again\"><h2>Run it again</h2>".to_string();
    if !options.command.is_empty() {
        text.push_str(&command(&options.command));
    }
    versions.retain(|version| !version.is_empty());
    versions.sort_unstable();
    versions.dedup();
    if !versions.is_empty() {
        text.push_str(&format!(
            "<p>Results were written by version {}. ",
            escape(&versions.join(", "))
        ));
    } else {
        text.push_str("<p>");
    }
    text.push_str("The same inputs, configuration and seed give the same results.</p></section>\n");
    text
}

fn words() -> String {
    let entries: String = GLOSSARY
        .iter()
        .map(|(word, meaning)| {
            format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(word), escape(meaning))
        })
        .collect();
    format!("<section id=\"words\"><h2>Words</h2><dl>{entries}</dl></section>\n")
}
