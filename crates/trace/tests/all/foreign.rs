//! Tests of foreign traces, byte by byte.

use std::path::{Path, PathBuf};

use crate::common::read_all;
use crate::common::samples::*;
use perforate_trace::{Source, open};
use perforate_types::{
    AccessKind::{Read, Write as Store},
    Branch, Chunk, MemoryAccess, VirtualAddress,
};
use tempfile::{TempDir, tempdir};

fn access(address: u64, size: u16, kind: perforate_types::AccessKind) -> MemoryAccess {
    MemoryAccess { address: VirtualAddress::new(address), size, kind }
}

fn file(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn read_file(path: &Path) -> Chunk {
    let (chunk, error) = read_all(&mut *open(path).unwrap());
    assert!(error.is_none(), "{error:?}");
    chunk
}

/// One-line error of opening a file and reading it to its end.
fn error_of(name: &str, bytes: &[u8]) -> String {
    let (_folder, path) = file(name, bytes);
    let error = match open(&path) {
        Err(error) => error,
        Ok(mut source) => read_all(&mut *source).1.expect("an error"),
    };
    let text = error.to_string();
    assert!(text.contains(name) && text.contains("expected") && !text.contains('\n'), "{text}");
    text
}

#[test]
fn champsim_records_are_decoded() {
    let (_folder, path) = file("any.name", &champsim_records());
    let source = open(&path).unwrap();
    assert_eq!((source.metadata().format, source.metadata().instructions), ("champsim", Some(8)));
    let chunk = read_file(&path);
    let branches: Vec<_> = chunk.instructions.iter().map(|one| (one.branch, one.taken)).collect();
    use Branch::*;
    assert_eq!(
        branches,
        [
            (None, false),
            (Conditional, false),
            (Jump, true),
            (Indirect, true),
            (Call, true),
            (IndirectCall, true),
            (Return, true),
            (Conditional, true)
        ]
    );
    let first = chunk.instructions[0];
    assert_eq!((first.ip.value(), first.accesses, first.length), (0x1000, 3, 0));
    // ChampSim's flags (25) are Perforate's 17; its stack pointer (6) is Perforate's 5.
    assert_eq!((first.sources, first.destinations), ([1, 2, 0, 0], [3, 17]));
    // The instruction pointer (26) is not a dependency; the stack pointer is.
    assert_eq!(chunk.instructions[4].sources, [0, 5, 0, 0]);
    assert_eq!(chunk.instructions[4].destinations, [0, 5]);
    let expected = [
        access(0x8000, 8, Read),
        access(0x8100, 8, Read),
        access(0x9000, 8, Store),
        access(0x7ff8, 8, Store),
        access(0x7ff0, 8, Store),
        access(0x7ff0, 8, Read),
    ];
    assert_eq!(chunk.accesses, expected);
}

/// Registers of no kind of branch, and a branch that writes no instruction pointer.
#[test]
fn other_branches_of_champsim_are_taken_where_the_record_says_so() {
    let record =
        |taken, written| champsim(0x1000, [1, taken], [written, 0], [11, 25, 0, 0], [0; 6]);
    let bytes = [record(0, 26), record(1, 26), record(0, 3), record(1, 3)].concat();
    let (_folder, path) = file("branches", &bytes);
    let chunk = read_file(&path);
    let branches: Vec<_> = chunk.instructions.iter().map(|one| (one.branch, one.taken)).collect();
    use Branch::{Conditional, Indirect};
    assert_eq!(
        branches,
        [(Indirect, false), (Indirect, true), (Conditional, false), (Conditional, true)]
    );
}

#[test]
fn compression_is_recognised_by_content() {
    let plain = champsim_records().repeat(5000);
    let (_folder, path) = file("plain", &plain);
    let expected = read_file(&path);
    assert_eq!(expected.instructions.len(), 40_000);
    let zipped = zip(&[("a", &plain[..64_000]), ("b", &plain[64_000..])]);
    for bytes in [gzip(&plain), xz(&plain), zstd::encode_all(&plain[..], 1).unwrap(), zipped] {
        let (_folder, path) = file("compressed", &bytes);
        assert!(read_file(&path) == expected);
        let text = error_of("cut", &bytes[..bytes.len() / 2]);
        assert!(text.contains("is damaged"), "{text}");
        let mut source = open(&path).unwrap();
        assert_eq!(source.skip(39_999).unwrap(), 39_999);
        assert_eq!(read_all(&mut *source).0.instructions, expected.instructions[39_999..]);
        assert_eq!(source.skip(1).unwrap(), 0);
    }
}

#[test]
fn files_that_are_no_trace_get_one_clear_line() {
    let odd = error_of("odd.champsim", &champsim_records()[..130]);
    assert!(odd.contains("byte 128: the ChampSim trace ends 2 bytes into a record"), "{odd}");
    let mut flag = champsim_records();
    flag[64 + 9] = 7;
    let text = error_of("flag", &flag);
    assert!(text.contains("byte 73 is 7"), "{text}");
    let mut late = champsim_records().repeat(300);
    late[2000 * 64 + 8] = 2; // beyond the 1536 records examined when opening
    let text = error_of("late", &late);
    assert!(text.contains("byte 128008: a branch flag of 2; expected 0 or 1"), "{text}");
    assert!(
        error_of("text", b"#!/bin/sh\necho hello\n")
            .contains("text that is neither lackey output nor a list")
    );
    assert!(error_of("empty", b"").contains("an empty file"));
    let nothing = zstd::encode_all(&b""[..], 1).unwrap();
    assert!(error_of("nothing.zst", &nothing).contains("a zstd stream of nothing"));
    let folder = tempdir().unwrap();
    let text = open(folder.path()).err().unwrap().to_string();
    assert!(text.contains("a directory; expected"), "{text}");
    let text = open(folder.path().join("missing")).err().unwrap().to_string();
    assert!(text.contains("missing: open: "), "{text}");
}

#[test]
fn lackey_lines_are_decoded() {
    let (_folder, path) = file("lackey.txt", LACKEY.as_bytes());
    let chunk = read_file(&path);
    let instructions: Vec<_> =
        chunk.instructions.iter().map(|one| (one.ip.value(), one.length, one.accesses)).collect();
    assert_eq!(instructions, [(0x401_ab70, 3, 0), (0x401_ab73, 5, 2), (0x401_b770, 0, 2)]);
    let expected = [
        access(0x1f_ff00_0698, 8, Store),
        access(0x1f_ff00_06a0, 4, Read),
        access(0x4_21f0, 16, Read),
        access(0x4_21f0, 16, Store),
    ];
    assert_eq!(chunk.accesses, expected);
    assert!(!open(&path).unwrap().metadata().has_dependencies);
}

#[test]
fn wrong_lackey_lines_are_named_with_their_number() {
    let wrong = format!("{LACKEY}I  zz,3\n");
    let last = wrong.lines().count();
    let text = error_of("wrong.txt", wrong.as_bytes());
    assert!(
        text.contains(&format!("line {last}: \"I  zz,3\"; expected 'I  ADDRESS,SIZE'")),
        "{text}"
    );
    let text = error_of("early.txt", b" L 1000,8\nI  1000,3\n");
    assert!(text.contains("line 1: an access before the first instruction"), "{text}");
    let text = error_of("zero.txt", b"I  1000,3\n L 1000,0\n");
    assert!(text.contains("line 2: \" L 1000,0\""), "{text}");

    let (_folder, path) = file("cut.txt", &LACKEY.as_bytes()[..LACKEY.len() - 9]);
    let mut source = open(&path).unwrap();
    let (chunk, error) = read_all(&mut *source);
    assert!(error.is_none() && chunk.instructions.len() == 3);
    // Accesses of the third instruction may be missing.
    assert_eq!(source.truncated().unwrap().instructions, 2);
}
