//! Tests that write foreign traces and read them back.

use std::path::Path;

use crate::common::samples::*;
use crate::common::{any_chunk, array_loop, instruction, map, read, read_all};
use perforate_trace::{
    Compression, ForeignWriter, Losses, TraceFormat, TraceSummary, formats_of_name, open,
    open_bytes,
};
use perforate_types::{
    AccessKind, Branch, Chunk, Instruction, ProcessId, ProgramEvent, ThreadId, VirtualAddress,
};
use proptest::prelude::*;
use tempfile::tempdir;

fn write(chunk: &Chunk, format: TraceFormat) -> (Vec<u8>, TraceSummary, Losses) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("out");
    let mut writer = ForeignWriter::on(
        std::fs::File::create(&path).unwrap(),
        &path,
        format,
        Compression::None,
        3,
    )
    .unwrap();
    writer.write_chunk(chunk).unwrap();
    let (summary, losses) = writer.finish().unwrap();
    (std::fs::read(path).unwrap(), summary, losses)
}

fn read_back(bytes: Vec<u8>, format: TraceFormat) -> Chunk {
    let name = format!("{}:memory", format.name());
    let (chunk, error) = read_all(&mut *open_bytes(&name, bytes).unwrap());
    assert!(error.is_none(), "{error:?}");
    chunk
}

#[test]
fn champsim_records_come_back_byte_by_byte() {
    let bytes = champsim_records();
    let chunk = read_back(bytes.clone(), TraceFormat::ChampSim);
    let (written, summary, losses) = write(&chunk, TraceFormat::ChampSim);
    assert_eq!(written, bytes);
    assert_eq!((summary.instructions, summary.accesses, summary.bytes), (8, 6, 512));
    assert_eq!(losses, Losses::default());
}

#[test]
fn accesses_and_events_without_room_are_counted() {
    let mut chunk = Chunk::default();
    chunk.push_event(map(0x1000));
    let store = |address| {
        let mut access = read(address);
        access.kind = AccessKind::Write;
        access
    };
    let accesses: Vec<_> = (1..=5).map(read).chain((6..=8).map(store)).chain([read(0)]).collect();
    chunk.push(instruction(0x40_0000), &accesses);
    let (bytes, summary, losses) = write(&chunk, TraceFormat::ChampSim);
    assert_eq!(losses, Losses { accesses: 3, events: 1 });
    assert_eq!((summary.accesses, summary.events), (6, 0));
    let back = read_back(bytes, TraceFormat::ChampSim);
    let addresses: Vec<u64> = back.accesses.iter().map(|one| one.address.value()).collect();
    assert_eq!(addresses, [1, 2, 3, 4, 6, 7]);
}

#[test]
fn an_indirect_branch_without_registers_stays_one() {
    let mut chunk = Chunk::default();
    for branch in [Branch::Indirect, Branch::IndirectCall] {
        let one = Instruction { branch, taken: true, ..instruction(0x1000) };
        chunk.push(Instruction { length: 0, ..one }, &[read(0x2000)]);
    }
    let (bytes, ..) = write(&chunk, TraceFormat::ChampSim);
    let back = read_back(bytes, TraceFormat::ChampSim);
    assert_eq!(back.instructions[0], chunk.instructions[0]);
    assert_eq!(back.instructions[1].branch, Branch::IndirectCall);
    assert_eq!(back.instructions[1].sources, [0, 5, 0, 0]); // a call reads the stack pointer
}

#[test]
fn lists_keep_lengths_sizes_and_processes() {
    let mut chunk = array_loop(20);
    let switch = ProgramEvent::Switch { process: ProcessId(1), thread: ThreadId(1) };
    chunk.push_event(switch.clone());
    chunk.push(instruction(0x50_0000), &[read(0x9000)]);
    let (bytes, summary, losses) = write(&chunk, TraceFormat::Csv);
    assert!(
        bytes.starts_with(b"kind,address,size,pid,ip\nI,0x400000,4,0,\nR,0x100000,8,0,0x400000\n")
    );
    assert_eq!((summary.instructions, losses), (61, Losses { accesses: 0, events: 1 }));
    let back = read_back(bytes, TraceFormat::Csv);
    assert_eq!(back.accesses, chunk.accesses);
    assert_eq!(back.events, [(60, switch)]);
    for (one, other) in back.instructions.iter().zip(&chunk.instructions) {
        assert_eq!((one.ip, one.length, one.accesses), (other.ip, other.length, other.accesses));
    }
}

