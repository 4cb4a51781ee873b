//! Pairs of guest and host: matrices in the terminal and on the page, shares of the host in
//! stacks, pictures of both memories.

use crate::document;
use crate::document::{
    chart, check, data, find, legend, marks, page, shown as rows, strings, text,
};
use crate::vocabulary::vocabulary;
use perforate_records::read_results;
use perforate_report::{Rows, table};
use proptest::prelude::*;
use roxmltree::{Document, Node};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

/// A run of one scheme or pair; counters by name.
fn run(scheme: &str, seed: u64, cycles: u64, counters: Value) -> String {
    let mut run = json!({
        "scheme": scheme, "workload": "w", "machine": "m", "seed": seed,
        "instructions": 1000, "cycles": cycles, "ipc": 1000.0 / cycles as f64,
        "counters": counters,
    });
    if let Some((guest, host)) = scheme.split_once('+') {
        run["guest"] = guest.into();
        run["host"] = host.into();
    }
    run.to_string()
}

fn shown(lines: &[String], columns: usize) -> String {
    table(&read_results(&lines.join("\n")).unwrap(), &vocabulary(), columns, Rows::All)
}

/// The lines of a matrix, in a text too narrow for two side by side.
fn matrix<'t>(text: &'t str, label: &str) -> Vec<&'t str> {
    let lines = text.lines().skip_while(|line| *line != label).skip(1);
    lines.take_while(|line| !line.is_empty()).collect()
}

/// Two guests on two hosts without `thp+4k`, one of them natively, and the ideal run.
fn some_pairs() -> Vec<String> {
    let walks = |own: f64, host: f64| {
        json!({"walks": 100, "references_per_walk": own + host,
            "guest_references_per_walk": own, "host_references_per_walk": host})
    };
    vec![
        run("4k", 1, 2000, json!({"walks": 100, "references_per_walk": 4.0})),
        run("ideal", 1, 1250, json!({"walk_cycles": 250})),
        run("4k+4k", 1, 4000, walks(4.0, 20.0)),
        run("4k+thp", 1, 2500, walks(4.0, 15.0)),
        run("thp+thp", 1, 1600, walks(3.0, 12.0)),
    ]
}

#[test]
fn guests_are_rows_hosts_are_columns_and_native_runs_come_last() {
    let text = shown(&some_pairs(), 60);
    // 1000/2500 ÷ 1000/4000 = 1.6; 4k natively takes half the time of 4k+4k.
    assert_eq!(
        matrix(&text, "IPC ÷ 4k+4k"),
        [
            "guest \\ host     4k    thp  native",
            "──────────────────────────────────",
            "4k            1.00×  1.60×   2.00×",
            "thp               –  2.50×       –",
        ]
    );
    let row = |label: &str, guest: &str| -> Vec<String> {
        let lines = matrix(&text, label);
        let row = lines.iter().find(|line| line.split(' ').next() == Some(guest)).unwrap();
        row.split_whitespace().skip(1).filter(|word| *word != "%").map(String::from).collect()
    };
    // Against 1250 cycles: 31.25 %, 50 % and 62.5 %; against 1000: 300 %, 150 % and 100 %.
    assert_eq!(row("IPC ÷ ideal", "4k"), ["31.2", "50.0", "62.5"]);
    assert_eq!(row("translation overhead", "4k"), ["300.0", "150.0", "100.0"]);
    assert_eq!(row("references per walk", "4k"), ["24.00", "19.00", "4.00"]);
    assert!(text.contains("–: not run, or without this figure."));
    assert!(text.contains("native: the guest's scheme without virtualization."));
    assert!(text.contains("T ideal is the"), "the overhead is explained");
    assert!(
        text.contains("guest references per walk") && text.contains("host references per walk")
    );
    assert!(!text.contains("segment checks"), "no run counted any");
    assert!(text.contains("All figures of the 3 pairs"), "pairs do not fit beside each other");
    // A wider terminal has them in the table too, and matrices side by side.
    let wide = shown(&some_pairs(), 100);
    assert!(wide.contains("Speed, steady state") && !wide.contains("All figures of"));
    assert!(wide.lines().any(|line| line.matches("guest \\ host").count() == 2), "{wide}");
}

#[test]
fn pairs_without_a_native_ideal_run_are_compared_with_the_ideal_pair() {
    let lines = ["4k+4k", "ideal+ideal"]
        .map(|pair| run(pair, 1, if pair == "4k+4k" { 4000 } else { 1000 }, json!({"walks": 100})));
    let text = shown(&lines, 100);
    let row = text.lines().find(|line| line.contains("IPC ÷ ideal+ideal")).expect(&text);
    assert!(row.contains("25.0 %") && row.contains("100.0 %"), "{row}");
}

