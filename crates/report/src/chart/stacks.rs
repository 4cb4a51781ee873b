//! Horizontal stacked bars with their sums.

use serde_json::{Value, json};

use super::{Axis, Mark, NAMES, Series, colour, labels, legend, names, number, tooltip, visible};

/// A chart of stacked bars.
pub(crate) struct Stacks<'a> {
    pub series: Vec<Series>,
    pub places: Vec<String>,
    /// Values are in the unit of the axis.
    pub marks: Vec<Mark>,
    pub value: Axis<'a>,
    /// Heading of the places.
    pub place: &'a str,
}

impl Stacks<'_> {
    pub fn spec(&self) -> Value {
        let value = |mut encoding: Value| {
            encoding["type"] = "quantitative".into();
            encoding["title"] = self.value.title();
            encoding["axis"] = self.value.spec(NAMES);
            encoding
        };
        let sum = json!([
            {"aggregate": [{"op": "sum", "field": "value", "as": "sum"}], "groupby": ["place"]},
            {"calculate": number("datum.sum", self.value.suffix), "as": "text"},
        ]);
        let order = json!({"calculate": "indexof(order, datum.series)", "as": "number"});
        json!({
            "usermeta": {"legend": legend(&self.series, |_| Value::Null)},
            "data": {"values": self.marks},
            "params": [{"name": "order", "value": labels(&self.series)}],
            "transform": [{"filter": "datum.value > 0"}, visible(), order],
            "padding": {"left": 3, "top": 3, "bottom": 3, "right": 64},
            "height": 28 * self.places.len(),
            "encoding": {"y": names(&self.places, 0.3)},
            "layer": [
                {
                    // Neighbours are told apart without their colours.
                    "mark": {"type": "bar", "stroke": "var(--card)", "strokeWidth": 0.8, "cornerRadiusEnd": 0},
                    "encoding": {
                        "x": value(json!({"field": "value", "stack": "zero"})),
                        "color": colour(&self.series), "order": {"field": "number", "type": "quantitative"},
                        "tooltip": tooltip(self.place, "place"),
                    },
                },
                {
                    "transform": sum,
                    "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 12.5},
                    "encoding": {"x": value(json!({"field": "sum"})), "text": {"field": "text"}},
                },
            ],
        })
    }
}
