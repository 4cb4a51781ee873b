//! A matrix of cells in shades, with a number in each.

use super::WIDTH;
use super::svg::{Anchor, Ink, Svg, length, text_width, two_lines};
use crate::format::{MISSING, escape};
use crate::palette::{self, HEAT};

/// Font size of names and numbers.
const TEXT: f64 = 11.5;
/// Height of a cell, and its width at most.
const HEIGHT: f64 = 28.0;
const WIDEST: f64 = 76.0;
/// Widest name of a row.
const NAMES: f64 = 92.0;
/// Longest name of a column.
const LONGEST: f64 = 130.0;
/// What the rows and the columns are.
const CORNER: &str = "guest \\ host";
/// Distance of a column that stands apart.
const APART: f64 = 7.0;

/// One cell.
pub(crate) struct HeatCell {
    pub value: Option<f64>,
    /// What is written in it, without unit.
    pub text: String,
    /// What a reader sees when pointing at it.
    pub tip: String,
}

/// A matrix.
pub(crate) struct Heat<'a> {
    pub title: &'a str,
    pub rows: Vec<&'a str>,
    pub columns: Vec<&'a str>,
    /// Columns from here on stand apart.
    pub apart: usize,
    /// Rows of cells.
    pub cells: Vec<Vec<HeatCell>>,
    /// Whether more is better; the worst has the strongest shade.
    pub is_more_better: bool,
}

/// Least and most of all finite values.
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    /// Shade of a value, 0 for the best.
    fn step(&self, value: f64, is_more_better: bool) -> usize {
        // Halves, as the difference of two finite values need not be finite.
        let span = self.most / 2.0 - self.least / 2.0;
        if span <= 0.0 {
            return 0;
        }
        let share = ((value / 2.0 - self.least / 2.0) / span).clamp(0.0, 1.0);
        let badness = if is_more_better { 1.0 - share } else { share };
        ((badness * HEAT.len() as f64) as usize).min(HEAT.len() - 1)
    }
}

