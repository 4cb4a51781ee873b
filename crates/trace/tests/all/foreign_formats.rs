//! Tests of readers of foreign formats, with results worked out by hand.

use crate::common::read_all;
use crate::common::samples::*;
use perforate_trace::{PageMap, Schedule, Source, open, open_bytes};
use perforate_types::{
    AccessKind::{Read, Write},
    Branch, Chunk, MemoryAccess, Operation, ProcessId, ProgramEvent, ThreadId, VirtualAddress,
};
use tempfile::tempdir;

fn source(bytes: Vec<u8>) -> Box<dyn Source> {
    open_bytes("sample", bytes).unwrap_or_else(|error| panic!("{error}"))
}

fn whole(bytes: Vec<u8>) -> Chunk {
    let mut source = source(bytes);
    let (chunk, error) = read_all(&mut *source);
    assert!(error.is_none() && source.truncated().is_none(), "{error:?} {:?}", source.truncated());
    chunk
}

fn error_of(name: &str, bytes: Vec<u8>) -> String {
    let error = match open_bytes(name, bytes) {
        Err(error) => error,
        Ok(mut source) => read_all(&mut *source).1.expect("an error"),
    };
    let text = error.to_string();
    assert!(text.contains("expected") && !text.contains('\n'), "{text}");
    text
}

fn access(address: u64, size: u16, kind: perforate_types::AccessKind) -> MemoryAccess {
    MemoryAccess { address: VirtualAddress::new(address), size, kind }
}

fn switch(process: u16, thread: u16) -> ProgramEvent {
    ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(thread) }
}

fn ips(chunk: &Chunk) -> Vec<u64> {
    chunk.instructions.iter().map(|one| one.ip.value()).collect()
}

#[test]
fn the_files_of_samples_are_up_to_date() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    for (name, bytes) in all() {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_SAMPLES").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        // Compressed samples depend on the compressor's version, but their contents do not.
        let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        if name == "drmemtrace.raw" {
            assert!(file == bytes, "{name} differs: run with UPDATE_SAMPLES=1");
        } else {
            assert!(whole(file) == whole(bytes), "{name} differs: run with UPDATE_SAMPLES=1");
        }
    }
}

#[test]
fn cloudsuite_and_champsim_records_are_distinguished() {
    let bytes = cloudsuite_records();
    // 1152 bytes are also 18 whole records of 64 bytes, none with an invalid flag.
    assert_eq!(bytes.len() % 64, 0);
    assert!(bytes.chunks(64).all(|record| record[8] <= 1 && record[9] <= 1));
    let source = source(bytes.clone());
    assert_eq!(
        (source.metadata().format, source.metadata().instructions),
        ("cloudsuite", Some(12))
    );
    let chunk = whole(bytes.clone());
    assert_eq!(chunk.instructions[0].destinations, [3, 4]);
    assert_eq!(chunk.instructions[0].sources, [7, 0, 0, 0]);
    let of_first = [access(0x8000, 8, Read), access(0x9000, 8, Write), access(0x9800, 8, Write)];
    assert_eq!(chunk.accesses[..3], of_first);
    assert_eq!(chunk.events, [(4, switch(1, 1))]);
    assert_eq!(ips(&chunk)[..2], [0x1_0000, 0x1_0004]);

    // A format given by the user takes precedence, if the file can have it.
    let read = |name: &str| read_all(&mut *open_bytes(name, bytes.clone()).unwrap()).0;
    assert_eq!(read("champsim:any").instructions.len(), 18);
    assert_eq!(read("cloudsuite:any"), chunk);
    assert!(error_of("cloudsuite:any", champsim_records()[..64 * 7].to_vec()).contains("96 bytes"));

    // 192 bytes without order may be either format.
    let first = champsim(0x5000, [0; 2], [0; 2], [0; 4], [0; 6]);
    let either = [first, vec![0; 128]].concat();
    let text = error_of("either", either.clone());
    assert!(text.contains("champsim:FILE or cloudsuite:FILE"), "{text}");
    assert_eq!(read_all(&mut *open_bytes("champsim:x", either).unwrap()).0.instructions.len(), 3);
}

