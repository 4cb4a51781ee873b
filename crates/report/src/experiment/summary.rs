//! Summary of all experiments of a page: claims, explanations of deviations, and replaced programs.

use std::collections::BTreeMap;

use maud::{Markup, html};
use perforate_records::{ClaimRecord, ExperimentRecord, Verdict};

use super::claim::{
    explanation_text, interval_text, look, note_text, ours_shown, ours_text, paper_text,
};
use super::headline::misses;
use super::show::Written;
use super::tally::{KindTally, Tally, claims, count_ids, kinds, papers};
use super::{compared, page};
use crate::html::{Cell, Grid, Heading, Page, all, figures, headings};

/// Maximum number of claims in the list of the largest deviations.
const MOST_MISSES: usize = 8;

/// Returns the headings and anchors of the summary's sections, for the page's navigation.
pub(super) fn sections(results: &[ExperimentRecord]) -> Vec<(&'static str, &'static str)> {
    let has = |verdict| claims(results).any(|claim| claim.verdict == verdict);
    let has_stand_ins = results.iter().any(|result| !result.stand_ins.is_empty());
    let all = [
        (claims(results).next().is_some(), "claims", "Claims"),
        (results.len() > 1 && claims(results).next().is_some(), "all-claims", "All claims"),
        (
            !compared::over_published(results).is_empty(),
            "over-published",
            "Ours over the published values",
        ),
        (has(Verdict::NotReproduced), "not-reproduced", "Not reproduced, and why"),
        (has(Verdict::SameDirection), "same-direction", "Same direction only"),
        (has_stand_ins, "stand-ins", "Stand-ins"),
        (results.len() > 1, "experiments", "Experiments"),
    ];
    all.into_iter().filter(|one| one.0).map(|(_, anchor, name)| (anchor, name)).collect()
}

/// Returns the summary of all experiments of a page.
pub(super) fn summary(results: &[ExperimentRecord], page: &mut Page) -> Markup {
    let mut part = |anchor, name| {
        let explained = |verdict| explanations(results, verdict);
        let later = match anchor {
            "not-reproduced" => explained(Verdict::NotReproduced),
            "same-direction" => explained(Verdict::SameDirection),
            "stand-ins" => stand_ins(results),
            "all-claims" => {
                all_claims(results).filtered("claims", "claims", "All claims", "main claims")
            }
            "claims" => return html! { h2 id=(anchor) { (name) } (claims_section(results)) },
            "over-published" => figures(compared::over_published(results), page),
            _ => return html! { h2 id=(anchor) { (name) } (list(results)) },
        };
        page.part(anchor, &html! { (name) }, later)
    };
    let parts: Vec<Markup> =
        sections(results).into_iter().map(|(anchor, name)| part(anchor, name)).collect();
    html! { section.comparison { (all(parts)) } }
}

fn claims_section(results: &[ExperimentRecord]) -> Markup {
    let furthest = furthest(results);
    html! {
        (tallies(results).scrolling("Claims by paper", "main"))
        (kind_tallies(results).scrolling("Claims by what they test", "main"))
        // A single experiment shows its claims next to its charts instead.
        @if results.len() > 1 && !furthest.rows.is_empty() {
            h3 { "Furthest from the papers" }
            (furthest.scrolling("Furthest from the papers", "main claims"))
        }
    }
}

/// Returns a table of the claims whose values are furthest from the papers', each with its experiment.
fn furthest(results: &[ExperimentRecord]) -> Grid {
    let missed = misses(claims(results), Verdict::NotReproduced);
    let owner = |claim: &ClaimRecord| {
        let owned = owned(results).find(|(_, other)| std::ptr::eq(*other, claim));
        owned.expect("claims have owners").0
    };
    let row = |claim: &ClaimRecord| {
        let mut row = claim_cells(claim, "");
        row.pop();
        row.push(link(results, owner(claim)));
        row
    };
    let head = ["claim", "what", "paper", "ours", "interval", "experiment"];
    Grid { head: headings(head), rows: missed.into_iter().take(MOST_MISSES).map(row).collect() }
}

/// Returns a table cell with a link to the section of an experiment.
fn link(results: &[ExperimentRecord], result: &ExperimentRecord) -> Cell {
    Cell::link(&result.experiment, &page::anchor(results, result))
}