impl Heat<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new();
        let left = self.names_width();
        let gap = if self.apart < self.columns.len() { APART } else { 0.0 };
        let width = ((WIDTH - left - gap) / self.columns.len().max(1) as f64).min(WIDEST);
        let x = |column: usize| {
            left + width * column as f64 + if column >= self.apart { gap } else { 0.0 }
        };
        let top = self.draw_columns(&mut svg, &x, width);
        svg.text(left - 6.0, top - 7.0, TEXT, Anchor::End, Ink::Muted, CORNER);
        let range = self.range();
        for (row, cells) in self.cells.iter().enumerate() {
            let y = top + HEIGHT * row as f64;
            draw_name(&mut svg, self.rows[row], left, y + HEIGHT / 2.0);
            for (column, cell) in cells.iter().enumerate() {
                self.draw_cell(&mut svg, cell, &range, (x(column), y), width);
            }
        }
        let bottom = top + HEIGHT * self.cells.len() as f64;
        let height = self.draw_key(&mut svg, &range, left, bottom + 10.0);
        svg.finish(height, self.title, "")
    }

    fn names_width(&self) -> f64 {
        let lines = self.rows.iter().flat_map(|name| two_lines(name, TEXT, NAMES));
        lines
            .map(|line| text_width(&line, TEXT) + 8.0)
            .fold(text_width(CORNER, TEXT) + 6.0, f64::max)
    }

    fn range(&self) -> Range {
        let values = || {
            let cells = self.cells.iter().flatten().filter_map(|cell| cell.value);
            cells.filter(|value| value.is_finite())
        };
        Range {
            least: values().fold(f64::INFINITY, f64::min),
            most: values().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Names of the columns, upright where one is wider than its column; returns where cells start.
    fn draw_columns(&self, svg: &mut Svg, x: &dyn Fn(usize) -> f64, width: f64) -> f64 {
        let names: Vec<String> =
            self.columns.iter().map(|name| super::svg::fit(name, TEXT, LONGEST)).collect();
        let widest = names.iter().map(|name| text_width(name, TEXT)).fold(0.0, f64::max);
        let is_upright = widest > width - 4.0;
        let top = if is_upright { widest + 8.0 } else { 22.0 };
        for (column, name) in names.iter().enumerate() {
            let middle = x(column) + width / 2.0;
            if is_upright {
                svg.raw(&format!(
                    "<text class=\"ink\" transform=\"translate({} {}) rotate(-90)\" font-size=\"{TEXT}\" fill=\"#1b2128\">{}</text>",
                    length(middle + 4.0),
                    length(top - 6.0),
                    escape(name)
                ));
            } else {
                svg.text(middle, top - 7.0, TEXT, Anchor::Middle, Ink::Plain, name);
            }
        }
        top
    }

    fn draw_cell(
        &self,
        svg: &mut Svg,
        cell: &HeatCell,
        range: &Range,
        place: (f64, f64),
        width: f64,
    ) {
        let (x, y) = (place.0 + width / 2.0, place.1 + HEIGHT / 2.0 + 4.0);
        let Some(value) = cell.value.filter(|value| value.is_finite()) else {
            svg.text(x, y, TEXT, Anchor::Middle, Ink::Muted, MISSING);
            return;
        };
        let (fill, ink) = HEAT[range.step(value, self.is_more_better)];
        let size = (width - 1.5, HEIGHT - 1.5);
        svg.bar(fill, place, size, 2.0, "", &cell.tip);
        // Numbers are never cut: they shrink with the cell.
        let fitting = TEXT * (width - 3.0) / text_width(&cell.text, TEXT).max(1.0);
        svg.raw(&format!(
            "<text class=\"f-{ink}\" x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"middle\" fill=\"{}\" pointer-events=\"none\">{}</text>",
            length(x - 0.75),
            length(y),
            length(fitting.min(TEXT)),
            palette::light(ink),
            escape(&cell.text)
        ));
    }

    /// All shades from best to worst with the values at both ends; returns the picture's height.
    fn draw_key(&self, svg: &mut Svg, range: &Range, left: f64, top: f64) -> f64 {
        if range.least >= range.most {
            return top;
        }
        let written = |wanted: f64| {
            let mut cells = self.cells.iter().flatten();
            cells.find(|cell| cell.value == Some(wanted)).map_or("", |cell| cell.text.as_str())
        };
        let (best, worst) =
            if self.is_more_better { (range.most, range.least) } else { (range.least, range.most) };
        let (best, worst) =
            (format!("best {}", written(best)), format!("{} worst", written(worst)));
        let middle = top + 9.0;
        svg.text(left, middle, TEXT, Anchor::Start, Ink::Muted, &best);
        let mut x = left + text_width(&best, TEXT) + 6.0;
        for (fill, _) in HEAT {
            svg.bar(fill, (x, top), (17.0, 11.0), 1.0, "", "");
            x += 18.0;
        }
        svg.text(x + 5.0, middle, TEXT, Anchor::Start, Ink::Muted, &worst);
        top + 16.0
    }
}

/// A row's name, left of its cells, in one or two lines.
fn draw_name(svg: &mut Svg, name: &str, left: f64, middle: f64) {
    let lines = two_lines(name, TEXT, NAMES);
    let first = middle + 4.0 - 6.0 * (lines.len() - 1) as f64;
    for (index, line) in lines.iter().enumerate() {
        let y = first + 12.0 * index as f64;
        svg.text(left - 6.0, y, TEXT, Anchor::End, Ink::Plain, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_has_the_strongest_shade() {
        let range = Range { least: 10.0, most: 80.0 };
        // Seven shades over a span of 70: one per ten.
        assert_eq!(
            [10.0, 19.0, 20.0, 79.0, 80.0].map(|value| range.step(value, false)),
            [0, 0, 1, 6, 6]
        );
        assert_eq!([10.0, 80.0].map(|value| range.step(value, true)), [6, 0]);
    }

    #[test]
    fn equal_and_extreme_values_have_a_shade() {
        assert_eq!(Range { least: 3.0, most: 3.0 }.step(3.0, true), 0);
        let wide = Range { least: f64::MIN, most: f64::MAX };
        assert_eq!([f64::MIN, 0.0, f64::MAX].map(|value| wide.step(value, false)), [0, 3, 6]);
    }
}
