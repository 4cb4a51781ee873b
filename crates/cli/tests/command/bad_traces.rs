//! Files that are no trace, or no longer one.

use crate::place::{Place, json};
use crate::traces::champsim;

/// Every command that reads a trace fails with one line and leaves nothing.
fn fails(place: &Place, trace: &str, expected: &str) {
    for arguments in [
        &["run", trace, "--functional"][..],
        &["run", trace],
        &["compare", trace],
        &["explain", "--workload", trace],
        &["trace", "info", trace],
        &["trace", "convert", trace, "-o", "new.trace"],
    ] {
        place.fails(arguments, 1, expected);
    }
}

#[test]
fn no_traces_at_all() {
    let place = Place::new();
    place.write("empty", "");
    place.write("text", "It was a dark and stormy night.\n".repeat(20));
    place.write("binary", [7; 640]);
    place.write("short", [0; 63]);
    std::fs::create_dir(place.path("folder")).unwrap();
    fails(&place, "empty", "empty: an empty file; expected a trace of Perforate");
    fails(&place, "folder", "folder: a directory; expected");
    fails(&place, "text", "text that is neither lackey output nor a list of accesses");
    fails(&place, "binary", "byte 8 is 7");
    fails(&place, "short", "short: ");
    for command in [&["run", "missing"][..], &["compare", "missing.trace"]] {
        place.fails(command, 2, "no workload or file");
    }
    for command in ["info", "head"] {
        place.fails(&["trace", command, "missing"], 1, "missing: open: No such file");
        place.fails(&["trace", command, "random:size=4K"], 2, "a workload, not a trace");
    }
    place.fails(&["trace", "convert", "random", "-o", "x"], 2, "give --instructions");
    place.fails(&["trace", "convert", "missing", "-o", "x"], 1, "missing: ");
    let convert = ["trace", "convert", "random:x=1", "--instructions", "5", "-o", "x"];
    place.fails(&convert, 2, "there is no \"x\"");
}

#[test]
fn damaged_foreign_traces() {
    let place = Place::new();
    let records: Vec<u8> =
        (0..500).flat_map(|n| champsim(0x40_0000, 0x1000_0000 + 4096 * n)).collect();
    place.write("odd", &records[..records.len() - 17]);
    fails(&place, "odd", "odd: byte 31936: the ChampSim trace ends 47 bytes into a record");
    place.write("cut.xz", b"\xfd7zXZ\x00\x00\x04");
    fails(&place, "cut.xz", "cut.xz: ");
    place.write("cut.zst", b"\x28\xb5\x2f\xfd\x04");
    fails(&place, "cut.zst", "cut.zst: ");
    place.write("cut.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03abc");
    fails(&place, "cut.gz", "cut.gz: ");
    place.write("lackey", "I  04001000,3\n L zzz,8\n");
    fails(&place, "lackey", "lackey: byte 14: ");
}

fn make(place: &Place, instructions: &str) -> Vec<u8> {
    let workload = "random:size=16M,others=30";
    let convert = ["trace", "convert", workload, "--instructions", instructions];
    place.succeeds(&[&convert[..], &["-o", "whole.trace"]].concat());
    std::fs::read(place.path("whole.trace")).unwrap()
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let place = Place::new();
    let whole = make(&place, "3000");
    std::fs::remove_file(place.path("whole.trace")).unwrap();
    for step in 0..60 {
        let mut bytes = whole.clone();
        let at = step * bytes.len() / 60;
        bytes[at] ^= 1 << (step % 8);
        place.write("flipped.trace", &bytes);
        let outcome = place.run(&["run", "flipped.trace", "--functional"]);
        assert!(!outcome.err.contains("panicked"), "byte {at}: {}", outcome.err);
        assert_eq!((outcome.code, outcome.err.lines().count()), (Some(1), 1), "byte {at}");
        assert!(outcome.err.starts_with("perforate: flipped.trace: "), "{}", outcome.err);
    }
    place.write("flipped.trace", {
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] ^= 1;
        bytes
    });
    fails(&place, "flipped.trace", "flipped.trace: byte ");
}

#[test]
fn a_cut_trace_works_up_to_the_cut_and_says_so() {
    let place = Place::new();
    let whole = make(&place, "3000000");
    place.write("cut.trace", &whole[..whole.len() * 3 / 4]);
    let results = json(&place.succeeds(&["compare", "cut.trace", "--json", "--functional"]));
    let instructions = results[0]["instructions"].as_u64().unwrap();
    assert!((1..3_000_000).contains(&instructions), "{instructions}");
    for result in &results {
        assert!(result["notes"].to_string().contains("the trace is incomplete: byte "));
    }
    let table = place.succeeds(&["compare", "cut.trace", "--functional"]);
    assert!(table.contains("note: the trace is incomplete: byte "), "{table}");
    let info = place.succeeds(&["trace", "info", "cut.trace"]);
    assert!(info.contains("warning: incomplete at byte "), "{info}");
    let converted = place.succeeds(&["trace", "convert", "cut.trace", "-o", "new.trace"]);
    assert!(converted.contains("warning: the source is incomplete at byte "), "{converted}");
    // Cut before the first chunk ends, nothing is left to run.
    place.write("stub.trace", &whole[..900]);
    place.fails(&["run", "stub.trace"], 1, "stub.trace: no instructions to run: byte ");
}
