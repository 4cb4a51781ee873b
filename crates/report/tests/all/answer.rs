//! The answer: what it says follows from the runs, and nothing is said that they cannot show.

use perforate_report::{Rows, RunResult, read_results, varied_table};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::vocabulary::vocabulary;

/// A run of ten parts of 1000 instructions with these cycles each, of which so many wait for
/// translation.
fn run(scheme: &str, cycles: [u64; 10], waiting: [u64; 10], counters: Value) -> String {
    let all: u64 = cycles.iter().sum();
    let mut counters = counters;
    counters["translation_stall_cycles"] = waiting.iter().sum::<u64>().into();
    json!({
        "scheme": scheme, "workload": "w", "machine": "m", "instructions": 10_000, "cycles": all,
        "ipc": 10_000.0 / all as f64, "counters": counters,
        "batches": {
            "instructions": vec![1000; 10], "cycles": cycles, "translation_stall_cycles": waiting,
        },
    })
    .to_string()
}

fn results(lines: &[String]) -> Vec<RunResult> {
    read_results(&lines.join("\n")).unwrap()
}

fn shown(lines: &[String], columns: usize, rows: Rows) -> String {
    perforate_report::table(&results(lines), &vocabulary(), columns, rows)
}

/// The text as one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// 4KB pages take 4000 cycles a part, a quarter of them for translation; large pages 3200.
#[test]
fn costs_and_gains_come_with_intervals() {
    let base = [3900, 4100, 4000, 4000, 4000, 4000, 4000, 4000, 4050, 3950];
    let waiting = [1000; 10];
    let large = base.map(|cycles| cycles * 4 / 5);
    let perforated = base.map(|cycles| cycles - 1000);
    let text = shown(
        &[
            run("4k", base, waiting, json!({"huge_page_advices": 0})),
            run("thp", large, [400; 10], json!({})),
            run("perforated", perforated, [0; 10], json!({})),
        ],
        100,
        Rows::Main,
    );
    let text = flat(&text);
    for sentence in [
        // 10,000 of 40,000.
        "With 4KB pages, w spends 25.0 ± 0.2 % of its time waiting for address translation.",
        "Today, thp (transparent_hugepage/enabled=always) would make it 1.250× ± <0.001 as fast; \
         enabled=madvise gains nothing, as the program never asks for large pages (MADV_HUGEPAGE).",
        // 40,000 ÷ 30,000, and 32,000 ÷ 30,000.
        "Of the proposals, perforated gains the most: 1.333× ± 0.004 (1.067× ± 0.003 as fast as thp).",
        // 4000 of 32,000.
        "With thp, translation still takes 12.5 ± 0.1 % of its time.",
    ] {
        assert!(text.contains(sentence), "{sentence}\n{text}");
    }
}

/// Parts differ by more than the mean does.
#[test]
fn a_difference_inside_its_interval_is_none() {
    let base = [4000; 10];
    let large = [3000, 4900, 3000, 4900, 3000, 4900, 3000, 4900, 3000, 4900];
    let lines = [
        run("4k", base, [400; 10], json!({})),
        run("thp", large, [300; 10], json!({})),
        run("perforated", base, [400; 10], json!({})),
    ];
    let text = flat(&shown(&lines, 100, Rows::Main));
    let none = "makes no difference that this run can show";
    assert!(
        text.contains(&format!("Today, thp (transparent_hugepage/enabled=always) {none} (± 0.18)")),
        "{text}"
    );
    assert!(text.contains(&format!("No proposal gains anything; perforated, the best, {none}")));
    assert!(text.contains("IPC ÷ 4KB 1.00× ~1 ± 0.18 ~1 ± <0.01"), "{text}");
    assert!(text.contains("~1: no difference that this run can show"));
    assert!(!text.contains("madvise"), "nobody knows whether the program asked for large pages");
}

/// Two that this run cannot tell apart are both named.
#[test]
fn schemes_that_are_as_fast_are_named_together() {
    let lines = [
        run("4k", [4000; 10], [400; 10], json!({})),
        run("thp", [3200; 10], [300; 10], json!({})),
        run(
            "1g",
            [3190, 3210, 3190, 3210, 3190, 3210, 3190, 3210, 3190, 3210],
            [300; 10],
            json!({}),
        ),
    ];
    let text = flat(&shown(&lines, 100, Rows::Main));
    let both = "would make it 1.250× ± <0.001 as fast (no difference to 1g that this run can show)";
    assert!(text.contains(both), "{text}");
    let lines = ["4k", "thp", "1g"].map(|name| run(name, [4000; 10], [400; 10], json!({})));
    let text = flat(&shown(&lines, 100, Rows::Main));
    let none = "Today, none of thp, 1g makes a difference that this run can show (± <0.01).";
    assert!(text.contains(none), "{text}");
}

