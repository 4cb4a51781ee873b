//! Components of the cycle stack that are address translation.

use perforate_records::{RunResult, Vocabulary};
use perforate_types::{Counter, Part};

use crate::ids;

/// Components of the cycle stack that are address translation, in the order in which charts stack
/// them.
pub(crate) fn parts(vocabulary: &Vocabulary) -> impl Iterator<Item = (&Counter, &Part)> {
    vocabulary.parts(ids::STACK_CYCLES).filter(|(_, part)| is_translation(vocabulary, part))
}

/// Components of the cycle stack that are not address translation.
pub(crate) fn other_parts(vocabulary: &Vocabulary) -> impl Iterator<Item = (&Counter, &Part)> {
    vocabulary.parts(ids::STACK_CYCLES).filter(|(_, part)| !is_translation(vocabulary, part))
}

/// True for components that are address translation: translation latency, and page walks that wait
/// for MSHRs.
fn is_translation(vocabulary: &Vocabulary, part: &Part) -> bool {
    let mut latencies = vocabulary.parts(ids::TRANSLATION_CYCLES);
    part.key == "walk_mshr" || latencies.any(|(_, latency)| latency.key == part.key)
}

/// Number of loads and stores in a run, including loads that are forwarded from an earlier store.
/// `None` if there are none.
pub(crate) fn memory_accesses(run: &RunResult) -> Option<f64> {
    let accesses = run.counter(ids::LOADS)? + run.counter(ids::STORES)?;
    (accesses > 0.0).then_some(accesses)
}
