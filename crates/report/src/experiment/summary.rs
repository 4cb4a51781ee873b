//! What all experiments of a page come to: claims, why some are not reproduced, stand-ins.

use std::collections::BTreeMap;

use super::claim::{Claim, Verdict};
use super::tally::{Tally, claims, count_ids, papers};
use super::{ExperimentResult, page};
use crate::format::escape;
use crate::page::figure::{Cell, Grid, headings};

/// Headings of the sections here, with their anchors, for the page's navigation.
pub(super) fn sections(results: &[ExperimentResult]) -> Vec<(&'static str, &'static str)> {
    let has = |verdict| claims(results).any(|claim| claim.verdict == verdict);
    let has_stand_ins = results.iter().any(|result| !result.header.stand_ins.is_empty());
    let mut found = Vec::new();
    let mut add = |is_there: bool, anchor, name| {
        if is_there {
            found.push((anchor, name));
        }
    };
    add(claims(results).next().is_some(), "claims", "Claims");
    add(has(Verdict::NotReproduced), "not-reproduced", "Not reproduced, and why");
    add(has(Verdict::SameDirection), "same-direction", "Same direction only");
    add(has_stand_ins, "stand-ins", "Stand-ins");
    add(results.len() > 1, "experiments", "Experiments");
    found
}

/// The summary of these experiments.
pub(super) fn summary(results: &[ExperimentResult]) -> String {
    let mut text = String::from("<section class=\"comparison\">");
    for (anchor, name) in sections(results) {
        text += &format!("<h2 id=\"{anchor}\">{name}</h2>");
        text += &match anchor {
            "claims" => claims_section(results),
            "not-reproduced" => explanations(results, Verdict::NotReproduced),
            "same-direction" => explanations(results, Verdict::SameDirection),
            "stand-ins" => stand_ins(results),
            _ => list(results),
        };
    }
    text + "</section>\n"
}

fn claims_section(results: &[ExperimentResult]) -> String {
    let mut text = tallies(results).scrolling("Claims by paper", "main");
    // One experiment has its claims beside its charts.
    if results.len() > 1 {
        text += &filtered("claims", &all_claims(results).scrolling("All claims", "main claims"));
    }
    text
}

/// A table that the page's script makes searchable.
pub(super) fn filtered(name: &str, table: &str) -> String {
    format!("<div class=\"filtered\" data-name=\"{name}\" data-what=\"claims\">{table}</div>")
}

fn tallies(results: &[ExperimentResult]) -> Grid {
    let head =
        ["paper", "claims", "reproduced", "same direction", "not reproduced", "distinct ids"]
            .into_iter()
            .chain(["ids wholly reproduced"]);
    let row = |name: &str, tally: &Tally, ids: usize, whole_ids: usize| {
        let Tally { reproduced, same_direction, not_reproduced } = *tally;
        let numbers = [tally.total(), reproduced, same_direction, not_reproduced, ids, whole_ids];
        let mut row = vec![Cell::text(name)];
        row.extend(numbers.map(|number| Cell::number(&number.into())));
        row
    };
    let papers = papers(results);
    let mut rows: Vec<Vec<Cell>> = papers
        .iter()
        .map(|paper| row(&paper.name, &paper.tally, paper.ids, paper.whole_ids))
        .collect();
    if papers.len() > 1 {
        let (ids, whole_ids) = count_ids(claims(results));
        rows.push(row("all", &Tally::of(claims(results)), ids, whole_ids));
    }
    Grid { head: head.map(Into::into).collect(), rows }
}

fn all_claims(results: &[ExperimentResult]) -> Grid {
    let head = ["claim", "what", "paper", "ours", "interval", "verdict", "experiment"];
    let row = |result: &ExperimentResult, claim: &Claim| {
        let mut row = cells(claim);
        let name = &result.header.experiment;
        row.push(Cell::link(name, &page::anchor(results, result)));
        row
    };
    let pairs =
        results.iter().flat_map(|result| result.claims.iter().map(move |claim| (result, claim)));
    Grid { head: headings(head), rows: pairs.map(|(result, claim)| row(result, claim)).collect() }
}

