//! HTML page of a snapshot.

use maud::{Markup, html};
use perforate_records::Snapshot;

use super::{Section, Shown, Value};
use crate::html::{Cell, Grid, Origin, Page, ReportOptions, file_name, header, notes};
use crate::page::single_map;

/// Returns the snapshot as one self-contained HTML page that works offline.
///
/// Equal records and options give equal bytes. All text is escaped.
pub fn snapshot_html(snapshot: &Snapshot, options: &ReportOptions) -> String {
    let mut page = Page::default();
    let Shown { title, verdict, sections, memory_map, notes: remarks, version } =
        Shown::of(snapshot);
    let links: Vec<(String, String)> =
        sections.iter().map(|section| (file_name(&section.title), section.title.clone())).collect();
    let headline = html! {
        p.about { (title) }
        @if let Some((first, rest)) = verdict.split_first() {
            p.headline { (first) }
            @if !rest.is_empty() { p.answer { (rest.join(" ")) } }
        }
    };
    let remarks: Vec<Markup> = remarks.iter().map(|note| html! { (note) }).collect();
    let again = Origin::of_versions([version]).section(options, &mut page);
    let body = html! {
        (header("Snapshot", options, &headline, &again, &links))
        section.comparison {
            @if let Some(map) = memory_map { (single_map(map, "snapshot", &mut page)) }
            @for section in &sections { (table(section)) }
            (notes(&remarks))
        }
    };
    page.write(options, &body)
}

fn table(section: &Section) -> Markup {
    let cell = |value: &Value| match value {
        Value::Text(text) => Cell::text(text.trim_end()),
        Value::Number(number, write) => Cell::value(*number, write),
    };
    let rows = section.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let head = section.head.iter().map(|name| name.as_str().into()).collect();
    html! {
        h2 id=(file_name(&section.title)) { (section.title) }
        p.lead { (section.lead) }
        (Grid { head, rows }.scrolling(&section.title, "main"))
    }
}
