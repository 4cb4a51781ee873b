//! Horizontal bars with whiskers and a reference line.

use super::WIDTH;
use super::scale::{Scale, tick_text};
use super::svg::{Anchor, Ink, Svg, text_width, two_lines};
use crate::comparison::Spread;
use crate::format::MISSING;

/// Font size of labels and values.
pub(super) const LABEL: f64 = 13.0;
/// Font size of ticks.
pub(super) const TICK: f64 = 11.5;
/// Distance from one bar to the next.
pub(super) const PITCH: f64 = 30.0;
/// Thickness of a bar.
pub(super) const THICKNESS: f64 = 18.0;

/// One bar.
pub(crate) struct Bar {
    pub label: String,
    pub value: Option<Spread>,
    pub colour: &'static str,
}

/// A bar chart.
pub(crate) struct Bars<'a> {
    pub title: &'a str,
    pub bars: Vec<Bar>,
    /// How a value is written at the end of its bar.
    pub format: fn(f64) -> String,
    /// Factor and suffix for ticks: `(100.0, " %")` writes 0.5 as “50 %”.
    pub tick: (f64, &'static str),
    /// A value worth a line across, usually 1.
    pub reference: f64,
}

/// Widest label of a row.
const LABEL_ROOM: f64 = 132.0;

/// Room for the labels of rows at the left.
pub(super) fn label_room<'l>(labels: impl Iterator<Item = &'l str>) -> f64 {
    let lines = labels.flat_map(|label| two_lines(label, LABEL, LABEL_ROOM));
    lines.map(|line| text_width(&line, LABEL) + 10.0).fold(40.0, f64::max)
}

/// A row's label, left of its bar, in one or two lines.
pub(super) fn draw_label(svg: &mut Svg, label: &str, left: f64, middle: f64) {
    let lines = two_lines(label, LABEL, LABEL_ROOM);
    let first = middle + 4.5 - 6.5 * (lines.len() - 1) as f64;
    for (index, line) in lines.iter().enumerate() {
        let y = first + 13.0 * index as f64;
        svg.text(left - 8.0, y, LABEL, Anchor::End, Ink::Plain, line);
    }
}

/// Grid lines and ticks of a horizontal scale; returns the height they take below `bottom`.
pub(super) fn draw_axis(
    svg: &mut Svg,
    scale: &Scale,
    top: f64,
    bottom: f64,
    tick: (f64, &str),
) -> f64 {
    let step = scale.step();
    for &value in &scale.ticks {
        let x = scale.place(value);
        svg.line(if value == 0.0 { "axis" } else { "grid" }, (x, top), (x, bottom));
        let text = tick_text(value * tick.0, step * tick.0, tick.1);
        svg.tick_label(x, bottom + 15.0, TICK, &text);
    }
    22.0
}

/// Where a text of this width starts, so that a line at `x` does not cross it.
fn beside(start: f64, width: f64, x: f64) -> f64 {
    let is_crossed = start - 4.0 < x && x < start + width + 2.0;
    if is_crossed { x + 6.0 } else { start }
}

impl Bars<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new();
        let left = label_room(self.bars.iter().map(|bar| bar.label.as_str()));
        let right =
            self.bars.iter().map(|bar| text_width(&self.text(bar), LABEL)).fold(20.0, f64::max)
                + 14.0;
        let most = self.bars.iter().filter_map(|bar| bar.value).map(|value| value.most);
        let most = most.fold(self.reference, f64::max);
        let scale = Scale::new(most, 4, left, WIDTH - left - right);
        let bottom = 6.0 + PITCH * self.bars.len() as f64;
        let axis = draw_axis(&mut svg, &scale, 2.0, bottom, self.tick);
        let x = scale.place(self.reference);
        for (index, bar) in self.bars.iter().enumerate() {
            self.draw_bar(&mut svg, bar, &scale, left, 6.0 + PITCH * index as f64);
        }
        svg.line("reference", (x, 2.0), (x, bottom));
        for (index, bar) in self.bars.iter().enumerate() {
            self.draw_value(&mut svg, bar, &scale, 6.0 + PITCH * (index as f64 + 0.5));
        }
        svg.finish(bottom + axis, self.title, "")
    }

    fn text(&self, bar: &Bar) -> String {
        bar.value.map_or(MISSING.to_string(), |value| (self.format)(value.median))
    }

    fn draw_bar(&self, svg: &mut Svg, bar: &Bar, scale: &Scale, left: f64, top: f64) {
        let middle = top + PITCH / 2.0;
        draw_label(svg, &bar.label, left, middle);
        let Some(value) = bar.value else {
            svg.text(left + 8.0, middle + 4.5, LABEL, Anchor::Start, Ink::Muted, MISSING);
            return;
        };
        let place = (left, middle - THICKNESS / 2.0);
        svg.bar(
            bar.colour,
            place,
            (scale.units(value.median), THICKNESS),
            2.0,
            "",
            &self.tip(bar, value),
        );
    }

    /// Whiskers and the value, above the reference line.
    fn draw_value(&self, svg: &mut Svg, bar: &Bar, scale: &Scale, middle: f64) {
        let Some(value) = bar.value else { return };
        let mut end = scale.place(value.median);
        if value.runs > 1 {
            let (from, to) = (scale.place(value.least), scale.place(value.most));
            svg.line("whisker", (from, middle), (to, middle));
            svg.line("whisker", (from, middle - 4.0), (from, middle + 4.0));
            svg.line("whisker", (to, middle - 4.0), (to, middle + 4.0));
            end = end.max(to);
        }
        let text = self.text(bar);
        let start = beside(end + 8.0, text_width(&text, LABEL), scale.place(self.reference));
        svg.text(start, middle + 4.5, LABEL, Anchor::Start, Ink::Value, &text);
    }

    fn tip(&self, bar: &Bar, value: Spread) -> String {
        let median = format!("{}: {}", bar.label, (self.format)(value.median));
        if value.runs == 1 {
            return median;
        }
        let (least, most) = ((self.format)(value.least), (self.format)(value.most));
        format!("{median} (median of {} seeds, {least} to {most})", value.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_beside_the_reference_line() {
        assert_eq!(beside(100.0, 40.0, 120.0), 126.0, "crossed: behind the line");
        assert_eq!(beside(100.0, 40.0, 102.0), 108.0);
        assert_eq!(beside(100.0, 40.0, 150.0), 100.0, "the line is behind the text");
        assert_eq!(beside(100.0, 40.0, 90.0), 100.0, "the line is before the text");
    }

    #[test]
    fn no_value_of_a_chart_is_crossed_nor_leaves_it() {
        for value in [0.2, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0, 1.01] {
            let spread = Spread { median: value, least: value, most: value, runs: 1 };
            let bar = Bar { label: "thp".into(), value: Some(spread), colour: "page-2m" };
            let chart = Bars {
                title: "t",
                bars: vec![bar],
                format: crate::format::percent,
                tick: (100.0, " %"),
                reference: 1.0,
            };
            let svg = chart.svg();
            let number = |from: &str, name: &str| -> f64 {
                let rest = &svg[svg.find(from).unwrap()..];
                let rest = &rest[rest.find(name).unwrap() + name.len()..];
                rest[..rest.find('"').unwrap()].parse().unwrap()
            };
            let line = number("class=\"reference\"", "x1=\"");
            let start = number("class=\"ink value\"", " x=\"");
            let end = start + text_width(&crate::format::percent(value), LABEL);
            assert!(line < start || line > end, "{value}: {start} to {end}, line at {line}");
            assert!(end <= WIDTH, "{value}: {end}");
        }
    }
}