/// A matrix of speeds with the work of operating systems is shown only if some run has such work.
#[test]
fn work_of_operating_systems_has_a_matrix_of_its_own() {
    let lines = |share: f64| -> Vec<String> {
        let run = |(scheme, cycles): (&str, u64)| {
            let ipc = 1000.0 / cycles as f64;
            let share = if scheme == "4k+thp" { share } else { 1.0 };
            run(scheme, 1, cycles, json!({"walks": 100, "whole_run_ipc": ipc * share}))
        };
        [("4k+4k", 4000), ("4k+thp", 2500), ("thp+thp", 1600)].map(run).to_vec()
    };
    let text = shown(&lines(0.5), 40);
    // 1.6 times as fast, but half of the time is the kernel's.
    assert_eq!(
        matrix(&text, "IPC ÷ 4k+4k, with OS work"),
        [
            "guest \\ host     4k    thp",
            "──────────────────────────",
            "4k            1.00×  0.80×",
            "thp               –  2.50×",
        ]
    );
    for without in [1.0, 0.996] {
        assert!(!shown(&lines(without), 40).contains("with OS work"));
    }
}

#[test]
fn seven_guests_on_seven_hosts_fit_a_hundred_columns() {
    let names = ["4k", "thp", "1g", "perforated", "perforated-naive", "ideal", "segment"];
    let mut lines: Vec<String> = names
        .iter()
        .map(|name| run(name, 1, 1500, json!({"walks": 12, "l2_tlb_mpki": 15.25})))
        .collect();
    for (index, guest) in names.iter().enumerate() {
        for host in names {
            let counters = json!({"walks": 12, "l2_tlb_mpki": 15.25, "walk_cycles": 5});
            lines.push(run(&format!("{guest}+{host}"), 1, 2000 + 100 * index as u64, counters));
        }
    }
    let text = shown(&lines, 100);
    assert!(text.lines().all(|line| line.width() <= 100), "{text}");
    // Speed twice, misses, walks; no overhead, as the native ideal run has no walk cycles.
    assert_eq!(text.lines().filter(|line| line.starts_with("guest \\ host")).count(), 4, "{text}");
    let names: Vec<&str> = text
        .lines()
        .find(|line| line.starts_with("guest \\ host"))
        .map(|line| line.split_whitespace().skip(3).collect())
        .unwrap();
    assert_eq!(names, ["4k", "thp", "1g", "perforated", "naive", "ideal", "segment", "native"]);
    // The table above has the native runs only, as one block.
    assert_eq!(text.lines().filter(|line| line.starts_with("  IPC  ")).count(), 1);
    assert!(text.contains("All figures of the 49 pairs"));
    assert!(!text.contains("not run"), "no cell is empty: {text}");
}

#[test]
fn several_seeds_show_how_far_they_differ_where_it_fits() {
    let seed = |seed, cycles| {
        [
            run("4k+4k", seed, 2000, json!({"walks": 1})),
            run("4k+thp", seed, cycles, json!({"walks": 2})),
        ]
    };
    // Speeds of 1.25, 2.00 and 1.60 may be none: the interval is 4.30 × 0.376 ÷ √3.
    let lines = [seed(1, 1600), seed(2, 1000), seed(3, 1250)].concat();
    assert_eq!(
        matrix(&shown(&lines, 50), "IPC ÷ 4k+4k")[2..],
        ["4k            1.00×      ~1", "                     ± 0.93",]
    );
    // Of 1.25, 1.33 and 1.43 the interval is 4.30 × 0.0895 ÷ √3.
    let lines = [seed(1, 1600), seed(2, 1500), seed(3, 1400)].concat();
    assert_eq!(
        matrix(&shown(&lines, 50), "IPC ÷ 4k+4k"),
        [
            "guest \\ host     4k     thp",
            "───────────────────────────",
            "4k            1.00×   1.33×",
            "                     ± 0.22",
        ]
    );
    // 40 columns leave ten for the guests and 30 for the hosts; four such intervals need more.
    let names = ["4k+perforated", "4k+ideal", "4k+segment", "4k+1g"];
    let more = names.map(|name| {
        [run(name, 1, 900, json!({"walks": 1})), run(name, 2, 800, json!({"walks": 1}))]
    });
    let lines = [lines, more.concat()].concat();
    let narrow = shown(&lines, 40);
    let (_, matrices) = narrow.split_once("\nIPC ÷ 4k+4k\n").unwrap();
    assert!(!matrices.contains("± 0.22"), "{narrow}");
    assert!(narrow.lines().all(|line| line.width() <= 40), "{narrow}");
}