#[test]
fn a_program_that_hardly_waits_is_told_so() {
    let lines =
        [run("4k", [4000; 10], [8; 10], json!({})), run("thp", [3996; 10], [1; 10], json!({}))];
    let text = flat(&shown(&lines, 100, Rows::Main));
    assert!(
        text.contains("w spends only 0.2 ± <0.1 % of its time waiting for address translation: no scheme can save much of it."),
        "{text}"
    );
}

/// Large pages save nothing but faults: 2000 cycles a part of 4000 + 2000 and 4000 + 500.
#[test]
fn what_large_pages_save_of_the_kernels_work_is_said() {
    let counters = |work: u64| {
        let all = 40_000 + work;
        json!({
            "operating_system_cycles": work, "cycles_with_operating_system": all,
            "ipc_with_operating_system": 10_000.0 / all as f64,
        })
    };
    let lines = [
        run("4k", [4000; 10], [400; 10], counters(20_000)),
        run("thp", [4000; 10], [400; 10], counters(5_000)),
    ];
    let text = flat(&shown(&lines, 100, Rows::Main));
    assert!(
        text.contains(
            "makes no difference that this run can show (± <0.01), 1.33× with the kernel's work."
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "is not in these figures. It takes 33.3 % of the total time, and 11.1 % with thp."
        ),
        "{text}"
    );
}

#[test]
fn what_is_always_busy_is_named() {
    let counters = json!({
        "page_walkers_busy": 0.984, "stack_cycles_walker_queue": 7000,
        "stack_cycles_walk_level1": 2500, "stack_cycles_l2_tlb": 500,
    });
    let text = flat(&shown(&[run("4k", [4000; 10], [1000; 10], counters)], 100, Rows::Main));
    assert!(
        text.contains(
            "Why: of that wait, 70 % is waiting for a walker, 25 % is level 1 reads; the page walkers are busy 98.4 % of the time."
        ),
        "{text}"
    );
}

#[test]
fn the_main_table_is_short_and_fits() {
    let names = ["4k", "thp", "1g", "perforated", "range", "segment", "gt-pde-4m", "ideal"];
    let line = |name: &&str| {
        let counters = json!({"l1_tlb_mpki": 1.5, "walks": 3, "page_table_bytes": 4096, "touched_bytes": 1 << 20});
        run(name, [4000; 10], [100; 10], counters)
    };
    let lines: Vec<String> = names.iter().map(line).collect();
    for columns in [80, 120, 200] {
        for count in [4, 8] {
            let text = shown(&lines[..count], columns, Rows::Main);
            assert!(text.lines().all(|line| line.width() <= columns), "{columns}:\n{text}");
            let rule = text.lines().position(|line| line.starts_with('─')).unwrap();
            let rows = text.lines().skip(rule + 1).take_while(|line| !line.is_empty());
            assert!(rows.count() <= 17, "{text}");
        }
        // More than six: each is a row.
        let text = shown(&lines, columns, Rows::Main);
        for name in names {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name}:\n{text}");
        }
    }
}

/// Of 4k with three values of a key: the second makes it faster, the third nothing that can be shown.
#[test]
fn changes_by_a_value_come_with_intervals() {
    let line = |value: &str, cycles: [u64; 10]| {
        let mut line: Value = serde_json::from_str(&run("4k", cycles, [0; 10], json!({}))).unwrap();
        line["config"] = json!({"varied": {"key": "knob", "value": value, "number": null}});
        line.to_string()
    };
    let unsure = [3000, 5000, 3000, 5000, 3000, 5000, 3000, 5000, 3000, 5000];
    let lines = [line("a", [4000; 10]), line("b", [3200; 10]), line("c", unsure)].join("\n");
    let vocabulary = vocabulary();
    let text = varied_table(&read_results(&lines).unwrap(), &vocabulary, 100).unwrap();
    for row in ["a     4k      0.250", "b     4k      0.312  +25.0 ± <0.1 %", "c     4k      0.250"]
    {
        assert!(text.contains(row), "{row}\n{text}");
    }
    assert!(text.contains("~0 ± ") && text.contains("~0: no difference"), "{text}");
}