/// Id, statement, the paper's number, ours with its interval, and the verdict.
pub(super) fn cells(claim: &Claim) -> Vec<Cell> {
    cells_with(claim, Cell::prose(&claim.statement))
}

/// The same with another cell for the statement.
pub(super) fn cells_with(claim: &Claim, statement: Cell) -> Vec<Cell> {
    let paper = claim.paper.map(|paper| claim.show.shown(paper));
    vec![
        Cell::text(&claim.id),
        statement,
        Cell::sorted_by(&claim.paper_text(), paper),
        Cell::sorted_by(&claim.ours_text(), claim.ours_shown()),
        Cell::text(&claim.interval_text().unwrap_or_default()),
        Cell::verdict(claim.verdict.text(), claim.verdict.sign(), claim.verdict.colour()),
    ]
}

/// What is said where a file explains nothing, as its full run has nothing to explain.
const COARSE: &str = "<p><em>Not explained in its file: this run is a coarse one, too short for this \
                      number.</em></p>";

/// Every claim with this verdict and what its file says about it.
fn explanations(results: &[ExperimentResult], verdict: Verdict) -> String {
    let item = |result: &ExperimentResult, claim: &Claim| {
        let why = match (claim.explanation_text().or(claim.note_text()), verdict) {
            (Some(text), _) => format!("<p>{}</p>", escape(text)),
            (None, _) if result.header.quick => COARSE.into(),
            (None, Verdict::NotReproduced) => "<p><em>Not explained in its file.</em></p>".into(),
            // It may speak for itself.
            (None, _) => String::new(),
        };
        format!(
            "<li><p><b>{}</b> {} <span class=\"beside\">Paper {}, ours {}; <a href=\"#{}\">{}</a></span></p>{why}</li>",
            escape(&claim.id),
            escape(&claim.statement),
            escape(&claim.paper_text()),
            escape(&claim.ours_text()),
            escape(&page::anchor(results, result)),
            escape(&result.header.experiment),
        )
    };
    let items: String = results
        .iter()
        .flat_map(|result| result.claims.iter().map(move |claim| (result, claim)))
        .filter(|(_, claim)| claim.verdict == verdict)
        .map(|(result, claim)| item(result, claim))
        .collect();
    format!("<ul class=\"explanations\">{items}</ul>")
}

/// Which program of ours stands for which of the papers'.
fn stand_ins(results: &[ExperimentResult]) -> String {
    let mut found: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for result in results {
        for (theirs, ours) in &result.header.stand_ins {
            let users = found.entry((theirs, ours)).or_default();
            if !users.contains(&result.header.experiment.as_str()) {
                users.push(&result.header.experiment);
            }
        }
    }
    let row = |((theirs, ours), users): (&(&str, &str), &Vec<&str>)| {
        vec![Cell::text(theirs), Cell::prose(ours), Cell::prose(&users.join(", "))]
    };
    let rows = found.iter().map(row).collect();
    let grid = Grid { head: headings(["paper's program", "ours", "experiments"]), rows };
    format!(
        "<p class=\"lead\">Programs that nobody may pass on, and those of like behaviour that were run instead.</p>{}",
        grid.scrolling("Stand-ins", "main")
    )
}

fn list(results: &[ExperimentResult]) -> String {
    let row = |result: &ExperimentResult| {
        let tally = result.tally();
        vec![
            Cell::link(&result.header.experiment, &page::anchor(results, result)),
            Cell::prose(&result.header.title),
            Cell::text(&result.header.source),
            Cell::number(&tally.total().into()),
            Cell::number(&tally.reproduced.into()),
        ]
    };
    let head = headings(["experiment", "what", "where", "claims", "reproduced"]);
    Grid { head, rows: results.iter().map(row).collect() }.scrolling("Experiments", "main")
}
