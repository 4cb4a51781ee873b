//! Signs of curves: dashes and shapes that tell them apart without their colours.

use super::svg::{Svg, length};
use crate::format::escape;
use crate::palette;

/// Dashes of lines.
const DASHES: [&str; 6] = ["none", "7 3", "2 3", "9 3 2 3", "4 2", "1 2"];
/// Shapes around 0, by number.
const SHAPES: [&str; 7] = [
    "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0",
    "m-2.9 -2.9h5.8v5.8h-5.8z",
    "m0 -3.8l3.6 6.6h-7.2z",
    "m0 -4.2l4 4.2l-4 4.2l-4 -4.2z",
    "m0 3.8l3.6 -6.6h-7.2z",
    "m-4 -1.3h2.7v-2.7h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7z",
    "m-4 -1.6h8v3.2h-8z",
];

/// How a curve looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Name of its colour.
    pub colour: &'static str,
    /// Number of the curve, from which dashes and shapes follow.
    pub number: usize,
    /// How often its colour was given to others before; bars then differ in their filling.
    pub round: usize,
}

impl Look {
    /// Attributes of a stroke in this look.
    pub fn stroke(self) -> String {
        format!(
            "class=\"s-{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.2\" stroke-linecap=\"round\" stroke-dasharray=\"{}\"",
            self.colour,
            palette::light(self.colour),
            DASHES[self.number % DASHES.len()]
        )
    }

    /// Attributes of a filled area in this look.
    pub fn fill(self) -> String {
        let opacity = [1.0, 0.45, 0.12][self.round % 3];
        let light = palette::light(self.colour);
        let outline = match self.round % 3 {
            0 => String::new(),
            _ => format!(" stroke=\"{light}\" stroke-width=\"1.2\""),
        };
        let stroke = if outline.is_empty() { "" } else { " s-" };
        format!(
            "class=\"f-{0}{stroke}{1}\" fill=\"{light}\" fill-opacity=\"{opacity}\"{outline}",
            self.colour,
            if stroke.is_empty() { "" } else { self.colour },
        )
    }

    fn shape(self) -> &'static str {
        SHAPES[self.number % SHAPES.len()]
    }

    /// The shape alone, as in a legend.
    pub fn draw_sign(self, svg: &mut Svg, place: (f64, f64)) {
        svg.raw(&format!(
            "<path class=\"f-{}\" fill=\"{}\" d=\"M{} {}{}\"/>",
            self.colour,
            palette::light(self.colour),
            length(place.0),
            length(place.1),
            self.shape()
        ));
    }

    /// A point that says `tip` when pointed at; seen only then unless it `is_seen`.
    pub fn draw_mark(
        self,
        svg: &mut Svg,
        series: &str,
        place: (f64, f64),
        is_seen: bool,
        tip: &str,
    ) {
        svg.raw(&format!(
            "<path class=\"mark f-{}\" data-series=\"{}\" fill=\"{}\"{} d=\"M{} {}{}\"><title>{}</title></path>",
            self.colour,
            escape(series),
            palette::light(self.colour),
            if is_seen { "" } else { " fill-opacity=\"0\"" },
            length(place.0),
            length(place.1),
            self.shape(),
            escape(tip)
        ));
    }
}
