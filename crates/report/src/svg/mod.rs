//! Figures as files: the charts of a page as SVG, drawn without a browser by the library that draws
//! them on the page, and the data below them as CSV.

use rquickjs::{CatchResultExt, Context, Ctx, Function, Promise, Runtime};
use serde_json::Value;

use crate::chart;
use crate::html::{LIBRARY, STYLE};
use crate::palette;
use crate::{ReportError, html::Kept};

const DRAW: &str = include_str!("draw.js");

/// Pixels that a picture is wide, as those that the page saves.
const WIDTH: u32 = 560;

/// A figure of a page, as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFigure {
    /// Its anchor on the page, which can be a file's name.
    pub id: String,
    /// What stands above it.
    pub title: String,
    /// The picture.
    pub svg: String,
    /// The data below it.
    pub csv: String,
}

/// Draws figures that a page has kept.
pub(crate) fn save(kept: Vec<Kept>) -> Result<Vec<SavedFigure>, ReportError> {
    if kept.is_empty() {
        return Ok(Vec::new());
    }
    let fail = |problem: String| ReportError::Drawing { figure: "all".into(), problem };
    let runtime = Runtime::new().map_err(|error| fail(error.to_string()))?;
    let context = Context::full(&runtime).map_err(|error| fail(error.to_string()))?;
    context.with(|engine| {
        for source in [DRAW, LIBRARY] {
            let loaded = engine.eval::<(), _>(source).catch(&engine);
            loaded.map_err(|error| fail(error.to_string()))?;
        }
        kept.into_iter().map(|figure| saved(&engine, figure)).collect()
    })
}

fn saved(engine: &Ctx<'_>, figure: Kept) -> Result<SavedFigure, ReportError> {
    let Kept { id, title, chart, csv } = figure;
    match drawn(engine, &chart) {
        Ok(svg) => Ok(SavedFigure { id, title, svg: on_white(&svg), csv }),
        Err(problem) => Err(ReportError::Drawing { figure: id, problem }),
    }
}

fn drawn(engine: &Ctx<'_>, chart: &Value) -> Result<String, String> {
    let draw = || -> rquickjs::Result<String> {
        let draw: Function<'_> = engine.globals().get("draw")?;
        let arguments = (chart.to_string(), WIDTH, chart::config().to_string());
        draw.call::<_, Promise<'_>>(arguments)?.finish()
    };
    draw().catch(engine).map_err(|error| error.to_string())
}

/// The picture with the page's colours on light ground instead of their names.
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

/// A colour of the page on light ground.
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
        assert!(error.starts_with("figure odd cannot be drawn: "), "{error}");
    }
}
