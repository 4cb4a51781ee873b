//! The terminal table: never too wide, columns aligned, numbers as in the input.

use crate::vocabulary::{options, vocabulary};
use perforate_records::read_results;
use perforate_report::Rows;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

/// The table of results, with the counters and schemes that are known in these tests.
fn table(results: &[perforate_records::RunResult], columns: usize) -> String {
    perforate_report::table(results, &vocabulary(), columns, Rows::All)
}

const SAMPLE: &str = include_str!("../data/sample.jsonl");

#[test]
fn the_table_fits_and_lines_up() {
    let results = read_results(SAMPLE).unwrap();
    let text = table(&results, 130);
    let widest = text.lines().map(UnicodeWidthStr::width).max().unwrap();
    assert!(widest <= 130, "{widest} columns:\n{text}");
    // Six schemes fit beside each other: one rule, and every full row ends where the rule ends.
    let rules: Vec<usize> =
        text.lines().filter(|line| line.starts_with('─')).map(UnicodeWidthStr::width).collect();
    assert_eq!(rules.len(), 1, "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
    for row in rows.iter().filter(|row| row.split_whitespace().count() > 6) {
        assert_eq!(row.width(), rules[0], "{row:?}");
    }
    for label in
        ["IPC ÷ 4KB", "L2 TLB MPKI", "references per walk", "bitmap look-ups", "page tables"]
    {
        assert!(rows.iter().any(|row| row.trim().starts_with(label)), "{label}");
    }
}

#[test]
fn numbers_are_those_of_the_input() {
    let text = r#"{"scheme":"4k","workload":"w","ipc":0.5,"instructions":4000,"counters":{"walks":1234,"page_table_bytes":8192}}
{"scheme":"perforated","workload":"w","ipc":0.75,"instructions":4000,"counters":{"page_table_bytes":1048576}}"#;
    let shown = table(&read_results(text).unwrap(), 100);
    let row = |label: &str| -> Vec<String> {
        let line = shown.lines().find(|line| line.trim().starts_with(label)).unwrap();
        line.trim().strip_prefix(label).unwrap().split_whitespace().map(String::from).collect()
    };
    assert_eq!(row("IPC ÷ 4KB"), ["1.00×", "1.50×"]);
    assert_eq!(row("instructions"), ["4000", "4000"]);
    assert_eq!(row("walks"), ["1234", "–"]);
    assert_eq!(row("page tables, peak"), ["8.00", "KB", "1.00", "MB"]);
    assert!(!shown.contains("bitmap"), "rows without any value are left out");
}

#[test]
fn a_narrow_terminal_gets_several_blocks() {
    let results = read_results(SAMPLE).unwrap();
    let text = table(&results, 60);
    assert!(text.lines().all(|line| line.width() <= 60), "{text}");
    assert!(text.lines().filter(|line| line.starts_with('─')).count() > 1);
}

proptest! {
    #[test]
    fn any_names_fit(names in prop::collection::vec("\\PC{0,40}", 1..9), columns in 0usize..160) {
        let lines: Vec<String> = names
            .iter()
            .map(|name| serde_json::json!({"scheme": name, "workload": name, "ipc": 0.5, "counters": {"walks": 3}}).to_string())
            .collect();
        let text = table(&read_results(&lines.join("\n")).unwrap(), columns);
        for line in text.lines() {
            prop_assert!(line.width() <= columns.max(40), "{} > {}: {:?}", line.width(), columns, line);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = read_results(&text);
    }
}

/// Two runs whose order turns round when the operating system's work counts.
#[test]
fn both_speeds_stand_in_the_table() {
    let line = |scheme: &str, ipc: f64, cycles: f64, work: f64| {
        serde_json::json!({
            "scheme": scheme, "workload": "w", "ipc": ipc, "instructions": 1000, "cycles": cycles,
            "counters": {
                "whole_run_ipc": 1000.0 / (cycles + work), "whole_run_cycles": cycles + work,
                "whole_run_operating_system_cycles": work,
                "cycles_with_operating_system": cycles + work,
                "operating_system_cycles": work,
                "operating_system_cycles_zeroing": work,
                "work_faults_4k": 3, "work_faults_hole": 2, "work_shootdowns_page": 7,
            },
        })
        .to_string()
    };
    let text = [line("4k", 0.5, 2000.0, 0.0), line("thp", 1.0, 1000.0, 3000.0)].join("\n");
    let shown = table(&read_results(&text).unwrap(), 100);
    let (steady, rest) = shown.split_once("Whole run, including OS work\n").unwrap();
    let (whole, measured) = rest.split_once("Speed, including OS work\n").unwrap();
    let (_, steady) = steady.split_once("Speed, steady state\n").unwrap();
    let row = |part: &str, label: &str| -> String {
        let line = part.lines().find(|line| line.trim().starts_with(label)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row(steady, "IPC ÷ 4KB"), "IPC ÷ 4KB 1.00× 2.00×");
    assert_eq!(row(whole, "IPC ÷ 4KB"), "IPC ÷ 4KB 1.00× 0.50×");
    assert_eq!(row(whole, "OS work"), "OS work 0.0 % 75.0 %");
    assert_eq!(row(measured, "OS work"), "OS work, share of cycles 0.0 % 75.0 %");
    assert_eq!(row(measured, "of it: clearing"), "of it: clearing 0.0 % 75.0 %");
    assert_eq!(row(measured, "faults served"), "faults served 5 5");
    assert_eq!(row(measured, "shootdowns"), "shootdowns 7 7");
}

/// A sampled run: means with their intervals below the table, without one for a single window.
#[test]
fn sampled_runs_show_their_intervals() {
    let run = |windows: u64, half: &str| {
        format!(
            r#"{{"scheme":"4k","workload":"w","ipc":0.5,"counters":{{"walks":1}},"sampled":{{"windows":{windows},"instructions_counted":4000,"instructions_represented":4000000,"figures":{{"cycles_per_instruction":{{"mean":2.0,"half_width_95":{half}}}}},"extrapolated":{{"cycles":{{"mean":8000000,"half_width_95":null}}}}}}}}"#
        )
    };
    let results = read_results(&run(20, "0.125")).unwrap();
    let shown = table(&results, 100);
    assert!(
        shown.contains("\nWhole program from 20 windows (4000 of 4.00M instructions), ±"),
        "{shown}"
    );
    let row = |label: &str| {
        let line = shown.lines().find(|line| line.trim().starts_with(label)).unwrap();
        line.trim().strip_prefix(label).unwrap().trim().to_string()
    };
    assert_eq!(row("CPI"), "2.000 ± 0.125");
    assert_eq!(row("cycles, whole program"), "8.00M");
    let page = perforate_report::html(&results, &options("", ""));
    assert!(page.contains("2.000 ± 0.125") && page.contains("Whole program from 20 windows"));
    let one = table(&read_results(&run(1, "null")).unwrap(), 100);
    assert!(one.contains("one window has no confidence interval"), "{one}");
    assert!(one.lines().any(|line| line.trim_end().ends_with("2.000")), "{one}");
}
