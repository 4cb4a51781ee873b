//! Building blocks of HTML pages: tables, figures, common sections, and the page itself.

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

/// Title, command and other texts of a page, in addition to the results that it shows.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Title of the page.
    pub title: String,
    /// Command that produces the results again; empty if unknown.
    pub command: String,
    /// Contents of the results file, which readers can save from the page; empty for no such button.
    pub results: String,
    /// Registered counters and schemes, with which the results are interpreted.
    pub vocabulary: Vocabulary,
}

/// Returns the top of a page: its title, its answer, and how to reproduce it. `sections` are the anchors and
/// names in the page's navigation.
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

/// Returns a command with a button to copy it.
pub(crate) fn command(text: &str) -> Markup {
    html! { div.command { pre tabindex="0" { (clean(text)) } } }
}

/// Returns a list of notes on the figures of a page; empty if there are no notes.
pub(crate) fn notes(lines: &[Markup]) -> Markup {
    html! {
        @if !lines.is_empty() {
            aside.notes { h3 { "Notes" } ul { @for line in lines { li { (line) } } } }
        }
    }
}
