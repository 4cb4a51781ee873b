//! Statistics of single runs: sampled traces with confidence intervals, and the warm-up.

use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{
    AccessKind, Backing, Instruction, MemoryAccess, Permissions, ProgramEvent, VirtualAddress,
};
use serde_json::Value;

use crate::place::{Place, json};

const DATA: u64 = 0x7000_0000_0000;
const PAGES: u64 = 40_960;

/// A trace in the folder that loads a page that was not touched before, or always the same one;
/// all are there from the start.
struct Loads {
    writer: TraceWriter,
    touched: u64,
}

impl Loads {
    fn begin(place: &Place) -> Self {
        let metadata = TraceMetadata { has_events: true, ..TraceMetadata::default() };
        let mut writer = TraceWriter::create(place.path("loads.trace"), &metadata).unwrap();
        for (start, pages) in [(0x40_0000, 1), (DATA, PAGES)] {
            let start = VirtualAddress::new(start);
            let event = ProgramEvent::Map {
                start,
                length: pages * 4096,
                permissions: Permissions::ALL,
                accessible: true,
                backing: Backing::Anonymous,
                shared: false,
                populate: true,
            };
            writer.event(event).unwrap();
        }
        Self { writer, touched: 0 }
    }

    fn load(&mut self, new_page: bool) {
        self.touched += u64::from(new_page);
        let address = VirtualAddress::new(DATA + self.touched * 4096);
        let ip = VirtualAddress::new(0x40_0000);
        let instruction = Instruction { ip, accesses: 1, ..Instruction::default() };
        let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
        self.writer.push(&instruction, &[access]).unwrap();
    }

    fn gap(&mut self, instructions: u64) {
        self.writer.event(ProgramEvent::Gap { instructions }).unwrap();
    }
}

/// 100 instructions, a gap, and windows of 1000 instructions with so many new pages at their
/// beginning, each before a gap of 9000.
fn sampled(place: &Place, new_pages: &[u64]) {
    let mut loads = Loads::begin(place);
    (0..100).for_each(|_| loads.load(false));
    loads.gap(9900);
    for &pages in new_pages {
        (0..1000).for_each(|number| loads.load(number < pages));
        loads.gap(9000);
    }
    loads.writer.finish().unwrap();
}

fn run(place: &Place, more: &[&str]) -> Value {
    let arguments = ["run", "loads.trace", "--scheme", "4k", "--memory", "512M", "--json"];
    let lines = place.succeeds(&[&arguments[..], &["--fragmentation", "none"], more].concat());
    json(&lines).remove(0)
}

/// 10, 20, 30 and 40 misses in 1000 instructions each: mean 25; residuals −15, −5, 5 and 15, their
/// variance 500 ÷ 3, that of the mean 500 ÷ 12, and 3.1824 of its roots on either side.
#[test]
fn misses_of_four_windows_by_hand() {
    let place = Place::new();
    sampled(&place, &[10, 20, 30, 40]);
    let result = run(&place, &["--warmup", "100", "--functional"]);
    assert_eq!(result["instructions_represented"], 40_000);
    let sampled = &result["sampled"];
    assert_eq!((&sampled["windows"], &sampled["instructions_counted"]), (&4.into(), &4000.into()));
    assert_eq!(sampled["instructions_represented"], 40_000);
    let half = 3.1824 * (500.0f64 / 12.0).sqrt();
    for (name, group, factor) in [
        ("l2_tlb_mpki", "figures", 1.0),
        ("walks_per_kilo_instruction", "figures", 1.0),
        ("l2_tlb_misses", "extrapolated", 40.0),
    ] {
        let figure = &sampled[group][name];
        assert_eq!(figure["mean"], 25.0 * factor, "{name}");
        let found = figure["half_width_95"].as_f64().unwrap();
        assert!((found - half * factor).abs() < 1e-9 * factor, "{name}: {found}");
    }
    assert!(sampled["figures"].get("cycles_per_instruction").is_none(), "there is no clock");
    // In the warm-up and in half of the first window nothing is counted.
    let cut = run(&place, &["--warmup", "1095", "--functional"]);
    assert_eq!(cut["sampled"]["windows"], 4);
    assert_eq!(cut["sampled"]["instructions_counted"], 3005);
}

#[test]
fn with_a_clock_the_cycles_of_the_program_follow() {
    let place = Place::new();
    sampled(&place, &[10, 20, 30, 40]);
    let result = run(&place, &["--warmup", "100"]);
    let mean = result["sampled"]["figures"]["cycles_per_instruction"]["mean"].as_f64().unwrap();
    let cycles = result["cycles"].as_f64().unwrap();
    assert!((mean - cycles / 4000.0).abs() < 1e-9, "the windows are all that is measured");
    let whole = result["sampled"]["extrapolated"]["cycles"]["mean"].as_f64().unwrap();
    assert!((whole - 10.0 * cycles).abs() < 1e-3, "{whole}");
    let figures = result["sampled"]["figures"].as_object().unwrap();
    let translation = figures["translation_cycles_per_kilo_instruction"]["mean"].as_f64().unwrap();
    assert_eq!(translation * 4.0, result["counters"]["translation_cycles"].as_f64().unwrap());
    assert_eq!(figures.len(), 4);
}

