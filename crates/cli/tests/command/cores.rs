//! `--cores`, `--threads-per-core`, `--beside`, `--threads`.

use crate::place::{Place, json};

const SHORT: [&str; 8] = [
    "compare",
    "random:size=16M,writes=20%",
    "--scheme",
    "4k,perforated",
    "--instructions",
    "60k",
    "--warmup",
    "10k",
];

fn short(more: &[&'static str]) -> Vec<&'static str> {
    SHORT.iter().chain(more).copied().collect()
}

#[test]
fn each_hardware_thread_has_a_row_and_a_record() {
    let place = Place::new();
    let table = place.succeeds(&short(&["--threads", "4", "--cores", "2", "--check"]));
    assert!(table.contains("note: 2 cores: IPC is that of all together"), "{table}");
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for row in ["4k  core 0", "4k  core 1", "perforated  core 1"] {
        assert!(table.contains(row), "{row} is not in\n{table}");
    }
    let found = json(&place.read("results/latest/results.jsonl"));
    for run in &found {
        let threads = run["hardware_threads"].as_array().unwrap();
        let sum: u64 = threads.iter().map(|it| it["instructions"].as_u64().unwrap()).sum();
        assert_eq!(sum, 50_000, "all instructions ran on one of them");
        assert_eq!(threads.len(), 2);
        let cycles = run["cycles"].as_u64().unwrap();
        for thread in threads {
            let of = |key: &str| thread[key].as_u64().unwrap();
            assert_eq!(of("cycles") + of("idle_cycles"), cycles);
        }
        assert!(run["ipc"].as_f64().unwrap() > 0.0);
    }
    let page = place.read("results/latest/report.html");
    assert!(page.contains("Hardware threads"));
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let place = Place::new();
    let options = short(&["--threads", "6", "--cores", "2", "--threads-per-core", "2", "--json"]);
    assert_eq!(place.succeeds(&options), place.succeeds(&options));
}

#[test]
fn programs_run_beside_each_other() {
    let place = Place::new();
    let with = short(&["--beside", "bfs+sequential:size=8M", "--cores", "3", "--all"]);
    let table = place.succeeds(&with);
    assert!(
        table.starts_with("random:size=16M,others=3,writes=20% with bfs.trace with"),
        "{table}"
    );
    // On one core they take turns.
    place.succeeds(&short(&["--beside", "bfs", "--functional"]));
    let runs = json(&place.read("results/latest/results.jsonl"));
    let switches = runs[0]["counters"]["work_context_switches"].as_u64().unwrap();
    assert!(switches > 80, "50,000 instructions in turns of 500: {switches}");
}

#[test]
fn what_cannot_be_is_refused() {
    let place = Place::new();
    for (options, problem) in [
        (
            &["--cores", "65"][..],
            "--cores: 65 cores of 1 hardware thread each; expected at most 64",
        ),
        (&["--cores", "0"], "--cores"),
        (&["--cores", "2", "--timing", "sampled"], "sampled timing is for one hardware thread"),
        (&["--cores", "2", "--window-warmup", "9"], "window-warmup is for one hardware thread"),
        (&["--beside", "nothing-like-it"], "nothing-like-it"),
    ] {
        place.fails(&short(options), 2, problem);
    }
    place.fails(&["compare", "redis", "--threads", "2"], 2, "has the threads that were recorded");
}
