use crate::place::{Place, json};

#[test]
fn every_way_of_running_is_timed_and_errors_are_told() {
    let place = Place::new();
    let bench = ["bench", "sequential", "--schemes", "4k,thp", "--instructions", "200k"];
    let timing = ["--timing", "sampled=1k/10k"];
    let lines = json(&place.succeeds(&[&bench[..], &timing, &["--json"]].concat()));
    let schemes: Vec<&str> = lines.iter().map(|line| line["scheme"].as_str().unwrap()).collect();
    assert_eq!(schemes, ["4k", "thp"]);
    for line in &lines {
        assert_eq!(
            (&line["workload"], &line["instructions"]),
            (&"sequential".into(), &200_000.into())
        );
        for way in ["full", "sampled", "functional"] {
            assert!(line["seconds"][way].as_f64().unwrap() > 0.0, "{way}");
        }
        assert!(line["sampled_ipc_error"].as_f64().unwrap().abs() < 0.1, "{line}");
        assert!(line["sampled_half_width_95"].as_f64().unwrap() > 0.0);
    }
    assert!(lines[0]["sampled_speed_error"].is_null() && lines[1]["sampled_speed_error"].is_f64());
    let table = place.succeeds(&[&bench[..], &timing].concat());
    assert!(table.contains("windows of 1000 in every 10000 instructions"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
}

#[test]
fn a_sample_is_what_is_compared_with_full_timing() {
    let place = Place::new();
    place.fails(&["bench", "--timing", "full"], 2, "--timing: full timing is measured in any case");
    place.fails(&["bench", "no-such"], 2, "no-such");
}
