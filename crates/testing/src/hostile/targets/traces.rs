//! Targets for traces in Perforate's format and in foreign formats.

use std::path::Path;

use perforate_trace::{CHUNK_INSTRUCTIONS, PageMap, Schedule, Source, open_bytes};
use perforate_types::Chunk;

use super::{Target, assert_one_line, target, told};
use crate::hostile::target::Seeds;

/// Memory limit of a target in bytes. Decompression takes memory: zstd's window may have 8MB,
/// dictionaries of xz more.
const TRACE_BYTES: usize = 160 << 20;
/// Maximum number of chunks that a target reads of a trace, because a valid trace can be endless.
const MOST_CHUNKS: usize = 6;

/// Largest number of trace files in a folder.
const MOST_FILES: usize = 8;
/// Separator between the contents of the trace files in the input.
const BETWEEN_FILES: &[u8] = b"--next file--";

const SAMPLES: Seeds = Seeds::Folder("crates/trace/tests/samples");

pub const TARGETS: &[Target] = &[
    of_trace("trace", |bytes| open("trace", bytes)),
    of_trace("trace-champsim", |bytes| open("champsim:trace", bytes)),
    of_trace("trace-cloudsuite", |bytes| open("cloudsuite:trace", bytes)),
    of_trace("trace-drmemtrace", |bytes| open("drmemtrace:trace", bytes)),
    target("trace-drmemtrace-folder", folder).with_memory(TRACE_BYTES),
    of_trace("trace-gem5", |bytes| open("gem5:trace", bytes)),
    of_trace("trace-lackey", |bytes| open("lackey:trace", bytes)),
    of_trace("trace-csv", |bytes| open("csv:trace", bytes)),
    target("trace-page-map", page_map),
    target("trace-schedule", |bytes| {
        if let Some(schedule) = told(Schedule::parse(Path::new("schedule"), bytes)) {
            assert!(schedule.threads as u64 <= schedule.stretches);
        }
    })
    .with_memory(TRACE_BYTES),
    target("trace-unpacked", |bytes| open("trace", &crate::hostile::pack(bytes)))
        .with_seeds(Seeds::Unpacked("crates/trace/tests/samples"))
        .with_memory(TRACE_BYTES),
];

const fn of_trace(name: &'static str, run: fn(&[u8])) -> Target {
    target(name, run).with_seeds(SAMPLES).with_memory(TRACE_BYTES)
}

fn open(name: &str, bytes: &[u8]) {
    let open = || told(open_bytes(name, bytes.to_vec()));
    let Some(source) = open() else { return };
    let instructions = drain(source);
    // A skip reaches at most the requested instruction, and reading can continue there.
    if instructions > 0
        && let Some(mut source) = open()
        && let Some(skipped) = told(source.skip(instructions / 2))
    {
        assert!(skipped <= instructions / 2, "{skipped} of {instructions} / 2 skipped");
        drain(source);
    }
}

/// Reads a folder with one trace file per thread. [`BETWEEN_FILES`] separates the contents of the
/// files in the input.
fn folder(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    let mut rest = bytes;
    for number in 0..MOST_FILES {
        let end = rest.windows(BETWEEN_FILES.len()).position(|part| part == BETWEEN_FILES);
        let path = folder.path().join(format!("thread.{number}.memtrace.any"));
        std::fs::write(path, &rest[..end.unwrap_or(rest.len())]).expect("files can be written");
        let Some(end) = end else { break };
        rest = &rest[end + BETWEEN_FILES.len()..];
    }
    if let Some(source) = told(perforate_trace::open(folder.path())) {
        drain(source);
    }
}

fn drain(mut source: Box<dyn Source>) -> u64 {
    let mut chunk = Chunk::default();
    let mut instructions = 0;
    for _ in 0..MOST_CHUNKS {
        match told(source.next_chunk(&mut chunk)) {
            Some(true) => check(&chunk),
            Some(false) | None => break,
        }
        instructions += chunk.instructions.len() as u64;
    }
    if let Some(truncation) = source.truncated() {
        assert_one_line(&truncation.to_string());
    }
    let metadata = source.metadata();
    metadata.assumptions.iter().for_each(|sentence| assert!(!sentence.is_empty()));
    instructions
}

/// Reads a page map (physical addresses of a trace's virtual pages), and translates addresses inside and
/// outside of the map.
fn page_map(bytes: &[u8]) {
    let Some(map) = told(PageMap::parse(Path::new("v2p"), bytes)) else { return };
    let pages: u64 = map.sizes().iter().map(|(_, count)| count).sum();
    let (runs, longest) = map.runs();
    assert!(runs <= pages && longest <= map.bytes(), "{runs} runs of {pages} pages");
    for address in [0, 1, 0x40_0000, u64::MAX] {
        map.translate(address);
    }
    map.remarks().iter().for_each(|remark| assert_one_line(remark));
}

/// Asserts the invariants of a trace chunk: its length, accesses that belong to instructions, and
/// the order of events.
fn check(chunk: &Chunk) {
    assert!(chunk.instructions.len() <= CHUNK_INSTRUCTIONS);
    let accesses: usize = chunk.instructions.iter().map(|one| usize::from(one.accesses)).sum();
    assert_eq!(accesses, chunk.accesses.len(), "accesses belong to instructions");
    let places = chunk.events.iter().map(|(before, _)| *before as usize);
    assert!(places.clone().is_sorted(), "events in order");
    assert!(places.max().unwrap_or(0) <= chunk.instructions.len());
}
