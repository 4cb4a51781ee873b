//! Tests with small traces that contain only events: they are read in bounded memory and time. This is
//! a separate test binary, because the measured memory is that of the whole process.

mod common;

use common::peak;
use perforate_trace::{Source, TraceMetadata, TraceWriter, open_bytes};
use perforate_types::{Chunk, ProgramEvent, VirtualAddress};

/// Number of events in a full chunk of the writer.
const EVENTS: usize = 1 << 16;

/// A trace that was cut off: its metadata, and the same chunk of 65,536 events `times` times.
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

/// Reads a trace. Returns the size of the largest chunk, the number of events, and the error at its
/// end, if any.
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
    // Skipped events are kept, up to a limit.
    let (.., error) = read_events(trace_of_events(&ProgramEvent::Exec, 160), 1);
    assert!(error.expect("too many").contains("that wait for their instruction"));
    if let (Some(before), Some(after)) = (before, peak()) {
        assert!(after - before < 512 << 20, "{} more bytes", after - before);
    }
}

#[test]
fn gaps_figures_and_names_are_bounded() {
    let gap = ProgramEvent::Gap { instructions: 1 };
    let (.., error) = read_events(trace_of_events(&gap, 20), 0);
    assert!(error.expect("a million are enough").contains("gaps; expected at most 1048576"));
    let named = |length| ProgramEvent::Name {
        start: VirtualAddress::new(0),
        length: 4096,
        name: "n".repeat(length),
    };
    let before = peak();
    let (.., error) = read_events(trace_of_events(&named(500), 40), 1);
    assert!(error.expect("too long").contains("figures and names that wait"));
    if let (Some(before), Some(after)) = (before, peak()) {
        assert!(after - before < 512 << 20, "{} more bytes", after - before);
    }
    let figures = vec![(String::new(), 1); 5000];
    let phase = ProgramEvent::Phase { name: "part".into(), figures };
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::create(file.path(), &TraceMetadata::default()).unwrap();
    let error = writer.event(phase).unwrap_err().to_string();
    assert!(error.contains("5000 figures; expected at most 4096"), "{error}");
    writer.event(named(1 << 14)).unwrap();
    let error = writer.event(named((1 << 14) + 1)).unwrap_err().to_string();
    assert!(error.contains("a name of 16385 bytes; expected at most 16384"), "{error}");
}
