//! Components of the cycle stack, divided into address translation and other waits.

use perforate_records::{RunResult, Vocabulary};
use perforate_types::{Counter, Part};

use crate::ids;

/// Returns the components of the cycle stack that are address translation, in the order in which charts stack
/// them.
pub(crate) fn parts(vocabulary: &Vocabulary) -> impl Iterator<Item = (&Counter, &Part)> {
    vocabulary.parts(ids::STACK_CYCLES).filter(|(_, part)| is_translation(vocabulary, part))
}

/// Returns the components of the cycle stack that are not address translation.
pub(crate) fn other_parts(vocabulary: &Vocabulary) -> impl Iterator<Item = (&Counter, &Part)> {
    vocabulary.parts(ids::STACK_CYCLES).filter(|(_, part)| !is_translation(vocabulary, part))
}

/// True if a component of the cycle stack is address translation: translation latency, or page walks that
/// wait for MSHRs.
fn is_translation(vocabulary: &Vocabulary, part: &Part) -> bool {
    let mut latencies = vocabulary.parts(ids::TRANSLATION_CYCLES);
    part.key == "walk_mshr" || latencies.any(|(_, latency)| latency.key == part.key)
}

/// Returns the number of loads and stores in a run, including loads that are forwarded from an earlier store.
/// `None` if there are none.
pub(crate) fn memory_accesses(run: &RunResult) -> Option<f64> {
    let accesses = run.counter(ids::LOADS)? + run.counter(ids::STORES)?;
    (accesses > 0.0).then_some(accesses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_accesses_have_no_share_of_them() {
        let accesses = |counters: &str| {
            let run = format!(r#"{{"scheme":"4k","workload":"w","counters":{counters}}}"#);
            memory_accesses(&perforate_records::read_results(&run).unwrap()[0])
        };
        assert_eq!(accesses(r#"{"loads":3,"stores":2}"#), Some(5.0));
        assert_eq!(accesses(r#"{"loads":0,"stores":0}"#), None);
        assert_eq!(accesses(r#"{"loads":3}"#), None, "functional runs count no stores");
    }
}
