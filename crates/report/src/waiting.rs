//! Waiting for address translation: which parts of the cycle stack it is.

use perforate_records::{RunResult, Vocabulary};
use perforate_types::{Counter, Part};

use crate::ids;

/// Parts of the cycle stack that are address translation, in the order in which charts stack the parts.
pub(crate) fn parts(vocabulary: &Vocabulary) -> impl Iterator<Item = (&Counter, &Part)> {
    vocabulary.parts(ids::STACK_CYCLES).filter(|(_, part)| is_translation(vocabulary, part))
}

/// Parts of the cycle stack that are not address translation.
pub(crate) fn other_parts(vocabulary: &Vocabulary) -> impl Iterator<Item = (&Counter, &Part)> {
    vocabulary.parts(ids::STACK_CYCLES).filter(|(_, part)| !is_translation(vocabulary, part))
}

/// True if a part of the cycle stack is address translation: a part of translation latency, or walks
/// waiting for MSHRs.
fn is_translation(vocabulary: &Vocabulary, part: &Part) -> bool {
    let mut latencies = vocabulary.parts(ids::TRANSLATION_CYCLES);
    part.key == "walk_mshr" || latencies.any(|(_, latency)| latency.key == part.key)
}

/// Loads and stores of a run, those that a store before them served as well.
pub(crate) fn memory_accesses(run: &RunResult) -> Option<f64> {
    let accesses = run.counter(ids::LOADS)? + run.counter(ids::STORES)?;
    (accesses > 0.0).then_some(accesses)
}
