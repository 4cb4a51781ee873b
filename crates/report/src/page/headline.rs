//! The answer and a few numbers that say what the comparison found.

use maud::{Markup, html};
use perforate_results::RunResult;

use crate::answer::answer;
use crate::comparison::Comparison;
use crate::format::{bytes, ratio};
use crate::ids;
use crate::metric::{self, per_kilo_instruction};

/// The answer's first sentence.
pub(super) fn sentence(comparison: &Comparison<'_>) -> Markup {
    html! { @if let Some(first) = answer(comparison).first() { (first.markup()) } }
}

/// The whole answer: its first sentence, then the others.
pub(super) fn paragraphs(comparison: &Comparison<'_>) -> Markup {
    let sentences = answer(comparison);
    let (first, rest) = sentences.split_at(sentences.len().min(1));
    html! {
        @for sentence in first { p.headline { (sentence.markup()) } }
        @if !rest.is_empty() { p.answer { @for sentence in rest { (sentence.markup()) " " } } }
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
