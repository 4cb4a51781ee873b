//! Tests with small files that expand to or claim huge sizes: they are read in bounded memory, or
//! refused.

mod common;

use common::peak;
use common::samples::*;
use perforate_trace::{Source, open, open_bytes};
use perforate_types::Chunk;

/// Number of instructions of a trace, and the error at its end, if any.
fn drain(mut source: Box<dyn Source>) -> (u64, Option<String>) {
    let mut chunk = Chunk::default();
    let mut instructions = 0;
    loop {
        match source.next_chunk(&mut chunk) {
            Ok(true) => instructions += chunk.instructions.len() as u64,
            Ok(false) => return (instructions, None),
            Err(error) => return (instructions, Some(error.to_string())),
        }
    }
}

/// `bytes` repeated up to this length, compressed by gzip to about a thousandth.
fn bomb(bytes: &[u8], length: usize) -> Vec<u8> {
    gzip(&bytes.repeat(length.div_ceil(bytes.len())))
}

const BIG: usize = 100 << 20;

#[test]
fn bombs_are_read_in_little_memory() {
    let records = champsim(0x1000, [0; 2], [0; 2], [0; 4], [0; 6]);
    let packet = message(&[(1, 1), (2, 2), (3, 64), (4, 64)]); // a response: nothing to deliver
    let gem5 = [b"gem5".to_vec(), message(&[(1, -3), (3, 1000)])].concat();
    let time = [drmemtrace_start(1, 1, 1), drmemtrace(MARKER, TIME, 1)].concat();
    let mut accesses = drmemtrace_start(1, 1, 1);
    accesses.extend(drmemtrace(10, 4, 0x1000));
    let access = drmemtrace(0, 8, 0x1000);
    let bombs = [
        ("champsim", bomb(&records, BIG), true),
        ("gem5", [gzip(&gem5), bomb(&packet, BIG)].concat(), false),
        ("drmemtrace of time stamps", bomb(&time, BIG), false),
        ("drmemtrace of accesses", [gzip(&accesses), bomb(&access, BIG)].concat(), true),
        ("empty lines", [gzip(b"R 0x1000\n"), bomb(b"\n", BIG / 4)].concat(), false),
        ("one long line", [gzip(b"R 0x1000\n# "), bomb(b"x", BIG)].concat(), false),
    ];
    let before = peak();
    for (name, bytes, delivers) in bombs {
        assert!(bytes.len() < 4 << 20, "{name}: {} bytes", bytes.len());
        let (instructions, _) = drain(open_bytes(name, bytes).unwrap());
        assert_eq!(instructions > 0, delivers, "{name}");
    }
    match (before, peak()) {
        (Some(before), Some(after)) => {
            assert!(after - before < 64 << 20, "{} more bytes", after - before);
        }
        _ => println!("skipped: this system does not tell a process's memory"),
    }
}

/// Changes the dictionary size of an xz stream: 40 stands for 4GB, 28 for 64MB.
fn with_dictionary(mut xz: Vec<u8>, size: u8) -> Vec<u8> {
    let properties = 12 + 1 + 1 + 1 + 1; // block header: size, flags, filter, size of properties
    assert_eq!(xz[properties - 2], 0x21, "the filter is LZMA2");
    xz[properties] = size;
    let header = 12..12 + usize::from(xz[12]) * 4;
    let checksum = crc32fast::hash(&xz[header.clone()]).to_le_bytes();
    xz[header.end..header.end + 4].copy_from_slice(&checksum);
    xz
}

#[test]
fn absurd_sizes_are_refused() {
    // A zstd frame that needs a window of 2GB, and an xz stream that needs a dictionary of 4GB.
    let mut zstd = zstd::encode_all(&champsim_records()[..], 1).unwrap();
    assert_eq!(zstd[4] & 0x20, 0, "the frame has a window descriptor");
    zstd[5] = 0xa8;
    let xz = with_dictionary(xz(&champsim_records()), 40);
    for (name, bytes) in [("zstd", zstd), ("xz", xz)] {
        let error = match open_bytes(name, bytes) {
            Err(error) => error.to_string(),
            Ok(source) => drain(source).1.expect("an error"),
        };
        assert!(error.contains("stream takes too much memory to unpack"), "{name}: {error}");
    }
}

/// All files of a folder may be open at once, so the memory of their decompressors together is bounded.
#[test]
fn sizes_that_are_absurd_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let large = with_dictionary(xz(&drmemtrace_records()), 28);
    let write = |files: std::ops::Range<usize>| {
        files.for_each(|number| {
            let path = folder.path().join(format!("{number}.memtrace.xz"));
            std::fs::write(path, &large).unwrap();
        });
    };
    write(0..8);
    assert_eq!(drain(open(folder.path()).unwrap()).1, None);
    write(8..100);
    let error = open(folder.path()).map(drop).unwrap_err().to_string();
    assert!(error.contains("all files of a trace have 2 GB together"), "{error}");
}

#[test]
fn more_processes_than_can_be_numbered_are_an_error() {
    let mut list = String::new();
    for process in 0..65_537 {
        list += &format!("R 0x1000 8 {process}\n");
    }
    let (instructions, error) = drain(open_bytes("list", list.into()).unwrap());
    assert_eq!(instructions, 7 * 8192); // whole chunks before the error
    assert!(error.unwrap().contains("too many processes; expected at most 65536"));
}
