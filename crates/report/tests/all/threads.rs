//! Runs of several hardware threads, and runs of which only parts are timed.

use perforate_records::{RunResult, read_results};
use perforate_report::{Rows, html, table};
use serde_json::{Value, json};

use crate::answer::{flat, run};
use crate::document::{check, element, text};
use crate::vocabulary::{options, vocabulary};

/// A run of `threads` hardware threads, of which so many are on a core. Thread *n* has run 1000 + *n*
/// instructions in 2000 cycles, and stood idle for 500.
fn threads(scheme: &str, threads: u64, per_core: u64) -> String {
    let thread = |number: u64| {
        json!({
            "core": number / per_core, "instructions": 1000 + number, "cycles": 2000, "idle_cycles": 500,
            "translation_stall_cycles": 200, "shootdowns_waited_for": 12_345, "shootdown_wait_cycles": 300,
            "shootdown_interrupts": 7, "shootdown_interrupt_cycles": 1000 + number,
        })
    };
    let mut line: Value =
        serde_json::from_str(&run(scheme, [4000; 10], [400; 10], json!({}))).unwrap();
    line["hardware_threads"] = (0..threads).map(thread).collect();
    line.to_string()
}

/// Two schemes on two cores, the records of [`crate::kept`].
pub fn two_cores() -> String {
    [threads("4k", 2, 1), threads("thp", 4, 2)].join("\n")
}

/// A run of which 20,000 of 1,000,000 instructions are timed.
fn timed(scheme: &str, windows: u64) -> String {
    let mut line: Value =
        serde_json::from_str(&run(scheme, [4000; 10], [400; 10], json!({"walks": 5}))).unwrap();
    line["sampled"] = json!({
        "only_timing": true, "windows": windows, "window_warmup_instructions": 300,
        "instructions_counted": 20_000, "instructions_represented": 1_000_000,
        "figures": {"cycles_per_instruction": {"mean": 4.0, "half_width_95": 0.05}},
        "extrapolated": {"cycles": {"mean": 4e6, "half_width_95": 5e4},
            "walks": {"mean": 5000.0, "half_width_95": 70.0}},
    });
    line.to_string()
}

/// Two timed samples, the records of [`crate::kept`].
pub fn timed_windows() -> String {
    [timed("4k", 40), timed("thp", 40)].join("\n")
}

fn shown(lines: &str, rows: Rows) -> String {
    table(&read_results(lines).unwrap(), &vocabulary(), 110, rows)
}

#[test]
fn each_hardware_thread_has_a_row() {
    let both = shown(&two_cores(), Rows::Main);
    let rows: Vec<&str> = both.lines().skip_while(|line| !line.contains("IPC running")).collect();
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(
        cells(rows[0]),
        [
            "IPC running",
            "idle",
            "translation",
            "shootdowns",
            "waited for",
            "interrupts",
            "answering"
        ]
    );
    // 1000 ÷ 2000; 500 of 2500; of 2000 cycles 200, 300 and 1000.
    let figures = ["0.500", "20.0 %", "10.0 %", "12.3k", "15.0 %", "7", "50.0 %"];
    assert_eq!(cells(rows[2]), [&["4k", "core 0"][..], &figures].concat());
    let last = ["0.501", "20.0 %", "10.0 %", "12.3k", "15.0 %", "7", "50.1 %"];
    assert_eq!(
        cells(rows[3]),
        [&["4k", "core 1"][..], &["0.500"], &last[1..6], &["50.0 %"]].concat()
    );
    let names: Vec<_> = rows[4..8].iter().map(|row| cells(row)[..2].join(": ")).collect();
    assert_eq!(
        names,
        [
            "thp: core 0, thread 0",
            "thp: core 0, thread 1",
            "thp: core 1, thread 2",
            "thp: core 1, thread 3"
        ]
    );
}

/// More than eight threads of one scheme are listed only with all figures.
#[test]
fn many_hardware_threads_are_counted() {
    let eight = [threads("4k", 8, 1), threads("thp", 8, 1)].join("\n");
    assert!(shown(&eight, Rows::Main).contains("thp  core 7"));
    let nine = [threads("4k", 9, 1), threads("thp", 2, 1)].join("\n");
    let few = shown(&nine, Rows::Main);
    assert!(few.contains("9 hardware threads; --all prints what each did"), "{few}");
    assert!(!few.contains("core 0") && shown(&nine, Rows::All).contains("4k  core 8"));
    let one = shown(&threads("4k", 0, 1), Rows::All);
    assert!(!one.contains("core") && !one.contains("hardware"), "{one}");
}

#[test]
fn the_page_has_a_table_of_hardware_threads() {
    let results: Vec<RunResult> = read_results(&two_cores()).unwrap();
    check(&html(&results, &options("T", "p")), |document| {
        assert_eq!(text(element(document, "c0-threads")), "Hardware threads");
        let table = document
            .descendants()
            .find(|node| node.attribute("aria-label") == Some("What each hardware thread did"))
            .unwrap();
        let rows = table.descendants().filter(|node| node.has_tag_name("tr"));
        let rows: Vec<Vec<String>> = rows.map(|row| row.children().map(text).collect()).collect();
        assert_eq!(rows.len(), 1 + 2 + 4);
        assert_eq!(rows[0][..3], ["scheme", "hardware thread", "IPC running"]);
        assert_eq!(rows[1][1..3], ["core 0", "0.500"]);
        assert_eq!(rows[6][1..5], ["core 1, thread 3", "0.501", "20.0 %", "10.0 %"]);
    });
}

/// Of timed windows only the cycles are estimates; of sampled traces all figures are.
#[test]
fn estimates_say_what_they_are_of() {
    let all = flat(&shown(&timed_windows(), Rows::All));
    let caption = "Measured part, timed in 40 windows (20.0k of 1.00M instructions), ± half of the 95% confidence interval";
    assert!(all.contains(caption), "{all}");
    assert!(all.contains("CPI 4.000 ± 0.050 4.000 ± 0.050"), "{all}");
    assert!(all.contains("cycles, measured part 4.00M ± 50.0k 4.00M ± 50.0k"), "{all}");
    assert!(!all.contains("whole program") && !all.contains("Whole program"), "{all}");
    let main = flat(&shown(&timed_windows(), Rows::Main));
    assert!(main.contains("timed in 40 windows (20.0k of 1.00M instructions); ±: half"), "{main}");
    let traces = timed_windows().replace("\"only_timing\":true", "\"only_timing\":false");
    let all = flat(&shown(&traces, Rows::All));
    for part in [
        "Whole program from 40 windows (20.0k of 1.00M instructions), ± half of the 95%",
        "cycles, whole program 4.00M ± 50.0k",
        "walks, whole program 5000 ± 70",
    ] {
        assert!(all.contains(part), "{part}\n{all}");
    }
    let main = flat(&shown(&traces, Rows::Main));
    assert!(main.contains("a sample: 40 windows (20.0k of 1.00M instructions)"), "{main}");
    let alone = flat(&shown(&timed("4k", 1), Rows::All));
    let caption =
        "timed in 1 window (20.0k of 1.00M instructions), one window has no confidence interval";
    assert!(alone.contains(caption), "{alone}");
}
