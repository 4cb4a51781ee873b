//! Lines over instructions or over what an experiment varies.

use super::area::HEIGHT;
use super::horizontal::{Axis, Ground, TICK};
use super::marker::Look;
use super::scale::{Scale, tick_text};
use super::svg::{Anchor, Ink, Svg, length, text_width};
use super::{WIDTH, legend};
use crate::format::escape;
use crate::palette;

/// Points of a line beyond which shapes would hide it.
const MOST_SHAPES: usize = 30;
/// Lines beyond which bands would hide each other; these have whiskers.
const MOST_BANDS: usize = 5;

/// One line.
pub(crate) struct Line {
    /// Name by which its legend switches it.
    pub key: String,
    pub label: String,
    pub look: Look,
    pub points: Vec<LinePoint>,
}

/// A point of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinePoint {
    /// Place on the horizontal axis.
    pub x: f64,
    /// The line is broken where there is none.
    pub value: Option<f64>,
    /// Least and greatest of the value.
    pub interval: Option<(f64, f64)>,
    /// What a reader sees when pointing at it; such a point has no mark of its own without.
    pub tip: String,
}

impl LinePoint {
    fn known(&self) -> Option<f64> {
        self.value.filter(|value| value.is_finite() && self.x.is_finite())
    }
}

/// A chart of lines.
pub(crate) struct Lines<'a> {
    pub title: &'a str,
    pub lines: Vec<Line>,
    pub ground: Ground,
    /// Smallest and largest value of the vertical axis.
    pub range: (f64, f64),
    /// How a value is written in tips.
    pub format: fn(f64) -> String,
    /// Factor and suffix for ticks.
    pub tick: (f64, &'static str),
    /// The horizontal axis.
    pub axis: Axis<'a>,
    /// What the vertical axis shows; nothing is written where it is empty.
    pub value_label: &'a str,
}

/// From values to places on the picture.
struct Plot<'p> {
    horizontal: super::horizontal::Spread<'p>,
    vertical: Scale,
    floor: f64,
}

impl Plot<'_> {
    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (self.horizontal.place(x), self.floor - self.vertical.units(y))
    }
}

impl Lines<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new();
        let mut top = self.draw_legend(&mut svg) + 6.0;
        if !self.value_label.is_empty() {
            top += super::draw_value_label(&mut svg, top, self.value_label);
        }
        let floor = top + HEIGHT;
        let vertical = Scale::between(self.range.0, self.range.1, 4, 0.0, HEIGHT);
        let left = self.draw_vertical(&mut svg, &vertical, floor);
        let horizontal = self.ground.spread(left, WIDTH - 18.0);
        let height = horizontal.draw(&mut svg, floor, &self.axis);
        let plot = Plot { horizontal, vertical, floor };
        for line in &self.lines {
            draw_intervals(&mut svg, line, &plot, self.lines.len() <= MOST_BANDS);
        }
        for line in &self.lines {
            self.draw_line(&mut svg, line, &plot);
        }
        for line in &self.lines {
            draw_marks(&mut svg, line, &plot);
        }
        svg.finish(floor + height, self.title, "")
    }

    /// Ticks and grid; returns where the plot begins.
    fn draw_vertical(&self, svg: &mut Svg, scale: &Scale, floor: f64) -> f64 {
        let step = scale.step() * self.tick.0;
        let text = |tick: f64| tick_text(tick * self.tick.0, step, self.tick.1);
        let widths = scale.ticks.iter().map(|&tick| text_width(&text(tick), TICK));
        let left = widths.fold(20.0, f64::max) + 8.0;
        for &tick in &scale.ticks {
            let y = floor - scale.units(tick);
            svg.line(if tick == 0.0 { "axis" } else { "grid" }, (left, y), (WIDTH - 18.0, y));
            svg.text(left - 6.0, y + 4.0, TICK, Anchor::End, Ink::Muted, &text(tick));
        }
        left
    }

    fn draw_line(&self, svg: &mut Svg, line: &Line, plot: &Plot<'_>) {
        let Some(path) = path(&line.points, |x, y| plot.place(x, y)) else { return };
        let known = || line.points.iter().filter_map(LinePoint::known);
        let most = known().fold(f64::NEG_INFINITY, f64::max);
        let last = known().next_back().unwrap_or(most);
        let format = self.format;
        svg.raw(&format!(
            "<path {} data-series=\"{}\" d=\"{path}\"><title>{}</title></path>",
            line.look.stroke(),
            escape(&line.key),
            escape(&format!(
                "{}: {} at the end, {} at most",
                line.label,
                format(last),
                format(most)
            )),
        ));
    }

    /// A piece of each line with its name; returns the height.
    fn draw_legend(&self, svg: &mut Svg) -> f64 {
        let items = self.lines.iter().map(|line| (line.key.as_str(), line.label.as_str()));
        legend::draw_items(svg, items, 34.0, |svg, index, (x, y)| {
            let line = &self.lines[index];
            let (stroke, y) = (line.look.stroke(), y - 4.0);
            svg.raw(&format!("<path {stroke} d=\"M{} {}h27\"/>", length(x), length(y)));
            if shows_shapes(line) {
                line.look.draw_sign(svg, (x + 13.5, y));
            }
        })
    }
}

