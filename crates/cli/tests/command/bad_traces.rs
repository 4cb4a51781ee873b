//! Files that are no trace, or no longer one.

use std::fs::File;
use std::process::Command;

use crate::place::{Place, json, outcome};
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
    for command in [
        &["run", "missing"][..],
        &["compare", "missing.trace"],
        &["trace", "info", "missing"],
        &["trace", "head", "missing"],
        &["trace", "convert", "missing", "-o", "x"],
    ] {
        let hint = "; traces that come with the program are bfs, ethernet, ethernet-large, hpcc, ";
        place.fails(
            command,
            2,
            &format!(
                "no workload or file {:?}{hint}",
                command.iter().find(|word| word.starts_with("missing")).unwrap()
            ),
        );
    }
    place.fails(&["trace", "info", "rediss"], 2, "did you mean redis?");
    for command in ["info", "head"] {
        place.fails(&["trace", command, "random:size=4K"], 2, "a workload, not a trace");
    }
    place.fails(&["trace", "convert", "random", "-o", "x"], 2, "give --instructions");
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
    fails(&place, "lackey", "lackey: line 2: ");
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

/// To open a pipe that nobody writes to takes for ever.
#[test]
fn what_is_no_regular_file() {
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.path("pipe.toml")).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: there is no mkfifo");
        return;
    }
    let expected = "this is a pipe; expected a regular file";
    fails(&place, "pipe.toml", expected);
    fails(&place, "/dev/zero", "this is a device; expected a regular file");
    for arguments in [
        &["experiment", "run", "pipe.toml"][..],
        &["run", "random", "--machine", "pipe.toml"],
        &["run", "random", "--memory-from", "pipe.toml"],
        &["run", "random", "--faulty", "pipe.toml"],
        &["snapshot", "show", "pipe.toml"],
    ] {
        let outcome = place.run(arguments);
        assert!(outcome.code.is_some_and(|code| code > 0), "{arguments:?}");
        assert!(outcome.err.contains(expected), "{arguments:?}: {}", outcome.err);
        assert_eq!(outcome.err.lines().count(), 1, "{arguments:?}: {}", outcome.err);
    }
}

#[test]
fn a_trace_on_standard_input() {
    let place = Place::new();
    let convert = ["trace", "convert", "random:size=1M", "--instructions", "3000"];
    place.succeeds(&[&convert[..], &["-o", "own.trace"]].concat());
    place.succeeds(&[&convert[..], &["-o", "list.csv.gz"]].concat());
    for trace in ["own.trace", "list.csv.gz"] {
        for arguments in [
            &["run", "-", "--scheme", "4k", "--functional"][..],
            &["compare", "-", "--scheme", "4k,thp", "--functional"],
            &["trace", "info", "-"],
            &["trace", "head", "-"],
        ] {
            let file = File::open(place.path(trace)).unwrap();
            let outcome = outcome(place.command(arguments).stdin(file));
            assert_eq!(outcome.code, Some(0), "{trace} {arguments:?}: {}", outcome.err);
        }
    }
    fails(&place, "-", "-: an empty file");
}

/// A small file with very many events must not use up all memory.
#[test]
fn events_without_end() {
    use perforate_trace::{TraceMetadata, TraceWriter};
    use perforate_types::{ProcessId, ProgramEvent};
    let place = Place::new();
    let mut writer = TraceWriter::create(place.path("forks"), &TraceMetadata::default()).unwrap();
    let at = perforate_types::VirtualAddress::new(1 << 30);
    let map = |populate| ProgramEvent::Map {
        start: at,
        length: 256 << 20,
        permissions: perforate_types::Permissions::READ_WRITE,
        accessible: true,
        backing: perforate_types::Backing::Anonymous,
        shared: false,
        populate,
    };
    writer.event(map(true)).unwrap();
    for _ in 0..20_000 {
        writer.event(ProgramEvent::Fork { child: ProcessId(1) }).unwrap();
    }
    writer.push(&perforate_types::Instruction::default(), &[]).unwrap();
    writer.finish().unwrap();
    let run = ["run", "forks", "--scheme", "4k", "--functional", "--memory", "1G"];
    place.fails(&run, 1, "forks: event 4");
    place.fails(&run, 1, "pages that no instruction is there for; expected those of a program");
    place.succeeds(&["trace", "info", "forks"]);
}