#[test]
fn the_page_draws_every_pair_and_says_its_numbers() {
    let page = page(&some_pairs());
    let heat = chart(&page, "c0-pairs-reference");
    let cells: Vec<[&str; 3]> = marks(&heat)
        .iter()
        .map(|cell| ["row", "column", "said"].map(|name| cell[name].as_str().unwrap()))
        .collect();
    let expected = [
        ["4k", "4k", "1.00×"],
        ["4k", "thp", "1.60×"],
        ["4k", "native", "2.00×"],
        ["thp", "4k", ""],
        ["thp", "thp", "2.50×"],
        ["thp", "native", ""],
    ];
    assert_eq!(cells, expected);
    assert_eq!(strings(&heat["data"]["values"], "text")[2..4], ["2.00", "–"]);
    // The fastest has the palest shade, the slowest the strongest.
    assert_eq!((&marks(&heat)[0]["shade"], &marks(&heat)[4]["shade"]), (&json!(6), &json!(0)));
    assert_eq!(marks(&heat)[3]["shade"], Value::Null);
    let row = &rows(&page, "c0-pairs-reference")[3];
    assert_eq!(row[..3], ["thp", "4k", "–"]);
    assert_eq!(rows(&page, "c0-pairs-overhead")[1][..3], ["4k", "thp", "150.0 %"]);
    check(&page, |document| {
        assert!(find(document, "c0-pairs-checks").is_none());
    });
    assert!(page.contains("href=\"#c0-pairs\""));
}

#[test]
fn references_are_stacked_by_dimension_and_level() {
    let counters = json!({
        "walks": 10,
        "walk_references_level1": 10, "walk_references_shadow": 20, "walk_references_hole": 0,
        "bitmap_references": 5,
        "walk_references_host_level4": 10, "walk_references_host_level1": 40,
        "walk_references_host_shadow": 10, "walk_references_host_hole": 30,
        "host_bitmap_references": 15,
    });
    let page = page(&[run("perforated+perforated", 1, 1000, counters)]);
    let expected = [
        "level 1",
        "shadow",
        "host level 4",
        "host level 1",
        "host shadow",
        "host hole",
        "bitmap",
        "host bitmap",
    ];
    assert_eq!(legend(&chart(&page, "c0-references-per-walk")), expected);
    // 140 references in 10 walks.
    let row = &rows(&page, "c0-references-per-walk")[0];
    assert_eq!(
        row[1..],
        ["1.00", "2.00", "1.00", "4.00", "1.00", "3.00", "0.500", "1.50", "14.00"]
    );
}

/// Native runs read bitmaps too.
#[test]
fn references_of_native_runs_have_bitmap_lines() {
    let counters = json!({
        "walks": 10, "walk_references_level1": 10, "walk_references_level2": 5,
        "bitmap_references": 20,
    });
    let page = page(&[run("perforated", 1, 1000, counters)]);
    let figure = chart(&page, "c0-references-per-walk");
    assert_eq!(legend(&figure), ["level 2", "level 1", "bitmap"]);
    // 35 references in 10 walks.
    assert_eq!(rows(&page, "c0-references-per-walk")[0][1..], ["0.500", "1.00", "2.00", "3.50"]);
    assert!(page.contains("by level, and lines of hole bitmaps read besides"));
}

#[test]
fn no_share_of_the_host_is_lost_and_each_has_a_colour_of_its_own() {
    let shares = [
        "l2_tlb",
        "walk_cache",
        "walk_level4",
        "walk_level3",
        "walk_level2",
        "walk_level1",
        "bitmap_lookup",
        "bitmap_read",
        "shadow",
        "hole",
        "host_walk_level4",
        "host_walk_level3",
        "host_walk_level2",
        "host_walk_level1",
        "host_bitmap_read",
        "host_shadow",
        "host_hole",
        "nested_tlb",
        "segment_check",
        "selection",
        "walker_queue",
        "fill_wait",
        "base",
        "branch",
        "l1",
        "l2",
        "llc",
        "memory",
        "mshr",
        "store_queue",
        "walk_mshr",
    ];
    let mut counters = json!({"operating_system_cycles": 1});
    for share in shares {
        counters[format!("stack_cycles_{share}")] = 1.into();
    }
    let page = page(&[run("4k+thp", 1, 1000, counters)]);
    let colours = strings(&chart(&page, "c0-cycle-stack")["usermeta"]["legend"], "colour");
    let mut distinct = colours.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((colours.len(), distinct.len()), (32, 32), "{colours:?}");
    assert!(!colours.iter().any(|colour| colour.contains("extra")), "{colours:?}");
    // One cycle each in 1,000 instructions.
    assert_eq!(rows(&page, "c0-cycle-stack")[0].last().unwrap(), "0.032");
}

