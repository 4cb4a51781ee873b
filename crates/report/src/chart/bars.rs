//! Horizontal bar charts with intervals: a group of bars for each named place, a bar for each series.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Axis, Mark, NAMES, Series, claimed, colour, labels, legend, names, tooltip, visible};

/// Vega expression for the rightmost extent of a bar with its interval, its published value and the range of
/// our value. A missing value counts as 0.
const FURTHEST: &str =
    "max(0, datum.value || 0, datum.high || 0, datum.paper || 0, datum.open_high || 0)";

/// Vega expression that is true if the chart is too narrow to show intervals and published numbers.
const IS_NARROW: &str = "room < 480";

/// A horizontal bar chart with intervals.
#[derive(Default)]
pub(crate) struct Bars<'a> {
    pub series: Vec<Series>,
    pub places: Vec<String>,
    pub marks: Vec<Mark>,
    /// True if each place (row of the chart) has a bar for every series; false if each place has a single
    /// bar.
    pub is_grouped: bool,
    pub value: Axis<'a>,
    /// Lower and upper end of the value axis if other charts have the same axis, otherwise `None`.
    pub range: Option<(f64, f64)>,
    /// Title of the tooltips' line with the name of a bar's place, such as `scheme`.
    pub place: &'a str,
    /// Value at which a reference line crosses all bars.
    pub reference: Option<f64>,
    /// Published ranges and means, drawn over the bars.
    pub bands: Vec<Band>,
}

/// A range of values that a chart marks at one place, or a single value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Band {
    pub place: String,
    pub low: f64,
    pub high: f64,
}

impl Band {
    /// True for a band that is a single value, which is drawn as a line.
    pub fn is_line(&self) -> bool {
        self.low == self.high
    }
}

impl Bars<'_> {
    pub fn spec(&self) -> Value {
        let pitch = match self.series.len() {
            _ if !self.is_grouped => 20,
            0 | 1 => 20,
            2 => 16,
            3..=5 => 13,
            6..=10 => 9,
            _ => 7,
        };
        let group = if self.is_grouped { pitch * self.series.len() } else { pitch };
        // Bars lower than this have no room for the text of their values.
        let has_values = pitch >= 13;
        let longest = |text: fn(&Mark) -> &str| {
            let lengths = self.marks.iter().map(|mark| text(mark).chars().count());
            if has_values { lengths.max().unwrap_or(0) * 7 + 10 } else { 8 }
        };
        let (room, brief_room) = (longest(|mark| &mark.text), longest(Mark::briefly));
        let value = |field: &str| {
            let mut value = json!({"field": field, "type": "quantitative", "title": self.value.title(), "axis": self.value.spec(NAMES)});
            if let Some((least, most)) = self.range {
                value["scale"] = json!({"domain": [least.min(0.0), most]});
            }
            value
        };
        let mut bars = json!({"color": colour(&self.series), "x": value("value"), "tooltip": tooltip(self.place, "place")});
        let mut shared = json!({"y": names(&self.places, 8.0 / (group + 8) as f64)});
        if self.is_grouped {
            shared["yOffset"] =
                json!({"field": "series", "scale": {"domain": labels(&self.series)}});
            let fillings: Vec<f64> = self.series.iter().map(filling).collect();
            bars["fillOpacity"] = json!({"field": "series", "type": "ordinal", "scale": {"type": "ordinal", "domain": labels(&self.series), "range": fillings}});
            bars["stroke"] = bars["color"].clone();
        } else {
            bars["color"]["legend"] = Value::Null;
        }
        let known = json!({"filter": "isValid(datum.low) && isValid(datum.high)"});
        let whiskers = json!({
            "transform": [known],
            "mark": {"type": "errorbar", "ticks": {"size": pitch / 2}, "rule": {"strokeWidth": 1.2}},
            "encoding": {"x": value("low"), "x2": {"field": "high"}},
        });
        let mut layers =
            vec![json!({"mark": {"type": "bar", "strokeWidth": 0.6}, "encoding": bars}), whiskers];
        layers.extend(bands(&self.bands, value));
        layers.extend(self.reference.map(|reference| {
            json!({
                "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--muted)"},
                "encoding": {"x": {"datum": reference, "type": "quantitative"}, "y": null},
            })
        }));
        if self.marks.iter().any(|mark| mark.claimed.is_some()) {
            layers.extend(claimed("x", value));
        }
        if has_values {
            let size = if self.is_grouped { 10.5 } else { 12.5 };
            let shown = format!("{IS_NARROW} && datum.brief ? datum.brief : datum.text");
            // The first layer is a background that keeps lines away from the text of values.
            layers.extend(["var(--card)", "transparent"].map(|ground| {
                json!({
                    "transform": [{"calculate": FURTHEST, "as": "end"}, {"calculate": shown.clone(), "as": "shown"}],
                    "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": size, "stroke": ground, "strokeWidth": 4},
                    "encoding": {"x": value("end"), "text": {"field": "shown"}},
                })
            }));
        }
        let shown = if self.is_grouped { self.series.as_slice() } else { &[] };
        json!({
            "usermeta": {"legend": legend(shown, |one| json!({"filling": filling(one)}))},
            "data": {"values": self.marks}, "transform": [visible()],
            "padding": {"expr": format!("{{left: 3, top: 3, bottom: 3, right: {IS_NARROW} ? {brief_room} : {room}}}")},
            "height": self.places.len() * (group + 8).max(28), "encoding": shared, "layer": layers,
        })
    }
}

