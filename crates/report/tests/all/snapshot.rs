//! Snapshots as table and page.

use crate::document;
use perforate_records::read_snapshot;
use perforate_report::{ReportOptions, snapshot_html, snapshot_table};
use serde_json::{Value, json};

pub const HOST: &str = r#"{"snapshot":"host","kernel":"6.18<b>","sources":["kpageflags"],
"missing":["iomem hides \u001b[31m addresses"],"zones":[{"node":0,"name":"Normal","present_frames":
4096,"free_blocks":[0,0,0,0,0,0,0,0,0,2,1],"pageblocks":[{"migrate_type":"Movable","blocks":8}]}],
"memory_bytes":16777216,"frames":{"free":2048,"movable":2048},"shared_frames":16,"orders":[{"order":
9,"counted":2,"placed":2,"unusable_index":0.0},{"order":10,"counted":1,"placed":1,"unusable_index":
0.5,"fragmentation_index":0.25}],"policy":"perforated:x","blocks":{"blocks":{"whole":4,
"compactable":3,"perforable":1},"memory_blocks":8,"compactable_with_room":3,"holes":[0,1,0,0,0,0,0,0,0,0]},"request_bytes":
2147483648,"requests":[{"case":"at once","perforates":true,"paper":"","shares":{"large":0.5,
"perforated":0.25}},{"case":"later","perforates":false,"paper":"22 %","shares":null}],
"memory_map":{"blocks":8,"blocks_per_cell":1,"frames":{"free":2048},"block_classes":{"free":4,
"movable":4},"classes":["free","movable"],"cells":[[4,0,512,0,0],[4,1,0,0,0]]},"version":"1"}"#;

pub const PROCESS: &str = r#"{"snapshot":"process","program":"a&b","missing":[],"notes":["note"],"areas":
[{"start":"0x1000","permissions":"rw-p","name":"[heap]","mapped_bytes":8192,"resident_bytes":4096}],
"totals":{"mapped_bytes":8192,"resident_bytes":4096,"sizes":{"4K":4096,"2M":0,"64K":0}},"contents":
{"pages_read":1,"zero_pages":1,"spec":"zero=100%"},"version":"1"}"#;

/// Snapshot with every kind of frame, block and request; no two values are equal.
pub fn full_host() -> String {
    let states = [
        "free",
        "per_cpu",
        "movable",
        "large",
        "huge",
        "page_cache",
        "reclaimable",
        "unmovable",
        "reserved",
        "retired",
        "unknown",
        "absent",
    ];
    let numbered = |names: &[&str], step: usize| -> Value {
        let values = names.iter().enumerate();
        values.map(|(place, name)| ((*name).to_owned(), json!(1000 + place * step))).collect()
    };
    let reaches = [
        "whole",
        "compactable",
        "perforable_now",
        "perforable",
        "reclaimable",
        "large",
        "neither",
        "absent",
    ];
    let zone = |node: usize, name: &str| {
        let free: Vec<usize> = (0..11).map(|order| 11 - order + node).collect();
        json!({"node": node, "name": name, "start_frame": node << 20, "spanned_frames": 40_000,
            "present_frames": 32_768 + node, "managed_frames": 32_000 + node, "per_cpu_frames": 77 + node,
            "free_blocks": free, "pageblocks": [{"migrate_type": "Unmovable", "blocks": 5 + node},
            {"migrate_type": "Isolate", "blocks": 0}, {"migrate_type": "Movable", "blocks": 59}]})
    };
    let order = |order: usize| {
        json!({"order": order, "counted": 40 - order, "placed": (order != 3).then_some(39 - order),
            "unusable_index": order as f64 / 11.0,
            "fragmentation_index": (order > 7).then_some(0.9 - order as f64 / 100.0)})
    };
    let request = |case: &str, perforates: bool, large: f64| {
        json!({"case": case, "perforates": perforates, "paper": if perforates { "40 %" } else { "" },
            "shares": {"large": large, "perforated": 0.97 - large}})
    };
    json!({
        "snapshot": "host", "kernel": "", "sources": ["kpageflags", "buddyinfo"], "missing": ["zoneinfo"],
        "assumptions": ["Slab stays."], "zones": [zone(0, "DMA32"), zone(0, "Normal"), zone(1, "Normal")],
        "memory_bytes": 17_179_869_184_u64, "frames": numbered(&states, 313), "mapped_frames": 700,
        "shared_frames": 30, "orders": (0..11).map(order).collect::<Vec<_>>(), "policy": "perforated:64",
        "blocks": {"blocks": numbered(&reaches, 17), "memory_blocks": 8192, "compactable_with_room": 900,
            "whole_without_page_cache": 300, "perforable_as_they_are": 20,
            "holes": [5, 4, 0, 7, 9, 11, 13, 15, 17, 19]},
        "request_bytes": 12_884_901_888_u64,
        "requests": [request("at once", false, 0.3), request("at once", true, 0.3),
            request("after compaction", false, 0.304), request("without page cache", false, 0.32),
            request("without page cache", true, 0.6)],
        "version": "1",
    })
    .to_string()
}

