//! Snapshots of machines and processes, and memory that begins as one.

use crate::place::Place;

const FREE: u64 = 1 << 10;
const PROGRAM: u64 = 1 << 5 | 1 << 12 | 1 << 14;
const CACHE: u64 = 1 << 5;
const KERNEL: u64 = 1 << 26;

/// Makes the `/proc` files of a machine with 64MB: every second 2MB block is free; in the others, a quarter
/// of the frames has the flags `used`, and the rest is free.
fn machine(place: &Place, used: u64) {
    let mut flags = Vec::new();
    for block in 0..32 {
        for frame in 0..512 {
            let flag = if block % 2 == 1 && frame < 100 { used } else { FREE };
            flags.extend(flag.to_le_bytes());
        }
    }
    std::fs::create_dir(place.path("proc")).unwrap();
    place.write("proc/kpageflags", flags);
    place.write("proc/buddyinfo", "Node 0, zone Normal 0 0 16 0 16 16 0 16 16 0 8\n");
    place.write(
        "proc/zoneinfo",
        "Node 0, zone Normal\n spanned 16384\n present 16384\n start_pfn: 0\n",
    );
}

fn taken(place: &Place, used: u64) -> String {
    machine(place, used);
    let arguments = ["snapshot", "host", "--proc", "proc", "-o", "a.snapshot", "--request", "8M"];
    place.succeeds(&arguments)
}

#[test]
fn a_machine_is_described_and_shown_again() {
    let place = Place::new();
    let text = taken(&place, KERNEL);
    for line in [
        "64.0 MB of memory under Linux",
        "whole: all free                                                  16  50.0 %",
        "perforated page now, with all that is not free as holes          16  50.0 %",
        "A program touches 8.00 MB",
        "kpagecount cannot be read",
        "snapshot: a.snapshot",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let shown = place.succeeds(&["snapshot", "show", "a.snapshot", "--request", "8M"]);
    assert_eq!(shown, text.replace("\nsnapshot: a.snapshot\n", ""));
    let json = place.succeeds(&["snapshot", "show", "a.snapshot", "--request", "none", "--json"]);
    let record: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(record["blocks"]["blocks"]["whole"], 16);
    assert_eq!(record["frames"]["unmovable"], 1600);
    // 16 whole blocks, no two of them neighbours; 412 = 256 + 128 + 16 + 8 + 4 in each other.
    assert_eq!(record["orders"][9]["placed"], 16);
    assert_eq!(record["orders"][2]["placed"], 16);
    place.succeeds(&["snapshot", "show", "a.snapshot", "--request", "none", "--out", "page"]);
    let page = place.read("page/report.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"), "{page}");
}

#[test]
fn schemes_run_on_the_memory_of_a_machine() {
    let place = Place::new();
    taken(&place, KERNEL);
    let arguments = [
        "compare",
        "random:size=48M",
        "--memory-from",
        "a.snapshot",
        "--scheme",
        "thp,perforated,ideal",
        "--functional",
        "--check",
        "--instructions",
        "200000",
        "--json",
    ];
    let json = place.succeeds(&arguments);
    let results: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |index: usize, name: &str| results[index]["counters"][name].as_u64().unwrap();
    assert_eq!(count(0, "kernel_data_bytes"), 1600 * 4096);
    assert!(count(0, "large_pages") <= 16);
    assert_eq!(count(0, "perforated_pages"), 0);
    assert!(count(1, "perforated_pages") > 0);
    assert_eq!(count(2, "kernel_data_bytes"), 0, "ideal memory is empty");
    assert_eq!(count(2, "large_pages"), 24);
    let from = &results[0]["config"]["memory"]["memory_from"];
    assert_eq!(from["file"], "a.snapshot");
    assert_eq!(from["content_hash"].as_str().unwrap().len(), 32);
    assert!(results[0]["notes"].to_string().contains("as in a.snapshot"));
    let again = place.succeeds(&arguments);
    assert_eq!(again, json, "the same inputs give the same bytes");
}

#[test]
fn guests_and_hosts_can_begin_so() {
    let place = Place::new();
    taken(&place, CACHE);
    for arguments in [
        ["--memory", "32M", "--host-memory-from", "a.snapshot"].as_slice(),
        &["--memory-from", "a.snapshot"],
    ] {
        let common = [
            "run",
            "random:size=8M",
            "--scheme",
            "thp+perforated",
            "--functional",
            "--check",
            "--instructions",
            "100000",
            "--json",
        ];
        place.succeeds(&[&common, arguments].concat());
    }
    let text = place.succeeds(&[
        "explain",
        "--memory-from",
        "a.snapshot",
        "--workload",
        "random:size=8M",
        "--instructions",
        "10000",
    ]);
    assert!(text.contains("as in a.snapshot"), "{text}");
}

#[test]
fn contradictions_and_damage_are_explained() {
    let place = Place::new();
    taken(&place, PROGRAM);
    let run = |more: &[&str]| {
        let common = ["run", "random:size=8M", "--memory-from", "a.snapshot"];
        place.run(&[&common, more].concat())
    };
    for (more, words) in [
        (["--memory", "1G"], "memory says 1G: choose one"),
        (["--fragmentation", "portion=5%,holes=5%,clustered"], "fragmentation says otherwise"),
        (["--age", "weeks"], "age says otherwise"),
        (["--zones", "x86"], "zones says otherwise"),
        (["--faulty", "uniform=1%"], "faulty says otherwise"),
    ] {
        let outcome = run(&more);
        assert_eq!(outcome.code, Some(2), "{more:?}");
        assert!(outcome.err.contains(words), "{}", outcome.err);
    }
    let mut bytes = std::fs::read(place.path("a.snapshot")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    place.write("a.snapshot", bytes);
    let outcome = run(&[]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.err.starts_with("perforate: a.snapshot: snapshot: byte "), "{}", outcome.err);
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    for (arguments, words) in [
        (["snapshot", "show", "nothing"].as_slice(), "nothing: "),
        (&["snapshot", "host", "--proc", "nowhere"], "neither kpageflags nor buddyinfo"),
        (&["snapshot", "process", "1", "--proc", "nowhere"], "there is no such process"),
    ] {
        let outcome = place.run(arguments);
        assert_eq!((outcome.code, outcome.err.lines().count()), (Some(1), 1), "{}", outcome.err);
        assert!(outcome.err.contains(words), "{}", outcome.err);
    }
}

/// Free blocks are counted and the frames are not known: what is missing is said, and the snapshot
/// cannot be begun with.
#[test]
fn without_frames_there_are_counts() {
    let place = Place::new();
    machine(&place, KERNEL);
    std::fs::remove_file(place.path("proc/kpageflags")).unwrap();
    let text = place.succeeds(&["snapshot", "host", "--proc", "proc", "-o", "a.snapshot"]);
    assert!(text.contains("whole: all free       16"), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("no use as --memory-from"), "{text}");
    let outcome = place.run(&["run", "random:size=8M", "--memory-from", "a.snapshot"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.err.contains("take it as root"), "{}", outcome.err);
}

#[test]
fn this_process_can_be_shown() {
    let place = Place::new();
    let pid = std::process::id().to_string();
    let text = place.succeeds(&["snapshot", "process", &pid, "-o", "p.json", "--contents"]);
    assert!(text.contains("Areas") && text.contains("that merging would save"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let shown = place.succeeds(&["snapshot", "show", "p.json"]);
    assert_eq!(shown, text.replace("\nsnapshot: p.json\n", ""));
}
