//! Heat maps: matrices of shaded cells, each with a number.

use serde_json::{Value, json};

use super::{filled, fit};
use crate::format::MISSING;
use crate::palette::{SHADES, css};

/// Maximum number of characters of the name of a row or column.
const LONGEST: usize = 18;

/// One cell of a heat map, with its texts.
pub(crate) struct HeatCell {
    pub value: Option<f64>,
    /// Number in the cell as text, without unit.
    pub text: String,
    /// Text of the tooltip: the value with its range over the seeds.
    pub said: String,
    pub interval: String,
}

/// A heat map with named rows and columns.
pub(crate) struct Heat<'a> {
    pub rows: &'a [&'a str],
    pub columns: &'a [&'a str],
    /// Name of a column that a gap separates from the other columns; `None` for no gap.
    pub apart: Option<&'a str>,
    /// Cells of the heat map, by row and then by column.
    pub cells: Vec<Vec<HeatCell>>,
    /// True if larger values are better. The worst value has the strongest shade.
    pub is_more_better: bool,
}

impl Heat<'_> {
    pub fn spec(&self) -> Value {
        let range = self.range();
        let numbered = |row: usize| self.cells[row].iter().enumerate().map(move |cell| (row, cell));
        let datum = |(row, (column, cell)): (usize, (usize, &HeatCell))| {
            let value = cell.value.filter(|value| value.is_finite());
            let shade = value.map(|value| range.shade(value, self.is_more_better));
            json!({
                "row": self.rows[row], "column": self.columns[column], "shade": shade,
                "ink": shade.map_or("var(--muted)".into(), |shade| css(&format!("heat-ink{shade}"))),
                "text": if value.is_some() { &cell.text } else { MISSING },
                "said": cell.said, "interval": cell.interval,
            })
        };
        let data: Vec<Value> = (0..self.cells.len()).flat_map(numbered).map(datum).collect();
        let text = self.cells.iter().flatten().map(|cell| cell.text.chars().count()).max();
        let shades: Vec<String> = (0..SHADES).map(|shade| css(&format!("heat{shade}"))).collect();
        let widest =
            self.columns.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(LONGEST);
        // Column names are rotated if one of them is wider than its column.
        let template = include_str!("spec/heat.json")
            .replace("WIDTH", &(self.columns.len() * widest * 7).to_string())
            .replace("LONGEST", &text.unwrap_or(1).max(3).to_string());
        let mut spec = filled(
            &template,
            &[
                ("$cells", data.into()),
                ("$widest", (130 + 76 * self.columns.len()).into()),
                ("$height", (28 * self.rows.len()).into()),
                ("$columns", json!(self.columns)),
                ("$rows", json!(self.rows)),
                ("$legend", self.legend(&range)),
                ("$shades", (0..SHADES).collect()),
                ("$colours", json!(shades)),
            ],
        );
        if let (Some(apart), Some(layers)) = (self.apart, spec["layer"].as_array_mut()) {
            layers.push(json!({
                "mark": {"type": "rule", "strokeWidth": 7, "color": "var(--card)"},
                "encoding": {"x": {"datum": apart, "bandPosition": 0}, "y": null},
            }));
        }
        spec
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

    /// Returns the chart's legend: all shades from best to worst, with the values at both ends.
    fn legend(&self, range: &Range) -> Value {
        if range.least >= range.most {
            return Value::Null;
        }
        let written = |wanted: f64| {
            let mut cells = self.cells.iter().flatten();
            cells.find(|cell| cell.value == Some(wanted)).map_or("", |cell| &cell.text)
        };
        let (best, worst) =
            if self.is_more_better { (range.most, range.least) } else { (range.least, range.most) };
        json!({
            "orient": "bottom", "direction": "horizontal", "columns": SHADES, "columnPadding": 0,
            "title": fit(&format!("{} best, {} worst", written(best), written(worst)), 40),
            "titleColor": "var(--muted)", "titleFontSize": 11.5, "titleFontWeight": "normal",
            "symbolType": "square", "symbolStrokeWidth": 0, "labelExpr": "''",
        })
    }
}

/// Smallest and largest finite value in a heat map.
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    /// Returns the index of the shade for a value, from 0 (best) to `SHADES` − 1 (worst).
    fn shade(&self, value: f64, is_more_better: bool) -> usize {
        // Halves both ends, because the difference of two finite values may overflow.
        let span = self.most / 2.0 - self.least / 2.0;
        if span <= 0.0 {
            return 0;
        }
        let share = ((value / 2.0 - self.least / 2.0) / span).clamp(0.0, 1.0);
        let badness = if is_more_better { 1.0 - share } else { share };
        ((badness * SHADES as f64) as usize).min(SHADES - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_has_the_strongest_shade() {
        let range = Range { least: 10.0, most: 80.0 };
        // Seven shades over a range of 70: one shade per 10.
        assert_eq!(
            [10.0, 19.0, 20.0, 79.0, 80.0].map(|value| range.shade(value, false)),
            [0, 0, 1, 6, 6]
        );
        assert_eq!([10.0, 80.0].map(|value| range.shade(value, true)), [6, 0]);
    }

    #[test]
    fn equal_and_extreme_values_have_a_shade() {
        assert_eq!(Range { least: 3.0, most: 3.0 }.shade(3.0, true), 0);
        let wide = Range { least: f64::MIN, most: f64::MAX };
        assert_eq!([f64::MIN, 0.0, f64::MAX].map(|value| wide.shade(value, false)), [0, 3, 6]);
    }

    /// Infinite values and NaN have no shade, which would present them as the best or the worst value.
    #[test]
    fn values_that_are_missing_or_not_finite_have_no_shade() {
        let values = [None, Some(f64::NAN), Some(f64::INFINITY), Some(10.0), Some(80.0)];
        let cell = |value| HeatCell {
            value,
            text: "text".into(),
            said: String::new(),
            interval: String::new(),
        };
        let heat = Heat {
            rows: &["row"],
            columns: &["a", "b", "c", "d", "e"],
            apart: None,
            cells: vec![values.map(cell).into()],
            is_more_better: false,
        };
        let spec = heat.spec();
        let data = spec["data"]["values"].as_array().expect("one datum a cell");
        let shades: Vec<&Value> = data.iter().map(|datum| &datum["shade"]).collect();
        let (none, best, worst) = (&Value::Null, &json!(0), &json!(6));
        assert_eq!(shades, [none, none, none, best, worst]);
        let texts: Vec<&Value> = data.iter().map(|datum| &datum["text"]).collect();
        let (missing, text) = (&json!(MISSING), &json!("text"));
        assert_eq!(texts, [missing, missing, missing, text, text]);
    }
}
