//! Charts as SVG.
//!
//! A chart is complete by itself: title, legend, axis and light colours are attributes of the
//! picture, so that a saved file looks the same anywhere. The page's style sheet overrides the
//! colours by class for dark ground. Charts are 440 units wide: text stays readable on a screen
//! of 400 pixels without a second version.

mod area;
mod bars;
mod grouped;
mod heat;
mod holes;
mod horizontal;
mod legend;
mod line;
mod marker;
mod memory_map;
mod scale;
mod stacked;
mod svg;

pub(crate) use area::Area;
pub(crate) use bars::{Bar, Bars};
pub(crate) use grouped::{Group, GroupBar, GroupSeries, Grouped};
pub(crate) use heat::{Heat, HeatCell};
pub(crate) use holes::holes;
pub(crate) use horizontal::{Axis, Ground};
pub(crate) use line::{Line, LinePoint, Lines};
pub(crate) use marker::Look;
pub(crate) use memory_map::{CellRun, Maps, Picture, coarse, common_scale, inner_squares};
pub(crate) use stacked::{Row, Stacked};

/// Width of every chart in its own units.
pub(crate) const WIDTH: f64 = 440.0;

/// What the values are, above a chart's plot; returns the height it takes.
fn draw_value_label(svg: &mut svg::Svg, top: f64, label: &str) -> f64 {
    let text = svg::fit(label, horizontal::TICK, WIDTH);
    svg.text(0.0, top + 8.0, horizontal::TICK, svg::Anchor::Start, svg::Ink::Muted, &text);
    20.0
}

/// One series of a stack.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Name in the results.
    pub key: String,
    /// Name for readers.
    pub label: String,
    /// Name of its colour.
    pub colour: &'static str,
}
