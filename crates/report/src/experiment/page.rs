//! HTML page of experiments: a summary of all verdicts, then the charts and claims of each
//! experiment.

use maud::{Markup, html};
use perforate_records::{ClaimRecord, ExperimentRecord, ExperimentResults, Vocabulary, word};
use perforate_types::counted;

use super::claim::{explanation_text, note_text, range_text, slack_text};
use super::headline::headline;
use super::summary::{claim_cells, sections, summary};
use super::tally::{Tally, claims};
use super::{
    agreement_text, chart, compared, config_text, joint, statistics_text, unstated, verdicts,
};
use crate::ReportError;
use crate::html::{
    Cell, Figure, Grid, Origin, Page, ReportOptions, all, command, figures, file_name, header,
    headings, linked, notes,
};
use crate::svg::{self, SavedFigure};
use crate::text::quoted;

/// Maximum number of experiments whose charts are repeated side by side, and whose sections are open at
/// first.
const MOST_BESIDE: usize = 6;

/// Returns the experiments as one self-contained HTML page.
///
/// Equal results and options give equal bytes. All text is escaped.
pub fn experiments_html(results: &ExperimentResults, options: &ReportOptions) -> String {
    let mut page = Page::default();
    let body = body(results, options, &mut page);
    page.write(options, &body)
}

/// Returns the figures of the page that [`experiments_html`] writes, as SVG pictures with their data, in the
/// order of the page.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn experiments_figures(
    results: &ExperimentResults,
    options: &ReportOptions,
) -> Result<Vec<SavedFigure>, ReportError> {
    let mut page = Page::default();
    body(results, options, &mut page);
    svg::save(page.kept())
}

