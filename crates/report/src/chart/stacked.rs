//! Horizontal stacked bars.

use super::bars::{LABEL, PITCH, THICKNESS, draw_axis, draw_label, label_room};
use super::scale::Scale;
use super::svg::{Anchor, Ink, Svg, text_width};
use super::{Series, WIDTH, legend};
use crate::format::{MISSING, escape};

/// One stack: a value per series.
pub(crate) struct Row {
    pub label: String,
    pub values: Vec<Option<f64>>,
}

impl Row {
    /// Sum of the values; none where all are missing.
    pub fn total(&self) -> Option<f64> {
        let known: Vec<f64> = self.values.iter().flatten().copied().collect();
        if known.is_empty() { None } else { Some(known.iter().sum()) }
    }
}

/// A chart of stacked bars.
pub(crate) struct Stacked<'a> {
    pub title: &'a str,
    pub series: Vec<Series>,
    pub rows: Vec<Row>,
    /// How a value is written.
    pub format: fn(f64) -> String,
    /// Unit the axis counts in, and its name: `(1024.0, " KB")` writes 4096 as “4 KB”.
    pub unit: (f64, &'static str),
    /// What the values are; nothing is written where it is empty.
    pub value_label: &'a str,
}

impl Stacked<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new();
        let mut top = legend::draw(&mut svg, &self.series);
        if !self.value_label.is_empty() {
            top += super::draw_value_label(&mut svg, top + 4.0, self.value_label);
        }
        let left = label_room(self.rows.iter().map(|row| row.label.as_str()));
        let right =
            self.rows.iter().map(|row| text_width(&self.text(row), LABEL)).fold(20.0, f64::max)
                + 14.0;
        let most = self.rows.iter().filter_map(Row::total).fold(0.0, f64::max) / self.unit.0;
        let scale = Scale::new(most, 4, left, WIDTH - left - right);
        let bottom = top + 4.0 + PITCH * self.rows.len() as f64;
        let axis = draw_axis(&mut svg, &scale, top, bottom, (1.0, self.unit.1));
        for (index, row) in self.rows.iter().enumerate() {
            self.draw_row(&mut svg, row, &scale, left, top + 4.0 + PITCH * index as f64);
        }
        svg.finish(bottom + axis, self.title, "")
    }

    fn text(&self, row: &Row) -> String {
        row.total().map_or(MISSING.to_string(), self.format)
    }

    fn draw_row(&self, svg: &mut Svg, row: &Row, scale: &Scale, left: f64, top: f64) {
        let middle = top + PITCH / 2.0;
        draw_label(svg, &row.label, left, middle);
        svg.raw("<g class=\"stack\">");
        let mut x = left;
        for (series, value) in self.series.iter().zip(&row.values) {
            let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) else {
                continue;
            };
            let width = scale.units(value / self.unit.0);
            let tip = format!("{} · {}: {}", row.label, series.label, (self.format)(value));
            let data = format!(" data-series=\"{}\"", escape(&series.key));
            // A gap of half a unit tells neighbours apart without their colours.
            let shown = if width > 1.5 { width - 0.6 } else { width };
            svg.bar(
                series.colour,
                (x, middle - THICKNESS / 2.0),
                (shown, THICKNESS),
                1.0,
                &data,
                &tip,
            );
            x += width;
        }
        svg.raw("</g>");
        svg.text(x + 8.0, middle + 4.5, LABEL, Anchor::Start, Ink::Value, &self.text(row));
    }
}
