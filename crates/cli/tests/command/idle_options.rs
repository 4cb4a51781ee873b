//! Options that do nothing are refused where that is known before the run, else noted.

use crate::place::Place;

const SHORT: [&str; 5] = ["compare", "random:size=64M", "--functional", "--instructions", "30000"];

#[test]
fn options_that_can_change_nothing_are_refused() {
    let place = Place::new();
    for (options, expected) in [
        (&["--host-memory", "32G"][..], "--host-memory: has no effect: no GUEST+HOST is compared"),
        (&["--host-swap", "1G"], "--host-swap: has no effect: no GUEST+HOST"),
        (&["--io-gap", "pc"], "--io-gap: has no effect: no GUEST+HOST"),
        (&["--modes", "compute"], "--modes: has no effect: big-memory wants"),
        (&["--hot-add", "1G"], "--hot-add: has no effect: it needs modes"),
        (&["--segment", "min=16M"], "--segment: has no effect: no scheme here has direct"),
        (&["--superpages", "pages=4k"], "--superpages: has no effect: no scheme here has gap"),
        (&["--scheme", "thp", "--perforation", "holes=lazy"], "--perforation: has no effect: no"),
        (&["--scheme", "4k", "--khugepaged", "default"], "--khugepaged: has no effect: no scheme"),
        (&["--scheme", "4k", "--defrag", "always"], "--defrag: has no effect: no scheme here has"),
        (&["--compaction", "background"], "--compaction: has no effect: memory has no past"),
        (&["--scheme", "4k+4k", "--host-segment", "min=16M"], "--host-segment: has no effect: no"),
    ] {
        place.fails(&[&SHORT[..], options].concat(), 2, expected);
    }
    place.fails(&["run", "random", "--host-memory", "32G"], 2, "--host-memory: has no effect");
    place.fails(&["explain", "--modes", "compute"], 2, "--modes: has no effect");
    place.fails(
        &["validate", "--size", "3M", "--quick"],
        2,
        "--size: expected a power of two, such as 2M or 4M, not 3M",
    );
    let left_out = ["validate", "--size", "4M", "--program-only", "--", "true"];
    place.fails(&left_out, 2, "--size: has no effect with --program-only");
    let convert = ["trace", "convert", "random:size=4M", "--instructions", "1000", "-o"];
    let convert = |rest: &[&'static str]| [&convert[..], rest].concat();
    place.fails(&convert(&["x.foo"]), 2, "-o x.foo: no format has names with .foo");
    place.fails(&convert(&["x.csv", "--level", "4"]), 2, "--level: has no effect: x.csv is not");
    place.succeeds(&convert(&["x.foo", "--to", "csv"]));
    place.succeeds(&convert(&["random"]));
}

/// The text of a table in one line, however its notes are broken.
fn joined(table: &str) -> String {
    table.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn options_that_changed_nothing_are_noted() {
    let place = Place::new();
    let options = ["--scheme", "thp,1g", "--swap", "1G", "--khugepaged", "default"];
    for defrag in ["madvise", "defer+madvise", "defer", "always"] {
        let all = [&SHORT[..], &options, &["--defrag", defrag]].concat();
        let table = joined(&place.succeeds(&all));
        let noted = "note: had no effect in this run: swap (memory never was so short that the \
                     program's had to be swapped out), defrag (no page fault lacked a 2MB block for \
                     which to compact memory), khugepaged (it made no page larger)";
        assert!(table.contains(noted), "{defrag}: {table}");
        assert!(table.contains("note: 1g: there never was a 1GB page: "), "{table}");
        assert!(!table.contains("too little translation work"), "{table}");
    }
}

#[test]
fn a_run_that_tells_nothing_of_schemes_says_so() {
    let place = Place::new();
    let small = ["compare", "random:size=4M", "--functional", "--instructions", "30000"];
    let table = joined(&place.succeeds(&small));
    let noted = "note: there is too little translation work in this run to tell schemes apart: the \
                 program touched ";
    assert!(table.contains(noted), "{table}");
    let alone = [&small[..], &["--scheme", "4k"]].concat();
    assert!(!place.succeeds(&alone).contains("too little"), "nothing is compared");
}
