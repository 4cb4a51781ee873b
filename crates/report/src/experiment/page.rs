//! Experiments as one HTML page: what all come to, then charts and claims of each.

use super::summary::{cells_with, filtered, sections, summary};
use super::tally::{Tally, claims};
use super::{ExperimentResult, chart};
use crate::ReportOptions;
use crate::format::escape;
use crate::page::figure::{Cell, Figure, Grid, file_name, headings};
use crate::page::{command, document, run_again};

/// More experiments than these are too many to lay charts side by side a second time.
const MOST_BESIDE: usize = 6;

/// The experiments as one self-contained HTML page.
///
/// The same results and options give the same bytes. All text is escaped.
pub fn experiments_html(results: &[ExperimentResult], options: &ReportOptions) -> String {
    let mut body = header(results, options);
    body += &summary(results);
    body += &side_by_side(results);
    body.extend(results.iter().map(|result| section(result, &anchor(results, result))));
    let versions = results.iter().map(|result| result.header.version.as_str()).collect();
    body += &run_again(versions, options);
    document(&options.title, &body)
}

fn header(results: &[ExperimentResult], options: &ReportOptions) -> String {
    let tally = Tally::of(claims(results));
    let headline = match tally.total() {
        0 => format!("Experiments: {}.", results.len()),
        total => {
            format!("Claims of the papers: <strong>{}</strong>, of {total}.", tally.text())
        }
    };
    let mut text = format!(
        "<header><p class=\"kicker\">Experiments</p><h1>{}</h1><p class=\"headline\">{headline}</p>\
         <nav aria-label=\"Sections\">",
        escape(&options.title),
    );
    for (anchor, name) in sections(results) {
        text += &format!("<a href=\"#{anchor}\">{name}</a>");
    }
    if let [only] = results {
        let name = &only.header.experiment;
        text += &format!("<a href=\"#{}\">{}</a>", anchor(results, only), escape(name));
    }
    text + "<a href=\"#again\">Run it again</a></nav></header>\n"
}

/// The experiment's anchor; experiments whose names differ in punctuation only have a number.
pub(super) fn anchor(results: &[ExperimentResult], result: &ExperimentResult) -> String {
    let name = |result: &ExperimentResult| format!("e-{}", file_name(&result.header.experiment));
    let before = results.iter().take_while(|other| !std::ptr::eq(*other, result));
    match before.filter(|other| name(other) == name(result)).count() {
        0 => name(result),
        same => format!("{}--{same}", name(result)),
    }
}

/// The charts of experiments that have their numeric axis in common, to be read together.
fn side_by_side(results: &[ExperimentResult]) -> String {
    if results.len() > MOST_BESIDE {
        return String::new();
    }
    let mut text = String::new();
    for (place, first) in results.iter().enumerate() {
        let Some(axis) = axis(first) else { continue };
        let shares_axis = |other: &&ExperimentResult| self::axis(other) == Some(axis);
        if results[..place].iter().any(|other| shares_axis(&other)) {
            continue;
        }
        let group: Vec<_> = results[place..].iter().filter(shares_axis).collect();
        if group.len() < 2 {
            continue;
        }
        let charts: String = group
            .iter()
            .flat_map(|result| chart::figures(result, &(anchor(results, result) + "-beside")))
            .map(|figure| figure.html())
            .collect();
        text += &format!(
            "<section class=\"comparison\"><h2>Side by side, over {}</h2><div class=\"figures\">\
             {charts}</div></section>\n",
            escape(&first.header.axis_label)
        );
    }
    text
}

/// What a numeric axis says, and where it begins and ends.
fn axis(result: &ExperimentResult) -> Option<(&str, f64, f64)> {
    let points = result.curves.iter().flat_map(|curve| &curve.points);
    let places: Vec<f64> =
        points.filter(|point| point.on_axis).filter_map(|point| point.x).collect();
    let least = places.iter().copied().reduce(f64::min)?;
    let most = places.iter().copied().reduce(f64::max)?;
    Some((&result.header.axis_label, least, most))
}

fn section(result: &ExperimentResult, id: &str) -> String {
    let header = &result.header;
    let mut text = format!(
        "<section class=\"comparison\" id=\"{id}\"><h2>{}</h2>{}",
        escape(&header.title),
        about(result)
    );
    let figures: String = chart::figures(result, id).iter().map(Figure::html).collect();
    text += &match figures.is_empty() {
        true => "<p class=\"lead\">No values were measured.</p>".to_owned(),
        false => format!("<div class=\"figures\">{figures}</div>"),
    };
    if !result.claims.is_empty() {
        let tally = result.tally();
        text += &format!("<p class=\"lead claims\">Claims: <strong>{}</strong></p>", tally.text());
        let table =
            claims_of(result).scrolling(&format!("Claims: {}", header.title), "main claims");
        text += &filtered(&format!("{}-claims", file_name(&header.experiment)), &table);
    }
    text += &notes(result);
    text += &again(result);
    text + "</section>\n"
}

/// Name, source, seeds and warm-up.
fn about(result: &ExperimentResult) -> String {
    let header = &result.header;
    let mut parts = vec![format!("experiment <b>{}</b>", escape(&header.experiment))];
    if !header.source.is_empty() {
        parts.push(escape(&header.source));
    }
    match (header.seeds, header.seed) {
        (Some(1) | None, Some(seed)) => parts.push(format!("seed <b>{seed}</b>")),
        (Some(seeds), Some(seed)) if seeds > 1 => {
            parts.push(format!("<b>{seeds}</b> seeds from <b>{seed}</b>"));
        }
        _ => {}
    }
    if header.quick {
        parts.push("<b>quick</b>: coarser than in full".into());
    }
    if let Some(warmup) = header.warmup.as_deref().filter(|text| !text.trim().is_empty()) {
        parts.push(format!("warm-up: <b>{}</b>", escape(warmup)));
    }
    format!("<p class=\"about\">{}</p>", parts.join(" · "))
}

fn claims_of(result: &ExperimentResult) -> Grid {
    let head = ["claim", "what", "paper", "ours", "interval", "verdict", "where", "kind"];
    let row = |claim: &super::Claim| {
        let remarks = [claim.note_text(), claim.explanation_text()];
        let remarks: Vec<&str> = remarks.into_iter().flatten().collect();
        let mut row = cells_with(claim, Cell::remarked(&claim.statement, &remarks.join(" ")));
        row.push(Cell::prose(&claim.source));
        row.push(Cell::text(claim.kind.as_deref().unwrap_or_default()));
        row
    };
    Grid { head: headings(head), rows: result.claims.iter().map(row).collect() }
}

fn notes(result: &ExperimentResult) -> String {
    let stand_in =
        |(theirs, ours): &(String, String)| format!("{ours} stands for the paper's {theirs}.");
    let mut notes: Vec<String> = result.header.notes.clone();
    notes.extend(result.header.stand_ins.iter().map(stand_in));
    notes.extend(result.statistics_text());
    notes.extend(result.agreement_text());
    let items: String = notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    if items.is_empty() {
        return items;
    }
    format!("<aside class=\"notes\"><h3>Notes</h3><ul>{items}</ul></aside>")
}

/// The experiment's file, and the command that runs it again.
fn again(result: &ExperimentResult) -> String {
    let header = &result.header;
    let quick = if header.quick { " --quick" } else { "" };
    let mut text = command(&format!("perforate experiment run {}{quick}", header.experiment));
    if let Some(config) = result.config_text() {
        text += &format!(
            "<details class=\"configuration\"><summary>Experiment file</summary><pre \
             tabindex=\"0\">{}</pre></details>",
            escape(&config)
        );
    }
    text
}
