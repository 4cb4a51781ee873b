//! Why translation costs what it costs.

use super::{Sentence, WORTH_A_LOOK};
use crate::comparison::Comparison;
use crate::format::percent;
use crate::{ids, waiting};

/// A part that is taken for this share of the time is what limits a run.
const SATURATED: f64 = 0.9;

/// What the reference waits for when it waits for translation: a part that is always taken, if there
/// is one, and the largest parts of its cycle stack.
pub(super) fn bottleneck(comparison: &Comparison<'_>) -> Option<Sentence> {
    let reference = &comparison.schemes[comparison.reference];
    let cycles = reference.spread(|run| run.cycles())?.median;
    let stall = reference.counter(ids::TRANSLATION_STALL_CYCLES)?;
    if cycles <= 0.0 || stall / cycles < WORTH_A_LOOK {
        return None;
    }
    let mut parts: Vec<(&str, f64)> = waiting::parts(comparison.vocabulary)
        .filter_map(|(counter, part)| Some((&*part.label, reference.counter(&counter.id)? / stall)))
        .collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let named: Vec<String> = parts
        .iter()
        .filter(|(_, share)| *share >= 0.1)
        .take(3)
        .map(|(label, share)| format!("{:.0} % is {label}", share * 100.0))
        .collect();
    let mut clauses = Vec::new();
    if !named.is_empty() {
        clauses.push(format!("of that wait, {}", named.join(", ")));
    }
    let busy = [
        (ids::PAGE_WALKERS_BUSY, "the page walkers are busy"),
        (ids::L1D_MSHRS_BUSY, "the L1D's MSHRs are taken"),
        (ids::DRAM_BUSY, "memory's buses are busy"),
    ];
    let saturated = busy.into_iter().filter_map(|(id, what)| {
        let busy = reference.counter(id).filter(|&busy| busy >= SATURATED)?;
        Some(format!("{what} {} of the time", percent(busy)))
    });
    clauses.extend(saturated);
    let sentence = Sentence::default().strong("Why: ").plain(clauses.join("; ")).plain(".");
    (!clauses.is_empty()).then_some(sentence)
}
