//! The answer at the top of a page.

use maud::{Markup, html};

use crate::answer::answer;
use crate::comparison::Comparison;

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
