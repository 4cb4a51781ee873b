//! Parts of HTML pages: tables, figures, sections that all pages have, and the page around them.

mod figure;
mod page;
mod table;

use maud::{Markup, html};

pub(crate) use figure::{Figure, figures, file_name, linked, places};
pub(crate) use page::Page;
pub(crate) use table::{Cell, Grid, Heading, all, dot, headings};

use perforate_results::{Vocabulary, clean};

/// What the page says besides the results.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Title of the page.
    pub title: String,
    /// Command that makes the same results again; left out when empty.
    pub command: String,
    /// What is known of the counters and schemes in the results.
    pub vocabulary: Vocabulary,
}

/// The top of a page; `sections` are anchors and names for its navigation.
pub(crate) fn header(
    kicker: &str,
    options: &ReportOptions,
    headline: &Markup,
    sections: &[(String, String)],
) -> Markup {
    html! {
        header {
            p.kicker { (kicker) }
            h1 { (clean(&options.title)) }
            (headline)
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

/// What is to be known about the figures; nothing where there is nothing.
pub(crate) fn notes(lines: &[Markup]) -> Markup {
    html! {
        @if !lines.is_empty() {
            aside.notes { h3 { "Notes" } ul { @for line in lines { li { (line) } } } }
        }
    }
}

/// How to make the same results again.
pub(crate) fn run_again<'a>(
    versions: impl IntoIterator<Item = &'a str>,
    options: &ReportOptions,
) -> Markup {
    let mut versions: Vec<&str> =
        versions.into_iter().filter(|version| !version.is_empty()).collect();
    versions.sort_unstable();
    versions.dedup();
    html! {
        section #again {
            h2 { "Run it again" }
            @if !options.command.is_empty() { (command(&options.command)) }
            p {
                @if !versions.is_empty() { "Results were written by version " (versions.join(", ")) ". " }
                "The same inputs, configuration and seed give the same results."
            }
        }
    }
}