fn shows_shapes(line: &Line) -> bool {
    line.points.len() <= MOST_SHAPES && line.points.iter().any(|point| !point.tip.is_empty())
}

/// What every point says when pointed at.
fn draw_marks(svg: &mut Svg, line: &Line, plot: &Plot<'_>) {
    let is_seen = shows_shapes(line);
    for point in line.points.iter().filter(|point| !point.tip.is_empty()) {
        let Some(value) = point.known() else { continue };
        let place = plot.place(point.x, value);
        line.look.draw_mark(svg, &line.key, place, is_seen, &point.tip);
    }
}

/// Least and greatest: a band for every stretch of points with intervals, or whiskers.
fn draw_intervals(svg: &mut Svg, line: &Line, plot: &Plot<'_>, as_bands: bool) {
    let series = escape(&line.key);
    let colour = line.look.colour;
    let light = palette::light(colour);
    let known = |point: &LinePoint| point.known().and(point.interval).is_some();
    for stretch in line.points.split(|point| !known(point)).filter(|points| !points.is_empty()) {
        let ends = stretch.iter().filter_map(|point| Some((point.x, point.interval?)));
        let ends: Vec<((f64, f64), (f64, f64))> =
            ends.map(|(x, (low, high))| (plot.place(x, high), plot.place(x, low))).collect();
        let at = |&(x, y): &(f64, f64)| format!("{} {}", length(x), length(y));
        if as_bands && ends.len() > 1 {
            let upper = ends.iter().map(|(high, _)| at(high));
            let lower = ends.iter().rev().map(|(_, low)| at(low));
            let outline: Vec<String> = upper.chain(lower).collect();
            svg.raw(&format!(
                "<path class=\"band f-{colour}\" data-series=\"{series}\" fill=\"{light}\" fill-opacity=\"0.18\" d=\"M{}Z\"/>",
                outline.join("L")
            ));
            continue;
        }
        let whiskers: String =
            ends.iter().map(|(high, low)| format!("M{}L{}", at(high), at(low))).collect();
        svg.raw(&format!(
            "<path class=\"whiskers s-{colour}\" data-series=\"{series}\" fill=\"none\" stroke=\"{light}\" stroke-width=\"1.2\" d=\"{whiskers}\"/>"
        ));
    }
}

/// The line's path: a stroke for every stretch with values, a dot where a value stands alone.
fn path(points: &[LinePoint], place: impl Fn(f64, f64) -> (f64, f64)) -> Option<String> {
    let mut path = String::new();
    let mut is_open = false;
    for point in points {
        if let Some(y) = point.known() {
            let (x, y) = place(point.x, y);
            let start = if is_open { "L" } else { "M" };
            path.push_str(&format!("{start}{} {}", length(x), length(y)));
            if !is_open {
                path.push_str("h0");
            }
        }
        is_open = point.known().is_some();
    }
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, value: Option<f64>) -> LinePoint {
        LinePoint { x, value, ..LinePoint::default() }
    }

    #[test]
    fn a_line_is_broken_where_there_is_no_value() {
        let points = [(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(4.0))];
        let points = points.map(|(x, value)| point(x, value));
        assert_eq!(path(&points, |x, y| (x, y)).unwrap(), "M0 1h0L1 2M3 4h0");
        assert_eq!(path(&[point(0.0, None)], |x, y| (x, y)), None);
    }

    #[test]
    fn a_band_goes_there_above_and_back_below() {
        let with = |x: f64, low, high| LinePoint {
            interval: Some((low, high)),
            ..point(x, Some((low + high) / 2.0))
        };
        let look = Look { colour: "series0", number: 0, round: 0 };
        let line = |points| Line { key: "a".into(), label: "A".into(), look, points };
        let svg = |lines| {
            let axis = Axis { label: "x", tick: (1.0, "") };
            let format = crate::format::ratio;
            let ground = Ground::Number { least: 0.0, most: 1.0 };
            let (range, tick) = ((0.0, 170.0), (1.0, ""));
            Lines { title: "t", lines, ground, range, format, tick, axis, value_label: "" }.svg()
        };
        // Ticks of three figures leave the plot from about 30 to 422; a unit up is a unit.
        let one = svg(vec![line(vec![with(0.0, 0.0, 20.0), with(1.0, 50.0, 70.0)])]);
        let band = &one[one.find("class=\"band").unwrap()..];
        let path = &band[band.find("d=\"M").unwrap() + 4..band.find("Z\"").unwrap()];
        let y: Vec<f64> =
            path.split('L').map(|at| at.split(' ').nth(1).unwrap().parse().unwrap()).collect();
        let floor = y[3];
        assert_eq!(y, [floor - 20.0, floor - 70.0, floor - 50.0, floor]);
        assert!(!one.contains("class=\"whiskers"));
        let many = (0..6).map(|_| line(vec![with(0.0, 0.0, 20.0), with(1.0, 5.0, 7.0)])).collect();
        assert_eq!(svg(many).matches("class=\"whiskers").count(), 6, "bands would hide each other");
    }
}
