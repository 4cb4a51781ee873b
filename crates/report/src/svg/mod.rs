//! Figures as files: charts as SVG, and their data as CSV. Charts are drawn without a browser, by
//! the same library as on the page. The library needs a JavaScript engine, which the program
//! contains only with the feature `figures`.

#[cfg_attr(not(feature = "figures"), path = "no_engine.rs")]
mod engine;

use crate::chart;
use crate::html::{Kept, STYLE};
use crate::{ReportError, palette};

use engine::Engine;

/// True if this build can draw figures without a browser: it has the feature `figures`.
pub const CAN_DRAW_FIGURES: bool = cfg!(feature = "figures");

/// Advice for users of a build that cannot draw figures.
pub const HOW_TO_GET_FIGURES: &str = "this program was built without figures; build it with `cargo build --release --features figures`, \
     or save figures from report.html in a browser";

/// Width of a picture in pixels, which equals that of pictures saved from the page.
const WIDTH: u32 = 560;

/// A figure of a page as files: a picture, and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFigure {
    /// Anchor of the figure on the page; also valid as a file name.
    pub id: String,
    /// Title of the figure on the page.
    pub title: String,
    /// Picture as SVG text.
    pub svg: String,
    /// Data of the figure as CSV text.
    pub csv: String,
}

/// Draws the figures of a page, and returns them with their data.
pub(crate) fn save(kept: Vec<Kept>) -> Result<Vec<SavedFigure>, ReportError> {
    if kept.is_empty() {
        return Ok(Vec::new());
    }
    let fail = |problem| ReportError::Drawing { figure: "all".into(), problem };
    let engine = Engine::start().map_err(fail)?;
    kept.into_iter().map(|figure| saved(&engine, figure)).collect()
}

fn saved(engine: &Engine, figure: Kept) -> Result<SavedFigure, ReportError> {
    let Kept { id, title, chart, csv } = figure;
    match engine.draw(&chart.to_string(), WIDTH, &chart::config().to_string()) {
        Ok(svg) => Ok(SavedFigure { id, title, svg: on_white(&svg), csv }),
        Err(problem) => Err(ReportError::Drawing { figure: id, problem }),
    }
}

/// Adds a white background to an SVG text, and replaces the page's colour variables by their values in light
/// mode.
fn on_white(svg: &str) -> String {
    let mut pieces = svg.split("var(--");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once(')').unwrap_or((piece, ""));
        text += light(name);
        text += rest;
    }
    text.replacen("<svg ", "<svg style=\"background:#fff\" ", 1)
}

/// Returns the value of one of the page's colour variables in light mode.
fn light(name: &str) -> &'static str {
    if let Some(colour) = name.strip_prefix("c-") {
        return palette::light(colour);
    }
    let rule = STYLE.split_once(":root{").and_then(|(_, rest)| rest.split_once('}'));
    let mut values = rule.map_or("", |(rule, _)| rule).split(';');
    let value =
        values.find_map(|value| value.strip_prefix("--")?.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or("#888")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_the_page_on_light_ground() {
        let svg = r#"<svg width="1"><path fill="var(--c-perforated)" stroke="var(--ink)"/></svg>"#;
        let expected = r##"<svg style="background:#fff" width="1"><path fill="#009e73" stroke="#1b2128"/></svg>"##;
        assert_eq!(on_white(svg), expected);
    }

    #[test]
    fn a_chart_that_is_none_is_an_error_that_names_it() {
        let kept = Kept {
            id: "odd".into(),
            title: String::new(),
            chart: serde_json::json!({"mark": "no such mark"}),
            csv: String::new(),
        };
        let error = save(vec![kept]).unwrap_err().to_string();
        let figure = if CAN_DRAW_FIGURES { "odd" } else { "all" };
        let start = format!("figure {figure} cannot be drawn: ");
        assert!(error.starts_with(&start), "{error}");
        assert!(CAN_DRAW_FIGURES || error.ends_with(HOW_TO_GET_FIGURES), "{error}");
    }
}
