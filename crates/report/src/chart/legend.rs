//! Legends, inside the picture; the page's script makes their items switches.

use super::svg::{Anchor, Ink, Svg, fit, length, text_width};
use super::{Series, WIDTH};
use crate::format::escape;
use crate::palette;

const SIZE: f64 = 12.0;
const LINE: f64 = 20.0;
/// Room of a square sign and the gap behind it.
pub(super) const SQUARE: f64 = 16.0;

/// Draws the legend of a stack at the top and returns its height.
pub(crate) fn draw(svg: &mut Svg, series: &[Series]) -> f64 {
    let items = series.iter().map(|one| (one.key.as_str(), one.label.as_str()));
    draw_items(svg, items, SQUARE, |svg, index, (x, y)| {
        let colour = series[index].colour;
        let look = format!("class=\"f-{colour}\" fill=\"{}\"", palette::light(colour));
        draw_square(svg, &look, (x, y));
    })
}

/// Draws keys with labels, each behind a sign that takes `room`; `sign` is given the item's number
/// and the place where its text begins less that room.
pub(super) fn draw_items<'a>(
    svg: &mut Svg,
    items: impl Iterator<Item = (&'a str, &'a str)>,
    room: f64,
    sign: impl Fn(&mut Svg, usize, (f64, f64)),
) -> f64 {
    let (mut x, mut y) = (0.0, 14.0);
    for (index, (key, label)) in items.enumerate() {
        let label = fit(label, SIZE, WIDTH - room - 12.0);
        let width = room + text_width(&label, SIZE) + 12.0;
        if x > 0.0 && x + width - 8.0 > WIDTH {
            (x, y) = (0.0, y + LINE);
        }
        svg.raw(&format!(
            "<g class=\"legend-item\" data-series=\"{}\"><rect class=\"hit\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{LINE}\" fill=\"none\" pointer-events=\"all\"/>",
            escape(key),
            length(x),
            length(y - 14.0),
            length(width),
        ));
        sign(svg, index, (x, y));
        svg.text(x + room, y, SIZE, Anchor::Start, Ink::Plain, &label);
        svg.raw("</g>");
        x += width;
    }
    y + 10.0
}

/// A square with these attributes before a text that stands on `y`.
pub(super) fn draw_square(svg: &mut Svg, look: &str, (x, y): (f64, f64)) {
    svg.raw(&format!(
        "<rect {look} x=\"{}\" y=\"{}\" width=\"11\" height=\"11\" rx=\"2\"/>",
        length(x),
        length(y - 9.5),
    ));
}
