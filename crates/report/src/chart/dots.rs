//! Dot charts of published and simulated values: a row for each value, with our value as a dot, the paper's
//! as a diamond, and the range of our value as a line.

use serde_json::{Value, json};

use super::{Axis, Mark, NAMES, claimed, names};

/// A dot chart that compares published values with the simulator's.
pub(crate) struct Dots<'a> {
    pub marks: Vec<Mark>,
    pub value: Axis<'a>,
}

impl Dots<'_> {
    pub fn spec(&self) -> Value {
        let places: Vec<String> = self.marks.iter().map(|mark| mark.place.clone()).collect();
        let value = |field: &str| json!({"field": field, "type": "quantitative", "scale": {"zero": false}, "title": self.value.title(), "axis": self.value.spec(NAMES)});
        let [open, diamond] = claimed("x", value);
        let between = json!({
            "transform": [{"filter": "isValid(datum.value)"}],
            "mark": {"type": "rule", "strokeWidth": 1, "strokeDash": [1, 2], "color": "var(--muted)"},
            "encoding": {"x": value("value"), "x2": {"field": "paper"}},
        });
        let seeds = json!({
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 1.4, "color": "var(--accent)"},
            "encoding": {"x": value("low"), "x2": {"field": "high"}},
        });
        let mut dot = diamond["encoding"].clone();
        dot["x"] = value("value");
        for channel in ["stroke", "fill"] {
            dot[channel] = json!({"value": "var(--accent)"});
        }
        let dots = json!({
            "transform": [{"filter": "isValid(datum.value)"}],
            "mark": {"type": "point", "shape": "circle", "size": 42, "opacity": 1}, "encoding": dot,
        });
        json!({
            "data": {"values": self.marks},
            "height": self.marks.len() * 30,
            "encoding": {"y": names(&places, 0.2)},
            "layer": [open, between, seeds, diamond, dots],
        })
    }
}
