//! Files that commands write: devices, pipes and links stay, and so do the user's own files.

use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::place::{Place, assert_complaint, outcome};

/// Commands that write to the path behind them.
const WRITERS: [&[&str]; 3] = [
    &["trace", "convert", "random:size=4M", "--instructions", "1000", "-o"],
    &["trace", "convert", "random:size=4M", "--instructions", "1000", "--to", "csv", "-o"],
    &["record", "--instructions", "1000", "-o"],
];
const RECORDED: &[&str] = &["--", "/bin/true"];

/// Runs a writer; false, and says so, where it cannot record.
fn writes(place: &Place, writer: &[&str], path: &str) -> bool {
    let rest = if writer[0] == "record" { RECORDED } else { &[] };
    let found = place.run(&[writer, &[path], rest].concat());
    if found.err.contains("apt-get install qemu-user") {
        println!("skipped: there is no emulator to record with");
        return false;
    }
    assert_eq!(found.code, Some(0), "{writer:?}: {}", found.err);
    true
}

#[test]
fn a_pipe_is_written_to_and_stays_one() {
    for writer in WRITERS {
        let place = Place::new();
        let pipe = place.path("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            // Opened for both, so that it does not wait for a writer that may never come, and read to
            // the end of what a pipe holds at most.
            let mut pipe = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
            move || {
                let mut start = [0; 4];
                std::io::Read::read_exact(&mut pipe, &mut start).unwrap();
                std::thread::spawn(move || std::io::copy(&mut pipe, &mut std::io::sink()));
                start
            }
        });
        if writes(&place, writer, "pipe") {
            let start = reader.join().unwrap();
            assert!(start == *b"\x89PTR" || start.is_ascii(), "{start:?}");
        }
        assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo(), "{writer:?}");
        assert_eq!(place.names(), ["pipe"], "{writer:?}");
    }
}

#[test]
fn a_device_stays_one() {
    let place = Place::new();
    let made = Command::new("mknod").arg(place.path("null")).args(["c", "1", "3"]).output();
    if !made.is_ok_and(|made| made.status.success()) {
        return println!("skipped: only root can make devices");
    }
    for writer in WRITERS {
        writes(&place, writer, "null");
        let kind = std::fs::metadata(place.path("null")).unwrap().file_type();
        assert!(kind.is_char_device(), "{writer:?}");
        assert_eq!(place.names(), ["null"], "{writer:?}");
    }
}

#[test]
fn a_link_called_as_the_unfinished_file_is_not_followed() {
    let place = Place::new();
    place.write("precious", "kept");
    symlink("precious", place.path("x.trace.partial")).unwrap();
    writes(&place, WRITERS[0], "x.trace");
    assert_eq!(place.read("precious"), "kept");
    assert_eq!(place.names(), ["precious", "x.trace", "x.trace.partial"]);
}

#[test]
fn a_file_of_the_users_called_latest_is_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("results")).unwrap();
    place.write("results/latest", "precious");
    let words = ["compare", "random:size=4M", "--instructions", "20000", "--scheme", "4k"];
    let told = place.succeeds(&words);
    assert_eq!(place.read("results/latest"), "precious");
    assert!(
        told.contains("results.jsonl (results/latest is no link, and was left alone)"),
        "{told}"
    );
    std::fs::remove_file(place.path("results/latest")).unwrap();
    assert!(!place.succeeds(&words).contains("results/latest"));
    let latest = std::fs::read_link(place.path("results/latest")).unwrap();
    assert!(latest.to_string_lossy().starts_with("002-compare-"), "{latest:?}");
}

/// A limit of files' size is what a full disk is: nothing half written takes the place of what was there.
#[test]
fn without_room_nothing_is_left_behind() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_perforate");
    let limited = |arguments: &[&str]| {
        let mut shell = Command::new("bash");
        shell.args(["-c", "ulimit -f 64; exec \"$@\"", "bash", program]).args(arguments);
        outcome(shell.current_dir(place.path("")))
    };
    let convert = ["trace", "convert", "random", "--instructions", "1M", "-o", "x.trace"];
    assert_complaint(&limited(&convert), 1, "x.trace: write: File too large", "trace convert");
    assert!(place.names().is_empty(), "{:?}", place.names());
    // The report has no room, so the old results stay beside the old report.
    let compare = ["compare", "random:size=4M", "--instructions", "20000", "--scheme", "4k"];
    let compare = [&compare[..], &["--out", "out"]].concat();
    place.succeeds(&compare);
    let old = (place.read("out/results.jsonl"), place.read("out/report.html"));
    let found = limited(&[&compare[..], &["--seed", "2"]].concat());
    assert_complaint(&found, 1, "cannot be written: File too large", "compare");
    assert_eq!((place.read("out/results.jsonl"), place.read("out/report.html")), old);
    assert_eq!(std::fs::read_dir(place.path("out")).unwrap().count(), 2);
    let found = limited(&[&compare[..6], &["--out", "new"]].concat());
    assert_complaint(&found, 1, "new/report.html: cannot be written", "compare");
    assert!(!Path::new(&place.path("new")).exists());
}