#[test]
fn names_tell_format_and_compression() {
    let of = |name: &str| formats_of_name(Path::new(name));
    assert_eq!(of("a/mcf.champsimtrace.xz"), (Some(TraceFormat::ChampSim), Compression::Xz));
    assert_eq!(of("list.csv.gz"), (Some(TraceFormat::Csv), Compression::Gzip));
    assert_eq!(of("x.champsim"), (Some(TraceFormat::ChampSim), Compression::None));
    assert_eq!(of("x.trace"), (Some(TraceFormat::Perforate), Compression::None));
    assert_eq!(of("bare"), (None, Compression::None));

    let folder = tempdir().unwrap();
    let mut chunk = array_loop(3000);
    chunk.events.clear();
    let expected = read_back(write(&chunk, TraceFormat::ChampSim).0, TraceFormat::ChampSim);
    for name in ["t.champsim", "t.champsim.gz", "t.champsim.xz", "t.champsim.zst"] {
        let path = folder.path().join(name);
        let (format, compression) = of(name);
        let mut writer = ForeignWriter::on(
            std::fs::File::create(&path).unwrap(),
            &path,
            format.unwrap(),
            compression,
            1,
        )
        .unwrap();
        writer.write_chunk(&chunk).unwrap();
        let (summary, _) = writer.finish().unwrap();
        assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());
        assert!(compression == Compression::None || summary.bytes < 9000 * 64 / 5);
        let (back, error) = read_all(&mut *open(&path).unwrap());
        assert!(error.is_none() && back == expected, "{name}");
    }
}

/// Properties of an instruction that ChampSim's records preserve exactly.
fn kept(instruction: &Instruction) -> (VirtualAddress, Branch) {
    (instruction.ip, instruction.branch)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Kinds of branches and addresses survive with any registers, and writing a trace that was read
    /// back gives the same bytes again.
    #[test]
    fn kinds_of_branches_survive(chunk in any_chunk()) {
        prop_assume!(!chunk.instructions.is_empty());
        let (bytes, summary, losses) = write(&chunk, TraceFormat::ChampSim);
        let back = read_back(bytes.clone(), TraceFormat::ChampSim);
        prop_assert_eq!(summary.accesses + losses.accesses, chunk.accesses.len() as u64);
        prop_assert_eq!(summary.accesses, back.accesses.len() as u64);
        prop_assert_eq!(back.instructions.len(), chunk.instructions.len());
        for (one, other) in back.instructions.iter().zip(&chunk.instructions) {
            prop_assert_eq!(kept(one), kept(other));
            let expected = match other.branch {
                Branch::None => false,
                Branch::Conditional => other.taken,
                // An indirect jump through the stack pointer or flags is taken as its record says.
                Branch::Indirect => one.taken,
                _ => true,
            };
            prop_assert_eq!(one.taken, expected);
        }
        let (again, ..) = write(&back, TraceFormat::ChampSim);
        prop_assert_eq!(read_back(again, TraceFormat::ChampSim), back);
    }

    /// Lists preserve all accesses of any trace.
    #[test]
    fn lists_keep_all_accesses(chunk in any_chunk()) {
        let (bytes, ..) = write(&chunk, TraceFormat::Csv);
        let back = read_back(bytes, TraceFormat::Csv);
        prop_assert_eq!(&back.accesses, &chunk.accesses);
        let counts = |chunk: &Chunk| -> Vec<_> {
            chunk.instructions.iter().map(|one| (one.ip, one.accesses)).collect()
        };
        prop_assert_eq!(counts(&back), counts(&chunk));
    }
}