#[test]
fn memories_of_guest_and_host_have_figures_of_their_own() {
    let map = |of: Value, class: &str| {
        json!({"of": of, "instructions": [0], "blocks_per_cell": 1, "classes": [class],
            "cells": [[3, 0, 0, 0, 0]]})
    };
    let with = |maps: Value| {
        let mut result: Value = serde_json::from_str(&run("4k+thp", 1, 1000, json!({}))).unwrap();
        result["memory_maps"] = maps;
        page(&[result.to_string()])
    };
    let titles = |document: &Document<'_>| -> Vec<String> {
        let figures = document
            .descendants()
            .filter(|node| node.attribute("id").is_some_and(|id| id.starts_with("c0-memory-map-")));
        let heading = |figure: Node<'_, '_>| {
            text(figure.descendants().find(|node| node.has_tag_name("h3")).unwrap())
        };
        figures.map(heading).collect()
    };
    let both = json!([
        map("guest".into(), "movable"),
        map("host".into(), "large"),
        map("guest".into(), "movable")
    ]);
    let page = with(both);
    assert_eq!(check(&page, titles), ["4k+thp: guest memory", "4k+thp: host memory"]);
    let count = |index: usize| rows(&page, &format!("c0-memory-map-{index}")).len();
    assert_eq!((count(0), count(1)), (2, 1));
    // Without a label, or with one that is no text: as a native run's.
    check(&with(json!([map(Value::Null, "movable"), map(7.into(), "large")])), |document| {
        assert_eq!(titles(document), ["4k+thp"]);
    });
}

#[test]
fn missing_and_wrong_names_make_no_pairs() {
    for (guest, host) in [
        (json!("4k"), Value::Null),
        (Value::Null, json!("4k")),
        (json!(4), json!("4k")),
        (json!("4k"), json!(["4k"])),
        (json!(" "), json!("4k")),
    ] {
        let mut result: Value =
            serde_json::from_str(&run("x", 1, 1000, json!({"walks": 1}))).unwrap();
        result["guest"] = guest;
        result["host"] = host;
        let line = [result.to_string()];
        assert!(!shown(&line, 100).contains("guest \\ host"), "{result}");
        assert!(!page(&line).contains("Guests on hosts"), "{result}");
    }
}

#[test]
fn odd_values_and_names_leave_the_page_whole() {
    let evil = "</svg><script>alert(1)</script>";
    for value in
        ["0", "-1", "1e308", "-1e308", "5e-324", "18446744073709551615", "null", "\"text\""]
    {
        let number = if value.contains("text") { "null" } else { value };
        let line = |guest: &str, host: &str, seed: u64| {
            format!(
                r#"{{"scheme":"{guest}+{host}","guest":"{guest}","host":"{host}","workload":"w","seed":{seed},"ipc":{number},"cycles":{number},"instructions":{number},"memory_maps":[{{"of":"{evil}","classes":["free"],"cells":[[1,0]]}}],"counters":{{"walks":{value},"walk_cycles":{value},"references_per_walk":{value},"host_references_per_walk":{value},"segment_checks_per_walk":{value},"l2_tlb_mpki":{value},"walk_references_host_level1":{value},"host_bitmap_references":{value},"translation_cycles_host_hole":{value}}}}}"#
            )
        };
        let lines = [
            line("4k", "4k", 1),
            line("4k", evil, 1),
            line(evil, "ideal", 2),
            line("ideal", "ideal", 1),
            line("ideal", "ideal", 2),
        ];
        let page = page(&lines);
        assert_eq!(page.matches("<script>").count(), 1);
        assert!(data(&page)["figures"].is_object());
        let markup = document::markup(&page);
        assert!(!markup.contains("NaN") && !markup.contains(">inf"), "{value}");
        let text = shown(&lines, 80);
        assert!(text.lines().all(|line| line.width() <= 80), "{value}: {text}");
    }
}

proptest! {
    #[test]
    fn matrices_fit_any_terminal(
        names in prop::collection::vec(("\\PC{1,30}", "\\PC{1,30}"), 1..12),
        columns in 0usize..140,
    ) {
        let lines: Vec<String> = names.iter().enumerate().map(|(index, (guest, host))| {
            json!({"scheme": format!("{guest}+{host}"), "guest": guest, "host": host,
                "workload": "w", "ipc": 0.5 + index as f64, "seed": index % 2,
                "counters": {"references_per_walk": 24.5 + index as f64}})
            .to_string()
        }).collect();
        for line in shown(&lines, columns).lines() {
            prop_assert!(line.width() <= columns.max(40), "{} > {columns}: {line:?}", line.width());
        }
    }
}
