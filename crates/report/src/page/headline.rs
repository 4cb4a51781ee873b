//! One sentence and a few numbers that say what the comparison found.

use maud::{Markup, html};
use perforate_results::RunResult;
use perforate_types::SchemeRole;

use crate::comparison::Comparison;
use crate::format::{bytes, percent, ratio, times};
use crate::ids;
use crate::metric::{self, per_kilo_instruction};

/// The finding as a sentence.
pub(super) fn sentence(comparison: &Comparison<'_>) -> Markup {
    let Some(subject) = comparison.subject() else { return single(comparison) };
    timed(comparison, subject).or_else(|| counted(comparison, subject)).unwrap_or_else(|| {
        html! { (comparison.schemes.len()) " schemes on " strong { (comparison.workload) } "." }
    })
}

fn single(comparison: &Comparison<'_>) -> Markup {
    let scheme = &comparison.schemes[comparison.reference];
    html! {
        strong { (scheme.name) } " runs " strong { (comparison.workload) }
        @if let Some(ipc) = scheme.spread(|run| run.ipc) {
            " at an IPC of " strong { (ratio(ipc.median)) }
        }
        "."
    }
}

/// What IPC says.
fn timed(comparison: &Comparison<'_>, subject: usize) -> Option<Markup> {
    let speed =
        |scheme, reference| comparison.relative_ipc(scheme, reference).map(|spread| spread.median);
    let gain = speed(subject, comparison.reference)?;
    let is_conventional =
        |&index: &usize| comparison.schemes[index].role == SchemeRole::Conventional;
    let conventional = (0..comparison.schemes.len())
        .find(is_conventional)
        .filter(|&index| index != subject && index != comparison.reference)
        .and_then(|index| Some((index, speed(index, comparison.reference)?)));
    Some(html! {
        "On " strong { (comparison.workload) } ", " strong { (comparison.schemes[subject].name) } " runs "
        @if let Some(part) = comparison.ideal.and_then(|ideal| speed(subject, ideal)) {
            "at " strong { (percent(part)) } " of ideal and "
        }
        "at " strong { (times(gain)) } " the speed of " (pages(comparison))
        @if let Some((index, gain)) = conventional {
            "; " (comparison.schemes[index].name) " reaches " strong { (times(gain)) }
        }
        "."
    })
}

/// What misses say, for runs without cycles.
fn counted(comparison: &Comparison<'_>, subject: usize) -> Option<Markup> {
    let misses = |scheme: usize| {
        let runs = &comparison.schemes[scheme];
        runs.spread(|run| {
            per_kilo_instruction(run, ids::L2_TLB_MISSES).or(run.counter(ids::L2_TLB_MPKI))
        })
    };
    let (ours, base) = (misses(subject)?.median, misses(comparison.reference)?.median);
    let change = ours / base - 1.0;
    Some(html! {
        "On " strong { (comparison.workload) } ", " strong { (comparison.schemes[subject].name) }
        " misses the L2 TLB " strong { (ratio(ours)) } " times per 1,000 instructions"
        @if base > 0.0 {
            ", " strong { (percent(change.abs())) }
            @if change <= 0.0 { " less" } @else { " more" } " often than " (pages(comparison))
        }
        "."
    })
}

fn pages<'a>(comparison: &Comparison<'a>) -> &'a str {
    match comparison.reference_name() {
        "4KB" => "4KB pages",
        other => other,
    }
}

/// Label, figure, how it is written.
type Tile = (&'static str, fn(&RunResult) -> Option<f64>, fn(f64) -> String);

const TILES: [Tile; 6] = [
    ("IPC, steady state", |run| run.ipc, ratio),
    ("IPC, including OS work", metric::ipc_with_operating_system, ratio),
    // L2 TLB misses would not compare: a perforated page is found while its hole is walked to.
    ("page walks per 1,000 instructions", |run| per_kilo_instruction(run, ids::WALKS), ratio),
    ("references per walk", metric::references_per_walk, ratio),
    ("translation cycles per 1,000 instructions", metric::translation_cycles, ratio),
    ("page tables, peak", |run| run.counter(ids::PAGE_TABLE_BYTES), bytes),
];

/// The subject's main numbers beside those of the reference.
pub(super) fn tiles(comparison: &Comparison<'_>) -> Markup {
    let Some(subject) = comparison.subject() else { return html! {} };
    let text = |scheme: usize, (_, figure, write): &Tile| {
        comparison.schemes[scheme].spread(figure).map(|spread| write(spread.median))
    };
    let tiles: Vec<(&Tile, String)> =
        TILES.iter().filter_map(|tile| Some((tile, text(subject, tile)?))).collect();
    html! {
        @if !tiles.is_empty() {
            div.tiles role="group" aria-label={ "Main numbers of " (comparison.schemes[subject].name) } {
                @for (tile, ours) in tiles {
                    div.tile {
                        b { (ours) }
                        span { (tile.0) }
                        @if let Some(base) = text(comparison.reference, tile) {
                            span { (comparison.reference_name()) ": " (base) }
                        }
                    }
                }
            }
        }
    }
}