fn tallies(results: &[ExperimentRecord]) -> Grid {
    let head = [
        "paper",
        "claims",
        "reproduced",
        "same direction",
        "not reproduced",
        "distinct ids",
        "ids fully reproduced",
    ];
    let row = |name: &str, tally: &Tally, ids: usize, whole_ids: usize| {
        let Tally { reproduced, same_direction, not_reproduced } = *tally;
        let numbers = [tally.total(), reproduced, same_direction, not_reproduced, ids, whole_ids];
        let numbers = numbers.map(|number| Cell::number(&number.into()));
        std::iter::once(Cell::text(name)).chain(numbers).collect()
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
    Grid { head: headings(head), rows }
}

fn kind_tallies(results: &[ExperimentRecord]) -> Grid {
    let kinds = kinds(results);
    let has_readings = kinds.iter().any(|kind| kind.in_some_reading.is_some());
    let head = ["what is tested", "claims", "reproduced", "same direction", "not reproduced"];
    let reading = has_readings.then_some("in a plausible reading");
    let row = |kind: &KindTally| {
        let Tally { reproduced, same_direction, not_reproduced } = kind.tally;
        let numbers = [kind.tally.total(), reproduced, same_direction, not_reproduced];
        let readings = has_readings.then_some(kind.in_some_reading.unwrap_or_default());
        let numbers = numbers.into_iter().chain(readings);
        let numbers = numbers.map(|number| Cell::number(&number.into()));
        std::iter::once(Cell::text(kind.name)).chain(numbers).collect()
    };
    let head = head.into_iter().chain(reading).map(Heading::from).collect();
    Grid { head, rows: kinds.iter().map(row).collect() }
}

/// Returns all claims of all experiments, each with its experiment.
fn owned(results: &[ExperimentRecord]) -> impl Iterator<Item = (&ExperimentRecord, &ClaimRecord)> {
    results.iter().flat_map(|result| result.claims.iter().map(move |claim| (result, claim)))
}

fn all_claims(results: &[ExperimentRecord]) -> Grid {
    let head = ["claim", "what", "paper", "ours", "interval", "verdict", "experiment"];
    let row = |(result, claim): (&ExperimentRecord, &ClaimRecord)| {
        let mut row = claim_cells(claim, "");
        row.push(link(results, result));
        row
    };
    Grid { head: headings(head), rows: owned(results).map(row).collect() }
}

/// Returns the table cells of a claim: its id, its statement with `remark`, the paper's value, ours with its
/// interval, and the verdict.
pub(super) fn claim_cells(claim: &ClaimRecord, remark: &str) -> Vec<Cell> {
    let paper = claim.paper.map(|paper| claim.show.shown(paper));
    let (verdict, sign, colour) = look(claim.verdict);
    vec![
        Cell::text(&claim.id),
        Cell::prose(&claim.statement, remark),
        Cell::number_as(&paper_text(claim), paper),
        Cell::number_as(&ours_text(claim), ours_shown(claim)),
        Cell::text(&interval_text(claim).unwrap_or_default()),
        Cell::verdict(verdict, sign, colour),
    ]
}

/// Returns a list of all claims with this verdict, each with its explanation from the experiment file.
fn explanations(results: &[ExperimentRecord], verdict: Verdict) -> Markup {
    let item = |(result, claim): (&ExperimentRecord, &ClaimRecord)| {
        html! {
            li {
                p {
                    b { (claim.id) } " " (claim.statement) " "
                    span.beside {
                        "Paper " (paper_text(claim)) ", ours " (ours_text(claim)) "; "
                        a href={ "#" (page::anchor(results, result)) } { (result.experiment) }
                    }
                }
                @if let Some(text) = explanation_text(claim).or(note_text(claim).map(str::to_owned)) { p { (text) } }
                // A `--quick` run may deviate where the full run does not, so the file has no
                // explanation.
                @else if result.quick {
                    p { em { "Not explained in its file: this run is a coarse one, too short for this number." } }
                }
                @else if verdict == Verdict::NotReproduced { p { em { "Not explained in its file." } } }
            }
        }
    };
    let items = owned(results).filter(|(_, claim)| claim.verdict == verdict).map(item);
    html! { ul.explanations { (all(items)) } }
}

/// Returns a table of the papers' programs, each with the workload that replaces it here.
fn stand_ins(results: &[ExperimentRecord]) -> Markup {
    let mut found: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for result in results {
        for (theirs, ours) in &result.stand_ins {
            let users = found.entry((theirs, ours)).or_default();
            if !users.contains(&result.experiment.as_str()) {
                users.push(&result.experiment);
            }
        }
    }
    let grid = Grid::of(
        &found,
        [
            ("paper's program".into(), &|((theirs, _), _)| Cell::text(theirs)),
            ("ours".into(), &|((_, ours), _)| Cell::prose(ours, "")),
            ("experiments".into(), &|(_, users)| Cell::prose(&users.join(", "), "")),
        ],
    );
    html! {
        p.lead { "Programs that may not be redistributed, and the similar programs that were run instead." }
        (grid.scrolling("Stand-ins", "main"))
    }
}

fn list(results: &[ExperimentRecord]) -> Markup {
    let number = |of: fn(&Tally) -> usize, result: &ExperimentRecord| {
        Cell::number(&of(&Tally::of(&result.claims)).into())
    };
    let grid = Grid::of(
        results,
        [
            ("experiment".into(), &|result| link(results, result)),
            ("what".into(), &|result| Cell::prose(&result.title, "")),
            ("where".into(), &|result| Cell::prose(&result.source, "")),
            ("claims".into(), &|result| number(Tally::total, result)),
            ("reproduced".into(), &|result| number(|tally| tally.reproduced, result)),
        ],
    );
    grid.scrolling("Experiments", "main")
}
