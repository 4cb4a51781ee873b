//! Benchmark: speed of writing and reading traces, and their size. One JSON line per case.
//!
//! `cargo bench -p perforate-trace` measures a synthetic program; `cargo bench -p perforate-trace --
//! FILE…` measures traces instead.

use std::fs::File;
use std::time::Instant;

use perforate_trace::{
    Compression, ForeignWriter, Source, TraceMetadata, TraceReader, TraceWriter, WriterOptions,
    convert, formats_of_name, metadata_for, open, write_chunk,
};
use perforate_types::{
    AccessKind, Branch, Chunk, Instruction, MemoryAccess, Register, VirtualAddress,
};

const INSTRUCTIONS: u64 = 20_000_000;

/// Processor time of this thread, so that other work on the machine does not count. Elapsed time on
/// systems that do not report processor time.
struct Clock {
    start: Instant,
    start_ran: Option<f64>,
}

impl Clock {
    fn start() -> Self {
        Self { start: Instant::now(), start_ran: Self::ran() }
    }

    fn seconds(&self) -> f64 {
        match (self.start_ran, Self::ran()) {
            (Some(start), Some(end)) => end - start,
            _ => self.start.elapsed().as_secs_f64(),
        }
    }

    fn ran() -> Option<f64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(text.split(' ').next()?.parse::<f64>().ok()? / 1e9)
    }
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|name| name != "--bench").collect();
    for file in &files {
        let mut source = open(file).unwrap_or_else(|error| panic!("{error}"));
        measure_format(file, || next(&mut *source));
    }
    if files.is_empty() {
        let mut program = Program::new();
        let mut left = INSTRUCTIONS;
        measure_format("made-up program", || {
            let chunk = (left > 0).then(|| program.chunk())?;
            left = left.saturating_sub(chunk.instructions.len() as u64);
            Some(chunk)
        });
        measure_foreign("t.champsim", 10, Compression::None);
        measure_foreign("t.champsim.xz", 2, Compression::Xz);
        measure_foreign("t.csv", 10, Compression::None);
    }
}

fn next(source: &mut dyn Source) -> Option<Chunk> {
    let mut chunk = Chunk::default();
    source.next_chunk(&mut chunk).unwrap_or_else(|error| panic!("{error}")).then_some(chunk)
}

fn report(bench: &str, input: &str, instructions: u64, seconds: f64, more: serde_json::Value) {
    let mut line = serde_json::json!({
        "bench": bench,
        "input": input,
        "instructions": instructions,
        "instructions_per_second": (instructions as f64 / seconds).round(),
    });
    if let (Some(line), serde_json::Value::Object(more)) = (line.as_object_mut(), more) {
        line.extend(more);
    }
    println!("{line}");
}

/// Writes the chunks from `next` and reads them back, at the compression levels for recording and for
/// keeping.
fn measure_format(input: &str, mut next: impl FnMut() -> Option<Chunk>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("bench.trace");
    let chunks: Vec<Chunk> = std::iter::from_fn(&mut next).collect();
    for level in [1, 3, 19] {
        let options = WriterOptions { level, ..WriterOptions::default() };
        let start = Clock::start();
        let file = File::create(&path).expect("a file");
        let mut writer =
            TraceWriter::on(file, &path, &TraceMetadata::default(), options).expect("a file");
        for chunk in &chunks {
            write_chunk(&mut writer, chunk).expect("written");
        }
        let summary = writer.finish().expect("finished");
        let seconds = start.seconds();
        let size = serde_json::json!({
            "level": level,
            "accesses": summary.accesses,
            "bytes_per_instruction": summary.bytes as f64 / summary.instructions as f64,
        });
        report("encode", input, summary.instructions, seconds, size);

        let mut seconds = f64::INFINITY;
        for _ in 0..3 {
            let start = Clock::start();
            let mut reader = TraceReader::open(&path).expect("the file just written");
            assert_eq!(drain(&mut reader), summary.instructions);
            seconds = seconds.min(start.seconds());
        }
        let level = serde_json::json!({ "level": level });
        report("decode", input, summary.instructions, seconds, level);
    }
}

