//! Small files that claim to be huge: read in bounded memory, or refused.

mod common;

use common::samples::*;
use perforate_trace::{Source, TraceMetadata, TraceWriter, open_bytes};
use perforate_types::{Chunk, ProgramEvent};

/// Largest resident memory of this process so far in bytes; `None` where the system does not
/// tell.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Instructions of a trace, and the error it ends with.
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

/// `bytes` repeated to at least this length, by gzip, which makes a thousandth of it.
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
        ("empty lines", [gzip(b"R 0x1000\n"), bomb(b"\n", BIG / 4)].concat(), true),
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

#[test]
fn absurd_sizes_are_refused() {
    // A zstd frame that wants a window of 2 GB, and an xz stream that wants a dictionary of 4 GB.
    let mut zstd = zstd::encode_all(&champsim_records()[..], 1).unwrap();
    assert_eq!(zstd[4] & 0x20, 0, "the frame has a window descriptor");
    zstd[5] = 0xa8;
    let mut xz = xz(&champsim_records());
    let properties = 12 + 1 + 1 + 1 + 1; // block header: size, flags, filter, size of properties
    assert_eq!(xz[properties - 2], 0x21, "the filter is LZMA2");
    xz[properties] = 40;
    let header = 12..12 + usize::from(xz[12]) * 4;
    let checksum = crc32fast::hash(&xz[header.clone()]).to_le_bytes();
    xz[header.end..header.end + 4].copy_from_slice(&checksum);
    for (name, bytes) in [("zstd", zstd), ("xz", xz)] {
        let error = match open_bytes(name, bytes) {
            Err(error) => error.to_string(),
            Ok(source) => drain(source).1.expect("an error"),
        };
        assert!(error.contains("stream is damaged"), "{name}: {error}");
    }
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

/// Events of one chunk as the writer makes them.
const EVENTS: usize = 1 << 16;

/// A trace that was cut off: its metadata, and `times` the same chunk with 65,536 events.
fn trace_of_events(event: &ProgramEvent, times: usize) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::create(file.path(), &TraceMetadata::default()).unwrap();
    (0..EVENTS).for_each(|_| writer.event(event.clone()).unwrap());
    writer.finish().unwrap();
    let bytes = std::fs::read(file.path()).unwrap();
    let end_of_chunk = |start: usize| {
        let length = bytes[start + 8..start + 12].try_into().unwrap();
        start + 32 + u32::from_le_bytes(length) as usize
    };
    let events = end_of_chunk(12);
    [&bytes[..events], &bytes[events..end_of_chunk(events)].repeat(times)].concat()
}

/// What reading takes at most, and how it ends.
fn read_events(bytes: Vec<u8>, skip: u64) -> (usize, u64, Option<String>) {
    assert!(bytes.len() < 1 << 20, "{} bytes", bytes.len());
    let mut source = open_bytes("bomb", bytes).unwrap();
    let (mut chunk, mut longest, mut events) = (Chunk::default(), 0, 0);
    if let Err(error) = source.skip(skip) {
        return (0, 0, Some(error.to_string()));
    }
    loop {
        match source.next_chunk(&mut chunk) {
            Ok(true) => {}
            Ok(false) => return (longest, events, None),
            Err(error) => return (longest, events, Some(error.to_string())),
        }
        longest = longest.max(chunk.events.len());
        events += chunk.events.len() as u64;
    }
}

#[test]
fn events_are_delivered_as_they_are_read() {
    let before = peak();
    let (longest, events, error) = read_events(trace_of_events(&ProgramEvent::Exec, 40), 0);
    assert_eq!((longest, events, error), (EVENTS, 40 * EVENTS as u64, None));
    let (.., events, error) = read_events(trace_of_events(&ProgramEvent::Exec, 160), 0);
    let error = error.expect("10 million are enough");
    assert!(events <= 10_000_000, "{events}");
    assert!(error.contains("events without an instruction between them"), "{error}");
    assert!(error.starts_with("bomb: byte ") && error.contains("at most 10000000"), "{error}");
    // What is passed over is kept, as far as it goes.
    let (.., error) = read_events(trace_of_events(&ProgramEvent::Exec, 160), 1);
    assert!(error.expect("too many").contains("events that wait for their instruction"));
    if let (Some(before), Some(after)) = (before, peak()) {
        assert!(after - before < 512 << 20, "{} more bytes", after - before);
    }
}

#[test]
fn gaps_and_figures_are_bounded() {
    let gap = ProgramEvent::Gap { instructions: 1 };
    let (.., error) = read_events(trace_of_events(&gap, 20), 0);
    assert!(error.expect("a million are enough").contains("gaps; expected at most 1048576"));
    let figures = vec![(String::new(), 1); 5000];
    let phase = ProgramEvent::Phase { name: "part".into(), figures };
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::create(file.path(), &TraceMetadata::default()).unwrap();
    let error = writer.event(phase).unwrap_err().to_string();
    assert!(error.contains("more than 4096 figures"), "{error}");
}
