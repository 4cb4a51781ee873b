//! Tornado charts: for each parameter, a bar from the smallest to the largest result, the widest on top.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Axis, NAMES, names};

/// Range of a result over the plausible values of one parameter.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Swing {
    /// Name of the parameter.
    pub place: String,
    pub low: f64,
    pub high: f64,
    /// Values of the parameter, each with the result, as text.
    pub values: String,
}

/// A tornado chart: one bar per parameter, the widest on top.
pub(crate) struct Tornado<'a> {
    pub swings: Vec<Swing>,
    pub value: Axis<'a>,
    /// Result with all parameters at their defaults; drawn as a line.
    pub default: f64,
    /// Value that the paper states; drawn as a dashed line.
    pub reference: Option<f64>,
}

impl Tornado<'_> {
    pub fn spec(&self) -> Value {
        let places: Vec<String> = self.swings.iter().map(|swing| swing.place.clone()).collect();
        let value = |field: &str| json!({"field": field, "type": "quantitative", "scale": {"zero": false}, "title": self.value.title(), "axis": self.value.spec(NAMES)});
        let line = |at: f64, dash: Value| {
            json!({
                "mark": {"type": "rule", "strokeWidth": 1.6, "strokeDash": dash, "color": "var(--ink)"},
                "encoding": {"x": {"datum": at, "type": "quantitative"}, "y": null},
            })
        };
        let tooltip = json!([
            {"field": "place", "title": "left open"},
            {"field": "values", "title": "our number"},
        ]);
        let mut layers = vec![
            json!({
                "mark": {"type": "bar", "height": 13, "color": "var(--accent)"},
                "encoding": {"x": value("low"), "x2": {"field": "high"}, "tooltip": tooltip},
            }),
            line(self.default, json!([])),
        ];
        layers.extend(self.reference.map(|reference| line(reference, json!([4, 3]))));
        json!({
            "data": {"values": self.swings},
            "height": self.swings.len() * 28,
            "encoding": {"y": names(&places, 0.4)},
            "layer": layers,
        })
    }
}
