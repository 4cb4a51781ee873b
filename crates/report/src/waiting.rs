//! Waiting for address translation: which parts of the cycle stack it is.

use perforate_records::{RunResult, Vocabulary};
use perforate_types::{Counter, Part};

use crate::ids;

/// Those parts, in the order in which charts stack them.
pub(crate) fn parts(vocabulary: &Vocabulary) -> impl Iterator<Item = (&Counter, &Part)> {
    vocabulary.parts("stack_cycles").filter(|(counter, _)| is_translation(vocabulary, &counter.id))
}

/// Parts of the cycle stack that are not address translation.
pub(crate) fn other_parts(vocabulary: &Vocabulary) -> impl Iterator<Item = (&Counter, &Part)> {
    vocabulary.parts("stack_cycles").filter(|(counter, _)| !is_translation(vocabulary, &counter.id))
}

/// Whether a part of the cycle stack is address translation: it is a part of translations' latencies
/// too, or waiting of walks.
fn is_translation(vocabulary: &Vocabulary, id: &str) -> bool {
    let Some(name) = id.strip_prefix(ids::STACK_CYCLES_) else { return false };
    let mut latencies = vocabulary.parts(ids::TRANSLATION_CYCLES);
    name == "walk_mshr" || latencies.any(|(_, part)| part.key == name)
}

/// Loads and stores of a run, those that a store before them served as well.
pub(crate) fn memory_accesses(run: &RunResult) -> Option<f64> {
    let accesses = run.counter(ids::LOADS)? + run.counter(ids::STORES)?;
    (accesses > 0.0).then_some(accesses)
}