#[test]
fn drmemtrace_records_are_decoded() {
    use Branch::*;
    let trace = source(drmemtrace_records());
    assert_eq!(trace.metadata().format, "drmemtrace");
    assert!(trace.metadata().has_branches && !trace.metadata().has_dependencies);
    let chunk = whole(drmemtrace_records());
    let found: Vec<_> = chunk
        .instructions
        .iter()
        .map(|one| (one.ip.value() - 0x40_0000, one.length, one.branch, one.taken, one.accesses))
        .collect();
    let expected = [
        (0x1000, 3, None, false, 2),
        (0x1003, 2, None, false, 0),
        (0x1005, 5, None, false, 0),
        (0x100a, 2, Conditional, false, 0),
        (0x100c, 2, Conditional, true, 0),
        (0x2000, 5, Call, true, 1),
        (0x3000, 2, IndirectCall, true, 0),
        (0x4000, 1, Return, true, 1),
        (0x3002, 2, Jump, true, 0),
        (0x3010, 2, Indirect, true, 0),
        (0x5000, 2, Conditional, true, 0), // taken, because the next instruction is not at 0x5002
        (0x5010, 2, None, false, 0),
        (0x5012, 2, None, false, 2),
        (0x5012, 2, None, false, 2),
    ];
    assert_eq!(found, expected);
    assert_eq!(chunk.instructions[11].operation, Operation::Serializing);
    assert_eq!(chunk.accesses[..2], [access(0x7fff_1000, 8, Read), access(0x7fff_2000, 4, Write)]);
    assert_eq!(chunk.accesses.len(), 8);
    assert!(chunk.events.is_empty()); // the first thread runs from the start

    let records = drmemtrace_records();
    let (first, second) = records.split_at(12 * 20);
    let archive = zip(&[("chunk.0000", first), ("chunk.0001", second)]);
    assert_eq!(whole(archive), chunk);
}

#[test]
fn regdeps_records_are_decoded() {
    let trace = source(regdeps_records());
    let metadata = trace.metadata();
    assert!(metadata.has_branches && metadata.has_dependencies);
    assert_eq!(
        metadata.recording.as_deref(),
        Some(
            "version 6, a synthetic instruction set (regdeps), encodings, numbers of system calls, \
             system calls that may block, pages of 4096 bytes, 1 file"
        )
    );
    let chunk = whole(regdeps_records());
    // Register N of an encoding is Perforate's N + 20; the flags are 17. The instruction's length is
    // from its record, not from its encoding.
    let found: Vec<_> = chunk
        .instructions
        .iter()
        .map(|one| (one.ip.value() - 0x40_0000, one.length, one.sources, one.destinations))
        .collect();
    let expected = [
        (0x1000, 3, [26, 0, 0, 0], [29, 0]),
        (0x1003, 4, [98, 0, 0, 0], [23, 0]),
        (0x1007, 4, [29, 0, 0, 0], [93, 0]),
        (0x100b, 10, [22, 24, 58, 0], [22, 17]),
        (0x1015, 2, [17, 0, 0, 0], [0, 0]),
        (0x1000, 3, [26, 0, 0, 0], [29, 0]),
        (0x1003, 1, [26, 0, 0, 0], [26, 0]),
        (0x2000, 2, [0; 4], [23, 33]),
        (0x1000, 3, [31, 32, 0, 0], [30, 0]),
    ];
    assert_eq!(found, expected);
    let operations: Vec<_> = chunk.instructions.iter().map(|one| one.operation).collect();
    use Operation::{Float, Integer, Serializing};
    let expected =
        [Integer, Float, Integer, Integer, Integer, Integer, Integer, Serializing, Integer];
    assert_eq!(operations, expected);
    let branches: Vec<_> = chunk.instructions.iter().map(|one| (one.branch, one.taken)).collect();
    assert_eq!(branches[4], (Branch::Conditional, true));
    assert_eq!(branches[6], (Branch::Return, true));
    assert_eq!(branches[7], (Branch::None, false), "a system call");
    let expected = [
        access(0x7fff_1000, 32, Read),
        access(0x7fff_2000, 4, Read),
        access(0x7fff_2000, 4, Write),
        access(0x7fff_3000, 8, Read),
    ];
    assert_eq!(chunk.accesses, expected);
    for packed in [lz4(&regdeps_records()), snappy(&regdeps_records())] {
        assert_eq!(whole(packed), chunk);
    }
}

