//! Map of a program's memory: for each area a lane of page walks over a lane of density.

use serde_json::{Value, json};

use super::names;
use crate::format::{MISSING, percent};
use crate::palette::{SHADES, css};

/// A part of an area.
pub(crate) struct MapCell {
    pub area: String,
    /// Start and end within the area, 0–1.
    pub start: f64,
    pub end: f64,
    /// Share of all page walks, 0–1.
    pub walk_share: f64,
    /// Share of the touched 2MB blocks that is in use, 0–1; `None` if nothing is touched.
    pub density: Option<f64>,
    /// True if large pages are recommended for the part.
    pub is_advised: bool,
    /// Size and place of the part as text.
    pub text: String,
}

/// A map of a program's memory.
pub(crate) struct AddressMap<'a> {
    /// Names of the areas, from top to bottom.
    pub areas: &'a [String],
    pub cells: Vec<MapCell>,
}

/// Names of the two lanes of an area.
const LANES: [&str; 2] = ["page walks", "in use of 2MB"];

impl AddressMap<'_> {
    pub fn spec(&self) -> Value {
        let most = self.cells.iter().map(|cell| cell.walk_share).fold(0.0, f64::max);
        let shade = |share: f64| (share * (SHADES - 1) as f64).round();
        let cells = self.cells.iter().flat_map(|cell| {
            let walks = if most > 0.0 { shade(cell.walk_share / most) } else { 0.0 };
            let sparse = cell.density.map(|density| shade(1.0 - density));
            [(LANES[0], Some(walks)), (LANES[1], sparse)].map(|(lane, shade)| {
                json!({
                    "place": cell.area, "lane": lane, "start": cell.start * 100.0,
                    "end": cell.end * 100.0, "shade": shade, "advised": cell.is_advised,
                    "text": cell.text, "walks": percent(cell.walk_share),
                    "density": cell.density.map_or(MISSING.to_owned(), percent),
                    "pages": if cell.is_advised { "large" } else { "as they are" },
                })
            })
        });
        let cells: Vec<Value> = cells.collect();
        let shades: Vec<String> = (0..SHADES).map(|shade| css(&format!("heat{shade}"))).collect();
        let across = json!({
            "field": "start", "type": "quantitative", "title": "place within the area (%)",
            "scale": {"domain": [0.0, 100.0], "nice": false}, "axis": {"grid": false, "tickCount": 5},
        });
        let tooltip = [
            ("place", "area"),
            ("text", "part"),
            ("walks", "page walks"),
            ("density", "in use of 2MB"),
            ("pages", "recommended pages"),
        ];
        let tooltip = tooltip.map(|(field, title)| json!({"field": field, "title": title}));
        json!({
            "usermeta": {"legend": []},
            "data": {"values": cells},
            "height": 44 * self.areas.len(),
            "encoding": {
                "y": names(self.areas, 0.25),
                "yOffset": {"field": "lane", "scale": {"domain": LANES}},
                "x": across, "x2": {"field": "end"},
            },
            "layer": [
                {
                    "mark": {"type": "rect", "strokeWidth": 0},
                    "encoding": {
                        "fill": {
                            "field": "shade", "type": "ordinal", "legend": null,
                            "scale": {"domain": (0..SHADES).collect::<Vec<_>>(), "range": shades},
                        },
                        "tooltip": tooltip,
                    },
                },
                {
                    "transform": [{"filter": format!("datum.advised && datum.lane == '{}'", LANES[0])}],
                    "mark": {"type": "rule", "strokeWidth": 3, "color": "var(--ink)"},
                    "encoding": {"yOffset": null},
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_with_most_walks_is_darkest() {
        let cell = |start: f64, walk_share, density| MapCell {
            area: "[heap]".into(),
            start,
            end: start + 0.5,
            walk_share,
            density,
            is_advised: walk_share > 0.5,
            text: String::new(),
        };
        let cells = vec![cell(0.0, 0.9, Some(1.0)), cell(0.5, 0.0, None)];
        let spec = AddressMap { areas: &["[heap]".into()], cells }.spec();
        let values = spec["data"]["values"].as_array().unwrap();
        let shades: Vec<&Value> = values.iter().map(|value| &value["shade"]).collect();
        assert_eq!(shades, [&json!(6.0), &json!(0.0), &json!(0.0), &Value::Null]);
        assert_eq!(values[0]["pages"], "large");
        assert_eq!((&values[2]["start"], &values[2]["end"]), (&json!(50.0), &json!(100.0)));
    }
}
