//! `perforate validate` with little memory, on any machine: tests that it measures, predicts and judges,
//! whatever the measurements are.

use std::process::Command;

use crate::place::{Place, json};

#[test]
fn a_small_machine_check() {
    let place = Place::new();
    let arguments = ["validate", "--quick", "--size", "8M", "--repeat", "1", "--operations"];
    // Its last level is small, so that little has to be simulated.
    let more = ["1000", "--machine", "gtsm-table4", "--out", "out", "--json"];
    let lines = json(&place.succeeds(&[&arguments[..], &more[..]].concat()));
    let (all, rows) = lines.split_last().expect("a line for all");
    let names: Vec<&str> = rows.iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert!(names.contains(&"random 8M") && names.contains(&"chase 8M"), "{names:?}");
    let assumptions = all["overall"].as_array().unwrap().len();
    for score in all["overall"].as_array().unwrap() {
        let count = |key: &str| score[key].as_u64().unwrap();
        let verdicts = ["agrees", "same_direction", "disagrees", "noisy", "no_effect"];
        let judged: u64 = verdicts.iter().map(|verdict| count(verdict)).sum();
        assert_eq!((judged, count("times")), (rows.len() as u64, rows.len() as u64), "{score}");
    }
    // Counters, or the reason why there are none.
    let has_counters = rows.iter().any(|row| !row["measured_counters"].is_null());
    assert_eq!(has_counters, all["counters_absent"].is_null(), "{all}");
    for row in rows {
        assert!(row["measured_ratio"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["measured_small_pages_ns"]["least"].as_f64().unwrap() > 0.0, "{row}");
        let predicted = row["predicted"].as_array().unwrap();
        assert_eq!(predicted.len(), assumptions);
        for prediction in predicted {
            assert!(prediction["small_pages_ns"].as_f64().unwrap() > 0.0, "{row}");
            let verdict = prediction["verdict"].as_str().unwrap();
            let verdicts = ["agrees", "same_direction", "disagrees", "noisy", "no_effect"];
            assert!(verdicts.contains(&verdict), "{verdict}");
            assert!(prediction["time_ratio"].as_f64().unwrap() > 0.0, "{row}");
        }
        if row["instructions_from"] == "synthetic" {
            println!("skipped: recording, as there is no qemu-x86_64 with plugins");
        }
    }
    assert_eq!(json(&place.read("out/validation.jsonl")).len(), lines.len());
    let schemes = if assumptions == 1 { 2 } else { 6 };
    assert_eq!(json(&place.read("out/results.jsonl")).len(), schemes * rows.len());
}

#[test]
fn mosaics_of_a_benchmark() {
    let place = Place::new();
    place.write(
        "half.csv",
        "type,pageSize,startOffset,endOffset\nmmap,-1,0,16777216\nmmap,2097152,0,8388608\n",
    );
    let arguments =
        ["validate", "--quick", "--size", "16M", "--repeat", "1", "--operations", "1000"];
    // Its last level is small, so that little has to be simulated.
    let machine = ["--machine", "gtsm-table4"];
    let more = ["--layouts", "2", "--layout", "half.csv", "--out", "out"];
    let arguments = [&arguments[..], &machine[..], &more[..]].concat();
    if Command::new("qemu-x86_64").arg("-version").output().is_err() {
        println!("skipped: qemu-x86_64 is not installed (apt-get install qemu-user)");
        place.fails(&arguments, 1, "recording needs qemu-x86_64");
        return;
    }
    let text = place.succeeds(&arguments);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("measured effects in points: median | worst"), "{text}");
    let lines = json(&place.read("out/validation.jsonl"));
    let (all, rows) = lines.split_last().expect("a line for all");
    let names: Vec<&str> = rows[..3].iter().map(|row| row["layout"].as_str().unwrap()).collect();
    assert_eq!(names, ["half", "all 2MB", "first 1/2"]);
    assert_eq!(rows.len() % 3, 0);
    let assumptions = all["overall"].as_array().unwrap();
    for row in rows {
        assert!(row["measured_ratio"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["predicted"].as_array().unwrap().len(), assumptions.len());
        assert!(row["predicted"][0]["ratio"].as_f64().unwrap() > 0.0, "{row}");
    }
    // The first two layouts differ, the first and the third do not.
    for rows in rows.chunks(3) {
        assert_eq!(rows[0]["predicted"][0]["ratio"], rows[2]["predicted"][0]["ratio"]);
    }
    let programs = assumptions[0]["programs"].as_array().unwrap();
    assert_eq!(programs.len(), rows.len() / 3);
    let runs = json(&place.read("out/results.jsonl"));
    assert_eq!(runs.len(), programs.len() * 4 * assumptions.len(), "with 4KB pages only too");
}

#[test]
fn layouts_and_lists_of_programs_are_checked_first() {
    let place = Place::new();
    place.write("wrong.csv", "type,pageSize,startOffset,endOffset\nbrk,8192,0,8192\n");
    let expected = "wrong.csv: line 2, column 5: page size \"8192\"; expected -1";
    place.fails(&["validate", "--layout", "wrong.csv"], 1, expected);
    place.fails(&["validate", "--layout", "none.csv"], 1, "none.csv: ");
    place.fails(&["validate", "--layouts", "0"], 2, "--layouts");
    place.write("programs", "true\nxz 'a\n");
    place.fails(&["validate", "--programs", "programs"], 2, "line 2: a quote ' without its end");
    place.write("programs", "# nothing\n\n");
    place.fails(&["validate", "--programs", "programs"], 2, "no program in it");
    place.fails(&["validate", "--skip", "5"], 2, "--skip: needs a program; expected -- PROG");
    let alone = ["validate", "--program-only", "--layouts", "2", "--", "no-such-program"];
    place.fails(&alone, 1, "no-such-program");
}

#[test]
fn validate_refuses_what_cannot_be() {
    let place = Place::new();
    place.fails(&["validate", "--size", "1K"], 2, "at least 64K");
    place.fails(&["validate", "--size", "large"], 2, "--size");
    place.fails(&["validate", "--size", "8M", "--layouts", "1"], 2, "at least 16M");
    place.fails(&["validate", "--cpu", "99999"], 2, "--cpu 99999");
    place.fails(&["validate", "--machine", "nowhere"], 2, "nowhere");
    place.fails(&["native-worker", "chase"], 2, "the job of a benchmark: ");
}

#[test]
fn a_program_that_is_not_there_cannot_be_validated() {
    let place = Place::new();
    place.fails(&["validate", "--program-only", "--", "no-such-program"], 1, "no-such-program");
}
