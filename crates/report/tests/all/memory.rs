//! Pictures of physical memory: maps, indices, bloat.

use crate::document;
use crate::document::{chart, check, data, find, legend, marks, page, shown, strings, text};
use serde_json::{Value, json};

/// A run with this map and series (both JSON).
fn run(scheme: &str, maps: &str, series: &str) -> String {
    format!(
        r#"{{"scheme":"{scheme}","workload":"w","machine":"m","instructions":1000,"counters":{{"walks":1}},"memory_maps":[{maps}],"series":{{"memory":[{series}]}}}}"#
    )
}

/// Two perforated blocks with a quarter of holes, a large one, 1000 free ones, one of 4KB pages.
const MAP: &str = r#"{"instructions":[200,1000],"blocks":1004,"blocks_per_cell":1,
    "frames":{"free":512000,"large":512},"block_classes":{"free":1000,"large":1,"movable":1,"perforated":2},
    "classes":["free","movable","large","perforated"],
    "cells":[[2,3,0,128,128],[1,2,0,0,0],[1000,0,512,0,0],[1,1,0,0,0]]}"#;

/// Two runs with maps and series of their memory.
pub fn runs() -> Vec<String> {
    let sample = |instruction: u64, unusable: f64, touched: u64| {
        json!({"instruction": instruction, "unusable_index_2m": unusable,
            "fragmentation_index_2m": unusable / 3.0, "free_bytes": 5 << 20,
            "mapped_bytes": 200 << 20, "touched_bytes": touched << 20})
    };
    let series = |least: f64| {
        [sample(0, least, 10), sample(500, least + 0.2, 70), sample(1000, least + 0.1, 150)]
            .map(|one| one.to_string())
            .join(",")
    };
    let map = one_line(MAP);
    vec![run("4k", &map, &series(0.5)), run("perforated", &map, &series(0.25))]
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Row, first column, number, class and share of the square of each stripe of a map.
fn stripes(chart: &Value) -> Vec<Value> {
    let stripe = |cell: &Value| {
        json!([cell["row"], cell["first"], cell["cells"], cell["series"], cell["share"]])
    };
    marks(&chart["layer"][0]).iter().map(stripe).collect()
}

#[test]
fn a_map_shows_its_classes_holes_and_free_stretches() {
    let page = page(&[run("4k", "", ""), run("perforated", &one_line(MAP), "")]);
    let chart = chart(&page, "c0-memory-map-0");
    assert_eq!(legend(&chart), ["free", "4KB pages", "2MB page", "perforated"]);
    // Two rows of heading, a row of cells, two rows that name the free stretch, a row of cells.
    assert_eq!(
        stripes(&chart),
        [
            json!([2, 0, 2, "perforated", 0.25]),
            json!([2, 2, 1, "2MB page", 0.0]),
            json!([5, 0, 1, "4KB pages", 0.0]),
        ]
    );
    assert_eq!(chart["height"], 7.0 * 9.0);
    // 1000 blocks are 2000MB.
    assert_eq!(
        strings(&chart["layer"][1]["data"]["values"], "text"),
        ["after 200 instructions, unchanged up to 1000", "… 1.95 GB free …"]
    );
    let cells = [
        "after 200 instructions, unchanged up to 1000",
        "1,000",
        "1",
        "1",
        "2",
        "1.95 GB",
        "2.00 MB",
    ];
    assert_eq!(shown(&page, "c0-memory-map-0"), [cells]);
    check(&page, |document| {
        assert!(find(document, "c0-memory-map-1").is_none(), "4k has no map");
    });
    assert!(page.contains("Each cell is a 2MB block."));
    assert!(page.contains("share of holes of perforated pages"));
    assert!(!page.contains("share of free memory in other blocks"), "no such square");
}

#[test]
fn maps_of_all_schemes_have_the_same_scale() {
    // 3000 blocks of 4KB pages need cells of four where 1344 cells fit; the other map follows.
    let pages = r#"{"instructions":[1],"blocks_per_cell":1,"classes":["movable"],"cells":[[3000,0,0,0,0]]}"#;
    let large =
        r#"{"instructions":[1],"blocks_per_cell":2,"classes":["large"],"cells":[[8,0,0,0,0]]}"#;
    let page = page(&[run("4k", pages, ""), run("thp", large, "")]);
    assert!(page.contains("Each cell is 4 blocks of 2MB (8.00 MB)"));
    // 8 cells of two blocks are 4 of four.
    let stripes = stripes(&chart(&page, "c0-memory-map-1"));
    assert_eq!(stripes, [json!([2, 0, 4, "2MB page", 0.0])]);
}

#[test]
fn indices_and_bloat_are_drawn_where_there_are_any() {
    let sample = |instruction: u64, fragmentation: &str, touched: u64| {
        format!(
            r#"{{"instruction":{instruction},"unusable_index_2m":0.5,"fragmentation_index_2m":{fragmentation},"free_bytes":1,"mapped_bytes":209715200,"touched_bytes":{touched}}}"#
        )
    };
    let fails = [sample(0, "null", 0), sample(10, "0.25", 104_857_600)].join(",");
    let grows = fails.replacen("0.5", "0.25", 1);
    let never = [sample(0, "null", 0), sample(10, "null", 209_715_200)].join(",");
    let with = page(&[run("4k", "", &fails), run("thp", "", &never)]);
    // The unusable index is the same throughout, which takes no chart.
    check(&with, |document| {
        assert!(find(document, "c0-unusable-index").is_none());
        let said = "Free memory unusable for 2MB pages: 50.0 % throughout, under every scheme.";
        assert!(text(document.root()).contains(said));
    });
    let lines = |id: &str| {
        let chart = chart(&with, id);
        let known = marks(&chart).iter().filter(|mark| mark["value"].is_number());
        let mut names: Vec<Value> = known.map(|mark| mark["series"].clone()).collect();
        names.dedup();
        names.len()
    };
    assert_eq!(lines("c0-fragmentation-index"), 1, "thp has no value to draw");
    // 200MB mapped, of which 100MB are touched in the end.
    let bloat = chart(&with, "c0-bloat-0");
    let values: Vec<Value> = marks(&bloat).iter().map(|mark| mark["values"].clone()).collect();
    assert_eq!(values, [json!([0.0, 200.0]), json!([100.0, 100.0])]);
    let growing = page(&[run("4k", "", &grows), run("thp", "", &never)]);
    assert_eq!(marks(&chart(&growing, "c0-unusable-index")).len(), 4);
    // At one of the samples of 4k, 2MB could not be had.
    check(&growing, |document| {
        assert!(!text(document.root()).contains("2MB could still be had"));
    });
    let without = page(&[run("thp", "", &never.replacen("0.5", "0.25", 1))]);
    check(&without, |document| {
        assert!(find(document, "c0-fragmentation-index").is_none());
        assert!(text(document.root()).contains("At every sample 2MB could still be had."));
    });
}

#[test]
fn odd_values_leave_the_pictures_whole() {
    for value in ["0", "-1", "1e308", "18446744073709551615"] {
        let map = format!(
            r#"{{"instructions":[{value}],"blocks_per_cell":{value},"classes":["free","</svg>"],"frames":{{"x":{value}}},"block_classes":{{"free":{value}}},"cells":[[{value},1,{value},{value},{value}],[1],[],[{value},{value}],[{value},0,{value}]]}}"#
        );
        let sample = format!(
            r#"{{"instruction":{value},"unusable_index_2m":{value},"fragmentation_index_2m":{value},"mapped_bytes":{value},"touched_bytes":{value}}}"#
        );
        let page = page(&[run("4k", &map, &sample), run("thp", r#"{}"#, "{}")]);
        assert!(data(&page)["figures"].is_object());
        let markup = document::markup(&page);
        assert!(!markup.contains("NaN") && !markup.contains(">inf"), "{value}");
    }
}
