//! `perforate calibrate` with little memory, on any machine: tests that it measures and that its file can
//! be used, whatever the measurements are.

use crate::place::{Place, json};

/// A cost of the kernel.
const COST: &str = "operating_system.fault_4k_ns";

#[test]
fn a_machine_file_of_this_machine() {
    let place = Place::new();
    let arguments = ["calibrate", "--quick", "--size", "64M", "--rounds", "1", "--operations"];
    let more = ["1000", "--out", "here.toml", "--json"];
    let lines = json(&place.succeeds(&[&arguments[..], &more[..]].concat()));
    let keys: Vec<&str> = lines.iter().filter_map(|line| line["key"].as_str()).collect();
    for key in ["core.frequency_ghz", "cache.l2.latency_cycles", "tlb.l2.entries", COST] {
        assert!(keys.contains(&key), "{keys:?}");
    }
    assert!(lines.iter().any(|line| line["simulated_ns"].as_f64().is_some_and(|ns| ns > 0.0)));
    let file = place.read("here.toml");
    assert!(file.contains("name = \"here\"") && file.contains("# measured: "), "{file}");
    let run = ["run", "random:size=16M", "--scheme", "4k", "--instructions", "20k", "--json"];
    let result = &json(&place.succeeds(&[&run[..], &["--machine", "here.toml"]].concat()))[0];
    assert_eq!(result["machine"].as_str(), Some("here"), "{result}");
    let costs = &result["config"]["machine"]["operating_system"];
    assert!(
        costs["measured_on"].is_string() && costs["fault_4k_ns"].as_f64() > Some(0.0),
        "{costs}"
    );
    // The costs are another machine's unless they were measured, and every comparison says which.
    let notes = |machine: &str| {
        let result = &json(&place.succeeds(&[&run[..], &["--machine", machine]].concat()))[0];
        result["notes"].to_string()
    };
    assert!(notes("here.toml").contains("as calibrate measured them on"), "{}", notes("here.toml"));
    let others = notes("ice-lake-sp");
    assert!(others.contains("of other machines (a 4KB fault takes 3.5 µs)"), "{others}");
}

#[test]
fn calibrate_refuses_what_cannot_be() {
    let place = Place::new();
    place.fails(&["calibrate", "--size", "1M"], 2, "at least 64M");
    place.fails(&["calibrate", "--cpu", "99999"], 2, "--cpu 99999");
    place.fails(&["calibrate", "--base", "nowhere"], 2, "nowhere");
    place.fails(&["calibrate", "--rounds", "0"], 2, "--rounds");
    assert_eq!(place.names(), [""; 0], "nothing is written");
}
