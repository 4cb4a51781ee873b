//! `perforate list`.

use crate::place::Place;

#[test]
fn every_list_alone_and_all_together() {
    let place = Place::new();
    let all = place.succeeds(&["list"]);
    for (what, words) in [
        ("schemes", &["perforated-naive", "ideal", "source: P §IV", "4k"][..]),
        ("workloads", &["random", "such as store:keys=", "[2G]", "Bundled traces"]),
        (
            "machines",
            &[
                "perforated-table2",
                "ice-lake-sp",
                "sandy-bridge-table6",
                "gtsm-table4",
                "zen4-genoa",
                "haswell-ex",
                "skylake-sp-4114",
                "cascade-lake-6252",
                "cascade-lake-8259cl",
                "tiger-lake",
                "sapphire-rapids",
                "zen2-rome",
                "zen3-milan",
                "zen5-turin",
                "neoverse-n1",
                "neoverse-v1",
                "neoverse-v2",
                "cortex-a76",
                "xuantie-c910",
                "(default)",
            ],
        ),
        ("policies", &["thp", "madvise", "perforated", "large-areas", "used"]),
    ] {
        let list = place.succeeds(&["list", what]);
        assert!(all.contains(&list), "{what}");
        assert!(list.matches("(default)").count() <= 1, "{list}");
        assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
        for word in words {
            assert!(list.contains(word), "{word} is not in\n{list}");
        }
    }
}

#[test]
fn every_bundled_trace_can_be_read_and_one_is_the_default() {
    let place = Place::new();
    let list = place.succeeds(&["list", "workloads"]);
    let (_, traces) = list.split_once("Bundled traces of real programs\n").unwrap();
    assert!(traces.lines().count() >= 4, "{list}");
    assert!(traces.lines().all(|line| line.contains(" M instructions")), "{list}");
    assert_eq!(traces.matches("(default)").count(), 1, "{list}");
}

/// docs/options.md is what the program lists: `perforate list options > …` brings it up to date.
#[test]
fn the_documented_options_are_those_there_are() {
    let place = Place::new();
    let lists = ["options", "ageing", "perforation", "segment", "superpages"];
    let listed = lists.map(|what| place.succeeds(&["list", what])).join("\n");
    assert!(listed.lines().all(|line| line.chars().count() <= 100), "{listed}");
    assert!(listed.contains("\n  seed=N                                 Seed of"), "{listed}");
    assert_documented("options.md", &listed);
}

/// Likewise docs/workloads.md, without the bundled traces.
#[test]
fn the_documented_workloads_are_those_there_are() {
    let list = Place::new().succeeds(&["list", "workloads"]);
    assert_documented("workloads.md", list.split("\nBundled traces").next().unwrap());
}

/// Likewise docs/schemes.md.
#[test]
fn the_documented_schemes_are_those_there_are() {
    assert_documented("schemes.md", &Place::new().succeeds(&["list", "schemes"]));
}

/// Likewise the counters in docs/results.md.
#[test]
fn the_documented_counters_are_those_there_are() {
    let listed = Place::new().succeeds(&["list", "counters"]);
    assert!(listed.lines().all(|line| line.chars().count() <= 100), "{listed}");
    assert_documented("results.md", &listed);
}

/// The first block of text in a document is what the program says.
fn assert_documented(name: &str, said: &str) {
    let file = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(file).unwrap();
    let block = document.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let block = block.unwrap();
    for (line, (said, documented)) in (1..).zip(said.lines().zip(block.lines())) {
        assert_eq!(said, documented, "line {line} of the block in docs/{name}");
    }
    assert_eq!(said.lines().count(), block.lines().count());
}
