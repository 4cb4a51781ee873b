//! Charts as SVG.
//!
//! A chart is complete by itself: title, legend, axis and light colours are attributes of the
//! picture, so that a saved file looks the same anywhere. The page's style sheet overrides the
//! colours by class for dark ground. Charts are 440 units wide: text stays readable on a screen
//! of 400 pixels without a second version.

mod area;
mod bars;
mod heat;
mod holes;
mod legend;
mod line;
mod memory_map;
mod scale;
mod stacked;
mod svg;

pub(crate) use area::{Area, Axis};
pub(crate) use bars::{Bar, Bars};
pub(crate) use heat::{Heat, HeatCell};
pub(crate) use holes::holes;
pub(crate) use line::{Line, Lines};
pub(crate) use memory_map::{CellRun, Maps, Picture, coarse, common_scale, inner_squares};
pub(crate) use stacked::{Row, Stacked};

/// Width of every chart in its own units.
pub(crate) const WIDTH: f64 = 440.0;

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