/// Returns the Vega-Lite layers that draw published ranges and single values. They switch off the vertical
/// offset per series, which they would otherwise inherit from the bars.
fn bands(bands: &[Band], value: impl Fn(&str) -> Value) -> Vec<Value> {
    let (lines, ranges): (Vec<&Band>, Vec<&Band>) = bands.iter().partition(|band| band.is_line());
    let mut layers = Vec::new();
    if !ranges.is_empty() {
        layers.push(json!({
            "data": {"values": ranges},
            "mark": {"type": "bar", "color": "var(--muted)", "fillOpacity": 0.16, "stroke": "var(--ink)", "strokeWidth": 0.8, "strokeOpacity": 0.7},
            "encoding": {"x": value("low"), "x2": {"field": "high"}, "yOffset": null},
        }));
    }
    if !lines.is_empty() {
        layers.push(json!({
            "data": {"values": lines},
            "mark": {"type": "tick", "thickness": 1.5, "color": "var(--ink)"},
            "encoding": {"x": value("low"), "yOffset": null},
        }));
    }
    layers
}

/// Returns the opacity of a series' bars, which distinguishes series of the same colour.
fn filling(series: &Series) -> f64 {
    [1.0, 0.45, 0.12][series.round % 3]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn font_sizes(chart: &Value) -> Vec<f64> {
        let layers = chart["layer"].as_array().expect("layers");
        layers.iter().filter_map(|layer| layer["mark"]["fontSize"].as_f64()).collect()
    }

    /// Bars of a group are thinner, and where they are too thin their values are left out.
    #[test]
    fn values_are_written_as_large_as_bars_allow() {
        let sizes = |count: usize, is_grouped| {
            let label = |number| Series { label: format!("s{number}"), ..Series::default() };
            let series = (0..count).map(label).collect();
            font_sizes(&Bars { series, is_grouped, ..Bars::default() }.spec())
        };
        assert_eq!(sizes(2, false), [12.5; 2]);
        assert_eq!(sizes(2, true), [10.5; 2]);
        assert_eq!(sizes(6, false), [12.5; 2]);
        assert!(sizes(6, true).is_empty());
    }

    /// Height in pixels of a bar by the number of bars in a group, and of a row: 8 more, at least 28.
    #[test]
    fn bars_of_large_groups_are_thin() {
        for (count, height) in [(1, 28), (2, 40), (3, 47), (5, 73), (6, 62), (10, 98), (11, 85)] {
            let label = |number| Series { label: format!("s{number}"), ..Series::default() };
            let series: Vec<Series> = (0..count).map(label).collect();
            let places = vec!["a".to_owned(), "b".to_owned()];
            let spec = Bars { series, places, is_grouped: true, ..Bars::default() }.spec();
            assert_eq!(spec["height"], json!(2 * height), "{count}");
            assert_eq!(spec["layer"].as_array().unwrap().len() > 2, count <= 5, "{count}: values");
        }
        let alone = Bars { places: vec!["a".into()], ..Bars::default() }.spec();
        assert_eq!(alone["height"], json!(28));
    }

    /// A published range is a bar, a single value a tick, and a chart may have both.
    #[test]
    fn published_ranges_and_values_have_a_layer_each() {
        let band = |low: f64, high: f64| Band { place: String::new(), low, high };
        let (range, line) = (band(1.0, 2.0), band(3.0, 3.0));
        for (given, expected) in [
            (vec![], vec![]),
            (vec![range.clone()], vec![("bar", 1)]),
            (vec![line.clone()], vec![("tick", 1)]),
            (vec![line.clone(), range, line], vec![("bar", 1), ("tick", 2)]),
        ] {
            let layers = bands(&given, |field| json!(field));
            let found: Vec<(&str, usize)> = layers
                .iter()
                .map(|layer| {
                    let values = layer["data"]["values"].as_array().unwrap();
                    (layer["mark"]["type"].as_str().unwrap(), values.len())
                })
                .collect();
            assert_eq!(found, expected);
        }
    }
}
