//! Helpers for tests of pages: the markup as XML, and the charts and tables that the page's script shows.

use std::io::Read as _;

use crate::vocabulary::options;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use perforate_records::read_results;
use perforate_report::html;
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

/// The page of a results file with these lines.
pub fn page(lines: &[String]) -> String {
    let options = options("Sample", "");
    html(&read_results(&lines.join("\n")).unwrap(), &options)
}

/// The page without its scripts.
pub fn markup(page: &str) -> String {
    closed(without_scripts(page))
}

fn without_scripts(page: &str) -> String {
    let mut parts = page.split("<script").enumerate().map(|(index, part)| match index {
        0 => part,
        _ => part.split_once("</script>").expect("scripts end").1,
    });
    parts.by_ref().collect()
}

/// Elements that have no end in HTML have one in XML.
fn closed(text: String) -> String {
    ["meta", "link", "wbr"].iter().fold(text, |text, name| {
        let start = format!("<{name}");
        let pieces = text.split(&start).enumerate().map(|(index, piece)| match index {
            0 => piece.to_owned(),
            _ => start.clone() + piece.replacen('>', "/>", 1).as_str(),
        });
        pieces.collect()
    })
}

/// The page including all sections that are made only when opened.
fn opened(page: &str) -> String {
    // A table alone is no page.
    if !page.contains("id=\"data\"") {
        return markup(page);
    }
    let data = data(page);
    let parts = strings_of(&data["parts"]);
    let text = parts.iter().enumerate().fold(without_scripts(page), |text, (number, part)| {
        let place = format!(" data-part=\"{number}\">");
        assert!(text.contains(&place), "no place for part {number}");
        text.replacen(&place, &format!(">{part}"), 1)
    });
    closed(text)
}

/// Looks at the page with all its sections open.
pub fn check<T>(page: &str, look: impl FnOnce(&Document<'_>) -> T) -> T {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let text = opened(page);
    let document = Document::parse_with_options(&text, options).unwrap();
    look(&document)
}

/// The element with this id.
pub fn find<'a>(document: &'a Document<'a>, id: &str) -> Option<Node<'a, 'a>> {
    document.descendants().find(|node| node.attribute("id") == Some(id))
}

/// The element with this id, which must be there.
pub fn element<'a>(document: &'a Document<'a>, id: &str) -> Node<'a, 'a> {
    find(document, id).expect(id)
}

pub fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter_map(|inner| inner.text().filter(|_| inner.is_text())).collect()
}

/// Full value of a cell: what is shown unless the cell says otherwise.
pub fn value(cell: Node<'_, '_>) -> String {
    let shown = || match cell.attribute("class") {
        Some("n") => text(cell).replace(',', ""),
        _ => text(cell),
    };
    cell.attribute("data-value").map_or_else(shown, String::from)
}

/// Data that the page's script unpacks: `figures`, `texts` and `parts`.
pub fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").expect("the page has data");
    let packed = BASE64_STANDARD.decode(rest.split_once('<').unwrap().0).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The specification of a figure's chart.
pub fn chart(page: &str, id: &str) -> Value {
    let chart = data(page)["figures"][id]["chart"].clone();
    assert!(chart.is_object(), "no chart {id}");
    chart
}

/// Names in the legend of a chart.
pub fn legend(chart: &Value) -> Vec<String> {
    strings(&chart["usermeta"]["legend"], "label")
}

/// One field of each of these objects.
pub fn strings(all: &Value, field: &str) -> Vec<String> {
    let all = all.as_array().expect("a list").iter();
    all.map(|one| one[field].as_str().expect(field).to_owned()).collect()
}

/// The values that a chart draws.
pub fn marks(chart: &Value) -> &Vec<Value> {
    chart["data"]["values"].as_array().expect("values")
}

/// Headings and rows of the table below a chart, in full.
pub fn table(page: &str, id: &str) -> (Vec<String>, Vec<Vec<String>>) {
    cells(page, id, value)
}

/// Rows of the table below a chart as they are shown.
pub fn shown(page: &str, id: &str) -> Vec<Vec<String>> {
    cells(page, id, text).1
}

fn cells(
    page: &str,
    id: &str,
    read: impl Fn(Node<'_, '_>) -> String,
) -> (Vec<String>, Vec<Vec<String>>) {
    let all = data(page);
    let table = all["figures"][id]["table"].as_str().expect(id);
    check(table, |document| {
        let rows = document.descendants().filter(|node| node.has_tag_name("tr"));
        let mut rows = rows.map(|row| row.children().map(&read).collect());
        (rows.next().expect("headings"), rows.collect())
    })
}

/// All strings of a list.
fn strings_of(list: &Value) -> Vec<String> {
    let strings = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    strings.map(String::from).collect()
}
