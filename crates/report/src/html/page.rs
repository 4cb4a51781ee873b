//! A complete HTML page in one file, which loads nothing from the network.
//!
//! Tables and texts are in the HTML. Charts, data tables, and the content of closed sections are in
//! one compressed block, which the page's script unpacks on demand. Text from records may contain
//! control characters or characters that reorder text; this module replaces them.

use std::io::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use perforate_records::{clean, harmless, harmless_json};
use serde_json::{Map, Value, json};

use super::{Figure, ReportOptions};
use crate::chart;
use crate::palette;

pub(crate) const STYLE: &str = concat!(include_str!("style.css"), include_str!("print.css"));

/// Source files of the page's script, which share one scope.
const SCRIPT: &str = concat!(
    include_str!("script/start.js"),
    include_str!("script/tips.js"),
    include_str!("script/charts.js"),
    include_str!("script/pictures.js"),
    include_str!("script/figures.js"),
    include_str!("script/choices.js"),
    include_str!("script/links.js"),
    include_str!("script/tables.js"),
    include_str!("script/parts.js"),
    include_str!("script/run.js"),
);

/// Vega and Vega-Lite with their licences, compressed by gzip (see `vendor/README.md`).
pub(crate) const LIBRARY: &[u8] = include_bytes!("../../vendor/charts.min.js.gz");

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:";

/// Chart and CSV data of a page's figure that can be saved as files.
pub(crate) struct Kept {
    pub id: String,
    pub title: String,
    pub chart: Value,
    pub csv: String,
}

/// A page under construction, with the content that its script shows on demand.
#[derive(Default)]
pub(crate) struct Page {
    figures: Map<String, Value>,
    kept: Vec<Kept>,
    texts: Vec<String>,
    parts: Vec<String>,
    files: Vec<Value>,
}

impl Page {
    /// Adds a figure's chart and its data table to the content shown on demand.
    pub fn add_figure(&mut self, figure: &Figure) {
        let table = harmless(&figure.data.table("").into_string());
        let chart = harmless_json(figure.chart.clone());
        self.figures.insert(figure.id.clone(), json!({"chart": chart, "table": table}));
        self.kept.push(Kept {
            id: figure.id.clone(),
            title: harmless(&figure.title),
            chart,
            csv: harmless(&figure.data.csv()),
        });
    }

    /// Returns the charts of the page that can be saved as files, in the order in which they were added.
    pub fn kept(self) -> Vec<Kept> {
        self.kept
    }

    /// Returns a button that saves a file, and adds the file's contents to the page.
    pub fn file(&mut self, name: &str, text: String) -> Markup {
        self.files.push(json!({"name": name, "text": text}));
        html! {
            button.tool type="button" hidden="hidden" data-file=(self.files.len() - 1) { (name) }
        }
    }

    /// Returns a closed section for a long text, and adds the text to the content shown on demand.
    pub fn folded(&mut self, summary: Markup, text: String) -> Markup {
        self.texts.push(harmless(&text));
        html! {
            details.configuration id={ "text-" (self.texts.len() - 1) } {
                summary { (summary) }
                pre tabindex="0" data-text=(self.texts.len() - 1) {}
            }
        }
    }

    /// Returns a closed section whose content is added to the page when a click or a link opens the section.
    pub fn part(&mut self, id: &str, summary: &Markup, content: Markup) -> Markup {
        self.parts.push(harmless(&content.into_string()));
        html! {
            details.part id=(id) {
                summary { (summary) }
                div data-part=(self.parts.len() - 1) {}
            }
        }
    }

    /// Returns the complete page as HTML, with this body.
    pub fn write(self, options: &ReportOptions, body: &Markup) -> String {
        let library =
            if self.figures.is_empty() { String::new() } else { BASE64_STANDARD.encode(LIBRARY) };
        let data = json!({"config": chart::config(), "figures": self.figures, "texts": self.texts, "parts": self.parts, "files": self.files});
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    link rel="icon" href="data:,";
                    title { (clean(&options.title)) }
                    style { (PreEscaped(palette::rules())) (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        (body)
                        noscript { p { "Charts and the data below them need JavaScript." } }
                    }
                    div #tip hidden="hidden" {}
                    script type="text/plain" id="library" { (PreEscaped(library)) }
                    script type="text/plain" id="data" { (PreEscaped(packed(&data.to_string()))) }
                    script { (PreEscaped(format!("\"use strict\";\n(() => {{\n{SCRIPT}}})();\n"))) }
                }
            }
        };
        harmless(&page.into_string()) + "\n"
    }
}

/// Compresses a text with gzip and encodes the result in base64.
fn packed(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    BASE64_STANDARD.encode(written.expect("memory takes all that is written"))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn the_library_contains_its_licences() {
        let mut text = String::new();
        GzDecoder::new(LIBRARY).read_to_string(&mut text).unwrap();
        let (licences, code) = text.strip_prefix("/*\n").unwrap().split_once("*/\n").unwrap();
        assert_eq!(licences, include_str!("../../vendor/LICENSES.txt"));
        assert!(code.contains("charts="), "{}", &code[..80]);
    }
}
