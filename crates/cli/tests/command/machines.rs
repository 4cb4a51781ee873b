//! Machines that are shown, changed by key, based on others, or this one.

use crate::place::{Place, json};

const RUN: [&str; 7] =
    ["run", "random:size=16M", "--scheme", "4k", "--instructions", "20k", "--json"];

#[test]
fn a_machine_is_shown_with_the_sources_of_its_values() {
    let place = Place::new();
    let list = place.succeeds(&["machines", "list"]);
    assert_eq!(list, place.succeeds(&["list", "machines"]));
    let file =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/gtsm-table4.toml"));
    assert_eq!(place.succeeds(&["machines", "show", "gtsm-table4"]), file);
    let set = ["machines", "show", "gtsm-table4", "--set", "tlb.l2.entries=1024"];
    let changed = place.succeeds(&set);
    let note = "# machine: tlb.l2.entries is set to 1024; 512 in gtsm-table4\n";
    assert!(changed.starts_with(note), "{changed}");
    let line = "l2 = { entries = 1024, ways = 4 } # set; 512 in gtsm-table4; Table 4";
    assert!(changed.contains(line), "{changed}");
    place.write("mine.toml", &changed);
    assert!(place.succeeds(&["machines", "show", "mine.toml"]).contains(line));
}

#[test]
fn a_key_can_be_set_for_one_command() {
    let place = Place::new();
    let set = ["--set", "tlb.l2.entries=3072", "--set", "cache.l2.size_bytes=1M"];
    let result = &json(&place.succeeds(&[&RUN[..], &set[..]].concat()))[0];
    assert_eq!(result["config"]["machine"]["tlb"]["l2"]["entries"], 3072);
    assert_eq!(result["config"]["machine"]["cache"]["l2"]["size_bytes"], 1 << 20);
    assert_eq!(result["config"]["machine"]["set"]["tlb.l2.entries"], "3072");
    let notes = result["notes"].as_array().unwrap();
    let note = "machine: tlb.l2.entries is set to 3072; 1536 in perforated-table2";
    assert!(notes.iter().any(|one| one == note), "{notes:?}");
    let text = place.succeeds(&["explain", "--set", "walker.l2_tlb_cycles=70"]);
    assert!(text.contains("walker.l2_tlb_cycles is set to 70; 9 in"), "{text}");
}

#[test]
fn wrong_keys_and_values_say_what_would_be_right() {
    let place = Place::new();
    for (set, expected) in [
        (
            "tlb.l2.entrys=3",
            "--set tlb.l2.entrys=3: there is no key \"tlb.l2.entrys\"; did you mean tlb.l2.entries?",
        ),
        ("walkers=3", "did you mean walker.walkers?"),
        (
            "tlb.l2.entries=many",
            "tlb.l2.entries=many: expected a whole number, such as 1536, not \"many\"",
        ),
        ("tlb.l2.entries=1000", "--set tlb.l2.entries=1000: tlb.l2: 1000 entries in 12 ways"),
        ("tlb.l2.entries", "--set: \"tlb.l2.entries\" has no value"),
        ("=3", "expected KEY=VALUE"),
    ] {
        place.fails(&["compare", "random", "--set", set], 2, expected);
        place.fails(&["explain", "--set", set], 2, expected);
        place.fails(&["machines", "show", "perforated-table2", "--set", set], 2, expected);
    }
    place.fails(&["validate", "--set", "core.width=4"], 2, "--set: needs --machine");
    place.fails(&["machines", "show", "nope"], 2, "there are perforated-table2");
}

#[test]
fn a_file_may_say_only_what_differs() {
    let place = Place::new();
    place.write("mine.toml", "base = \"ice-lake-sp\"\ntlb.l2.entries = 4096\n");
    let result = &json(&place.succeeds(&[&RUN[..], &["--machine", "mine.toml"]].concat()))[0];
    assert_eq!(
        (result["machine"].as_str(), &result["config"]["machine"]["tlb"]["l2"]["entries"]),
        (Some("mine"), &4096.into())
    );
    place.write("wrong.toml", "base = \"mine.toml\"\n\n[tlb]\nl2_3m = true\n");
    let expected = "machine wrong.toml: line 4: unknown field `l2_3m`; did you mean `l2_2m`?";
    place.fails(&["run", "random", "--machine", "wrong.toml"], 1, expected);
    place.write("round.toml", "base = \"round.toml\"\n");
    place.fails(&["machines", "show", "round.toml"], 1, "goes round in a circle");
}

/// On any processor: a machine of the same maker, or an error that says what to do.
#[test]
fn this_machine_is_one_or_says_what_to_do() {
    let place = Place::new();
    let outcome = place.run(&["machines", "show", "host"]);
    if outcome.code == Some(0) {
        assert!(outcome.out.contains("name = \"host\""), "{}", outcome.out);
        place.write("here.toml", &outcome.out);
        let of_file = json(&place.succeeds(&[&RUN[..], &["--machine", "here.toml"]].concat()));
        let own = json(&place.succeeds(&[&RUN[..], &["--machine", "host"]].concat()));
        assert_eq!(of_file[0]["counters"], own[0]["counters"]);
        assert_eq!(own[0]["machine"], "host");
        let compare = ["compare", "random:size=16M", "--instructions", "20k", "--json"];
        let found = json(&place.succeeds(&[&compare[..], &["--machine", "host"]].concat()));
        let schemes: Vec<&str> = found.iter().map(|one| one["scheme"].as_str().unwrap()).collect();
        let is_remarked =
            |one: &serde_json::Value| one["notes"].to_string().contains("this is a virtual");
        if schemes[0].contains('+') {
            assert_eq!(schemes, ["4k+4k", "thp+4k", "4k+thp", "thp+thp", "free+4k"]);
            assert!(is_remarked(&found[0]) && is_remarked(&own[0]), "{own:?}");
        } else {
            assert_eq!(schemes, ["4k", "thp", "perforated", "ideal", "free"]);
            assert!(!is_remarked(&found[0]), "no virtual machine");
        }
    } else {
        assert!(outcome.err.contains("no bundled machine is of the maker of"), "{}", outcome.err);
        assert_eq!(outcome.code, Some(2));
    }
}

/// Root sees the frames; other users get an error that says that root is required.
#[test]
fn this_machines_memory_or_what_it_needs() {
    let place = Place::new();
    let outcome = place.run(&[&RUN[..], &["--memory-from", "host"]].concat());
    if outcome.code == Some(0) {
        let result = &json(&outcome.out)[0];
        assert_eq!(result["config"]["memory"]["memory_from"]["file"], "this machine");
    } else {
        assert!(outcome.err.starts_with("perforate: --memory-from host: "), "{}", outcome.err);
        assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    }
    place.fails(&["run", "random", "--memory-from", "host", "--memory", "4G"], 2, "choose one");
}