/// Reads the synthetic program, of this many million instructions, from a foreign trace with this name,
/// and converts it to Perforate's format.
fn measure_foreign(name: &str, millions: u64, compression: Compression) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    let format = formats_of_name(&path).0.expect("a name that tells the format");
    let file = std::fs::File::create(&path).expect("a new file");
    let mut writer = ForeignWriter::on(file, &path, format, compression, 3).expect("a new file");
    let mut program = Program::new();
    let start = Clock::start();
    let mut making = 0.0;
    for _ in 0..millions {
        let before = start.seconds();
        let chunk = program.chunk();
        making += start.seconds() - before;
        writer.write_chunk(&chunk).expect("written");
    }
    let (summary, _) = writer.finish().expect("finished");
    let (count, seconds) = (summary.instructions, start.seconds() - making);
    let bytes = serde_json::json!({ "bytes": summary.bytes });
    report("write", name, count, seconds, bytes);

    let start = Clock::start();
    assert_eq!(drain(&mut *open(&path).expect("the file just written")), count);
    report("read", name, count, start.seconds(), serde_json::json!({}));

    for level in [1, 3] {
        let start = Clock::start();
        let mut source = open(&path).expect("the file just written");
        let options = WriterOptions { level, ..WriterOptions::default() };
        let ours = folder.path().join("ours");
        let file = File::create(&ours).expect("a file");
        let writer = TraceWriter::on(file, ours, &metadata_for(&*source), options);
        convert(&mut *source, writer.expect("a file")).expect("converted");
        let level = serde_json::json!({ "level": level });
        report("convert", name, count, start.seconds(), level);
    }
}

/// Reads a source to its end and returns the number of its instructions.
fn drain(source: &mut dyn Source) -> u64 {
    let mut chunk = Chunk::default();
    let mut instructions = 0;
    while source.next_chunk(&mut chunk).expect("a sound trace") {
        instructions += std::hint::black_box(&chunk).instructions.len() as u64;
    }
    instructions
}

/// Synthetic program with the habits of real programs: loops over arrays, calls with stack frames,
/// look-ups in a hash table with chains, data-dependent branches. About 2000 static instructions, 0.4
/// accesses per instruction.
struct Program {
    state: u64,
    chunk: Chunk,
}

const STACK: u64 = 0x7fff_ffff_e000;
const HEAP: u64 = 0x5555_5600_0000;

impl Program {
    fn new() -> Self {
        Self { state: 1, chunk: Chunk::default() }
    }

    /// Generates a chunk of about a million instructions.
    fn chunk(&mut self) -> Chunk {
        while self.chunk.instructions.len() < 1_000_000 {
            let function = self.random() % 32;
            self.call(function);
        }
        std::mem::take(&mut self.chunk)
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        self.state >> 33
    }

    fn push(&mut self, ip: u64, branch: Branch, taken: bool, accesses: &[(u64, AccessKind)]) {
        let list: Vec<MemoryAccess> = accesses
            .iter()
            .map(|&(address, kind)| MemoryAccess {
                address: VirtualAddress::new(address),
                size: 8,
                kind,
            })
            .collect();
        let register = (ip >> 2) as Register % 16 + 1;
        let instruction = Instruction {
            ip: VirtualAddress::new(ip),
            sources: [register, 0, 0, 0],
            destinations: [register, 0],
            length: 4,
            branch,
            taken,
            ..Instruction::default()
        };
        self.chunk.push(instruction, &list);
    }

    /// A call: saves registers, loops over an array, looks up a key, and returns.
    fn call(&mut self, function: u64) {
        let code = 0x40_0000 + function * 0x400;
        let frame = STACK - 64 * (function % 5);
        for slot in 0..4 {
            let save = [(frame - 8 * slot, AccessKind::Write)];
            self.push(code + 4 * slot, Branch::None, false, &save);
        }
        let rounds = 4 + function % 7;
        let array = HEAP + function * 0x1_0000 + self.random() % 64 * 64;
        for round in 0..rounds {
            let load = [(array + 8 * round, AccessKind::Read)];
            self.push(code + 0x20, Branch::None, false, &load);
            self.push(code + 0x24, Branch::None, false, &[]);
            self.push(code + 0x28, Branch::None, false, &[(frame - 32, AccessKind::Read)]);
            self.push(code + 0x2c, Branch::Conditional, round + 1 < rounds, &[]);
        }
        let bucket = HEAP + 0x100_0000 + self.random() % 65_536 * 8;
        self.push(code + 0x30, Branch::None, false, &[(bucket, AccessKind::Read)]);
        let mut node = HEAP + 0x200_0000 + self.random() % 65_536 * 48;
        let links = 1 + self.random() % 3;
        for link in 0..links {
            self.push(code + 0x34, Branch::None, false, &[(node, AccessKind::Read)]);
            self.push(code + 0x38, Branch::None, false, &[(node + 16, AccessKind::Read)]);
            self.push(code + 0x3c, Branch::None, false, &[]);
            self.push(code + 0x40, Branch::Conditional, link + 1 < links, &[]);
            node = HEAP + 0x200_0000 + node.wrapping_mul(0x9e37_79b9) % 65_536 * 48;
        }
        for step in 0..20 {
            self.push(code + 0x44 + 4 * step, Branch::None, false, &[]);
        }
        for slot in 0..4 {
            let restore = [(frame - 8 * (3 - slot), AccessKind::Read)];
            self.push(code + 0x100 + 4 * slot, Branch::None, false, &restore);
        }
        self.push(code + 0x110, Branch::Return, true, &[(frame + 8, AccessKind::Read)]);
    }
}
