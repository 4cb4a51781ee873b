//! Round trips: written traces read back unchanged.

use crate::common::{any_chunk, array_loop, instruction, map, read, read_all, write_all};
use std::fs::File;
use std::path::Path;
use std::process::Command;

use perforate_trace::{
    CHUNK_INSTRUCTIONS, Source, StoppedBy, TraceError, TraceMetadata, TraceReader, TraceSummary,
    TraceWriter, WriterOptions, open,
};
use perforate_types::{AccessKind, Chunk, MemoryAccess};
use proptest::prelude::*;
use tempfile::tempdir;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_chunk_comes_back(chunk in any_chunk(), chunk_instructions in 1u32..400) {
        let folder = tempdir().unwrap();
        let path = folder.path().join("a.trace");
        write_all(&path, &chunk, chunk_instructions);
        let mut reader = TraceReader::open(&path).unwrap();
        prop_assert_eq!(reader.instructions(), chunk.instructions.len() as u64);
        prop_assert!(reader.truncated().is_none());
        let (all, error) = read_all(&mut reader);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(all, chunk);
    }

    #[test]
    fn skipping_loses_instructions_but_no_event(
        chunk in any_chunk(),
        chunk_instructions in 1u32..100,
        skipped in 0u64..320,
        skipped_again in 0u64..100,
    ) {
        let folder = tempdir().unwrap();
        let path = folder.path().join("a.trace");
        write_all(&path, &chunk, chunk_instructions);
        let total = chunk.instructions.len() as u64;
        let mut reader = TraceReader::open(&path).unwrap();
        prop_assert_eq!(reader.skip(skipped).unwrap(), skipped.min(total));
        reader.skip(skipped_again).unwrap();
        let start = (skipped + skipped_again).min(total);
        prop_assert_eq!(reader.position(), start);
        let (rest, _) = read_all(&mut reader);
        prop_assert_eq!(&rest.instructions[..], &chunk.instructions[start as usize..]);
        let accesses: usize = rest.instructions.iter().map(|one| usize::from(one.accesses)).sum();
        prop_assert_eq!(&rest.accesses[..], &chunk.accesses[chunk.accesses.len() - accesses..]);
        let events: Vec<_> = chunk
            .events
            .iter()
            .map(|(before, event)| (before.saturating_sub(start as u32), event.clone()))
            .collect();
        prop_assert_eq!(&rest.events, &events);

        // Back to the start: everything is delivered again.
        prop_assert_eq!(reader.seek(0).unwrap(), 0);
        prop_assert_eq!(read_all(&mut reader).0, chunk);
    }
}

#[test]
fn slices_cross_chunks_and_stay_within_their_limit() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("loop.trace");
    let chunk = array_loop(20_000);
    write_all(&path, &chunk, 25_000);
    let mut reader = open(&path).unwrap();
    let (mut all, mut slice) = (Chunk::default(), Chunk::default());
    while reader.next_chunk(&mut slice).unwrap() {
        assert!(slice.instructions.len() <= CHUNK_INSTRUCTIONS);
        let is_inside = |place: u32| (place as usize) < slice.instructions.len();
        assert!(slice.events.iter().all(|(place, _)| is_inside(*place)));
        all.append(&slice);
    }
    assert_eq!(all, chunk);
    assert!(!reader.next_chunk(&mut slice).unwrap() && slice == Chunk::default());
}

#[test]
fn a_predictable_loop_costs_next_to_nothing() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("loop.trace");
    let mut writer = TraceWriter::create(&path, &TraceMetadata::default()).unwrap();
    for round in 0..500_000u64 {
        writer.push(&instruction(0x1000), &[read(0x10_0000 + 8 * round)]).unwrap();
        writer.push(&instruction(0x1004), &[]).unwrap();
    }
    let summary = writer.finish().unwrap();
    assert_eq!((summary.instructions, summary.accesses), (1_000_000, 500_000));
    assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());
    assert!(summary.bytes < 2000, "{} bytes", summary.bytes);
}

#[test]
fn a_full_dictionary_is_replaced() {
    // 1.1 million different instructions: more than the 1,048,576 records of a dictionary.
    let folder = tempdir().unwrap();
    let path = folder.path().join("jit.trace");
    let mut writer = TraceWriter::create(&path, &TraceMetadata::default()).unwrap();
    let nth = |number: u64| (instruction(number * 4), [read(number << 3)]);
    for number in 0..1_100_000 {
        let (instruction, accesses) = nth(number);
        writer.push(&instruction, &accesses).unwrap();
    }
    writer.finish().unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    let (mut chunk, mut number) = (Chunk::default(), 0);
    while reader.next_chunk(&mut chunk).unwrap() {
        for (found, access) in chunk.instructions.iter().zip(&chunk.accesses) {
            let (expected, accesses) = nth(number);
            assert_eq!((found.ip, *access), (expected.ip, accesses[0]));
            number += 1;
        }
    }
    assert_eq!(number, 1_100_000);
    let lengths: Vec<u32> = reader.chunk_lengths().collect();
    assert_eq!(lengths, [1 << 20, 1_100_000 - (1 << 20)]);
    reader.seek(1_099_999).unwrap();
    assert_eq!(read_all(&mut reader).0.accesses, [read(1_099_999 << 3)]);
}