/// A process with more areas than are listed, each with figures of its own, and sizes of all units.
pub fn full_process() -> String {
    let area = |number: u64| {
        json!({"start": format!("{number:#x}000"), "end": format!("{:#x}000", number + 1), "permissions": "rw-p",
            "name": format!("{}{number}", "/a/file/".repeat(number as usize % 7)),
            "mapped_bytes": (number % 5 + 1) << 20, "resident_bytes": (number * 7 % 30) << 14,
            "anonymous_bytes": number << 10, "swapped_bytes": number << 11, "large_bytes": (number % 3) << 21})
    };
    json!({
        "snapshot": "process", "pid": 7, "program": "store", "missing": ["smaps"], "notes": ["a", "b"],
        "areas": (1..=30).map(area).collect::<Vec<_>>(),
        "totals": {"mapped_bytes": 90 << 20, "resident_bytes": 70 << 20, "swapped_bytes": 3 << 20,
            "large_bytes": 20 << 20, "folio_bytes": 30 << 20, "merged_bytes": 1 << 20,
            "sizes": {"4K": 5 << 20, "16K": 4 << 20, "64K": 3 << 20, "2M": 2 << 20, "32M": 1 << 20, "1G": 6 << 20,
                "2M mapped": 7 << 20, "other": 8 << 20}},
        "contents": {"pages_read": 900, "pages_unreadable": 3, "zero_pages": 200, "duplicate_pages": 150,
            "distinct_duplicates": 40, "most_copies": 30, "savable_pages": 110, "sampled_one_in": 4,
            "spec": "zero=22%,distinct=70%"},
        "version": "1",
    })
    .to_string()
}

fn page(text: &str) -> String {
    let options = crate::vocabulary::options("A <title>", "perforate");
    snapshot_html(&read_snapshot(text).unwrap(), &options)
}

#[test]
fn tables_say_what_the_record_says() {
    let text = snapshot_table(&read_snapshot(HOST).unwrap(), 100);
    for line in [
        "16.0 MB of memory under Linux 6.18<b>",
        "free                                          8.00 MB  50.0 %",
        "whole: all free                                                   4  50.0 %",
        "  perforated pages with 2 frames that stay                        1  12.5 %",
        "at once  with perforated  50.0 % + 25.0 %    –",
        "later    conventional     not enough memory  22 %",
        "8 movable",
        "|....mmmm|",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100 && !line.contains('\u{1b}')));
    let text = snapshot_table(&read_snapshot(PROCESS).unwrap(), 100);
    assert!(text.starts_with("a&b: 8.00 KB mapped, 4.00 KB resident in 1 area"), "{text}");
    let places = ["4K  ", "64K ", "2M  "].map(|label| text.find(label).unwrap());
    assert!(places.is_sorted(), "sizes in order: {text}");
}

#[test]
fn zones_and_orders_have_all_their_figures() {
    let zone = HOST.replace(
        r#""present_frames":
4096,"#,
        r#""start_frame":256,"spanned_frames":8192,"present_frames":4096,"managed_frames":3072,
        "per_cpu_frames":5,"#,
    );
    let text = snapshot_table(&read_snapshot(&zone).unwrap(), 100);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = text.lines().map(words).collect();
    for row in [
        "zone from memory managed free per CPU pageblocks by type",
        // Two free blocks of 2MB and one of 4MB.
        "0 Normal 1.00 MB 16.0 MB 12.0 MB 8.00 MB 20.0 KB 8 movable",
        "9 2.00 MB 2 2 0.000 would not fail",
        "10 4.00 MB 1 1 0.500 0.250",
    ] {
        assert!(rows.iter().any(|found| found == row), "{row}\n{text}");
    }
}

