//! Sentences about the causes of the address-translation cost of a run.

use perforate_types::{Counter, Part};

use super::{Sentence, WORTH_A_LOOK};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::{percent, share};
use crate::{ids, waiting};

/// Share of a run's time, 0–1, for which a hardware unit must be busy to be called a bottleneck.
const SATURATED: f64 = 0.9;
/// Share of the translation stall cycles, 0–1, from which the answer names a component of these cycles.
const NAMED: f64 = 0.1;
/// Difference between translation's share of the critical path and the share of time that free translation
/// saves, 0–1, above which the answer explains the difference.
const MARGIN: f64 = 0.05;

/// Returns the sentence on the bottleneck of the reference scheme: translation's share of its critical path
/// with the largest components, saturated hardware, and the reason if free translation would save a different
/// share. `None` if nothing of this is known.
pub(super) fn bottleneck(comparison: &Comparison<'_>) -> Option<Sentence> {
    let reference = &comparison.schemes[comparison.reference];
    let on_path = comparison.translation_share(comparison.reference)?;
    let saving = comparison.saving(comparison.reference);
    let mut clauses = Vec::new();
    if on_path.mean >= WORTH_A_LOOK {
        clauses.push(critical_path(comparison, reference, share(on_path))?);
    }
    clauses.extend(saturated(reference));
    clauses.extend(saving.and_then(|saving| discrepancy(comparison, on_path.mean, saving.mean)));
    let sentence = Sentence::default().strong("Why: ").plain(clauses.join("; ")).plain(".");
    (!clauses.is_empty()).then_some(sentence)
}

/// Returns the clause on translation's share of the reference's critical path, `on_path`, with the largest
/// components in parentheses.
fn critical_path(
    comparison: &Comparison<'_>,
    reference: &SchemeRuns<'_>,
    on_path: String,
) -> Option<String> {
    let stall = reference.counter(ids::TRANSLATION_STALL_CYCLES)?;
    let parts = largest(waiting::parts(comparison.vocabulary), &|counter| {
        Some(reference.counter(&counter.id)? / stall)
    });
    let named: Vec<String> = parts
        .iter()
        .filter(|(_, share)| *share >= NAMED)
        .take(3)
        .map(|(label, share)| format!("{label} {:.0} %", share * 100.0))
        .collect();
    let of_it = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    Some(format!("translation is {on_path} of the critical path{of_it}"))
}

/// Returns a clause for each hardware unit that is busy nearly all the time in the reference's runs.
fn saturated(reference: &SchemeRuns<'_>) -> impl Iterator<Item = String> {
    let busy = [
        (ids::PAGE_WALKERS_BUSY, "the page walkers are busy"),
        (ids::L1D_MSHRS_BUSY, "the L1D's MSHRs are taken"),
        (ids::DRAM_BUSY, "memory's buses are busy"),
    ];
    busy.into_iter().filter_map(|(id, what)| {
        let busy = reference.counter(id).filter(|&busy| busy >= SATURATED)?;
        Some(format!("{what} {} of the time", percent(busy)))
    })
}

/// Returns the reason why free translation saves a different share of time (`saved`) than translation has of
/// the critical path (`on_path`). Other waits either overlap with translation and remain, or are caused by it
/// and disappear with it.
fn discrepancy(comparison: &Comparison<'_>, on_path: f64, saved: f64) -> Option<String> {
    if (on_path - saved).abs() <= MARGIN {
        return None;
    }
    let reference = &comparison.schemes[comparison.reference];
    let free = &comparison.schemes[comparison.bound?];
    let base = reference.spread(|run| run.cycles())?.median;
    // Both figures are relative to the reference's cycles, because both runs execute the same instructions.
    let change = |counter: &Counter| {
        Some((free.counter(&counter.id)? - reference.counter(&counter.id)?) / base)
    };
    let others = || waiting::other_parts(comparison.vocabulary);
    if on_path > saved {
        let (label, more) = largest(others(), &change).into_iter().next()?;
        let less = if saved > 0.0 { format!("less, {}", percent(saved)) } else { "nothing".into() };
        return (more > 0.0).then(|| {
            format!(
                "free translation would save {less}, as other waits then show: {label} takes {} more of \
                 the time",
                percent(more)
            )
        });
    }
    let (label, less) = largest(others(), &|counter| Some(-change(counter)?)).into_iter().next()?;
    (less > 0.0).then(|| {
        format!(
            "free translation would save more, {}, as other waits shorten with it: {label} takes {} \
             less of the time",
            percent(saved),
            percent(less)
        )
    })
}

/// Returns the labels of cycle-stack components with the number that `figure` computes from each component's
/// counter, largest number first. Components without a number are left out.
fn largest<'v>(
    parts: impl Iterator<Item = (&'v Counter, &'v Part)>,
    figure: &dyn Fn(&Counter) -> Option<f64>,
) -> Vec<(&'v str, f64)> {
    let mut found: Vec<(&str, f64)> =
        parts.filter_map(|(counter, part)| Some((&*part.label, figure(counter)?))).collect();
    found.sort_by(|one, other| other.1.total_cmp(&one.1));
    found
}