fn body(results: &ExperimentResults, options: &ReportOptions, page: &mut Page) -> Markup {
    let top = top(results, options, page);
    let ExperimentResults { experiments: results, joint } = results;
    let vocabulary = &options.vocabulary;
    let summary = summary(results, page);
    let joint = joint::section(joint, page);
    let beside = side_by_side(results, vocabulary, page);
    let sections = all(results.iter().map(|result| section(results, result, vocabulary, page)));
    html! {
        (top)
        // A single experiment begins with its charts, several with their summary.
        @if results.len() == 1 { (sections) (summary) (joint) } @else {
            (summary)
            (joint)
            (beside)
            @if results.len() > MOST_BESIDE { h2 #details { "Experiment by experiment" } }
            (sections)
        }
    }
}

fn top(results: &ExperimentResults, options: &ReportOptions, page: &mut Page) -> Markup {
    let ExperimentResults { experiments: results, joint } = results;
    let counted = || format!("{} without claims.", counted(results.len(), "experiment"));
    let headline = html! {
        p.headline { (headline(claims(results)).unwrap_or_else(counted)) }
        // A chart of verdicts is shown only for several experiments.
        @if let Some(figure) = verdicts::figure(results).filter(|_| results.len() > 1) {
            div.first { (figure.place(page)) }
        }
    };
    let mut links: Vec<(String, String)> =
        sections(results).into_iter().map(|(id, name)| (id.into(), name.into())).collect();
    if !joint.is_empty() {
        links.push(("joint".into(), "One reading for all claims".into()));
    }
    if let [only] = &results[..] {
        links.insert(0, (anchor(results, only), only.experiment.clone()));
    }
    if results.len() > MOST_BESIDE {
        links.push(("details".into(), "Experiment by experiment".into()));
    }
    let versions = results.iter().map(|result| result.version.as_str());
    let again = Origin::of_versions(versions).section(options, page);
    header("Experiments", options, &headline, &again, &links)
}

/// Returns the anchor of an experiment's section. A number is added if an earlier experiment has an equal
/// anchor.
pub(super) fn anchor(results: &[ExperimentRecord], result: &ExperimentRecord) -> String {
    let name = |result: &ExperimentRecord| format!("e-{}", file_name(&result.experiment));
    let before = results.iter().take_while(|other| !std::ptr::eq(*other, result));
    match before.filter(|other| name(other) == name(result)).count() {
        0 => name(result),
        same => format!("{}--{same}", name(result)),
    }
}

/// Returns a section with the charts, side by side, of experiments whose numeric axes have equal labels and
/// ends.
fn side_by_side(results: &[ExperimentRecord], vocabulary: &Vocabulary, page: &mut Page) -> Markup {
    let mut parts = Vec::new();
    for (place, first) in results.iter().enumerate().filter(|_| results.len() <= MOST_BESIDE) {
        let Some(axis) = axis(first) else { continue };
        let shares_axis = |other: &&ExperimentRecord| self::axis(other) == Some(axis);
        if results[..place].iter().any(|other| shares_axis(&other)) {
            continue;
        }
        let group: Vec<_> = results[place..].iter().filter(shares_axis).collect();
        if group.len() < 2 {
            continue;
        }
        let charts = group.iter().flat_map(|result| {
            chart::figures(result, vocabulary, &(anchor(results, result) + "-beside"))
        });
        parts.push(html! {
            section.comparison {
                h2 { "Side by side, over " (first.axis_label) }
                (figures(charts, page))
            }
        });
    }
    all(parts)
}

/// Returns the label of an experiment's numeric axis with its smallest and largest position; `None` for named
/// places.
fn axis(result: &ExperimentRecord) -> Option<(&str, f64, f64)> {
    let points = result.curves.iter().flat_map(|curve| &curve.points);
    let places: Vec<f64> =
        points.filter(|point| point.on_axis).filter_map(|point| point.x).collect();
    let least = places.iter().copied().reduce(f64::min)?;
    let most = places.iter().copied().reduce(f64::max)?;
    Some((&result.axis_label, least, most))
}

/// Returns the section of one experiment. If there are many experiments, its content is built when it is
/// opened.
fn section(
    results: &[ExperimentRecord],
    result: &ExperimentRecord,
    vocabulary: &Vocabulary,
    page: &mut Page,
) -> Markup {
    let id = anchor(results, result);
    let content = content(result, vocabulary, &id, page);
    let title = &result.title;
    if results.len() <= MOST_BESIDE {
        return html! { section.comparison id=(id) {
            // The title of a single experiment is already the page's title.
            @if results.len() > 1 { h2 { (title) } }
            (content)
        } };
    }
    let tally = Tally::of(&result.claims);
    let summary = html! {
        (title) " " span.beside {
            (result.experiment)
            @if tally.total() > 0 { " · " (tally.text()) }
        }
    };
    page.part(&id, &summary, content)
}

fn content(
    result: &ExperimentRecord,
    vocabulary: &Vocabulary,
    id: &str,
    page: &mut Page,
) -> Markup {
    let charts = chart::figures(result, vocabulary, id);
    let compared = compared::figures(result, id);
    let open = unstated::figures(result, id);
    let file = format!("{}-claims", file_name(&result.experiment));
    let label = format!("Claims: {}", result.title);
    html! {
            (about(result))
            @if charts.is_empty() { p.lead { "No values were measured." } }
            @else { (beside(charts, page)) }
            @if !compared.is_empty() { (figures(compared, page)) }
            @if !open.is_empty() {
                p.lead { "How each claim depends on what the papers leave open:" }
                (figures(open, page))
            }
            @if !result.claims.is_empty() {
                p.lead.claims { "Claims: " strong { (Tally::of(&result.claims).text()) } }
                (claims_of(result).filtered(&file, "claims", &label, "main claims"))
            }
            (notes(&remarks(result)))
            (again(result, page))
    }
}

/// Returns charts that are placed side by side. If they show the same curves, they share one legend.
fn beside(charts: Vec<Figure>, page: &mut Page) -> Markup {
    let legend = |figure: &Figure| figure.chart["usermeta"]["legend"].clone();
    let is_same = charts.windows(2).all(|pair| legend(&pair[0]) == legend(&pair[1]));
    if charts.len() > 1 && is_same { linked(charts, page) } else { figures(charts, page) }
}

/// Returns the paragraph on an experiment's source, seeds, and warm-up of its simulations.
fn about(result: &ExperimentRecord) -> Markup {
    let warmup = result.warmup.as_deref().filter(|text| !text.trim().is_empty());
    html! {
        p.about {
            "experiment " b { (result.experiment) }
            @if !result.source.is_empty() { " · " (result.source) }
            @match (result.seeds, result.seed) {
                (Some(1) | None, Some(seed)) => { " · seed " b { (seed) } }
                (Some(seeds), Some(seed)) if seeds > 1 => {
                    " · " b { (seeds) } " seeds from " b { (seed) }
                }
                _ => {}
            }
            @if result.quick { " · " b { "quick" } ": coarser than in full" }
            @if let Some(warmup) = warmup { " · warm-up: " b { (warmup) } }
        }
    }
}

fn claims_of(result: &ExperimentRecord) -> Grid {
    let head = ["claim", "what", "paper", "ours", "interval", "verdict", "where", "kind"];
    let row = |claim: &ClaimRecord| {
        let range = range_text(claim);
        let explanation = explanation_text(claim);
        let slack = slack_text(claim).map(|text| format!("Ours is {text}."));
        let remarks =
            [slack.as_deref(), range.as_deref(), note_text(claim), explanation.as_deref()];
        let remarks: Vec<&str> = remarks.into_iter().flatten().collect();
        let mut row = claim_cells(claim, &remarks.join(" "));
        row.push(Cell::prose(&claim.source, ""));
        row.push(Cell::text(&claim.kind.map_or_else(String::new, word)));
        row
    };
    Grid { head: headings(head), rows: result.claims.iter().map(row).collect() }
}

fn remarks(result: &ExperimentRecord) -> Vec<Markup> {
    let stand_in =
        |(theirs, ours): &(String, String)| format!("{ours} stands for the paper's {theirs}.");
    let mut lines: Vec<String> = result.notes.clone();
    lines.extend(result.stand_ins.iter().map(stand_in));
    lines.extend(statistics_text(result));
    lines.extend(agreement_text(result));
    lines.iter().map(|line| html! { (line) }).collect()
}

/// Returns a box with the experiment's file and the command that repeats the experiment.
fn again(result: &ExperimentRecord, page: &mut Page) -> Markup {
    let quick = if result.quick { " --quick" } else { "" };
    let has_ranges = result.claims.iter().any(|claim| claim.unstated.is_some());
    let unstated = if has_ranges { " --unstated" } else { "" };
    let file = config_text(result).map(|text| page.folded(html! { "Experiment file" }, text));
    let named = quoted(result.file.as_ref().unwrap_or(&result.experiment));
    html! {
        (command(&format!("perforate experiment run {named}{quick}{unstated}")))
        @if let Some(file) = file { (file) }
    }
}
