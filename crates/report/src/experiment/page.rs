//! Experiments as one HTML page, with a chart and a table of claims each.

use super::table::tally_text;
use super::{ExperimentResult, Point, Tally, Verdict, share};
use crate::ReportOptions;
use crate::chart::{Axis, Line, Lines};
use crate::format::{compact, escape};
use crate::page::figure::{Cell, Figure, Grid, file_name};
use crate::page::{document, run_again};
use crate::palette;

/// The experiments as one self-contained HTML page.
///
/// The same results and options give the same bytes. All text is escaped.
pub fn experiments_html(results: &[ExperimentResult], options: &ReportOptions) -> String {
    let tally = results.iter().map(ExperimentResult::tally).fold(Tally::default(), |a, b| a + b);
    let mut body = format!(
        "<header><p class=\"kicker\">Experiments</p><h1>{}</h1><p class=\"headline\">Claims of the \
         papers: <strong>{}</strong>.</p><nav aria-label=\"Sections\">",
        escape(&options.title),
        tally_text(tally)
    );
    for result in results {
        let name = &result.header.experiment;
        body += &format!("<a href=\"#{}\">{}</a>", file_name(name), escape(name));
    }
    body += "<a href=\"#again\">Run it again</a></nav></header>\n";
    body += &side_by_side(results);
    body.extend(results.iter().map(section));
    let versions = results.iter().map(|result| result.header.version.as_str()).collect();
    body += &run_again(versions, options);
    document(&options.title, &body)
}

/// The charts of experiments that have their axis in common, to be read together.
fn side_by_side(results: &[ExperimentResult]) -> String {
    let mut text = String::new();
    for (place, first) in results.iter().enumerate() {
        let shares_axis = |other: &&ExperimentResult| other.axis() == first.axis();
        if results[..place].iter().any(|other| shares_axis(&other)) {
            continue;
        }
        let group: Vec<_> = results[place..].iter().filter(shares_axis).collect();
        if group.len() < 2 {
            continue;
        }
        let id = |result: &ExperimentResult| file_name(&result.header.experiment) + "-beside";
        let charts: String = group.iter().map(|result| chart(result, &id(result))).collect();
        text += &format!(
            "<section class=\"comparison\"><h2>Side by side, over {}</h2><div class=\"figures\">\
             {charts}</div></section>\n",
            escape(&first.header.axis_label)
        );
    }
    text
}

fn section(result: &ExperimentResult) -> String {
    let header = &result.header;
    let id = file_name(&header.experiment);
    let samples = header.samples.map_or_else(String::new, |samples| {
        let what = if result.is_of_runs() { "runs" } else { "draws" };
        let samples = compact(samples);
        format!(" · <b>{samples}</b> {what} a point · seed <b>{}</b>", header.seed)
    });
    let mut text = format!(
        "<section class=\"comparison\" id=\"{id}\"><h2>{}</h2><p class=\"about\">experiment \
         <b>{}</b> · {}{samples}</p>",
        escape(&header.title),
        escape(&header.experiment),
        escape(&header.source)
    );
    text += &format!("<div class=\"figures\">{}</div>", chart(result, &id));
    if !result.claims.is_empty() {
        text += &format!(
            "<p class=\"lead\"><br/>Claims: <strong>{}</strong></p>",
            tally_text(result.tally())
        );
        text += &claims(result).scrolling(&format!("Claims: {}", header.title), "main claims");
    }
    let agreement = result.agreement_text();
    let notes: String = header
        .notes
        .iter()
        .chain(&agreement)
        .map(|note| format!("<li>{}</li>", escape(note)))
        .collect();
    if !notes.is_empty() {
        text += &format!("<aside class=\"notes\"><h3>Notes</h3><ul>{notes}</ul></aside>");
    }
    let config = serde_json::to_string_pretty(&header.config).unwrap_or_default();
    text += &format!(
        "<details class=\"configuration\"><summary>Experiment file</summary><pre \
         tabindex=\"0\">{}</pre></details></section>\n",
        escape(&config)
    );
    text
}

/// All curves over the axis; of each point the closed form, or the average where there is none.
fn chart(result: &ExperimentResult, id: &str) -> String {
    let header = &result.header;
    let mut unnamed = 0;
    let mut line = |curve: &super::Curve| Line {
        label: curve.label.clone(),
        colour: palette::of_curve(&curve.name, &mut unnamed),
        points: curve.points.iter().map(|point| (point.x, point.value())).collect(),
    };
    let lines: Vec<Line> = result.curves.iter().map(&mut line).collect();
    let places = || lines.iter().flat_map(|line| &line.points);
    let last = places().map(|point| point.0).fold(0.0, f64::max);
    let most = places().filter_map(|point| point.1).fold(0.0, f64::max);
    // A share that comes close to the whole has the whole on its axis.
    let most = if most > 0.5 { most.max(1.0) } else { most };
    let picture = Lines {
        title: &header.title,
        top: (last, most),
        format: share,
        tick: (100.0, " %"),
        axis: Axis { label: &header.axis_label, tick: (100.0, " %") },
        marks: true,
        lines,
    };
    Figure {
        id: format!("{id}-chart"),
        name: header.experiment.clone(),
        title: header.title.clone(),
        caption: format!("{}, over {}.", header.value_label, header.axis_label),
        picture: picture.svg(),
        data: data(result),
    }
    .html()
}

fn data(result: &ExperimentResult) -> Grid {
    let head = ["curve", &result.header.axis_label, "closed form", "drawn", "± 95 %", "agree"];
    let row = |label: &str, point: &Point| {
        vec![
            Cell::text(label),
            Cell::value(Some(point.x), share),
            Cell::value(point.closed_form, share),
            Cell::value(point.sampled, share),
            Cell::value(point.half_width_95, share),
            Cell::text(match point.agrees {
                Some(true) => "yes",
                Some(false) => "no",
                None => "",
            }),
        ]
    };
    let rows = result
        .curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(move |point| row(&curve.label, point)));
    Grid { head: head.map(String::from).to_vec(), rows: rows.collect() }
}

fn claims(result: &ExperimentResult) -> Grid {
    let head = ["claim", "what", "paper", "ours", "verdict", "where", "remark"];
    let row = |claim: &super::Claim| {
        let relation = match claim.relation.as_str() {
            "=" => String::new(),
            relation => format!("{relation} "),
        };
        vec![
            Cell::text(&claim.id),
            Cell::text(&claim.statement),
            Cell::value(Some(claim.paper), |paper| format!("{relation}{}", share(paper))),
            Cell::value(claim.ours, share),
            Cell::verdict(
                claim.verdict.text(),
                match claim.verdict {
                    Verdict::Reproduced => "perforated",
                    Verdict::SameDirection => "bitmap",
                    Verdict::NotReproduced => "hole",
                },
            ),
            Cell::text(&claim.source),
            Cell::text(claim.note.as_deref().unwrap_or_default()),
        ]
    };
    Grid { head: head.map(String::from).to_vec(), rows: result.claims.iter().map(row).collect() }
}
