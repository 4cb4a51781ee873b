//! Lines, one per scheme, over instructions or what an experiment varies.

use super::WIDTH;
use super::area::{Axis, HEIGHT, TICK, draw_axis};
use super::scale::{Scale, tick_text};
use super::svg::{Anchor, Ink, Svg, length, text_width};
use crate::format::escape;
use crate::palette;

const LEGEND: f64 = 12.0;
/// Dashes that tell lines apart without their colours.
const DASHES: [&str; 6] = ["none", "7 3", "2 3", "9 3 2 3", "4 2", "1 2"];

/// One line.
pub(crate) struct Line {
    pub label: String,
    pub colour: &'static str,
    /// Place on the horizontal axis, value; the line is broken where there is none.
    pub points: Vec<(f64, Option<f64>)>,
}

/// A chart of lines.
pub(crate) struct Lines<'a> {
    pub title: &'a str,
    pub lines: Vec<Line>,
    /// Largest values of both axes.
    pub top: (f64, f64),
    /// How a value is written in tips.
    pub format: fn(f64) -> String,
    /// Factor and suffix for ticks.
    pub tick: (f64, &'static str),
    /// The horizontal axis.
    pub axis: Axis<'a>,
    /// Whether every point says its values when pointed at.
    pub marks: bool,
}

impl Lines<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new();
        let top = self.draw_legend(&mut svg) + 6.0;
        let floor = top + HEIGHT;
        let vertical = Scale::new(self.top.1, 4, 0.0, HEIGHT);
        let step = vertical.ticks.get(1).copied().unwrap_or(1.0) * self.tick.0;
        let text = |tick: f64| tick_text(tick * self.tick.0, step, self.tick.1);
        let widths = vertical.ticks.iter().map(|&tick| text_width(&text(tick), TICK));
        let left = widths.fold(20.0, f64::max) + 8.0;
        let horizontal = Scale::new(self.top.0, 5, left, WIDTH - left - 18.0);
        for &tick in &vertical.ticks {
            let y = floor - vertical.units(tick);
            svg.line(if tick == 0.0 { "axis" } else { "grid" }, (left, y), (WIDTH - 18.0, y));
            svg.text(left - 6.0, y + 4.0, TICK, Anchor::End, Ink::Muted, &text(tick));
        }
        draw_axis(&mut svg, &horizontal, floor, &self.axis);
        for (index, line) in self.lines.iter().enumerate() {
            self.draw_line(&mut svg, line, index, |point: (f64, f64)| {
                (horizontal.place(point.0), floor - vertical.units(point.1))
            });
        }
        if self.marks {
            self.draw_marks(&mut svg, |point: (f64, f64)| {
                (horizontal.place(point.0), floor - vertical.units(point.1))
            });
        }
        svg.finish(floor + 38.0, self.title, "")
    }

    /// A spot around every point, which is seen only when pointed at.
    fn draw_marks(&self, svg: &mut Svg, place: impl Fn((f64, f64)) -> (f64, f64)) {
        let format = self.format;
        for line in &self.lines {
            for &(x, value) in &line.points {
                let Some(value) = value.filter(|value| value.is_finite()) else { continue };
                let (left, top) = place((x, value));
                let tip = format!(
                    "{}: {}\n{}: {}",
                    line.label,
                    format(value),
                    self.axis.label,
                    format(x)
                );
                svg.raw(&format!(
                    "<circle class=\"mark\" data-series=\"{}\" cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{3}\" fill-opacity=\"0\"><title>{4}</title></circle>",
                    escape(&line.label), length(left), length(top), palette::light(line.colour), escape(&tip)
                ));
            }
        }
    }

    fn draw_line(
        &self,
        svg: &mut Svg,
        line: &Line,
        index: usize,
        place: impl Fn((f64, f64)) -> (f64, f64),
    ) {
        let Some(path) = path(&line.points, place) else { return };
        let known = || line.points.iter().filter_map(|point| point.1).filter(|y| y.is_finite());
        let most = known().fold(f64::NEG_INFINITY, f64::max);
        let last = known().next_back().unwrap_or(most);
        let format = self.format;
        svg.raw(&format!(
            "<path class=\"s-{0}\" data-series=\"{1}\" fill=\"none\" stroke=\"{2}\" stroke-width=\"2.2\" stroke-linecap=\"round\" stroke-dasharray=\"{3}\" d=\"{path}\"><title>{4}</title></path>",
            line.colour, escape(&line.label), palette::light(line.colour), DASHES[index % DASHES.len()],
            escape(&format!("{}: {} at the end, {} at most", line.label, format(last), format(most))),
        ));
    }

    /// A piece of each line with its name; returns the height.
    fn draw_legend(&self, svg: &mut Svg) -> f64 {
        let (mut x, mut y) = (0.0, 14.0);
        for (index, line) in self.lines.iter().enumerate() {
            let width = 34.0 + text_width(&line.label, LEGEND) + 12.0;
            if x > 0.0 && x + width - 8.0 > WIDTH {
                (x, y) = (0.0, y + 20.0);
            }
            svg.raw(&format!(
                "<g class=\"legend-item\" data-series=\"{}\"><rect class=\"hit\" x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"20\" fill=\"none\" pointer-events=\"all\"/>\
                 <path class=\"s-{4}\" fill=\"none\" stroke=\"{5}\" stroke-width=\"2.2\" stroke-dasharray=\"{6}\" d=\"M{1} {7}h27\"/>",
                escape(&line.label), length(x), length(y - 14.0), length(width), line.colour,
                palette::light(line.colour), DASHES[index % DASHES.len()], length(y - 4.0),
            ));
            svg.text(x + 34.0, y, LEGEND, Anchor::Start, Ink::Plain, &line.label);
            svg.raw("</g>");
            x += width;
        }
        y + 10.0
    }
}

/// The line's path: a stroke for every stretch with values, a dot where a value stands alone.
fn path(points: &[(f64, Option<f64>)], place: impl Fn((f64, f64)) -> (f64, f64)) -> Option<String> {
    let mut path = String::new();
    let mut is_open = false;
    for &(x, y) in points {
        let y = y.filter(|y| y.is_finite() && x.is_finite());
        if let Some(y) = y {
            let (x, y) = place((x, y));
            let start = if is_open { "L" } else { "M" };
            path.push_str(&format!("{start}{} {}", length(x), length(y)));
            if !is_open {
                path.push_str("h0");
            }
        }
        is_open = y.is_some();
    }
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_where_there_is_no_value() {
        let points = [(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(4.0))];
        assert_eq!(path(&points, |point| point).unwrap(), "M0 1h0L1 2M3 4h0");
        assert_eq!(path(&[(0.0, None)], |point| point), None);
    }
}