#[test]
fn equal_windows_have_no_width_and_one_has_no_interval() {
    let place = Place::new();
    sampled(&place, &[20, 20, 20]);
    let figure = |result: Value| result["sampled"]["figures"]["l2_tlb_mpki"].clone();
    let found = figure(run(&place, &["--warmup", "100", "--functional"]));
    assert_eq!(found, serde_json::json!({"mean": 20.0, "half_width_95": 0.0}));
    sampled(&place, &[20]);
    let found = figure(run(&place, &["--warmup", "100", "--functional"]));
    assert_eq!(found, serde_json::json!({"mean": 20.0, "half_width_95": null}));
}

#[test]
fn the_beginning_of_windows_can_be_left_out() {
    let place = Place::new();
    sampled(&place, &[10, 20, 30, 40]);
    let with =
        |warmup| run(&place, &["--warmup", "100", "--functional", "--window-warmup", warmup]);
    // The new pages from number 15 on: 0, 5, 15 and 25 in 985 instructions each.
    let result = with("15");
    assert_eq!(result["sampled"]["instructions_counted"], 4 * 985);
    assert_eq!(result["sampled"]["window_warmup_instructions"], 15);
    let mean = result["sampled"]["figures"]["l2_tlb_mpki"]["mean"].as_f64().unwrap();
    assert!((mean - 45_000.0 / 3940.0).abs() < 1e-9, "{mean}");
    assert_eq!(result["instructions"], 4000, "only the figures with ± leave them out");
    assert_eq!(result["counters"]["l2_tlb_misses"], 100);
    assert_eq!(with("40")["sampled"]["figures"]["l2_tlb_mpki"]["mean"], 0.0);
    let nothing = with("1000");
    assert!(nothing.get("sampled").is_none());
    assert!(nothing["notes"].to_string().contains("no window has as many instructions"));
}

#[test]
fn tables_and_page_show_intervals() {
    let place = Place::new();
    sampled(&place, &[10, 20, 30, 40]);
    let arguments = "loads.trace --memory 512M --fragmentation none --warmup 100 --functional";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let windows = "4 windows (4000 of 40.0k instructions)";
    let table = place.succeeds(&[&["compare"][..], &arguments].concat());
    assert!(table.contains(&format!("a sample: {windows}")), "{table}");
    let table = place.succeeds(&[&["compare", "--all"][..], &arguments].concat());
    let caption = format!("Whole program from {windows}, ± half of");
    assert!(table.contains(&caption), "{table}");
    assert!(table.contains("25.000 ± 20.542"), "{table}");
    assert!(place.read("results/latest/report.html").contains("25.000 ± 20.542"));
    let one = place.succeeds(&[&["run", "--scheme", "4k"][..], &arguments].concat());
    assert!(one.contains("whole program from 4 windows"), "{one}");
    assert!(one.contains("25.0000  ± 20.5423\n"), "{one}");
}

/// 40,000 instructions that each touch a page for the first time, then 160,000 that always load
/// the same.
fn transient(place: &Place) {
    let mut loads = Loads::begin(place);
    (0..200_000).for_each(|number| loads.load(number < 40_000));
    loads.writer.finish().unwrap();
}

#[test]
fn a_transient_in_the_measured_part_is_seen() {
    let place = Place::new();
    transient(&place);
    let result = run(&place, &["--functional", "--warmup", "20000"]);
    assert_eq!(result["warmup"]["instructions"], 20_000);
    assert_eq!(result["warmup"]["stated"], true);
    let suggested = result["warmup"]["suggested_instructions"].as_u64().unwrap();
    assert!((40_000..44_000).contains(&suggested), "a batch is 4000 instructions: {suggested}");
    let hint = format!("try a warmup of {suggested}");
    assert!(result["notes"].to_string().contains(&hint), "{}", result["notes"]);
    // A fifth is just enough.
    let result = run(&place, &["--functional"]);
    let expected = serde_json::json!({
        "instructions": 40_000, "stated": false, "detected": false,
        "suggested_instructions": 40_000
    });
    assert_eq!(result["warmup"], expected);
    assert!(!result["notes"].to_string().contains("differ from the rest"));
}