#[test]
fn metadata_comes_back_and_unknown_keys_are_ignored() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.trace");
    let mut metadata = TraceMetadata {
        program: vec!["ls".into(), "-l".into()],
        recorder: "by hand".into(),
        instructions_skipped: 12,
        has_events: true,
        ..TraceMetadata::default()
    };
    metadata.extra.insert("page_faults".into(), 3.into());
    TraceWriter::create(&path, &metadata).unwrap().finish().unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.trace_metadata(), &metadata);
    assert!(reader.metadata().has_events && !reader.metadata().has_branches);
    assert_eq!(reader.metadata().name, "a.trace");
    assert_eq!(read_all(&mut reader).0, Chunk::default());
    let later: TraceMetadata = serde_json::from_str(r#"{"recorder":"r","colour":1}"#).unwrap();
    assert_eq!(later.recorder, "r");
}

/// The last metadata chunk replaces the first, even if the end of the file is lost afterwards.
#[test]
fn the_last_metadata_chunk_is_used() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.trace");
    let begun = TraceMetadata { recorder: "by hand".into(), ..TraceMetadata::default() };
    let stopped_by = Some(StoppedBy::Size);
    let ended =
        TraceMetadata { is_cut_off: true, stopped_by, accesses_unmapped: 7, ..begun.clone() };
    let write = |count: u64| {
        let mut writer = TraceWriter::create(&path, &begun).unwrap();
        (0..count).for_each(|number| {
            writer.push(&instruction(number << 2), &[read(number << 3)]).unwrap();
        });
        writer
    };
    write(3).finish().unwrap();
    assert!(!TraceReader::open(&path).unwrap().metadata().is_cut_off);
    for count in [0, 3] {
        write(count).end(Some(&ended)).unwrap();
        let mut reader = TraceReader::open(&path).unwrap();
        assert_eq!(reader.trace_metadata(), &ended);
        assert!(reader.metadata().is_cut_off && reader.truncated().is_none());
        let metadata = reader.metadata();
        assert_eq!((metadata.stopped_by, metadata.accesses_unmapped), (stopped_by, 7));
        assert_eq!(read_all(&mut reader).0.instructions.len() as u64, count);
    }
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    assert!(reader.truncated().is_some() && reader.metadata().is_cut_off);
    assert_eq!(read_all(&mut reader).0.instructions.len(), 3);
}

/// Writes incompressible instructions until the file cannot grow, and then ends the trace.
fn fill(path: &Path, most: u64) -> (Result<(), TraceError>, TraceSummary) {
    let options = WriterOptions { level: 1, chunk_instructions: 100 };
    let metadata = TraceMetadata { is_cut_off: true, ..TraceMetadata::default() };
    let file = File::create(path).unwrap();
    let mut writer = TraceWriter::on(file, path, &TraceMetadata::default(), options).unwrap();
    let mut push = |number: u64| {
        let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
        writer.push(&instruction(scattered), &[read(scattered << 3)])
    };
    let filled = (0..most).try_for_each(&mut push);
    (filled, writer.end_without_room(&metadata).unwrap())
}

fn assert_whole(path: &Path, summary: TraceSummary) {
    assert_eq!(std::fs::metadata(path).unwrap().len(), summary.bytes);
    let mut reader = TraceReader::open(path).unwrap();
    assert!(reader.truncated().is_none() && reader.metadata().is_cut_off);
    let (all, error) = read_all(&mut reader);
    assert!(error.is_none(), "{error:?}");
    let (instructions, accesses) = (all.instructions.len() as u64, all.accesses.len() as u64);
    assert_eq!((instructions, accesses), (summary.instructions, summary.accesses));
    for (number, access) in all.accesses.iter().enumerate() {
        let scattered = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
        assert_eq!(access.address, read(scattered << 3).address);
    }
}

/// The unwritten part is dropped, and the written part is a complete trace.
#[test]
fn a_trace_without_room_is_ended_where_it_is() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.trace");
    for (pushed, kept) in [(0, 0), (99, 0), (250, 200), (300, 300)] {
        let (filled, summary) = fill(&path, pushed);
        assert!(filled.is_ok() && summary.instructions == kept, "{summary:?}");
        assert_whole(&path, summary);
    }
}

/// On a full disk, the last chunks are dropped until there is room for the index.
#[test]
fn a_trace_on_a_full_disk_is_whole() {
    let folder = tempdir().unwrap();
    let options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"];
    let mounted = Command::new("mount").args(options).arg(folder.path()).output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        return println!("skipped: only root can make a small disk");
    }
    let path = folder.path().join("a.trace");
    let (filled, summary) = fill(&path, 1_000_000);
    assert!(filled.unwrap_err().is_without_room());
    assert!((1_000..1_000_000).contains(&summary.instructions), "{summary:?}");
    assert_whole(&path, summary);
    assert!(Command::new("umount").arg(folder.path()).status().unwrap().success());
}

#[test]
fn impossible_accesses_are_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.trace");
    let mut writer = TraceWriter::create(&path, &TraceMetadata::default()).unwrap();
    writer.event(map(0)).unwrap();
    let fetch = MemoryAccess { kind: AccessKind::Fetch, ..read(0) };
    let nothing = MemoryAccess { size: 0, ..read(0) };
    for wrong in [&[fetch][..], &[nothing], &[read(0); 256]] {
        let error = writer.push(&instruction(0x1000), wrong).unwrap_err().to_string();
        assert!(error.starts_with("instruction 0 at 0x1000: ") && error.contains("expected"));
    }
    assert_eq!(writer.finish().unwrap().instructions, 0);
}
