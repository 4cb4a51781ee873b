//! Virtual machines on the command line: pairs of schemes, the host's memory, and what cannot be.

use crate::place::{Place, json};

const SHORT: [&str; 6] =
    ["compare", "random:size=64M", "--instructions", "30000", "--memory", "1G"];

fn short(more: &[&'static str]) -> Vec<&'static str> {
    SHORT.iter().chain(more).copied().collect()
}

#[test]
fn guests_on_hosts_are_matrices() {
    let place = Place::new();
    let sides = ["--scheme", "4k", "--guest", "4k,perforated", "--host", "thp,segment", "--all"];
    let table = place.succeeds(&short(&sides));
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for word in ["guest \\ host", "native", "host references per walk", "note: host: "] {
        assert!(table.contains(word), "{word} is not in\n{table}");
    }
    let results = json(&place.read("results/latest/results.jsonl"));
    let names: Vec<&str> = results.iter().map(|one| one["scheme"].as_str().unwrap()).collect();
    let pairs = ["4k+thp", "4k+segment", "perforated+thp", "perforated+segment"];
    assert_eq!(names, [&["4k"], &pairs[..], &["free"]].concat());
    assert!(results[0]["guest"].is_null() && results[0]["host"].is_null());
    assert_eq!(
        (&results[4]["guest"], &results[4]["host"]),
        (&"perforated".into(), &"segment".into())
    );
    assert_eq!(results[1]["config"]["host_scheme"]["name"], "thp");
    assert_eq!(
        results[1]["config"]["host_memory"]["memory_bytes"],
        (1u64 << 30) / 4 * 5 + (512 << 20)
    );
    assert_eq!(results[2]["counters"]["host_references_per_walk"], 0.0, "one dimension is left");
}

/// A note about one scheme is printed below the table of all schemes.
#[test]
fn a_segment_that_is_not_there_is_told() {
    let place = Place::new();
    let fragmented = ["--host-fragmentation", "portion=100%,holes=25%,clustered"];
    let table = place.succeeds(&short(&[&fragmented[..], &["--scheme", "4k,4k+segment"]].concat()));
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.contains("note: 4k+segment: there never was a host's segment"), "{table}");
}

#[test]
fn one_side_alone_takes_the_usual_schemes_of_the_other() {
    let place = Place::new();
    let lines = place.succeeds(&short(&["--host", "4k", "--functional", "--json"]));
    let names: Vec<_> = json(&lines).iter().map(|one| one["scheme"].clone()).collect();
    assert_eq!(names, ["4k+4k", "thp+4k", "perforated+4k"]);
}

#[test]
fn modes_change_and_are_told() {
    let place = Place::new();
    let table = place.succeeds(&short(&[
        "--fragmentation",
        "none",
        "--functional",
        "--scheme",
        "segment+segment",
        "--modes",
        "big-memory,every=1000",
    ]));
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "segment+segment: base-virtualized → vmm-direct before instruction 0: free host memory",
        "segment+segment: vmm-direct → dual-direct before instruction 1000: made at a first touch",
    ] {
        assert!(table.contains(told), "{told} is not in\n{table}");
    }
}

#[test]
fn wrong_use_is_one_line() {
    let place = Place::new();
    for (arguments, expected) in [
        (&["--scheme", "4k+2m"][..], "no scheme \"2m\""),
        (&["--scheme", "perforated-naive+perforated"], "share one TLB"),
        (&["--scheme", "shadow-4k"], "host"),
        (&["--scheme", "segment-l1+4k"], "segment-l1+4k: "),
        (&["--scheme", "4k+segment-l1"], "use segment"),
        (&["--scheme", "4k+4k", "--host-memory", "512M"], "does not fit into a host"),
        (&["--scheme", "4k+4k", "--host-memory", "x"], "--host-memory: expected a size"),
        (&["--scheme", "segment", "--segment", "base=0x2000,limit=0x1000"], "less than base"),
        (&["--scheme", "segment", "--segment", "base=0x2000"], "base needs limit"),
        (&["--scheme", "4k+4k", "--host-segment", "colour=red"], "--host-segment: there is no"),
        (
            &["--modes", "large"],
            "--modes: there is no \"large\"; there are application, big-memory",
        ),
        (&["--io-gap", "wide"], "--io-gap: expected pc or reclaimed"),
        (&["--hot-add", "99999999T"], "--hot-add"),
    ] {
        place.fails(&short(arguments), 2, expected);
    }
}

#[test]
fn a_segment_over_memory_that_is_not_mapped() {
    let place = Place::new();
    let segment = "base=0x7effc0000000,limit=0x7fffc0000000";
    let arguments = ["--scheme", "segment", "--fragmentation", "none", "--segment", segment];
    place.fails(
        &[&short(&arguments)[..], &["--json"]].concat(),
        1,
        "covers memory that is not mapped",
    );
}

#[test]
fn a_walk_of_two_dimensions_is_explained() {
    let place = Place::new();
    let explain = ["explain", "--workload", "random:size=64M", "--memory", "1G"];
    let text = place.succeeds(&[&explain[..], &["--scheme", "perforated+thp"]].concat());
    for word in ["guest's level-2 entry", "host's level-2 entry", "nested TLB", "perforated at"] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
