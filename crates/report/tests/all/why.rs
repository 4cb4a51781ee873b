//! The waterfall: its parts add up, from the sum of one scheme to that of another.

use serde_json::{Value, json};

use crate::document::{chart, marks, page, table};

/// A run of 1000 loads and 1000 stores.
fn run(scheme: &str, cycles: u64, parts: &[(&str, u64)]) -> String {
    let waiting: u64 = parts.iter().map(|(_, cycles)| cycles).sum();
    let mut counters = json!({
        "loads": 1000, "stores": 1000, "translation_stall_cycles": waiting,
        "stack_cycles_base": cycles - waiting,
    });
    for (name, cycles) in parts {
        counters[format!("stack_cycles_{name}")] = (*cycles).into();
    }
    json!({
        "scheme": scheme, "workload": "w", "machine": "m", "instructions": 10_000,
        "cycles": cycles, "ipc": 10_000.0 / cycles as f64, "counters": counters,
    })
    .to_string()
}

/// 4KB pages wait 8000 cycles of 20,000 in 2000 accesses: 4 of 10 each. Perforated pages wait 3000 of
/// 14,000: 1.5 of 7.
fn runs() -> Vec<String> {
    vec![
        run(
            "4k",
            20_000,
            &[
                ("l2_tlb", 1000),
                ("walk_level2", 2000),
                ("walk_level1", 4500),
                ("walker_queue", 500),
            ],
        ),
        run(
            "perforated",
            14_000,
            &[("l2_tlb", 1200), ("walk_level2", 500), ("bitmap_read", 300), ("hole", 1000)],
        ),
    ]
}

/// Data of the chart: for each part, cycles per access under both schemes.
fn drawn(values: &[Value]) -> Vec<(String, f64, f64)> {
    let of = |part: &str, scheme: &str| {
        let is_it = |value: &&Value| {
            value["kind"] == "part" && value["part"] == part && value["scheme"] == scheme
        };
        values.iter().find(is_it).unwrap()["value"].as_f64().unwrap()
    };
    let parts = values.iter().filter(|value| value["kind"] == "part" && value["scheme"] == "4k");
    let parts = parts.map(|value| value["part"].as_str().unwrap());
    parts.map(|part| (part.to_owned(), of(part, "4k"), of(part, "perforated"))).collect()
}

fn sum_of(values: &[Value], scheme: &str, kind: &str) -> f64 {
    let is_it = |value: &&Value| value["kind"] == kind && value["scheme"] == scheme;
    values.iter().find(is_it).unwrap()["value"].as_f64().unwrap()
}

#[test]
fn parts_add_up_from_one_scheme_to_the_other() {
    let page = page(&runs());
    let chart = chart(&page, "c0-why");
    let values = marks(&chart);
    let expected = [
        ("L2 TLB", 0.5, 0.6),
        ("level 2 reads", 1.0, 0.25),
        ("level 1 reads", 2.25, 0.0),
        ("bitmap read", 0.0, 0.15),
        ("hole reads", 0.0, 0.5),
        ("waiting for a walker", 0.25, 0.0),
    ];
    let expected = expected.map(|(part, from, to)| (part.to_owned(), from, to));
    assert_eq!(drawn(values), expected);
    // 4 + 0.1 - 0.75 - 2.25 + 0.15 + 0.5 - 0.25 = 1.5.
    let changes: f64 = drawn(values).iter().map(|(_, from, to)| to - from).sum();
    let (from, to) = (sum_of(values, "4k", "start"), sum_of(values, "perforated", "end"));
    assert_eq!((from, to), (4.0, 1.5));
    assert!((from + changes - to).abs() < 1e-12);
    // The sums are at the ends, and each scheme can be at either.
    assert_eq!(sum_of(values, "perforated", "start"), 1.5);
    assert_eq!(
        chart["usermeta"]["choice"],
        json!({
            "names": ["4k", "perforated"], "from": "4k", "to": "perforated",
        })
    );
}

#[test]
fn the_table_has_each_part_the_wait_and_all_time() {
    let (head, rows) = table(&page(&runs()), "c0-why");
    let unit = |name: &str| format!("{name} (cycles per memory access)");
    let names = [
        "L2 TLB",
        "level 2 reads",
        "level 1 reads",
        "bitmap read",
        "hole reads",
        "waiting for a walker",
        "waiting for translation",
        "all time",
    ];
    assert_eq!(head[1..], names.map(unit));
    assert_eq!(rows[0], ["4k", "0.5", "1", "2.25", "0", "0", "0.25", "4", "10"]);
    assert_eq!(rows[1], ["perforated", "0.6", "0.25", "0", "0.15", "0.5", "0", "1.5", "7"]);
}

/// The same and a third, which has small parts: 32 of its 6000 cycles.
pub fn three_runs() -> Vec<String> {
    let small = [("walk_level1", 5000), ("segment_check", 20), ("selection", 12), ("hole", 968)];
    [runs(), vec![run("thp", 16_000, &small)]].concat()
}

/// What is too small to be seen is drawn as one, and still adds up; the table has all of it.
#[test]
fn small_parts_are_drawn_together() {
    let page = page(&three_runs());
    let chart = chart(&page, "c0-why");
    let values = marks(&chart);
    let others: Vec<f64> = values
        .iter()
        .filter(|value| value["part"] == "2 others")
        .map(|value| value["value"].as_f64().unwrap())
        .collect();
    assert_eq!(others, [0.0, 0.0, 0.016]);
    assert_eq!(sum_of(values, "thp", "end"), 3.0);
    assert!(table(&page, "c0-why").0.iter().any(|name| name.starts_with("B-block selection")));
}

/// Of several seeds one run is drawn, as medians of the parts need not add up.
#[test]
fn of_several_seeds_the_one_in_the_middle_is_drawn() {
    let seed = |line: String, seed: u64| line.replacen('{', &format!("{{\"seed\":{seed},"), 1);
    let base = |level1: u64, level2: u64| {
        run("4k", 20_000, &[("walk_level1", level1), ("walk_level2", level2)])
    };
    let mut lines = vec![seed(base(4000, 100), 1), seed(base(1000, 5000), 2)];
    lines.push(seed(base(2000, 3000), 3));
    lines.push(seed(run("thp", 15_000, &[("walk_level1", 1000)]), 1));
    let page = page(&lines);
    let rows = table(&page, "c0-why").1;
    // 4100, 6000 and 5000 cycles in 2000 accesses.
    assert_eq!(rows[0], ["4k", "1.5", "1", "2.5", "10"]);
}

#[test]
fn without_a_clock_or_another_scheme_there_is_no_waterfall() {
    let alone = page(&runs()[..1]);
    assert!(!alone.contains("c0-why"));
    let counted = r#"{"scheme":"4k","workload":"w","counters":{"loads":1,"stores":1}}"#;
    let other = counted.replace("4k", "thp");
    assert!(!page(&[counted.to_owned(), other]).contains("c0-why"));
}
