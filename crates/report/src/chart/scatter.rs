//! Scatter charts of our values over published ones, with the line on which both are equal.

use serde_json::{Value, json};

use super::{Axis, Mark, Series, colour, legend, visible};

/// A scatter chart. A mark's position `x` is the published value, `value` is ours.
pub(crate) struct Scatter<'a> {
    pub series: Vec<Series>,
    pub marks: Vec<Mark>,
    /// Axis of the published values.
    pub published: Axis<'a>,
    /// Axis of our values.
    pub ours: Axis<'a>,
    /// True if both axes are logarithmic, which needs positive values.
    pub is_logarithmic: bool,
}

impl Scatter<'_> {
    pub fn spec(&self) -> Value {
        let ends = |mark: &Mark| [mark.x, mark.value, mark.low, mark.high];
        let values = self.marks.iter().flat_map(ends).flatten();
        let (least, most) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        let kind = if self.is_logarithmic { "log" } else { "linear" };
        let axis = |field: &str, axis: &Axis<'_>| {
            json!({
                "field": field, "type": "quantitative", "title": axis.title(), "axis": axis.sparse(),
                "scale": {"type": kind, "domain": [least, most], "nice": true, "zero": false},
            })
        };
        let (x, y) = (axis("x", &self.published), |field: &str| axis(field, &self.ours));
        let equal = json!({
            "data": {"values": [{"x": least, "value": least}, {"x": most, "value": most}]},
            "mark": {"type": "line", "strokeDash": [4, 3], "strokeWidth": 1, "color": "var(--muted)"},
            "encoding": {"x": x, "y": y("value")},
        });
        let colour = colour(&self.series);
        let intervals = json!({
            "transform": [visible(), {"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 1.2},
            "encoding": {"x": x, "y": y("low"), "y2": {"field": "high"}, "color": colour},
        });
        let lines = [
            ("place", "claim"),
            ("series", "verdict"),
            ("brief", "published"),
            ("text", "ours"),
            ("interval", "interval"),
        ];
        let tooltip = lines.map(|(field, title)| json!({"field": field, "title": title}));
        let points = json!({
            "transform": [visible()],
            "mark": {"type": "point", "filled": true, "size": 48, "opacity": 0.85},
            "encoding": {"x": x, "y": y("value"), "color": colour, "tooltip": tooltip},
        });
        json!({
            "usermeta": {"legend": legend(&self.series, |_| Value::Null), "widest": 560},
            "data": {"values": self.marks}, "height": 380,
            "layer": [equal, intervals, points],
        })
    }
}
