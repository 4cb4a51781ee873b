//! Shared parts of the tests: reading sources, and arbitrary chunks.
#![allow(dead_code)]

pub mod samples;

use std::fs::File;
use std::path::Path;

use perforate_trace::{Source, TraceError, TraceMetadata, TraceWriter, WriterOptions, write_chunk};
use perforate_types::{
    AccessKind, Backing, Branch, Chunk, Instruction, MemoryAccess, Operation, Permissions,
    ProcessId, ProgramEvent, ThreadId, VirtualAddress,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Peak resident memory of this process in bytes; `None` on systems that do not report it.
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Reads a source to its end. Returns all it delivers, and the error at its end, if any.
pub fn read_all(source: &mut dyn Source) -> (Chunk, Option<TraceError>) {
    let (mut all, mut chunk) = (Chunk::default(), Chunk::default());
    loop {
        match source.next_chunk(&mut chunk) {
            Ok(true) => all.append(&chunk),
            Ok(false) => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

/// Writes a chunk as a complete trace.
pub fn write_all(path: &Path, chunk: &Chunk, chunk_instructions: u32) {
    let options = WriterOptions { level: 1, chunk_instructions };
    let file = File::create(path).unwrap();
    let mut writer = TraceWriter::on(file, path, &TraceMetadata::default(), options).unwrap();
    write_chunk(&mut writer, chunk).unwrap();
    writer.finish().unwrap();
}

/// Event that maps 8KB at `start`.
pub fn map(start: u64) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length: 8192,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    }
}

/// Event that names the 8KB at `start`.
pub fn name(start: u64, name: &str) -> ProgramEvent {
    ProgramEvent::Name { start: VirtualAddress::new(start), length: 8192, name: name.into() }
}

/// A read of eight bytes.
pub fn read(address: u64) -> MemoryAccess {
    MemoryAccess { address: VirtualAddress::new(address), size: 8, kind: AccessKind::Read }
}

/// An instruction of four bytes.
pub fn instruction(ip: u64) -> Instruction {
    Instruction { ip: VirtualAddress::new(ip), length: 4, ..Instruction::default() }
}

/// A small loop over an array, with occasional stores and switches of threads.
pub fn array_loop(rounds: u64) -> Chunk {
    let mut chunk = Chunk::default();
    chunk.push_event(map(0x10_0000));
    for round in 0..rounds {
        if round % 50 == 49 {
            let thread = ThreadId((round / 50 % 3) as u16);
            chunk.push_event(ProgramEvent::Switch { process: ProcessId(0), thread });
        }
        chunk.push(instruction(0x40_0000), &[read(0x10_0000 + round * 8)]);
        let random = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let store = MemoryAccess { kind: AccessKind::Write, ..read(0x10_0000 + random) };
        chunk.push(instruction(0x40_0004), &[read(0x10_0008 + round * 8), store]);
        let branch = Instruction { branch: Branch::Conditional, ..instruction(0x40_0008) };
        chunk.push(Instruction { taken: round % 7 != 6, ..branch }, &[]);
    }
    chunk
}

fn any_access() -> impl Strategy<Value = MemoryAccess> {
    let address = prop_oneof![any::<u64>(), 0x1000u64..0x1100, Just(u64::MAX), Just(0)];
    (address, prop_oneof![Just(8u16), 1..=u16::MAX], any::<bool>()).prop_map(
        |(address, size, writes)| MemoryAccess {
            address: VirtualAddress::new(address),
            size,
            kind: if writes { AccessKind::Write } else { AccessKind::Read },
        },
    )
}

fn any_instruction() -> impl Strategy<Value = Instruction> {
    let ip = prop_oneof![any::<u64>(), (0u64..16).prop_map(|place| 0x40_0000 + 4 * place)];
    let registers = (any::<[u8; 4]>(), 0u8..16, any::<[u8; 2]>());
    (ip, registers, any::<u8>(), 0..Branch::ALL.len(), any::<bool>(), 0..Operation::ALL.len())
        .prop_map(|(ip, registers, length, branch, taken, operation)| Instruction {
            ip: VirtualAddress::new(ip),
            sources: registers.0,
            data_sources: registers.1,
            destinations: registers.2,
            accesses: 0,
            length,
            branch: Branch::ALL[branch],
            taken,
            operation: Operation::ALL[operation],
        })
}

/// Any chunk that a source may deliver: few static instructions, executed in any order.
pub fn any_chunk() -> impl Strategy<Value = Chunk> {
    let dynamic = (any::<prop::sample::Index>(), vec(any_access(), 0..4), 0..20u32);
    (vec(any_instruction(), 1..12), vec(dynamic, 0..300), 0..3u64).prop_map(
        |(dictionary, executed, last_events)| {
            let mut chunk = Chunk::default();
            for (number, (index, accesses, event)) in executed.into_iter().enumerate() {
                if event == 0 {
                    chunk.push_event(map(number as u64 * 4096));
                    chunk.push_event(name(number as u64 * 4096, &"/é".repeat(number)));
                }
                chunk.push(*index.get(&dictionary), &accesses);
            }
            for number in 0..last_events {
                chunk.push_event(ProgramEvent::Exit { process: ProcessId(number as u16) });
            }
            chunk
        },
    )
}
