//! The legend of a stack, inside the picture; the page's script makes its items switches.

use super::svg::{Anchor, Ink, Svg, length, text_width};
use super::{Series, WIDTH};
use crate::format::escape;
use crate::palette;

const SIZE: f64 = 12.0;
const LINE: f64 = 20.0;

/// Draws the legend at the top and returns its height.
pub(crate) fn draw(svg: &mut Svg, series: &[Series]) -> f64 {
    let mut x = 0.0;
    let mut y = 14.0;
    for one in series {
        let width = 16.0 + text_width(&one.label, SIZE) + 12.0;
        if x > 0.0 && x + width - 8.0 > WIDTH {
            x = 0.0;
            y += LINE;
        }
        svg.raw(&format!(
            "<g class=\"legend-item\" data-series=\"{0}\"><rect class=\"hit\" x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{LINE}\" fill=\"none\" pointer-events=\"all\"/>\
             <rect class=\"f-{4}\" fill=\"{5}\" x=\"{1}\" y=\"{6}\" width=\"11\" height=\"11\" rx=\"2\"/>",
            escape(&one.key), length(x), length(y - 14.0), length(width), one.colour,
            palette::light(one.colour), length(y - 9.5),
        ));
        svg.text(x + 16.0, y, SIZE, Anchor::Start, Ink::Plain, &one.label);
        svg.raw("</g>");
        x += width;
    }
    y + 10.0
}
