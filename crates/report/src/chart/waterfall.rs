//! A waterfall: from the sum of one scheme's parts to that of another, a bar for what each part adds
//! or takes away. Which two they are is chosen on the page.

use serde_json::{Value, json};

use super::Axis;

/// Between bars below each other.
const PITCH: usize = 26;

/// A scheme with its parts.
pub(crate) struct Side {
    pub name: String,
    /// In the order of the waterfall's parts.
    pub parts: Vec<f64>,
    /// The whole that the parts belong to, as text.
    pub whole: String,
}

/// A chart of what parts add and take away.
pub(crate) struct Waterfall<'a> {
    pub parts: Vec<String>,
    pub sides: Vec<Side>,
    /// Indices of the two sides that are shown first.
    pub from: usize,
    pub to: usize,
    pub value: Axis<'a>,
    /// Meaning of the wholes, and their unit.
    pub whole: &'a str,
    pub unit: &'a str,
}

/// Kinds of the bars for the sums, at the beginning and at the end.
const ENDS: [&str; 2] = ["start", "end"];

impl Waterfall<'_> {
    /// A value for each part of each side, and the sums.
    fn values(&self) -> Vec<Value> {
        let last = self.parts.len() + 1;
        let value = |side: &Side, number: usize, kind: &str, part: &str, value: f64| json!({"scheme": side.name, "number": number, "kind": kind, "part": part, "value": value});
        let of_side = |side: &Side| {
            let parts = self.parts.iter().zip(&side.parts).enumerate();
            let mut values: Vec<Value> = parts
                .map(|(index, (part, &share))| value(side, index + 1, "part", part, share))
                .collect();
            let sum = side.parts.iter().sum();
            values.extend(
                [0, last].iter().zip(ENDS).map(|(&at, kind)| value(side, at, kind, "", sum)),
            );
            values
        };
        self.sides.iter().flat_map(of_side).collect()
    }

    /// Format of all numbers of the chart: the same for all, so that a reader can add them up.
    fn form(&self) -> &'static str {
        let sums = self.sides.iter().map(|side| side.parts.iter().sum::<f64>());
        match sums.fold(0.0, f64::max) {
            most if most >= 1e6 => ".3s",
            most if most >= 100.0 => ",.1f",
            most if most >= 10.0 => ".2f",
            most if most >= 0.1 => ".3f",
            _ => ".2~e",
        }
    }

    pub fn spec(&self) -> Value {
        let write = |value: &str| format!("format({value}, '{}')", self.form());
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        let (from, to) = (names[self.from], names[self.to]);
        let wholes: Value =
            self.sides.iter().map(|side| (side.name.clone(), json!(side.whole))).collect();
        // What a side counts: it may be both, whose parts then cancel out.
        let of = |side: &str| format!("(datum.scheme === {side} ? datum.value : 0)");
        let is_end = |kind: &str| format!("datum.kind === '{kind}'");
        let change = format!(
            "{} ? {} : {} ? -{} : {} - {}",
            is_end("start"),
            of("from"),
            is_end("end"),
            of("to"),
            of("to"),
            of("from")
        );
        let place = format!("{} ? from : {} ? to : datum.part", is_end("start"), is_end("end"));
        let size = write("abs(datum.change)");
        let text =
            format!("datum.kind !== 'part' ? {size} : (datum.change < 0 ? '−' : '+') + {size}");
        let colour =
            "datum.kind !== 'part' ? 'sum' : datum.change < 0 ? 'saved' : 'added'".to_owned();
        let about = format!(
            "datum.kind !== 'part' ? 'in all' : {} + ' → ' + {}",
            write("datum.before"),
            write("datum.after")
        );
        let sum = |field: &str, name: &str| json!({"op": "sum", "field": field, "as": name});
        let y = json!({
            "field": "number", "type": "ordinal", "title": null, "scale": {"paddingInner": 0.28, "paddingOuter": 0.14},
            "axis": {
                // Numbers keep the order; their names are looked up.
                "labelExpr": format!("datum.value === 0 ? from : datum.value === {} ? to : parts[datum.value - 1]", self.parts.len() + 1),
                "labelColor": "var(--ink)", "labelFontSize": 12.5, "labelLimit": 180, "labelOverlap": false, "ticks": false, "domain": false,
            },
        });
        let x = |field: &str| {
            let mut axis = self.value.spec(190);
            axis["grid"] = true.into();
            json!({"field": field, "type": "quantitative", "title": self.value.title(), "axis": axis, "scale": {"zero": true}})
        };
        let at = |position: f64| {
            let mut y = y.clone();
            y["bandPosition"] = position.into();
            y
        };
        json!({
            "usermeta": {"legend": [], "choice": {"names": names, "from": from, "to": to}},
            "data": {"values": self.values()},
            "params": [
                {"name": "from", "value": from}, {"name": "to", "value": to},
                {"name": "parts", "value": self.parts}, {"name": "wholes", "value": wholes},
            ],
            "title": {
                "text": {"expr": format!("'{}: ' + wholes[from] + ' → ' + wholes[to] + ' {}'", self.whole, self.unit)},
                "orient": "bottom", "anchor": "start", "frame": "bounds", "fontSize": 12.5, "fontWeight": "normal",
                "color": "var(--ink)", "offset": 8,
            },
            "transform": [
                {"calculate": change, "as": "moved"},
                {"calculate": of("from"), "as": "from_value"},
                {"calculate": of("to"), "as": "to_value"},
                {
                    "aggregate": [sum("moved", "change"), sum("from_value", "before"), sum("to_value", "after")],
                    "groupby": ["number", "kind", "part"],
                },
                {"filter": "datum.kind !== 'part' || datum.before > 0 || datum.after > 0"},
                {
                    "sort": [{"field": "number"}],
                    "window": [{"op": "sum", "field": "change", "as": "end"}, {"op": "lead", "field": "number", "as": "next"}],
                },
                {"calculate": "datum.kind === 'end' ? 0 : datum.end", "as": "end"},
                {"calculate": "datum.kind === 'end' ? -datum.change : datum.kind === 'start' ? 0 : datum.end - datum.change", "as": "start"},
                {"calculate": place, "as": "place"},
                {"calculate": text, "as": "text"},
                {"calculate": colour, "as": "what"},
                {"calculate": about, "as": "about"},
                {"calculate": "max(datum.start, datum.end)", "as": "right"},
            ],
            "padding": {"left": 3, "top": 3, "bottom": 3, "right": 58},
            "height": PITCH * (self.parts.len() + 2),
            "encoding": {"y": y},
            "layer": [
                {
                    "transform": [{"filter": "isValid(datum.next) && datum.kind !== 'end'"}],
                    "mark": {"type": "rule", "strokeWidth": 1, "color": "var(--axis)"},
                    "encoding": {"x": x("end"), "y": at(0.0), "y2": {"field": "next", "bandPosition": 1}},
                },
                {
                    "mark": {"type": "bar", "cornerRadiusEnd": 0},
                    "encoding": {
                        "x": x("start"), "x2": {"field": "end"},
                        "color": {
                            "field": "what", "type": "nominal", "legend": null,
                            "scale": {
                                "domain": ["sum", "saved", "added"],
                                "range": ["var(--c-other)", "var(--c-perforated)", "var(--c-hole)"],
                            },
                        },
                        "tooltip": [
                            {"field": "place", "title": "what"},
                            {"field": "about", "title": "cycles per access"},
                            {"field": "text", "title": "change"},
                        ],
                    },
                },
                {
                    "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 12.5},
                    "encoding": {"x": x("right"), "text": {"field": "text"}},
                },
            ],
        })
    }
}