/// An index of 0 is for lack of memory. Without an index, the allocation would not fail.
#[test]
fn a_fragmentation_index_of_0_is_a_number() {
    let short = HOST.replace("\"fragmentation_index\":0.25", "\"fragmentation_index\":0.0");
    let text = snapshot_table(&read_snapshot(&short).unwrap(), 100);
    let last = |order: &str| {
        let row = text.lines().find(|line| line.trim_start().starts_with(order)).unwrap();
        row.split_whitespace().skip(6).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([last("9  "), last("10 ")], ["would not fail", "0.000"], "{text}");
}

/// Of 4,096 frames none is managed, and fewer were reserved at boot.
#[test]
fn memory_that_the_kernel_cannot_use_is_told() {
    let note = "are not the kernel's to use now";
    let reserved = |frames: u64| {
        let frames = format!("\"movable\":2048,\"reserved\":{frames}");
        snapshot_table(&read_snapshot(&HOST.replace("\"movable\":2048", &frames)).unwrap(), 1000)
    };
    assert!(reserved(1024).contains(&format!("note: 12.0 MB {note}")), "{}", reserved(1024));
    assert!(!reserved(4090).contains(note), "{}", reserved(4090));
}

#[test]
fn the_memory_map_fits_the_terminal() {
    let large = HOST.replace("[4,0,512,0,0],[4,1,0,0,0]", "[800,0]");
    let text = snapshot_table(&read_snapshot(&large).unwrap(), 60);
    assert!(text.contains(&format!("|{}|", ".".repeat(48))), "{text}");
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 60).collect();
    assert_eq!(wide, [""; 0], "{text}");
}

/// Lines of a memory map of these runs (number of cells, class), with two 2MB blocks in a cell.
fn picture(cells: &str) -> Vec<String> {
    let map = HOST
        .replace("[4,0,512,0,0],[4,1,0,0,0]", cells)
        .replace("\"blocks_per_cell\":1", "\"blocks_per_cell\":2")
        .replace("[\"free\",\"movable\"]", "[\"free\",\"movable\",\"absent\"]");
    let text = snapshot_table(&read_snapshot(&map).unwrap(), 100);
    let lines = text.lines().skip_while(|line| !line.starts_with("Memory, "));
    lines.map(|line| line.trim().to_owned()).take_while(|line| !line.is_empty()).collect()
}

#[test]
fn rows_of_the_memory_map_begin_with_their_addresses() {
    let row = |classes: [(char, usize); 2]| -> String {
        classes.map(|(letter, count)| letter.to_string().repeat(count)).concat()
    };
    // 80 cells of 4MB in a row; of rows without memory the first.
    let lines = picture("[80,0],[40,1],[340,2],[20,1]");
    assert_eq!(lines[0], "Memory, 4.00 MB a letter, in the class that most of its 2MB blocks have");
    assert_eq!(
        lines[1..5],
        [
            format!("0 B |{}|", row([('.', 80), ('.', 0)])),
            format!("320 MB |{}|", row([('m', 40), (' ', 40)])),
            format!("640 MB |{}|", row([(' ', 80), (' ', 0)])),
            format!("1.56 GB |{}|", row([(' ', 60), ('m', 20)])),
        ]
    );
    // 3,200 cells are 20 rows of two cells a letter.
    let lines = picture("[160,1],[3040,0]");
    assert_eq!(lines[0], "Memory, 8.00 MB a letter, in the class that most of its 2MB blocks have");
    assert_eq!(lines.len(), 22, "{lines:?}");
    assert_eq!(lines[1], format!("0 B |{}|", "m".repeat(80)));
    assert_eq!(lines[2], format!("640 MB |{}|", ".".repeat(80)));
    // Three cells a letter, of which two decide.
    let lines = picture("[5,1],[1,0],[1,1],[4793,0]");
    assert!(lines[1].starts_with("0 B |mm..."), "{}", lines[1]);
}

#[test]
fn the_verdict_comes_first() {
    let text = snapshot_table(&read_snapshot(HOST).unwrap(), 100);
    let first: String =
        text.lines().skip(1).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    assert_eq!(
        first,
        "50.0 % of this memory is free in whole 2MB blocks; compaction could free another 37.5 %. \
         Perforated pages could cover another 12.5 %, with holes where memory cannot be moved; 0.0 % \
         cannot become large pages of either kind."
    );
    // Conventional pages at once, and more later.
    let asked = HOST.replace("\"perforates\":true", "\"perforates\":false");
    let asked = asked.replace("\"shares\":null", "\"shares\":{\"large\":0.75,\"perforated\":0}");
    let text = snapshot_table(&read_snapshot(&asked).unwrap(), 1000);
    assert!(
        text.contains("A program that touches 2.00 GB gets 50.0 % of it in 2MB pages at once, and 75.0 % later."),
        "{text}"
    );
    // Without the state of blocks, which only root reads: 2 of 2MB and 1 of 4MB in 16MB.
    let counted = HOST.replace("\"blocks\":{\"blocks\"", "\"unknown\":{\"blocks\"");
    let text = snapshot_table(&read_snapshot(&counted).unwrap(), 1000);
    assert!(
        text.contains("50.0 % of this memory is free in whole 2MB blocks; what comp"),
        "{text}"
    );
    assert!(page(HOST).contains("<p class=\"headline\">50.0 % of this memory"));
    let text = snapshot_table(&read_snapshot(PROCESS).unwrap(), 1000);
    assert!(text.contains("0.0 % of what it has in memory is mapped in 2MB pages; 0.0 % lies"));
}