#[test]
fn the_warm_up_is_detected_for_all_schemes_alike() {
    let place = Place::new();
    transient(&place);
    let arguments = ["compare", "loads.trace", "--memory", "512M", "--fragmentation", "none"];
    let auto = ["--warmup", "auto", "--functional", "--json"];
    let lines = place.succeeds(&[&arguments[..], &auto].concat());
    for result in json(&lines) {
        assert_eq!(result["warmup"]["instructions"], 40_000);
        assert_eq!(result["warmup"]["detected"], true);
        assert_eq!(result["warmup"]["stated"], false);
        assert_eq!(result["config"]["warmup_instructions"], 40_000);
        assert_eq!(result["counters"]["l2_tlb_misses"], 0, "{}", result["scheme"]);
        assert!(result["notes"].to_string().contains("warm-up: 40000 instructions, after which"));
    }
    assert_eq!(place.succeeds(&[&arguments[..], &auto].concat()), lines, "the same bytes");
    // With the warm-up said instead of found, the figures are the same.
    let said = ["--warmup", "40000", "--functional", "--json"];
    let said = json(&place.succeeds(&[&arguments[..], &said].concat()));
    for (said, found) in said.iter().zip(json(&lines)) {
        assert_eq!(said["counters"], found["counters"]);
    }
}

#[test]
fn a_run_too_short_to_tell_keeps_a_fifth() {
    let place = Place::new();
    let run = ["run", "random:size=64M", "--instructions", "5000", "--json", "--functional"];
    let result = json(&place.succeeds(&[&run[..], &["--warmup", "auto"]].concat())).remove(0);
    assert_eq!(result["warmup"]["instructions"], 1000);
    assert_eq!(result["warmup"]["detected"], false);
    assert_eq!(result["warmup"]["suggested_instructions"], Value::Null);
    assert!(result["notes"].to_string().contains("a fifth, 1000 instructions: "));
    let windows = [&run[..], &["--window-warmup", "10"]].concat();
    let result = json(&place.succeeds(&windows)).remove(0);
    assert!(result["notes"].to_string().contains("window-warmup has no effect"));
    let expected =
        "--warmup: expected a whole number such as 5000, 10M or 2e6, not \"some\"; or auto";
    place.fails(&["run", "random", "--warmup", "some"], 2, expected);
}

#[test]
fn a_sample_of_the_timing_stands_for_all() {
    let place = Place::new();
    let run = ["run", "sequential", "--scheme", "4k", "--instructions", "300k", "--json"];
    let sampled = ["--timing", "sampled=1k/10k", "--window-warmup", "500"];
    let result = json(&place.succeeds(&[&run[..], &sampled].concat())).remove(0);
    assert_eq!(result["config"]["timing"], "sampled=1000/10000");
    assert_eq!(
        result["batches"]["cycles"].as_array().unwrap().len(),
        24,
        "one in each 10k of 240k"
    );
    assert_eq!(result["sampled"]["only_timing"], true);
    let full = json(&place.succeeds(&run)).remove(0);
    assert!(full["config"].get("timing").is_none());
    let cycles = |result: &Value| result["cycles"].as_f64().unwrap();
    let error = cycles(&result) / cycles(&full) - 1.0;
    assert!(error.abs() < 0.05, "{error}");
    assert_eq!(result["counters"]["l2_tlb_misses"], full["counters"]["l2_tlb_misses"]);
}

#[test]
fn tables_say_what_was_timed() {
    let place = Place::new();
    let sampled = "sequential --instructions 300k --timing sampled=1k/10k --precision 0.01%";
    let sampled: Vec<&str> = sampled.split(' ').collect();
    let table = place.succeeds(&[&["compare", "--all"][..], &sampled].concat());
    let windows = "24 windows (24.0k of 240k instructions)";
    assert!(table.contains(&format!("timed in {windows}")), "{table}");
    assert!(table.contains(&format!("Measured part, timed in {windows}, ± half")), "{table}");
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.contains("timing is sampled: cycles, and counts of the core"), "{table}");
    assert!(table.contains("a precision of ±0.01% was not reached: ±"), "{table}");
    assert!(table.contains("fewer than 30 windows"), "{table}");
}

#[test]
fn sampled_timing_is_refused_where_it_cannot_be() {
    let place = Place::new();
    let fails = |more: &[&str], problem: &str| {
        place.fails(
            &[&["compare", "sequential", "--instructions", "300k"][..], more].concat(),
            2,
            problem,
        );
    };
    fails(&["--timing", "half"], "--timing: expected full, sampled or sampled=WINDOW/PERIOD");
    fails(
        &["--timing", "sampled=5k/5k"],
        "--timing: a window has at least one instruction, and fewer",
    );
    fails(
        &["--timing", "sampled=5k/6k"],
        "--timing: windows of 5000 with 2000 instructions before",
    );
    fails(&["--timing", "sampled", "--functional"], "--timing: functional runs have no clock");
    fails(&["--precision", "1%"], "--precision: is for --timing sampled");
    fails(&["--timing", "sampled", "--precision", "0%"], "--precision: no sample is without error");
    let short = ["run", "sequential", "--instructions", "300k", "--timing", "sampled=1k/9M"];
    place.fails(&short, 2, "of the 240000 measured instructions was timed");
    sampled(&place, &[10, 20]);
    let again = ["run", "loads.trace", "--timing", "sampled=100/1k", "--window-warmup", "10"];
    place.fails(&again, 2, "the trace is a sample already (record --sample)");
}
