//! Stacked areas over instructions.

use serde_json::{Map, Value, json};

use super::{Axis, Series, colour, labels, legend, visible};

/// More samples than this cannot be told apart.
const MOST_SAMPLES: usize = 200;
/// What samples are taken over.
const PLACE: &str = "instructions";

/// A chart of stacked areas.
pub(crate) struct Areas<'a> {
    pub series: &'a [Series],
    /// Place on the horizontal axis and one value per series.
    pub samples: Vec<(f64, Vec<f64>)>,
    /// Largest values of both axes, so that charts beside each other can be compared.
    pub top: (f64, f64),
    pub value: Axis<'a>,
}

impl Areas<'_> {
    pub fn spec(&self) -> Value {
        let samples = thinned(&self.samples);
        let fields: Vec<String> = self.series.iter().map(|one| field(&one.label)).collect();
        let step = samples.windows(2).map(|pair| pair[1].0 - pair[0].0).fold(0.0, f64::max);
        let rows: Vec<Value> = samples.iter().map(|sample| self.row(sample)).collect();
        let axis = Axis { label: PLACE, suffix: "" };
        let x = json!({
            "field": PLACE, "type": "quantitative", "title": PLACE, "axis": axis.spec(60),
            "scale": {"domain": [0.0, self.top.0.max(1.0)], "nice": false},
        });
        let order = json!({"calculate": "indexof(order, datum.series)", "as": "number"});
        json!({
            "usermeta": {"legend": legend(self.series, |_| Value::Null)},
            "data": {"values": rows},
            "params": [{"name": "order", "value": labels(self.series)}],
            "height": 170,
            "layer": [
                {
                    "transform": [{"fold": fields, "as": ["series", "value"]}, visible(), order],
                    "mark": {"type": "area", "stroke": "var(--card)", "strokeWidth": 0.6, "line": false},
                    "encoding": {
                        "x": x, "color": colour(self.series), "order": {"field": "number", "type": "quantitative"},
                        "y": {
                            "field": "value", "type": "quantitative", "stack": "zero", "title": self.value.title(),
                            "axis": self.value.upright(), "scale": {"domain": [0.0, self.top.1], "nice": false},
                        },
                    },
                },
                // Strips around the samples, which are seen at the pointer only.
                {
                    "transform": [
                        {"calculate": format!("max(0, datum.{PLACE} - {})", step / 2.0), "as": "from"},
                        {"calculate": format!("min({}, datum.{PLACE} + {})", self.top.0, step / 2.0), "as": "to"},
                    ],
                    "mark": {"type": "rect", "fill": "transparent"},
                    "encoding": {
                        "x": {"field": "from", "type": "quantitative", "title": PLACE}, "x2": {"field": "to"},
                        "y": {"value": 0}, "y2": {"value": "height"}, "tooltip": self.tooltip(),
                    },
                },
            ],
        })
    }

    fn row(&self, sample: &(f64, Vec<f64>)) -> Value {
        let mut row = Map::from_iter([(PLACE.to_owned(), json!(sample.0))]);
        for (series, index) in self.series.iter().zip(0..) {
            row.insert(series.label.clone(), json!(value(sample, index)));
        }
        row.into()
    }

    /// All series from the top of the stack down.
    fn tooltip(&self) -> Value {
        let series = self.series.iter().rev().map(|one| one.label.as_str());
        let number = |name: &str| json!({"field": field(name), "title": name, "format": ",.5~r"});
        std::iter::once(PLACE).chain(series).map(number).collect()
    }
}

/// A name as Vega-Lite writes a field of this name: what would lead into nested objects is escaped.
fn field(name: &str) -> String {
    let escaped = |character| match character {
        '.' | '[' | ']' | '\'' | '"' | '\\' => vec!['\\', character],
        other => vec![other],
    };
    name.chars().flat_map(escaped).collect()
}

fn value(sample: &(f64, Vec<f64>), index: usize) -> f64 {
    sample.1.get(index).copied().filter(|value| value.is_finite() && *value > 0.0).unwrap_or(0.0)
}

/// Averages of neighbouring samples, at most [`MOST_SAMPLES`] of them.
fn thinned(samples: &[(f64, Vec<f64>)]) -> Vec<(f64, Vec<f64>)> {
    let group = samples.len().div_ceil(MOST_SAMPLES).max(1);
    let average = |group: &[(f64, Vec<f64>)]| {
        let count = group.len() as f64;
        let series = group.iter().map(|sample| sample.1.len()).max().unwrap_or(0);
        let mean = |index| group.iter().map(|sample| value(sample, index)).sum::<f64>() / count;
        (group[group.len() - 1].0, (0..series).map(mean).collect())
    };
    samples.chunks(group).map(average).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_averages_neighbours() {
        // 400 samples: pairs (0,1), (2,3), …: the first average is 0.5 at place 1.
        let samples: Vec<(f64, Vec<f64>)> =
            (0..400).map(|index| (index as f64, vec![index as f64])).collect();
        let thin = thinned(&samples);
        assert_eq!(thin.len(), 200);
        assert_eq!(thin[0], (1.0, vec![0.5]));
        assert!(thinned(&[]).is_empty());
    }

    #[test]
    fn names_are_fields_whatever_they_contain() {
        assert_eq!(field("4KB page"), "4KB page");
        assert_eq!(field("a.b[0]'"), r"a\.b\[0\]\'");
    }
}
