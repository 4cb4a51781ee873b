//! What tests of the page share: it is well-formed XML but for its script.

#![allow(dead_code, reason = "no test uses all of them")]

use perforate_report::{ReportOptions, html, read_results};
use roxmltree::{Document, Node, ParsingOptions};

/// The page of a results file with these lines.
pub fn page(lines: &[String]) -> String {
    let options = ReportOptions { title: "Sample".into(), command: String::new() };
    html(&read_results(&lines.join("\n")).unwrap(), &options)
}

/// The page without its script, which is the only part that is not XML.
pub fn without_script(page: &str) -> String {
    let (before, rest) = page.split_once("<script>").unwrap();
    let (_, after) = rest.split_once("</script>").unwrap();
    assert!(!after.contains("<script"), "one script only");
    format!("{before}{after}")
}

pub fn check<T>(page: &str, look: impl FnOnce(&Document<'_>) -> T) -> T {
    let text = without_script(page);
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).unwrap();
    look(&document)
}

/// The element with this id.
pub fn find<'a>(document: &'a Document<'a>, id: &str) -> Option<Node<'a, 'a>> {
    document.descendants().find(|node| node.attribute("id") == Some(id))
}

/// The element with this id, which must be there.
pub fn figure<'a>(document: &'a Document<'a>, id: &str) -> Node<'a, 'a> {
    document.descendants().find(|node| node.attribute("id") == Some(id)).expect(id)
}

pub fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter_map(|inner| inner.text().filter(|_| inner.is_text())).collect()
}

/// Names in the legend of a figure.
pub fn legend(figure: Node<'_, '_>) -> Vec<String> {
    let items = figure.descendants().filter(|node| node.attribute("class") == Some("legend-item"));
    items.map(text).collect()
}

/// Numbers in the geometry of every picture.
pub fn check_geometry(document: &Document<'_>) {
    let geometry =
        ["x", "y", "x1", "x2", "y1", "y2", "width", "height", "rx", "d", "viewBox", "data-places"];
    let pictures = document.descendants().filter(|node| node.has_tag_name("svg"));
    for node in pictures.flat_map(|picture| picture.descendants()) {
        for attribute in node.attributes().filter(|one| geometry.contains(&one.name())) {
            let numbers =
                attribute.value().split(|c: char| c.is_ascii_alphabetic() && c != 'e' || c == ' ');
            for number in numbers.filter(|number| !number.is_empty()) {
                let value: f64 = number.parse().unwrap_or(f64::NAN);
                assert!(value.is_finite(), "{}={:?}", attribute.name(), attribute.value());
            }
        }
    }
}
