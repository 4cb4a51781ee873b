//! Pictures of physical memory: maps, indices, bloat.

mod document;

use document::{check, check_geometry, find, legend, page, text};

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

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

#[test]
fn a_map_shows_its_classes_holes_and_free_stretches() {
    let page = page(&[run("4k", "", ""), run("perforated", &one_line(MAP), "")]);
    check(&page, |document| {
        let figure = find(document, "c0-memory-map-0").expect("the only scheme with a map");
        assert_eq!(legend(figure), ["free", "4KB pages", "2MB page", "perforated"]);
        let path = |class: &str, series: &str| {
            let found = figure.descendants().find(|node| {
                node.attribute("class") == Some(class)
                    && node.attribute("data-series") == Some(series)
            });
            found.map(|node| node.attribute("d").unwrap().to_string())
        };
        // Legend and heading take 43 units; cells are 9 wide and high, 4 from the left.
        assert_eq!(path("f-perforated", "perforated").unwrap(), "M4 43h18v9h-18z");
        assert_eq!(path("f-page-2m", "large").unwrap(), "M22 43h9v9h-9z");
        // A quarter of the area of 8 × 8: 4 × 4 in the middle of each cell.
        assert_eq!(path("f-hole", "perforated").unwrap(), "M6.5 45.5h4v4h-4zM15.5 45.5h4v4h-4z");
        let said = text(figure);
        assert!(said.contains("… 1.95 GB free …"), "1000 blocks are 2000MB: {said}");
        assert!(said.contains("after 200 instructions, unchanged up to 1000"));
        assert_eq!(path("f-empty", "free"), None, "the free stretch is not drawn");
        let cells: Vec<String> =
            figure.descendants().filter(|node| node.has_tag_name("td")).map(text).collect();
        assert_eq!(cells, ["1,000", "1", "1", "2", "1.95 GB", "2.00 MB"]);
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
    check(&page, |document| {
        let figure = find(document, "c0-memory-map-1").unwrap();
        let cells =
            figure.descendants().find(|node| node.attribute("class") == Some("f-page-2m")).unwrap();
        assert_eq!(cells.attribute("data-series"), None, "the legend's square comes first");
        let drawn: Vec<&str> = figure
            .descendants()
            .filter(|node| node.attribute("data-series") == Some("large"))
            .filter_map(|node| node.attribute("d"))
            .collect();
        assert_eq!(drawn, ["M4 43h36v9h-36z"], "8 cells of two blocks are 4 of four");
    });
}

#[test]
fn indices_and_bloat_are_drawn_where_there_are_any() {
    let sample = |instruction: u64, fragmentation: &str, touched: u64| {
        format!(
            r#"{{"instruction":{instruction},"unusable_index_2m":0.5,"fragmentation_index_2m":{fragmentation},"free_bytes":1,"mapped_bytes":209715200,"touched_bytes":{touched}}}"#
        )
    };
    let fails = [sample(0, "null", 0), sample(10, "0.25", 104_857_600)].join(",");
    let never = [sample(0, "null", 0), sample(10, "null", 209_715_200)].join(",");
    let with = page(&[run("4k", "", &fails), run("thp", "", &never)]);
    check(&with, |document| {
        let lines = |id: &str| {
            let figure = find(document, id).unwrap();
            let lines = figure.descendants().filter(|node| {
                node.has_tag_name("path")
                    && node.attribute("data-series").is_some()
                    && node.attribute("fill") == Some("none")
            });
            lines.count()
        };
        assert_eq!(lines("c0-unusable-index"), 2);
        assert_eq!(lines("c0-fragmentation-index"), 1, "thp has no value to draw");
        let bloat = find(document, "c0-bloat-0").unwrap();
        let values: Vec<&str> =
            bloat.descendants().filter_map(|node| node.attribute("data-values")).collect();
        // 200MB mapped, of which 100MB are touched in the end.
        assert_eq!(values, ["0 100", "200 100"]);
    });
    let without = page(&[run("thp", "", &never)]);
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
        check(&page, check_geometry);
        let markup = page.split_once("<script>").unwrap().0;
        assert!(!markup.contains("NaN") && !markup.contains(">inf"), "{value}");
    }
}