#[test]
fn encodings_of_other_instruction_sets_are_passed_over() {
    // The same records with the file type of x86-64: registers are unknown.
    let mut bytes = regdeps_records();
    bytes[2 * 12 + 4..2 * 12 + 8].copy_from_slice(&0xe40u32.to_le_bytes());
    let trace = source(bytes.clone());
    assert!(!trace.metadata().has_dependencies);
    assert!(trace.metadata().recording.as_ref().unwrap().starts_with("version 6, x86-64, enc"));
    let chunk = whole(bytes);
    assert!(chunk.instructions.iter().all(|one| one.sources == [0; 4]));
    // The marker of the system call identifies the instruction; two records are in between.
    assert_eq!(chunk.instructions[7].operation, Operation::Serializing);
    assert_eq!(chunk.instructions[8].operation, Operation::Integer);
}

/// Encodings are remembered per process, because its threads execute the same code, and not per file.
#[test]
fn threads_of_a_process_share_encodings() {
    let folder = tempdir().unwrap();
    let start = |process, thread, time| {
        let mut bytes = drmemtrace_start(process, thread, time);
        bytes[2 * 12 + 4..2 * 12 + 8].copy_from_slice(&0x2_0e00u32.to_le_bytes());
        bytes
    };
    let execute = |encoding: Vec<u8>| [encoding, drmemtrace(10, 3, 0x1000)].concat();
    let known = encoding(&[0x11, 0, 1, 0, 6, 9, 6, 0]);
    for (name, start, records) in [
        ("a", start(7, 1, 10), execute(known)),
        ("b", start(7, 2, 20), execute(Vec::new())),
        ("c", start(8, 3, 30), execute(Vec::new())),
    ] {
        let path = folder.path().join(format!("{name}.memtrace.raw"));
        std::fs::write(path, [start, records, drmemtrace(26, 0, 0)].concat()).unwrap();
    }
    let mut chunk = Chunk::default();
    assert!(open(folder.path()).unwrap().next_chunk(&mut chunk).unwrap());
    let destinations: Vec<_> = chunk.instructions.iter().map(|one| one.destinations[0]).collect();
    assert_eq!(destinations, [29, 29, 0], "the other process has other code");
}

/// Empty lines are limited, because gigabytes of empty lines compress to almost nothing.
#[test]
fn empty_lines_are_limited() {
    let silence = |first: &str, bytes: usize| [first.as_bytes(), &vec![b'\n'; bytes]].concat();
    for (name, first) in [("list", "R,0x1000\n"), ("lackey", "I  1000,4\n")] {
        assert!(whole(silence(first, 1 << 20)).instructions.len() == 1, "{name}");
        let text = error_of(name, silence(first, 17 << 20));
        assert!(text.contains("bytes of empty lines and comments; expected"), "{text}");
    }
}

