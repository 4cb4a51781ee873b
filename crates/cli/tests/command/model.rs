//! `perforate model`.

use std::path::PathBuf;

use crate::place::{Place, json};

/// A file of made-up counters.
fn example(name: &str) -> String {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/perf"));
    folder.join(name).to_str().unwrap().to_owned()
}

fn arguments(more: &[&str]) -> Vec<String> {
    let files = ["--native", "native.csv", "--virtualized", "virtual.csv"];
    let name = |word: &&str| if word.ends_with(".csv") { example(word) } else { (*word).into() };
    ["model"].iter().chain(&files).chain(more).map(name).collect()
}

/// T_2Mideal = 1050 M − 50 M; C_n = 280 M ÷ 7 M = 40, C_v = 1000 M ÷ 10 M = 100.
#[test]
fn measured_counters_worked_by_hand() {
    let place = Place::new();
    let more = ["--native-2m", "native-2m.csv", "--segment-share", "99.9%"];
    let text = place.succeeds(&arguments(&more));
    for (design, walk_cycles, overhead) in [
        ("native (4K)", "280000000", "28.00 %"),
        ("native (2M)", "50000000", "5.00 %"),
        ("virtualized (4K+4K)", "1000000000", "113.00 %"),
        ("Direct Segment (DS)", "280000", "0.03 %"), // 40 × 0.001 × 7 M
        ("Dual Direct (DD)", "700000", "0.07 %"),    // 100 × 0.001 × 7 M
        ("VMM Direct (4K+VD)", "315385000", "31.54 %"), // (45 × 0.999 + 0.1) × 7 M
        ("Guest Direct (4K+GD)", "287413000", "28.74 %"), // (41 × 0.999 + 0.1) × 7 M
    ] {
        let line = text.lines().find(|line| line.trim_start().starts_with(design)).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.contains(&walk_cycles) && line.ends_with(overhead), "{line}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("1.43 times"), "{text}");
    // Without the 2M run the ideal is 1280 M − 280 M, by chance the same.
    let text = place.succeeds(&arguments(&["--segment-share", "0.999"]));
    assert!(text.contains("113.00 %") && !text.contains("(2M)"), "{text}");
    assert!(text.contains("for want of a native 2M run"), "{text}");
    assert!(place.names().is_empty());
}

#[test]
fn shares_of_both_segments() {
    let place = Place::new();
    let shares = ["--segment-share", "50%", "--vmm-share", "100%", "--guest-share", "50%"];
    let lines = json(&place.succeeds(&arguments(&[&shares[..], &["--json"]].concat())));
    let of = |design: &str| {
        let line = lines.iter().find(|line| line["design"].as_str().unwrap().contains(design));
        line.unwrap()["walk_cycles"].as_f64().unwrap()
    };
    assert_eq!(lines.len(), 6);
    assert_eq!(of("VD"), 45.0 * 7e6);
    assert_eq!(of("GD"), (41.0 * 0.5 + 100.0 * 0.5) * 7e6);
    // Half in both, the other half in the VMM segment only.
    assert_eq!(of("DD"), 45.0 * 0.5 * 7e6);
}

#[test]
fn results_of_runs() {
    let place = Place::new();
    let line = |scheme: &str, cycles: u32, misses: u32, walk_cycles: u32| {
        format!(
            "{{\"scheme\":\"{scheme}\",\"workload\":\"w\",\"machine\":\"m\",\"cycles\":{cycles},\
             \"counters\":{{\"l2_tlb_misses\":{misses},\"walk_cycles\":{walk_cycles},\
             \"misses_in_both_segments\":{},\"misses_in_guest_segment_only\":0,\
             \"misses_in_host_segment_only\":0}}}}\n",
            if scheme.contains("segment") { misses } else { 0 }
        )
    };
    let base = [line("4k", 1280, 7, 280), line("4k+4k", 2130, 10, 1000)].concat();
    place.write("plain.jsonl", &base);
    let message = "plain.jsonl: no run on \"w\" counted misses in segments";
    place.fails(&["model", "--results", "plain.jsonl"], 2, message);
    place.write("results.jsonl", base + line("segment+segment", 900, 50, 50).as_str());
    let text = place.succeeds(&["model", "--results", "results.jsonl"]);
    // Half of the misses are in both segments: 100 × 0.5 × 7 over 1280 − 280.
    let dual = text.lines().find(|line| line.contains("(DD)")).unwrap();
    assert!(dual.contains(" 350 ") && dual.ends_with("35.00 %"), "{text}");
    assert!(text.contains("w · machine m"), "{text}");
    let other = ["model", "--results", "results.jsonl", "--virtualized-scheme", "thp+thp"];
    place.fails(&other, 1, "there are 4k, 4k+4k, segment+segment");
    place.fails(&["model", "--results", "none.jsonl"], 1, "none.jsonl: ");
}

/// Our own results, as far as a machine without virtualization has them.
#[test]
fn real_results_can_be_read() {
    let place = Place::new();
    let run = ["compare", "random:size=64M", "--scheme", "4k,thp", "--instructions", "20000"];
    place.succeeds(&[&run[..], &["--fragmentation", "none", "--out", "out"]].concat());
    let model = ["model", "--results", "out/results.jsonl", "--segment-share", "1"];
    // A virtualized run is still needed, and said so.
    place.fails(&model, 1, "no run of scheme \"4k+4k\"");
    let same = [&model[..], &["--virtualized-scheme", "4k", "--json"]].concat();
    let lines = json(&place.succeeds(&same));
    let row = |index: usize| lines[index]["walk_cycles"].as_f64().unwrap();
    assert_eq!(lines[0]["design"], "native (4K)");
    assert!(row(0) > 0.0);
    assert_eq!(row(0), row(2));
}

#[test]
fn bad_input() {
    let place = Place::new();
    for (share, expected) in [
        ("1.5", "--segment-share: expected a share from 0% to 100%, not \"1.5\""),
        ("101%", "0% to 100%"),
        ("-1%", "0% to 100%"),
        ("nan", "a share from 0%"),
        ("", "a share from 0%"),
    ] {
        let arguments = arguments(&["--segment-share", share]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        place.fails(&arguments, 2, expected);
    }
    let fails = |more: &[&str], expected: &str| {
        let arguments = arguments(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        place.fails(&arguments, 2, expected);
    };
    fails(&[], "--segment-share is missing");
    fails(&["--segment-share", "0.5", "--both-share", "0.6"], "both share is 0.6");
    let native = example("native.csv");
    let only = ["model", "--native", &native, "--segment-share", "0.5"];
    place.fails(&only, 2, "--virtualized is missing");
}

#[test]
fn bad_files() {
    let place = Place::new();
    let native = example("native.csv");
    let fails = |text: &[u8], expected: &str| {
        place.write("v.csv", text);
        let files = ["model", "--native", &native, "--virtualized", "v.csv"];
        place.fails(&[&files[..], &["--segment-share", "0.9"]].concat(), 1, expected);
    };
    fails(b"", "v.csv: no event that counts here; expected the output of `perf stat -x,`");
    fails(b"\x00\xff\xfe", "v.csv, line 1: ");
    fails(b"100,,cycles\n", "v.csv: no event for walks of loads; expected one of dtlb_load_misses");
    fails(b"100,,cycles\nmany,,cycles\n", "v.csv, line 2: \"many\" is no count of cycles");
    // As perf itself wrote it on a machine whose counters are not to be had.
    let unsupported = "# started on Sat Nov 21 11:20:51 2026\n\n\
                       <not supported>,,cycles,0,100.00,,\n\
                       <not supported>,,dTLB-load-misses,0,100.00,,\n";
    fails(unsupported.as_bytes(), "v.csv, line 4: dtlb-load-misses was not counted");
    let folder = ["model", "--native", ".", "--virtualized", ".", "--segment-share", "0.9"];
    place.fails(&folder, 1, ".: this is a directory");
}
