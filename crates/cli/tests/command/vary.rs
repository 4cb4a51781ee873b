//! `perforate compare --vary`.

use crate::place::{Place, json};

const SHORT: [&str; 6] =
    ["compare", "random:size=64M", "--instructions", "20000", "--scheme", "4k,thp"];

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.iter().chain(more).copied().collect()
}

#[test]
fn values_of_a_key_of_the_machine() {
    let place = Place::new();
    let text = place.succeeds(&short(&["--vary", "tlb.l2.entries=48,1536"]));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("  thp  ")).collect();
    assert!(rows[0].starts_with("48 ") && rows[1].starts_with("1536 "), "{text}");
    assert!(text.contains("over 48") && text.contains("over 4k"), "{text}");
    let answer = text.lines().nth(2).unwrap();
    assert!(
        answer.starts_with("From 48 to 1536, tlb.l2.entries changes the speed of 4k most: "),
        "{answer}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let results = json(&place.read("results/latest/results.jsonl"));
    let of = |result: &serde_json::Value| {
        let config = &result["config"];
        let entries = config["machine"]["tlb"]["l2"]["entries"].as_u64().unwrap();
        (
            result["scheme"].as_str().unwrap().to_owned(),
            entries,
            config["varied"]["number"].as_f64(),
        )
    };
    let found: Vec<_> = results.iter().map(of).collect();
    let schemes = ["4k", "thp", "free"];
    let expected: Vec<_> = [48, 1536]
        .into_iter()
        .flat_map(|entries| schemes.map(|scheme| (scheme, entries)))
        .collect();
    let expected = expected.into_iter();
    let expected: Vec<(String, u64, Option<f64>)> =
        expected.map(|(scheme, entries)| (scheme.into(), entries, Some(entries as f64))).collect();
    assert_eq!(found, expected);
    let page = place.read("results/latest/report.html");
    assert!(page.contains("id=\"values\"") && page.contains("id=\"values-chart\""));
}

/// Every value of the first key with every value of the second: sentences, a grid for each scheme, charts.
#[test]
fn two_keys_make_a_grid() {
    let place = Place::new();
    let keys = ["--vary", "tlb.l2.entries=48,1536", "--vary", "defrag=never,always"];
    let text =
        place.succeeds(&short(&[&keys[..], &["--functional", "--fragmentation", "none"]].concat()));
    assert!(text.contains(
        "With defrag never: from 48 to 1536, tlb.l2.entries changes the walks of 4k most: −"
    ));
    assert!(text.contains("of thp, tlb.l2.entries down and defrag across"), "{text}");
    assert!(text.contains("no effect: defrag changes no figure of any scheme here"), "{text}");
    let results = json(&place.read("results/latest/results.jsonl"));
    let of = |result: &serde_json::Value| {
        let varied = &result["config"]["varied"];
        [&varied["value"], &varied["second"]["value"]]
            .map(|value| value.as_str().unwrap().to_owned())
    };
    let found: Vec<_> = results.iter().step_by(2).map(of).collect();
    let expected = [("48", "never"), ("48", "always"), ("1536", "never"), ("1536", "always")];
    assert_eq!(found, expected.map(|(entries, defrag)| [entries, defrag].map(str::to_owned)));
    let page = place.read("results/latest/report.html");
    assert!(page.contains("id=\"values-chart-2\""), "a chart for each scheme");
}

