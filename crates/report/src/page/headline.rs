//! The answer at the top of a page.

use maud::{Markup, html};

use crate::answer::{answer, headline};
use crate::comparison::Comparison;

/// The answer in one sentence.
pub(super) fn sentence(comparison: &Comparison<'_>) -> Markup {
    headline(comparison).markup()
}

/// The answer in one sentence, as a paragraph.
pub(super) fn paragraph(comparison: &Comparison<'_>) -> Markup {
    html! { p.headline { (sentence(comparison)) } }
}

/// The full answer; empty if one sentence says it all.
pub(super) fn at_length(comparison: &Comparison<'_>) -> Markup {
    let (sentences, short) = (answer(comparison), headline(comparison).text());
    let more = sentences.iter().any(|sentence| sentence.text() != short);
    html! {
        @if more { p.answer { @for sentence in &sentences { (sentence.markup()) " " } } }
    }
}
