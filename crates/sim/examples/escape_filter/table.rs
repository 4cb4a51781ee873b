//! What is printed.

use crate::filter::false_positive_share;
use crate::statistics::{Estimate, estimate, false_positives};
use crate::study::{Outcome, Study};

/// Above the programs; the last two columns are of the whole segment.
pub const HEADING: &str = "\
program, mode                            in seg-  faulty  execution time                     paper    \
walked   pass for escaped
                                         ments            mean ± 95 %          greatest               \
         counted     closed form";

pub const SWEEP_HEADING: &str = "   \
bits  functions  execution time, greatest                    pass for escaped    closed form";

pub const NOTES: &str = "\
Execution time is steady state, against no faulty frame. \"In segments\": share of the data TLB's misses
without faulty frames that the segments of the mode translate. \"Walked\": share of these that go to the
page tables, as the page escaped or passes for it; few such pages stay in the L2 TLB. \"Pass for
escaped\": false positives among all pages of the segment, each looked up, mean of the sets; the closed
form is (1 − (1 − k/m)^n)^k. A set's false positives come in patterns, as H3 is linear, so that sets
differ more than independent draws would. The paper's execution times are from a linear model: each
miss at its average cost, none overlapping.
";

/// Slowdowns of the sets in percent.
fn slowdowns(base: &Outcome, outcomes: &[&Outcome]) -> Vec<f64> {
    let slowdown = |outcome: &&Outcome| (outcome.cycles as f64 / base.cycles as f64 - 1.0) * 100.0;
    outcomes.iter().map(slowdown).collect()
}

/// The sets whose frames all lie in the segment, by what the kernel says of it.
fn good<'a>(
    sets: &'a [Vec<u64>],
    outcomes: &'a [Option<Outcome>],
) -> Vec<(&'a Vec<u64>, &'a Outcome)> {
    let pairs = sets.iter().zip(outcomes);
    let pairs = pairs.filter_map(|(set, outcome)| Some((set, outcome.as_ref()?)));
    pairs.filter(|(set, outcome)| outcome.segment.escaped_pages == set.len() as u64).collect()
}

fn time(values: &[f64]) -> String {
    let Estimate { mean, within } = estimate(values);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{mean:>+9.4} ± {within:.4} %  {greatest:>+8.3} %")
}

fn share(values: impl Iterator<Item = f64>) -> String {
    let values: Vec<f64> = values.collect();
    format!("{:.4} %", values.iter().sum::<f64>() / values.len() as f64 * 100.0)
}

/// One program with so many faulty frames.
pub fn row(
    study: &Study<'_>,
    base: &Outcome,
    count: usize,
    sets: &[Vec<u64>],
    outcomes: &[Option<Outcome>],
    filter: (usize, usize),
) -> String {
    let good = good(sets, outcomes);
    let lost = match sets.len() - good.len() {
        0 => String::new(),
        lost => format!("  {lost} sets left out: no segment over all their frames"),
    };
    let name = format!("{}, {}", study.subject.name, study.composition.name());
    let inside = base.by_segments / base.misses.max(1.0) * 100.0;
    let name = if count == 1 { format!("{name:<40}{inside:>6.1} %") } else { String::new() };
    if good.len() < 2 {
        return format!("{name:<48}{count:>8}{lost}");
    }
    let runs: Vec<&Outcome> = good.iter().map(|(_, outcome)| *outcome).collect();
    let paper = match (study.subject.paper_percent, count) {
        (Some(percent), 16) => format!("<{percent} %"),
        _ => String::new(),
    };
    let walked = runs.iter().map(|run| run.escaped / (run.by_segments + run.escaped).max(1.0));
    let counted =
        good.iter().map(|(set, outcome)| false_positive_share(filter, &outcome.segment, set));
    let closed = false_positives(filter.0, filter.1, count) * 100.0;
    format!(
        "{name:<48}{count:>8} {}  {paper:>8} {:>9}  {:>10}  {closed:>8.4} %{lost}",
        time(&slowdowns(base, &runs)),
        share(walked),
        share(counted),
    )
}

/// One filter.
pub fn sweep_row(
    base: &Outcome,
    sets: &[Vec<u64>],
    outcomes: &[Option<Outcome>],
    filter: (usize, usize),
) -> String {
    let good = good(sets, outcomes);
    let (bits, functions) = filter;
    if good.len() < 2 {
        return format!("{bits:>7}  {functions:>9}  no segment over the faulty frames");
    }
    let runs: Vec<&Outcome> = good.iter().map(|(_, outcome)| *outcome).collect();
    let counted =
        good.iter().map(|(set, outcome)| false_positive_share(filter, &outcome.segment, set));
    let closed = false_positives(bits, functions, sets[0].len()) * 100.0;
    format!(
        "{bits:>7}  {functions:>9}  {}  {:>15}  {closed:>11.4} %",
        time(&slowdowns(base, &runs)),
        share(counted)
    )
}