/// Responses, empty packets, time stamps and other markers are limited: 100MB would take a second,
/// and 17MB without an instruction in between are refused.
#[test]
fn records_without_instructions_are_limited() {
    let gem5 = [b"gem5".to_vec(), message(&[(1, -3), (3, 1000)])].concat();
    let request = message(&[(1, 1), (2, 1), (3, 64), (4, 64)]);
    let packets = [gem5, request].concat();
    let records = [drmemtrace_start(1, 1, 1), drmemtrace(10, 4, 0x1000)].concat();
    for (name, start, silent, expected) in [
        ("responses", &packets, message(&[(2, 2)]), "bytes of packets other than reads and writes"),
        ("empty", &packets, vec![0], "bytes of packets other than reads and writes"),
        ("times", &records, drmemtrace(28, 2, 5), "bytes of time stamps and other markers"),
        ("processors", &records, drmemtrace(28, 3, 5), "bytes of time stamps and other markers"),
    ] {
        let with = |bytes: usize| [start.clone(), silent.repeat(bytes / silent.len())].concat();
        let (chunk, error) = read_all(&mut *source(with(1 << 20)));
        assert!(error.is_none() && chunk.instructions.len() == 1, "{name}: {error:?}");
        let text = error_of(name, gzip(&with(17 << 20)));
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn wrong_regdeps_encodings_get_one_clear_line() {
    let start = |bytes: &[u8]| {
        let mut all = regdeps_records()[..12 * 10].to_vec();
        all.extend(encoding(bytes));
        all.extend(drmemtrace(10, 4, 0x1000));
        all
    };
    for (bytes, problem) in [
        (&[0x31, 0, 0, 0, 6, 9, 6, 0][..], "an encoding of 8 bytes with 4 registers; expected 4"),
        (&[0x81; 16][..], "an encoding with 9 registers; expected 4 bytes, and with registers 5"),
        (&[1; 17][..], "an encoding of 17 bytes or more"),
    ] {
        let text = error_of("regdeps", start(bytes));
        assert!(text.contains(problem), "{text}");
    }
    let text = error_of("regdeps", start(&[1, 0]));
    assert!(text.contains("byte 132: an encoding of 2 bytes; expected 4 bytes"), "{text}");

    // Kernel code is left out, with its encodings.
    let mut bytes = regdeps_records()[..12 * 10].to_vec();
    bytes.extend(drmemtrace(MARKER, 27, 1));
    bytes.extend([encoding(&[0x81; 8]), drmemtrace(10, 4, 0x1000)].concat());
    bytes.extend(drmemtrace(MARKER, 28, 1));
    bytes.extend([encoding(&[0, 0, 0, 0]), drmemtrace(10, 4, 0x1000)].concat());
    bytes.extend(drmemtrace(26, 0, 0));
    assert_eq!(ips(&whole(bytes)), [0x1000]);
}

#[test]
fn folders_are_read_as_google_publishes_them() {
    let folder = tempdir().unwrap();
    let make = |name: &str| std::fs::create_dir(folder.path().join(name)).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    make("trace");
    make("aux");
    let records = regdeps_records();
    let (first, second) = records.split_at(12 * 20);
    let archive = zip(&[("chunk.0000", first), ("chunk.0001", second)]);
    write("trace/16362031984258116688.1171988.memtrace.zip", &archive);
    write("aux/v2p.textproto", PAGE_MAP.as_bytes());
    write("aux/info.textproto", b"information { peak_live_core_count: 1 }");
    let schedule = [[701, 1000, 0, 0], [701, 1010, 1, 8u64]].map(|one| one.map(u64::to_le_bytes));
    write("trace/cpu_schedule.bin.zip", &zip(&[("0", schedule.concat().concat().as_slice())]));
    assert_eq!(read_all(&mut *open(folder.path()).unwrap()).0, whole(records));

    let map = PageMap::beside(folder.path()).unwrap().unwrap();
    assert_eq!((map.sizes(), map.runs()), (vec![(2 << 20, 3)], (3, 2 << 20)));
    assert!(map.remarks().is_empty(), "{:?}", map.remarks());
    assert_eq!(map.translate(0x7fff_1000), Some(0x5f_1000)); // 0x7fe00000 is at 0x400000
    let schedule = Schedule::beside(folder.path()).unwrap().unwrap();
    assert_eq!((schedule.stretches, schedule.threads, schedule.processors), (2, 1, 2));
}

#[test]
fn more_threads_than_files_may_be_open_are_read_one_after_the_other() {
    // 1100 threads run twice each, at different times; the usual limit is 1024 open files.
    let folder = tempdir().unwrap();
    for number in 0..1100 {
        let name = format!("app.{number:04}.memtrace.gz");
        let times = [10 * number + 1, 10 * number + 2];
        let bytes = gzip(&thread(7, number + 1, 0x1000 * (number + 1), &times));
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let (chunk, error) = read_all(&mut *open(folder.path()).unwrap());
    assert!(error.is_none(), "{error:?}");
    let expected: Vec<u64> =
        (1..=1100).flat_map(|number| [0x1000 * number, 0x1000 * number + 4]).collect();
    assert_eq!(ips(&chunk), expected);
    assert_eq!(chunk.events.len(), 1099);
}

/// A thread that executes at `ip`, once at each of these times.
fn thread(process: u64, thread: u64, ip: u64, times: &[u64]) -> Vec<u8> {
    let mut bytes = drmemtrace_start(process, thread, times[0]);
    for (number, &time) in times.iter().enumerate() {
        if number > 0 {
            bytes.extend(drmemtrace(MARKER, TIME, time));
        }
        bytes.extend(drmemtrace(10, 4, ip + 4 * number as u64));
    }
    bytes.extend(drmemtrace(26, 0, 0));
    bytes
}

/// The longest instruction of x86-64 has 15 bytes. What claims to be longer is an instruction of unknown length.
#[test]
fn instructions_of_drmemtrace_have_at_most_15_bytes() {
    let lengths = [1, 15, 16, 17, 200];
    let records = lengths.map(|length| drmemtrace(10, length, 0x1000 * u64::from(length)));
    let bytes = [drmemtrace_start(1, 1, 1), records.concat(), drmemtrace(26, 0, 0)].concat();
    let (chunk, error) = read_all(&mut *source(bytes));
    assert!(error.is_none(), "{error:?}");
    let found: Vec<u16> = chunk.instructions.iter().map(|one| one.length.into()).collect();
    assert_eq!(found, [1, 15, 0, 0, 0]);
}

#[test]
fn threads_are_merged_by_time() {
    let folder = tempdir().unwrap();
    let traces = folder.path().join("trace");
    std::fs::create_dir(&traces).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(traces.join(name), bytes).unwrap();
    write("drmemtrace.a.7.1.trace", &thread(7, 1, 0x1000, &[10, 30, 50]));
    write("drmemtrace.a.7.2.trace.gz", &gzip(&thread(7, 2, 0x2000, &[20, 60])));
    let third = thread(8, 3, 0x3000, &[40]);
    write("drmemtrace.a.8.3.trace.zip", &zip(&[("chunk.0000", &third)]));
    write("cpu_schedule.bin.zip", b"not a trace");
    for path in [folder.path(), &traces] {
        let (chunk, error) = read_all(&mut *open(path).unwrap());
        assert!(error.is_none(), "{error:?}");
        assert_eq!(ips(&chunk), [0x1000, 0x2000, 0x1004, 0x3000, 0x1008, 0x2004]);
        let switches = [
            (1, switch(0, 1)),
            (2, switch(0, 0)),
            (3, switch(1, 2)),
            (4, switch(0, 0)),
            (5, switch(0, 1)),
        ];
        assert_eq!(chunk.events, switches);
    }
    // The running thread is also known after a skip.
    let mut source = open(folder.path()).unwrap();
    assert_eq!(source.skip(3).unwrap(), 3);
    let rest = read_all(&mut *source).0;
    assert_eq!(rest.events[..2], [(0, switch(0, 0)), (0, switch(1, 2))]);
    assert_eq!(ips(&rest), [0x3000, 0x1008, 0x2004]);

    // A single file with all threads, as older versions wrote it.
    let mut one = drmemtrace_start(7, 1, 10);
    for record in
        [(10, 4, 0x1000), (22, 4, 2), (24, 4, 7), (10, 4, 0x2000), (22, 4, 1), (10, 4, 0x1004)]
    {
        one.extend(drmemtrace(record.0, record.1, record.2));
    }
    one.extend(drmemtrace(26, 0, 0));
    let chunk = whole(one);
    assert_eq!(chunk.events, [(1, switch(0, 1)), (2, switch(0, 0))]);
}

/// 16MB of markers are allowed, and 4KB more for each instruction.
#[test]
fn instructions_make_room_for_markers() {
    let with_instructions = |count: u64| {
        let instructions = (0..count).flat_map(|number| drmemtrace(10, 4, 0x1000 + 4 * number));
        let markers = drmemtrace(MARKER, TIME, 1).repeat((18 << 20) / 12);
        let start = drmemtrace_start(1, 1, 1).into_iter();
        let end = drmemtrace(26, 0, 0);
        start.chain(instructions).chain(markers).chain(end).collect::<Vec<u8>>()
    };
    assert_eq!(whole(with_instructions(600)).instructions.len(), 600);
    let error = error_of("markers", with_instructions(400));
    assert!(error.contains("at most 16 MB, and 4 KB for each instruction"), "{error}");
}

#[test]
fn raw_and_broken_drmemtrace_files_get_one_clear_line() {
    let raw = error_of("app.raw", drmemtrace_raw());
    assert!(raw.contains("a raw drmemtrace file; expected a final trace"), "{raw}");
    assert!(raw.contains("drrun -t drmemtrace -indir DIR"), "{raw}");
    let old = [0xc040_0000_0000_0004u64, 0].map(u64::to_le_bytes).concat(); // version 4, x86-64
    assert!(error_of("old.raw", old).contains("a raw drmemtrace file"));
    let folder = tempdir().unwrap();
    std::fs::create_dir(folder.path().join("raw")).unwrap();
    let text = open(folder.path()).err().unwrap().to_string();
    assert!(text.contains("raw traces only; expected a final trace"), "{text}");
    std::fs::create_dir_all(folder.path().join("trace/window.0000")).unwrap();
    let text = open(folder.path()).err().unwrap().to_string();
    assert!(text.contains("several windows; expected the folder of one"), "{text}");
    let lz4 = error_of("a.lz4", lz4(&drmemtrace_raw()));
    assert!(lz4.contains("a raw drmemtrace file"), "{lz4}");
    let cut = error_of("a.lz4", b"\x04\x22\x4d\x18 and so on".to_vec());
    assert!(cut.contains("the lz4 stream is damaged or cut off"), "{cut}");
    let cut = error_of("a.sz", b"\xff\x06\0\0sNaPpY and so on".to_vec());
    assert!(cut.contains("the snappy stream is damaged or cut off"), "{cut}");
    let narrow = [25u32, 5, 28 | 12 << 16, 5].map(u32::to_le_bytes).concat();
    assert!(error_of("narrow", narrow).contains("of a 32-bit program"));

    let mut odd = drmemtrace_start(1, 1, 1).repeat(100);
    let offset = odd.len();
    odd.extend(drmemtrace(50, 0, 0));
    let text = error_of("odd", odd);
    assert!(text.contains(&format!("byte {offset}: a record of type 50")), "{text}");
    let early = [drmemtrace_start(1, 1, 1), drmemtrace(0, 8, 0x1000)].concat();
    assert!(error_of("early", early).contains("an access before the first instruction"));
    let bundle = [drmemtrace_start(1, 1, 1), drmemtrace(17, 9, 0)].concat();
    assert!(error_of("bundle", bundle).contains("a bundle of 9 instructions"));

    let mut cut = drmemtrace_records();
    cut.truncate(cut.len() - 5);
    let mut source = source(cut);
    assert_eq!(read_all(&mut *source).0.instructions.len(), 14);
    let problem = source.truncated().unwrap().to_string();
    assert!(problem.contains("cut off after 7 bytes; the 14 instructions"), "{problem}");
}

#[test]
fn filtered_drmemtrace_accesses_belong_to_the_address_before_them() {
    let mut bytes = drmemtrace_start(1, 1, 1);
    bytes[2 * 12 + 4..2 * 12 + 8].copy_from_slice(&0x140u32.to_le_bytes());
    for (kind, size, value) in [(10, 0, 0x1000), (0, 8, 0x9000), (10, 0, 0x1004), (10, 4, 0x1008)] {
        bytes.extend(drmemtrace(kind, size, value));
    }
    bytes.extend(drmemtrace(26, 0, 0));
    let notes = source(bytes.clone()).metadata().assumptions.join("\n");
    assert!(notes.contains("behind a filter"), "{notes}");
    let chunk = whole(bytes);
    assert_eq!(ips(&chunk), [0x1000, 0x1008]);
    assert_eq!((chunk.instructions[0].length, chunk.instructions[0].accesses), (0, 1));
}

#[test]
fn gem5_packets_are_decoded() {
    let trace = source(gem5_packets());
    let notes = trace.metadata().assumptions.join("\n");
    assert!(notes.contains("\"xxxxxxx\"") && notes.contains("0x400000 assumed"), "{notes}");
    let chunk = whole(gem5_packets());
    assert_eq!(ips(&chunk), [0x40_0000, 0x40_1234]);
    assert_eq!(chunk.accesses, [access(0x2000, 8, Read), access(0x1_0000_0040, 4, Write)]);
    assert_eq!(whole(gzip(&gem5_packets())), chunk);

    let header = message(&[(1, -3), (3, 1000)]);
    let of = |messages: &[Vec<u8>]| [b"gem5".to_vec(), header.clone(), messages.concat()].concat();
    let others = of(&[message(&[(1, 1), (2, 2), (3, 64), (4, 64)])]);
    let text = error_of("responses", others);
    assert!(text.contains("none of 1 packets is a read or write"), "{text}");
    let empty = of(&[message(&[(1, 1), (2, 1), (3, 64), (4, 0)])]);
    assert!(error_of("size", empty).contains("a packet of 0 bytes"));
    let huge = of(&[varint(u64::MAX)]);
    assert!(error_of("huge", huge).contains("a message of 18446744073709551615 bytes"));
    let wrong = of(&[vec![2, 0x0b, 0]]);
    assert!(error_of("wrong", wrong).contains("an impossible packet"));
    // A dependency trace has its window's size in field 4.
    let other = [b"gem5".to_vec(), message(&[(1, -3), (2, 0), (3, 1000), (4, 120)])].concat();
    assert!(error_of("elastic", other).contains("of another kind than packets"));
    assert!(error_of("nothing", b"gem5".to_vec()).contains("without a header"));

    let bytes = gem5_packets();
    let mut cut = source(bytes[..bytes.len() - 3].to_vec());
    assert_eq!(read_all(&mut *cut).0.instructions.len(), 1);
    assert!(cut.truncated().unwrap().problem.contains("a message is cut off"));
}

#[test]
fn lists_of_accesses_are_read() {
    let chunk = whole(LIST.into());
    assert_eq!(ips(&chunk), [0x40_0000, 0x40_0000, 0x40_1000, 0x40_2000]);
    let counts: Vec<u8> = chunk.instructions.iter().map(|one| one.accesses).collect();
    assert_eq!((counts, chunk.instructions[2].length), (vec![1, 1, 2, 1], 3));
    let expected = [
        access(0x1000, 8, Read),
        access(8192, 4, Write),
        access(0x3000, 16, Read),
        access(0x3010, 8, Write),
        access(0x4000, 8, Read),
    ];
    assert_eq!(chunk.accesses, expected);
    // Process 6 is numbered 1.
    assert_eq!(chunk.events, [(3, switch(1, 1))]);

    let renamed = whole(b"ADDR,PC,rw\n0x5000,0x600000,W\n 0x5008 , 0x600004 , read\n".to_vec());
    assert_eq!(ips(&renamed), [0x60_0000, 0x60_0004]);
    assert_eq!(renamed.accesses, [access(0x5000, 8, Write), access(0x5008, 8, Read)]);
}

#[test]
fn wrong_lines_of_lists_are_named_with_their_number() {
    for (line, shown) in [
        ("R ffff8000", "address \"ffff8000\" is no number"), // hexadecimal without 0x
        ("R 0x1000 -8", "size \"-8\" is no number"),
        ("R 0x1000 0", "size \"0\" is not from 1 to 65535"),
        ("R,0x7f0000000000,999999999999", "size \"999999999999\" is not from 1 to 65535"),
        ("R 0x10000000000000000", "address \"0x10000000000000000\" is no number"),
        ("X 0x1000", "kind \"X\" is none of R, W and I"),
        ("R;0x1000", "kind \"R;0x1000\" is none of R, W and I"),
        (",0x1000", "no kind"),
        ("R 0x1000 8 1 2 3", "6 fields are more than the 5 columns"),
        ("R,0x1000,,,,,,,,,,,,,,,,", "more than 16 fields"),
        ("R", "no address"),
        ("R +5", "address \"+5\" is no number"),
        ("R,5,,x", "pid \"x\" is no number"),
        ("R,5,,,x", "ip \"x\" is no number"),
    ] {
        let text = error_of("list", format!("R 0x1000\n\n{line}\n").into());
        let expected = format!("list: line 3: {shown}; expected 'R|W|I ADDRESS");
        assert!(text.contains(&expected), "{text}");
        let text = error_of("list", format!("# first\n{line}\n").into());
        assert!(text.contains(&format!("nor a list of accesses (line 2: {shown}); ")), "{text}");
    }
    let again = error_of("list", b"R 0x1000\nkind,address\n".to_vec());
    assert!(again.contains("line 2: column names below the first line"), "{again}");
    for (names, shown) in [
        ("kind,where", "column \"where\" is none of kind, address, size, pid, ip"),
        ("kind,address,addr", "column \"addr\" stands twice"),
        ("size,address", "no column is the kind"),
        ("rw,pc", "no column is the address"),
        ("kind;address;size", "kind \"kind;address;size\" is none of R, W and I"),
    ] {
        let text = error_of("list", format!("{names}\nR,0x1000\n").into());
        assert!(text.contains(&format!("(line 1: {shown}); ")), "{text}");
    }
    let long = format!("R 0x1000\n# {}\n", "x".repeat(5000));
    assert!(error_of("long", long.into()).contains("a line too long"));
}

/// A number that lost its last digits is a number, too.
#[test]
fn a_list_without_its_last_line_end_may_be_cut_off() {
    let list = "R 0x1000\nI 0x400000 3\nR 0x5500\n";
    for (bytes, instructions, whole) in [
        (list.len() - 1, 2, Some(1)),
        (list.len() - 3, 2, Some(1)),
        (list.len() - 8, 2, Some(1)),
        (14, 2, Some(1)),
        (9, 1, None),
    ] {
        let mut source = source(list.as_bytes()[..bytes].to_vec());
        let (chunk, error) = read_all(&mut *source);
        assert!(error.is_none(), "{bytes}: {error:?}");
        assert_eq!(chunk.instructions.len(), instructions, "{bytes}");
        assert_eq!(source.truncated().map(|cut| cut.instructions), whole, "{bytes}");
    }
}

#[test]
fn a_zip_archive_that_unfolds_without_end_is_refused() {
    let records = champsim_records();
    let archive = zip(&[("a", &records), ("b", &records), ("c", &records)]);
    assert_eq!(whole(archive.clone()).instructions.len(), 24);
    // The directory's second entry points to the first entry's data.
    let mut overlapping = archive.clone();
    let directory = find(&archive, b"PK\x01\x02", 0);
    let second = find(&archive, b"PK\x01\x02", directory + 4);
    let third = find(&archive, b"PK\x01\x02", second + 4);
    let entry = archive[directory..second].to_vec();
    overlapping.splice(second..third, entry);
    let text = error_of("bomb.zip", overlapping);
    assert!(text.contains("entries overlap"), "{text}");
    let text = error_of("cut.zip", archive[..archive.len() / 2].to_vec());
    assert!(text.contains("the zip archive is damaged"), "{text}");
    assert!(error_of("x.zip", zip(&[])).contains("a zip stream of nothing"));
}

fn find(bytes: &[u8], wanted: &[u8], from: usize) -> usize {
    from + bytes[from..].windows(wanted.len()).position(|window| window == wanted).unwrap()
}

/// Every sample, cut off at any byte and with any byte changed, reads to its end or to an error, and
/// never yields more than its bytes can encode.
#[test]
fn damaged_samples_give_an_error_or_a_prefix() {
    for (name, bytes) in all() {
        let prefixes = (0..bytes.len()).map(|length| bytes[..length].to_vec());
        let changes = (0..bytes.len()).flat_map(|place| {
            [0xff, bytes[place] ^ 0x01].map(|value| {
                let mut changed = bytes.clone();
                changed[place] = value;
                changed
            })
        });
        for damaged in prefixes.chain(changes) {
            let Ok(mut source) = open_bytes(name, damaged) else { continue };
            let mut chunk = Chunk::default();
            let mut chunks = 0;
            while let Ok(true) = source.next_chunk(&mut chunk) {
                chunks += 1;
                assert!(chunks < 1000, "{name}");
                let counted: usize =
                    chunk.instructions.iter().map(|one| usize::from(one.accesses)).sum();
                assert_eq!(counted, chunk.accesses.len(), "{name}");
                assert!(chunk.accesses.iter().all(|access| access.size > 0), "{name}");
            }
        }
    }
}
