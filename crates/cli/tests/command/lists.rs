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
                "(default)",
            ],
        ),
    ] {
        let list = place.succeeds(&["list", what]);
        assert!(all.contains(&list), "{what}");
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
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    let document = std::fs::read_to_string(file).unwrap();
    let block = document.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let expected = block.unwrap();
    for (line, (listed, expected)) in (1..).zip(listed.lines().zip(expected.lines())) {
        assert_eq!(listed, expected, "line {line} of the block in docs/options.md");
    }
    assert_eq!(listed.lines().count(), expected.lines().count());
}
