//! `perforate compare`: table, files, JSON lines, determinism.

use serde_json::Value;

use crate::place::{Place, json};

const SHORT: [&str; 4] = ["compare", "random:size=64M", "--instructions", "30000"];

fn short(more: &[&'static str]) -> Vec<&'static str> {
    SHORT.iter().chain(more).copied().collect()
}

#[test]
fn a_table_of_at_most_100_columns_and_two_files() {
    let place = Place::new();
    let table = place.succeeds(&short(&["--scheme", "all"]));
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for word in [
        "IPC",
        "L2 TLB MPKI",
        "perforated",
        "ideal",
        "results/001-compare-random-size-64M/report.html",
    ] {
        assert!(table.contains(word), "{word} is not in\n{table}");
    }
    assert!(table.contains("note: IPC is steady state"));
    assert_eq!(place.names(), ["results"]);
    assert_eq!(names_in(&place, "results"), ["001-compare-random-size-64M", "latest"]);
    assert_eq!(names_in(&place, "results/latest"), ["report.html", "results.jsonl"]);
}

fn names_in(place: &Place, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(place.path(folder)).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Every run has its own folder; a failed run leaves none.
#[test]
fn results_are_not_overwritten() {
    let place = Place::new();
    place.succeeds(&short(&[]));
    let first = place.read("results/latest/results.jsonl");
    place.succeeds(&short(&["--seed", "2"]));
    assert_eq!(place.read("results/001-compare-random-size-64M/results.jsonl"), first);
    assert_ne!(place.read("results/latest/results.jsonl"), first);
    let table = place.succeeds(&short(&["--out", "results/latest"]));
    assert!(table.contains("results/latest/results.jsonl (replaced)"), "{table}");
    place.fails(&["compare", "nothing.trace"], 2, "nothing.trace");
    let folders = ["001-compare-random-size-64M", "002-compare-random-size-64M", "latest"];
    assert_eq!(names_in(&place, "results"), folders);
}

#[test]
fn every_result_says_what_it_is_and_what_it_was_made_from() {
    let place = Place::new();
    place.succeeds(&short(&["--out", "here", "--seed", "7"]));
    let results = json(&place.read("here/results.jsonl"));
    let schemes: Vec<&str> = results.iter().map(|one| one["scheme"].as_str().unwrap()).collect();
    assert_eq!(schemes, ["4k", "thp", "perforated", "ideal", "free"]);
    for result in &results {
        assert_eq!(result["workload"], "random:size=64M,others=3,writes=0%");
        assert_eq!(result["machine"], "perforated-table2");
        assert_eq!(result["seed"], 7);
        assert_eq!(result["instructions"], 24_000, "a fifth of 30000 is warm-up, exactly");
        let cycles = result["cycles"].as_u64().expect("cycles");
        let ipc = result["ipc"].as_f64().expect("ipc");
        assert!((ipc - 24_000.0 / cycles as f64).abs() < 1e-12);
        assert!(result["counters"].as_object().unwrap().len() > 50);
        assert_eq!(result["config"]["machine"]["tlb"]["l2"]["entries"], 1536);
        assert_eq!(result["config"]["warmup_instructions"], 6_000);
        assert_eq!(result["version"], env!("CARGO_PKG_VERSION"));
    }
}

#[test]
fn the_report_loads_nothing_from_elsewhere() {
    let place = Place::new();
    place.succeeds(&short(&["--scheme", "4k,perforated"]));
    let page = place.read("results/latest/report.html");
    let lower = page.to_lowercase();
    for load in ["src=\"http", "href=\"http", "url(http", "@import", "src=\"//", "href=\"//"] {
        assert!(!lower.contains(load), "{load}");
    }
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!without_namespace.contains("http://") && !without_namespace.contains("https://"));
    assert!(page.contains("perforate compare random:size=64M --instructions 30000"));
}

#[test]
#[cfg(not(feature = "figures"))]
fn a_program_without_figures_says_how_to_get_them() {
    let place = Place::new();
    let why =
        "--figures: this program was built without figures; build it with `cargo build --release";
    place.fails(&["compare", "--figures"], 2, why);
    place.fails(&["experiment", "run", "perforated/fig7", "--figures"], 2, why);
}

#[test]
#[cfg(feature = "figures")]
fn figures_are_written_beside_the_report() {
    let place = Place::new();
    let out = place.succeeds(&short(&["--scheme", "4k,thp", "--figures", "--out", "out"]));
    let names = names_in(&place, "out/figures");
    assert!(out.contains(&format!("figures: out/figures ({} of them", names.len() / 2)), "{out}");
    for name in ["c0-why", "c0-ipc-to-reference", "c0-cycle-stack"] {
        assert!(names.contains(&format!("{name}.svg")) && names.contains(&format!("{name}.csv")));
    }
    assert!(place.read("out/figures/c0-why.svg").starts_with("<svg "));
    assert!(place.read("out/figures/c0-why.csv").starts_with("scheme,L2 TLB (cycles per"));
}

/// The parts of the report's waterfall add up to the whole wait, natively and in a virtual machine.
#[test]
fn parts_of_the_wait_for_translation_add_up() {
    let place = Place::new();
    let schemes =
        "4k,thp,perforated,gt-pde-4m,segment,range,4k+4k,perforated+thp,segment+perforated";
    for one in json(&place.succeeds(&short(&["--json", "--scheme", schemes]))) {
        let counters = one["counters"].as_object().unwrap();
        let is_part = |name: &str| {
            name == "walk_mshr" || counters.contains_key(&format!("translation_cycles_{name}"))
        };
        let parts = counters
            .iter()
            .filter(|(name, _)| name.strip_prefix("stack_cycles_").is_some_and(is_part));
        let sum: u64 = parts.map(|(_, cycles)| cycles.as_u64().unwrap()).sum();
        let whole = one["counters"]["translation_stall_cycles"].as_u64().unwrap();
        assert!(whole > 0 || one["scheme"] == "free", "{}", one["scheme"]);
        assert_eq!(sum, whole, "{}", one["scheme"]);
    }
}

#[test]
fn json_prints_the_lines_of_the_file_and_nothing_else() {
    let place = Place::new();
    let lines = place.succeeds(&short(&["--json"]));
    assert!(place.names().is_empty(), "no files without --out");
    assert_eq!(json(&lines).len(), 5);
    assert_eq!(place.succeeds(&short(&["--json", "--out", "here"])), lines);
    assert_eq!(place.read("here/results.jsonl"), lines);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_does_not() {
    let place = Place::new();
    place.succeeds(&short(&["--out", "first"]));
    place.succeeds(&short(&["--out", "first"]));
    let first = place.read("first/results.jsonl");
    place.succeeds(&short(&["--out", "second"]));
    assert_eq!(place.read("second/results.jsonl"), first);
    let other = place.succeeds(&short(&["--json", "--seed", "2"]));
    let cycles = |lines: &str| json(lines)[0]["cycles"].clone();
    assert_ne!(cycles(&other), cycles(&first));
}

#[test]
fn several_seeds_are_runs_of_their_own() {
    let place = Place::new();
    let table = place.succeeds(&short(&["--seeds", "3", "--scheme", "4k,thp"]));
    assert!(table.contains("medians of 3 seeds"), "{table}");
    let lines = place.read("results/latest/results.jsonl");
    let seeds: Vec<u64> = json(&lines).iter().map(|one| one["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [1, 1, 1, 2, 2, 2, 3, 3, 3], "4k, thp and ideal");
    let alone = place.succeeds(&short(&["--seed", "2", "--scheme", "4k,thp", "--json"]));
    assert!(lines.contains(&alone));
    // After the last seed comes the first.
    let arguments = ["--seeds", "2", "--seed", "18446744073709551615", "--json", "--functional"];
    let last = json(&place.succeeds(&short(&arguments)));
    assert_eq!((&last[0]["seed"], &last[4]["seed"]), (&u64::MAX.into(), &0.into()));
}

#[test]
fn without_a_clock_there_are_no_cycles() {
    let place = Place::new();
    let functional = json(&place.succeeds(&short(&["--functional", "--json", "--check"])));
    let timed = json(&place.succeeds(&short(&["--json"])));
    for (functional, timed) in functional.iter().zip(&timed) {
        assert_eq!((&functional["ipc"], &functional["cycles"]), (&Value::Null, &Value::Null));
        for counter in ["walks", "l1_tlb_misses", "l2_tlb_misses", "bitmap_lookups"] {
            assert_eq!(functional["counters"][counter], timed["counters"][counter], "{counter}");
        }
    }
}

#[test]
fn one_instruction_is_enough_and_warm_up_ends_where_it_should() {
    let place = Place::new();
    let run = |more: &[&str]| {
        let mut arguments = vec!["compare", "random:size=4K", "--memory", "4M", "--json"];
        arguments.extend(more);
        json(&place.succeeds(&arguments))
    };
    let one = ["--instructions", "1"];
    assert_eq!(run(&[&one[..], &["--functional"]].concat())[3]["instructions"], 1);
    let last = ["--instructions", "20000", "--warmup", "19999", "--functional"];
    assert_eq!(run(&last)[3]["instructions"], 1);
    // With a clock it ends before a cycle has passed, which is no speed.
    let timed = [&["compare", "random:size=4K", "--memory", "4M"], &last[..4]].concat();
    place.fails(&timed, 1, "the 1 instructions that were timed end before a cycle has passed");
    // Every fourth instruction loads: numbers 6, 10, 14 … counted from 0 after the warm-up of 5.
    let result = &run(&["--instructions", "1005", "--warmup", "5"])[0];
    assert_eq!(result["instructions"], 1000);
    assert_eq!(result["counters"]["l1_tlb_accesses"], 250);
    assert_eq!(result["counters"]["loads"], 250);
}