#[test]
fn pages_are_well_formed_and_escaped() {
    for text in [HOST, PROCESS] {
        let page = page(text);
        document::check(&page, |_| ());
        assert!(!page.contains("6.18<b>") && !page.contains("A <title>"));
        assert_eq!(page, self::page(text));
    }
    assert!(page(HOST).contains("<figure id=\"snapshot-memory-map-0\""), "the picture");
}

#[test]
fn what_is_no_snapshot_is_refused() {
    for text in ["", "[]", "{}", r#"{"snapshot":"other"}"#, r#"{"snapshot":"host","zones":7}"#] {
        assert!(read_snapshot(text).is_err(), "{text}");
    }
    // Figures that make no sense are shown, not believed.
    let text = HOST.replace("[4,0,512,0,0],[4,1,0,0,0]", "[1e300,9e9],[-5,0],[],[2]");
    let snapshot = read_snapshot(&text).unwrap();
    assert!(snapshot_table(&snapshot, 100).lines().count() < 200);
    assert!(snapshot_html(&snapshot, &ReportOptions::default()).len() < 1 << 20);
}

/// Blocks are counted by the number of frames that stay in use, in classes of 1, 2, 3 to 4, up to 257 to 512.
#[test]
fn blocks_for_perforated_pages_are_told_by_the_frames_that_stay() {
    let holes = HOST.replace("[0,1,0,0,0,0,0,0,0,0]", "[2,3,0,4,0,0,0,0,0,1]");
    let text = snapshot_table(&read_snapshot(&holes).unwrap(), 100);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = text.lines().map(words).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let told: Vec<_> = rows.iter().filter(|row| row.contains("that stay")).copied().collect();
    assert_eq!(
        told,
        [
            "perforated pages with 1 frame that stays 2 25.0 %",
            "perforated pages with 2 frames that stay 3 37.5 %",
            "perforated pages with 5–8 frames that stay 4 50.0 %",
            "perforated pages with 257–512 frames that stay 1 12.5 %",
        ]
    );
}

/// The table has the 24 areas with most resident memory, the largest first, and the sum of all other areas.
#[test]
fn areas_beyond_those_shown_are_summed() {
    let areas = |count: u64| {
        let area = |number: u64| {
            format!(
                r#"{{"start":"0x{number}000","permissions":"rw-p","name":"area {number}","mapped_bytes":{},
                "resident_bytes":{},"swapped_bytes":4096,"large_bytes":1024}}"#,
                number << 20,
                number << 12,
            )
        };
        let areas: Vec<String> = (1..=count).map(area).collect();
        let start = PROCESS.find("{\"start\"").unwrap();
        let end = PROCESS.find("],\n\"totals\"").unwrap();
        format!("{}{}{}", &PROCESS[..start], areas.join(","), &PROCESS[end..])
    };
    let rows = |count| {
        let text = snapshot_table(&read_snapshot(&areas(count)).unwrap(), 100);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).skip_while(|line| !line.starts_with("area may")).skip(2).collect()
    };
    let all: Vec<String> = rows(27);
    assert_eq!(all[0], "0x27000 rw-p 27.0 MB 108 KB 4.00 KB 1.00 KB area 27", "{all:?}");
    assert_eq!(all[23], "0x4000 rw-p 4.00 MB 16.0 KB 4.00 KB 1.00 KB area 4");
    assert_eq!(all[24], "3 more 6.00 MB 24.0 KB 12.0 KB 3.00 KB");
    assert!(all[25].starts_with("all 8.00 KB 4.00 KB"), "{}", all[25]);
    let shown: Vec<String> = rows(24);
    assert!(shown[23].starts_with("0x1000 ") && shown[24].starts_with("all "), "{shown:?}");
}
