//! The holes of one 2MB page as a grid: 32 × 16 sub-pages of 4KB, eight regions of 256KB.

use serde_json::{Value, json};

use perforate_records::Region;

/// Each region of the filter is two lines of the grid, with some space before the next.
pub(crate) fn holes(region: &Region) -> Value {
    let letter = |index| match (region.is_hole(index), region.is_allocated_hole(index)) {
        (false, _) => 'i',
        (true, true) => 'a',
        (true, false) => 'u',
    };
    let letters: String = (0..512).map(letter).collect();
    let filter: Vec<Value> =
        (0..8).map(|index| json!({"index": index, "set": region.filter >> index & 1})).collect();
    let kinds = ["in place", "hole, allocated", "hole, unallocated"];
    let x = |field: &str| json!({"field": field, "type": "quantitative", "axis": null, "scale": {"domain": [-1.6, 32.2], "nice": false}});
    let y = |field: &str| json!({"field": field, "type": "quantitative", "axis": null, "scale": {"domain": [-0.3, 19.3], "nice": false, "reverse": true}});
    let look = |fill: [&str; 3]| json!({"field": "kind", "type": "nominal", "legend": null, "scale": {"domain": kinds, "range": fill}});
    json!({
        "height": 200, "padding": 0,
        "layer": [
            {
                "data": {"values": filter},
                "transform": [{"calculate": "datum.index * 2.4 - 0.15", "as": "top"}, {"calculate": "datum.top + 2.2", "as": "bottom"}],
                "layer": [
                    {
                        "transform": [{"calculate": "-0.15", "as": "left"}, {"calculate": "32.05", "as": "right"}],
                        "mark": {"type": "rect", "fill": null, "cornerRadius": 2, "strokeWidth": 1.2},
                        "encoding": {
                            "x": x("left"), "x2": {"field": "right"}, "y": y("top"), "y2": {"field": "bottom"},
                            "stroke": {"condition": {"test": "datum.set", "value": "var(--ink)"}, "value": "var(--line)"},
                        },
                    },
                    {
                        "transform": [{"calculate": "-0.8", "as": "left"}, {"calculate": "datum.top + 1.1", "as": "middle"}],
                        "mark": {"type": "text", "fontSize": 10.5},
                        "encoding": {
                            "x": x("left"), "y": y("middle"), "text": {"field": "index"},
                            "color": {"condition": {"test": "datum.set", "value": "var(--ink)"}, "value": "var(--muted)"},
                        },
                    },
                ],
            },
            {
                "data": {"values": [{"letters": letters}]},
                "transform": [
                    {"calculate": "sequence(512)", "as": "page"},
                    {"flatten": ["page"]},
                    {"calculate": "{i: 'in place', a: 'hole, allocated', u: 'hole, unallocated'}[substring(datum.letters, datum.page, datum.page + 1)]", "as": "kind"},
                    {"calculate": "floor(datum.page / 64)", "as": "region"},
                    {"calculate": "datum.page % 32", "as": "left"},
                    {"calculate": "datum.left + 0.88", "as": "right"},
                    {"calculate": "floor(datum.page / 32) + datum.region * 0.4", "as": "top"},
                    {"calculate": "datum.top + 0.88", "as": "bottom"},
                    {"calculate": "'+' + datum.page * 4 + 'KB'", "as": "offset"},
                ],
                "mark": {"type": "rect", "strokeWidth": 1.4, "aria": false},
                "encoding": {
                    "x": x("left"), "x2": {"field": "right"}, "y": y("top"), "y2": {"field": "bottom"},
                    "fill": look(["var(--c-in-place)", "var(--c-hole)", "transparent"]),
                    "stroke": look(["transparent", "transparent", "var(--c-hole)"]),
                    "tooltip": [
                        {"field": "page", "title": "sub-page"}, {"field": "offset", "title": "at"},
                        {"field": "region", "title": "region"}, {"field": "kind", "title": "it is"},
                    ],
                },
            },
        ],
    })
}
