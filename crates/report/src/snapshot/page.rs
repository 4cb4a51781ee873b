//! A snapshot as one HTML page.

use super::{Section, Snapshot, Value};
use crate::ReportOptions;
use crate::format::escape;
use crate::page::figure::{Cell, Grid, file_name};
use crate::page::{document, run_again, single_map};

/// The snapshot as one self-contained HTML page that opens offline.
///
/// The same record and options give the same bytes. All text is escaped.
pub fn snapshot_html(snapshot: &Snapshot, options: &ReportOptions) -> String {
    let sections = snapshot.sections();
    let mut body = format!(
        "<header><p class=\"kicker\">Snapshot</p><h1>{}</h1><p class=\"headline\">{}</p>\
         <nav aria-label=\"Sections\">",
        escape(&options.title),
        escape(&snapshot.title())
    );
    for section in &sections {
        body +=
            &format!("<a href=\"#{}\">{}</a>", file_name(&section.title), escape(&section.title));
    }
    body += "<a href=\"#again\">Run it again</a></nav></header>\n<section class=\"comparison\">";
    let map = match snapshot {
        Snapshot::Host(record) => record.memory_map.as_ref(),
        Snapshot::Process(_) => None,
    };
    if let Some(map) = map {
        body += &single_map(map, "snapshot");
    }
    body.extend(sections.iter().map(table));
    let notes: String =
        snapshot.notes().iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    if !notes.is_empty() {
        body += &format!("<aside class=\"notes\"><h3>Notes</h3><ul>{notes}</ul></aside>");
    }
    body += "</section>\n";
    let version = match snapshot {
        Snapshot::Host(record) => record.version.as_str(),
        Snapshot::Process(record) => record.version.as_str(),
    };
    body += &run_again(vec![version], options);
    document(&options.title, &body)
}

fn table(section: &Section) -> String {
    let cell = |value: &Value| match value {
        Value::Text(text) => Cell::text(text.trim_end()),
        Value::Number(number, write) => Cell::value(*number, write),
    };
    let rows = section.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let head = section.head.iter().map(|name| name.as_str().into()).collect();
    let grid = Grid { head, rows };
    format!(
        "<h2 id=\"{}\">{}</h2><p class=\"lead\">{}</p>{}",
        file_name(&section.title),
        escape(&section.title),
        escape(&section.lead),
        grid.scrolling(&section.title, "main")
    )
}