/// Random reads over 2,048 pages of 2MB. Half of an Ice Lake's second-level TLB holds half of the pages; the
/// whole TLB would hold all of them.
#[test]
fn ways_of_the_second_level_by_page_size() {
    let place = Place::new();
    let run = ["compare", "random:size=4G", "--machine", "ice-lake-sp", "--scheme", "thp"];
    let short = ["--fragmentation", "none", "--instructions", "600k", "--functional"];
    let ways = ["--warmup", "400k", "--vary", "tlb.l2_2m=1-8,all"];
    place.succeeds(&[&run[..], &short, &ways].concat());
    let results = json(&place.read("results/latest/results.jsonl"));
    let missed = |result: &serde_json::Value| {
        let counter = |name: &str| result["counters"][name].as_f64().unwrap();
        counter("l2_tlb_misses") / counter("l1_tlb_accesses")
    };
    let [halved, whole] = [&results[0], &results[1]].map(missed);
    assert!((0.45..0.55).contains(&halved) && whole < 0.05, "{halved} and {whole}");
    let parts = results[0]["config"]["machine"]["tlb"]["l2_1g"].as_str();
    assert_eq!(parts, Some("9-16"));
    place.fails(
        &[&run[..], &["--set", "tlb.l2.ways=8", "--set", "tlb.l2.entries=1024"]].concat(),
        2,
        "tlb.l2_1g: ways 9-16 of 8; expected ways from 1 to 8",
    );
}

/// More runs than a table of values has room for beside each other.
#[test]
fn more_than_32_runs() {
    let place = Place::new();
    let values: Vec<String> = (1..=40).map(|seed| seed.to_string()).collect();
    let vary = format!("seed={}", values.join(","));
    let text = place.succeeds(&[
        "compare",
        "random:size=4M",
        "--instructions",
        "2000",
        "--scheme",
        "4k",
        "--functional",
        "--vary",
        &vary,
    ]);
    assert!(text.lines().any(|line| line.starts_with("40 ")), "{text}");
}

#[test]
fn values_of_an_option_and_those_without_effect() {
    let place = Place::new();
    let vary = ["--fragmentation", "none", "--vary", "defrag=never,always", "--seeds", "2"];
    let text = place.succeeds(&short(&vary));
    assert!(text.contains("no effect: defrag changes no figure of any scheme here"), "{text}");
    assert!(text.contains("medians of 2 seeds"), "{text}");
    let seeds: Vec<u64> = json(&place.read("results/latest/results.jsonl"))
        .iter()
        .map(|result| result["seed"].as_u64().unwrap())
        .collect();
    assert_eq!(seeds, [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
    let lists = "fragmentation=portion=50%,holes=25%,clustered;none";
    let text = place.succeeds(&short(&["--vary", lists, "--functional"]));
    assert!(text.contains("walks/") && !text.contains("no effect"), "{text}");
    assert!(text.contains("over the"), "{text}");
    let one = place.succeeds(&short(&["--vary", "memory=1G,2G", "--json"]));
    assert_eq!(json(&one).len(), 6, "4k, thp and ideal");
}

#[test]
fn wrong_keys_and_values_are_found_before_anything_runs() {
    let place = Place::new();
    for (vary, expected) in [
        ("defrg=never,always", "--vary: there is no \"defrg\"; did you mean defrag?"),
        ("defrag=never,often", "--defrag: expected never, madvise"),
        ("tlb.l2.entris=1,2", "did you mean tlb.l2.entries?"),
        (
            "tlb.l2.entries=1536,many",
            "--set tlb.l2.entries=many: expected a whole number, such as 1536, not \"many\"",
        ),
        ("defrag=never", "--vary: defrag: expected several values"),
    ] {
        place.fails(&short(&["--vary", vary]), 2, expected);
    }
    let seeds = "seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17";
    let many = ["--vary", seeds, "--seeds", "31"];
    place.fails(&short(&many), 2, "1581 runs (values × schemes × seeds); expected 1024 at most");
    for (second, expected) in [
        (vec!["seed=3,4"], "--vary: seed is given twice"),
        (vec!["memory=1G,2G", "defrag=never,always"], "--vary: 3 keys; expected 2 at most"),
    ] {
        let second = second.iter().flat_map(|text| ["--vary", text]);
        let more: Vec<&str> = ["--vary", "seed=1,2"].into_iter().chain(second).collect();
        place.fails(&short(&more), 2, expected);
    }
}
