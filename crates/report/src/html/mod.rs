//! Parts of HTML pages: tables, figures, sections that all pages have, and the page around them.

mod again;
mod figure;
mod page;
mod table;

use maud::{Markup, html};

pub(crate) use again::Origin;
pub(crate) use figure::{Figure, figures, file_name, linked, places};
#[cfg(feature = "figures")]
pub(crate) use page::LIBRARY;
pub(crate) use page::{Kept, Page, STYLE};
pub(crate) use table::{Cell, Grid, Heading, all, dot, headings};

use perforate_records::{Vocabulary, clean};

/// Options of a page, besides the results.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Title of the page.
    pub title: String,
    /// Command that makes the same results again; not shown if empty.
    pub command: String,
    /// The results as written, which the page offers for saving; not offered if empty.
    pub results: String,
    /// Registered counters and schemes for the results.
    pub vocabulary: Vocabulary,
}

/// The top of a page: what it says first, and how it is made again. Below it, `sections` are anchors and
/// names for its navigation.
pub(crate) fn header(
    kicker: &str,
    options: &ReportOptions,
    first: &Markup,
    again: &Markup,
    sections: &[(String, String)],
) -> Markup {
    html! {
        header {
            div.bar { p.kicker { (kicker) } (again) }
            h1 { (clean(&options.title)) }
            (first)
        }
        @if !sections.is_empty() {
            nav aria-label="Sections" {
                @for (anchor, name) in sections { a href={ "#" (anchor) } { (name) } }
            }
        }
    }
}

/// A command that can be copied.
pub(crate) fn command(text: &str) -> Markup {
    html! { div.command { pre tabindex="0" { (clean(text)) } } }
}

/// List of notes on the figures; empty without notes.
pub(crate) fn notes(lines: &[Markup]) -> Markup {
    html! {
        @if !lines.is_empty() {
            aside.notes { h3 { "Notes" } ul { @for line in lines { li { (line) } } } }
        }
    }
}
