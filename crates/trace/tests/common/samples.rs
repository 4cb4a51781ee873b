//! Small synthetic traces of every format, byte by byte. The files in `tests/samples` contain the same
//! bytes, as seeds for fuzzing.

use std::io::Write;

use perforate_types::Chunk;

/// Encodes a ChampSim record.
pub fn champsim(
    ip: u64,
    flags: [u8; 2],
    written: [u8; 2],
    read: [u8; 4],
    memory: [u64; 6],
) -> Vec<u8> {
    let mut bytes = ip.to_le_bytes().to_vec();
    bytes.extend(flags);
    bytes.extend(written);
    bytes.extend(read);
    bytes.extend(memory.iter().flat_map(|address| address.to_le_bytes()));
    assert_eq!(bytes.len(), 64);
    bytes
}

/// Eight instructions, one of each kind of branch. ChampSim's registers: 6 stack pointer, 25 flags, 26
/// instruction pointer.
pub fn champsim_records() -> Vec<u8> {
    [
        champsim(0x1000, [0, 0], [3, 25], [1, 2, 0, 0], [0x9000, 0, 0x8000, 0x8100, 0, 0]),
        champsim(0x1004, [1, 0], [26, 0], [26, 25, 0, 0], [0; 6]), // jne, not taken
        champsim(0x1006, [1, 1], [26, 0], [26, 0, 0, 0], [0; 6]),  // jmp
        champsim(0x2000, [1, 1], [26, 0], [11, 0, 0, 0], [0; 6]),  // jmp *%r11
        champsim(0x3000, [1, 1], [26, 6], [26, 6, 0, 0], [0x7ff8, 0, 0, 0, 0, 0]), // call
        champsim(0x4000, [1, 1], [26, 6], [26, 6, 11, 0], [0x7ff0, 0, 0, 0, 0, 0]), // call *%r11
        champsim(0x5000, [1, 1], [26, 6], [6, 0, 0, 0], [0, 0, 0x7ff0, 0, 0, 0]), // ret
        champsim(0x4003, [1, 1], [26, 0], [26, 25, 0, 0], [0; 6]), // jne, taken
    ]
    .concat()
}

/// Encodes a CloudSuite record that is not a branch.
pub fn cloudsuite(ip: u64, written: [u8; 4], memory: [u64; 8], space: u16) -> Vec<u8> {
    let mut bytes = ip.to_le_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(written);
    bytes.extend([7, 0, 0, 0]);
    bytes.extend([0; 6]);
    bytes.extend(memory.iter().flat_map(|address| address.to_le_bytes()));
    bytes.extend(space.to_le_bytes());
    bytes.extend([0; 6]);
    assert_eq!(bytes.len(), 96);
    bytes
}

/// Twelve instructions of two address spaces; the second starts at the fifth instruction.
pub fn cloudsuite_records() -> Vec<u8> {
    let record = |number: u64| {
        let memory = [0x9000 + number, 0, 0, 0x9800, 0x8000 + 8 * number, 0, 0, 0];
        cloudsuite(0x1_0000 + 4 * number, [3, 0, 4, 5], memory, if number < 4 { 70 } else { 71 })
    };
    (0..12).flat_map(record).collect()
}

/// Encodes a record of drmemtrace.
pub fn drmemtrace(kind: u16, size: u16, value: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
}

pub const MARKER: u16 = 28;
pub const TIME: u16 = 2;

/// Records at the start of the file of thread `thread`: version 5, x86-64 with encodings.
pub fn drmemtrace_start(process: u64, thread: u64, time: u64) -> Vec<u8> {
    [
        drmemtrace(25, 0, 5),
        drmemtrace(MARKER, 12, 5),
        drmemtrace(MARKER, 9, 0x240),
        drmemtrace(22, 4, thread),
        drmemtrace(24, 4, process),
        drmemtrace(MARKER, 10, 64),
        drmemtrace(MARKER, 18, 4096),
        drmemtrace(MARKER, TIME, time),
        drmemtrace(MARKER, 3, 1),
    ]
    .concat()
}

/// One thread with every kind of instruction, a bundle, a system call with kernel code, and a prefetch.
pub fn drmemtrace_records() -> Vec<u8> {
    [
        drmemtrace_start(700, 701, 1000),
        drmemtrace(47, 3, 0x00c0_8948), // bytes of the next instruction
        drmemtrace(10, 3, 0x40_1000),
        drmemtrace(0, 8, 0x7fff_1000),
        drmemtrace(1, 4, 0x7fff_2000),
        drmemtrace(17, 2, 0x0502),     // two more, of 2 and 5 bytes
        drmemtrace(3, 1, 0x7fff_3000), // prefetch
        drmemtrace(49, 2, 0x40_100a),  // not taken
        drmemtrace(48, 2, 0x40_100c),  // taken
        drmemtrace(14, 5, 0x40_2000),
        drmemtrace(1, 8, 0x7fff_0ff8),
        drmemtrace(MARKER, 29, 0x40_4000), // target of the next instruction
        drmemtrace(15, 2, 0x40_3000),
        drmemtrace(16, 1, 0x40_4000),
        drmemtrace(0, 8, 0x7fff_0ff8),
        drmemtrace(11, 2, 0x40_3002),
        drmemtrace(12, 2, 0x40_3010),
        drmemtrace(13, 2, 0x40_5000), // old conditional branch: the next address shows the outcome
        drmemtrace(10, 2, 0x40_5010), // system call
        drmemtrace(MARKER, 25, 1),
        drmemtrace(MARKER, 27, 1),
        drmemtrace(10, 4, 0xffff_ffff_8100_0000),
        drmemtrace(0, 8, 0xffff_8880_0000_0000),
        drmemtrace(MARKER, 28, 1),
        drmemtrace(10, 2, 0x40_5012), // rep movsb, two rounds
        drmemtrace(0, 1, 0x60_0000),
        drmemtrace(1, 1, 0x61_0000),
        drmemtrace(29, 2, 0x40_5012),
        drmemtrace(0, 1, 0x60_0001),
        drmemtrace(1, 1, 0x61_0001),
        drmemtrace(23, 4, 701),
        drmemtrace(26, 0, 0),
    ]
    .concat()
}

/// Encodes the bytes of an encoding as records, at most eight bytes in each.
pub fn encoding(bytes: &[u8]) -> Vec<u8> {
    let record = |part: &[u8]| {
        let mut value = [0; 8];
        value[..part.len()].copy_from_slice(part);
        drmemtrace(47, part.len() as u16, u64::from_le_bytes(value))
    };
    bytes.chunks(8).flat_map(record).collect()
}

/// A thread as in Google's workload traces, version 2, with the synthetic instruction set regdeps. The
/// first five encodings are those of DynamoRIO's `view_test.cpp`. The first word has, in bits 0–3, the
/// number of registers written, in 4–7 registers read, in 8 and 9 flags written and read, in 10–31 the
/// category (load 2, store 4, branch 8, vector 0x10, move 0x40). The size of the operation and the
/// registers follow.
pub fn regdeps_records() -> Vec<u8> {
    [
        drmemtrace(25, 0, 6),
        drmemtrace(MARKER, 12, 6),
        drmemtrace(MARKER, 9, 0x2_0e00), // regdeps, encodings, two bits for system calls
        drmemtrace(22, 4, 701),
        drmemtrace(24, 4, 700),
        drmemtrace(MARKER, 10, 64),
        drmemtrace(MARKER, 20, 5), // instructions of a chunk
        drmemtrace(MARKER, 18, 4096),
        drmemtrace(MARKER, TIME, 1000),
        drmemtrace(MARKER, 3, u64::MAX), // unknown processor
        encoding(&[0x11, 0, 1, 0, 6, 9, 6, 0]),
        drmemtrace(10, 3, 0x40_1000),
        encoding(&[0x11, 0x40, 0, 0, 0x21, 3, 0x4e, 0]),
        drmemtrace(10, 4, 0x40_1003),
        encoding(&[0x11, 0x48, 0, 0, 0x21, 0x49, 9, 0]),
        drmemtrace(10, 4, 0x40_1007),
        drmemtrace(0, 32, 0x7fff_1000),
        encoding(&[0x31, 0x19, 0, 0, 4, 2, 2, 4, 0x26, 0, 0, 0]),
        drmemtrace(10, 10, 0x40_100b),
        drmemtrace(0, 4, 0x7fff_2000),
        drmemtrace(1, 4, 0x7fff_2000),
        encoding(&[0, 0x22, 0, 0]),
        drmemtrace(48, 2, 0x40_1015), // taken
        drmemtrace(MARKER, 21, 1),    // end of a chunk
        drmemtrace(MARKER, 22, 40),   // number of the next record
        drmemtrace(10, 3, 0x40_1000), // again: its encoding is known
        // Return: reads the stack pointer, byte 6, and writes it; load and branch.
        encoding(&[0x11, 0x28, 0, 0, 6, 6, 6, 0]),
        drmemtrace(MARKER, 29, 0x40_2000), // target of the next instruction
        drmemtrace(16, 1, 0x40_1003),
        drmemtrace(0, 8, 0x7fff_3000),
        // System call: a branch by its category, plain by its record. Writes two registers.
        encoding(&[2, 0x20, 0, 0, 6, 3, 13, 0]),
        drmemtrace(10, 2, 0x40_2000),
        drmemtrace(MARKER, TIME, 1010),
        drmemtrace(MARKER, 3, u64::MAX),
        drmemtrace(MARKER, 26, 0),            // the call may block
        drmemtrace(MARKER, 4, 0x1_0000_00ca), // futex, and its first argument
        drmemtrace(MARKER, 6, 0x7fff_4000),
        drmemtrace(MARKER, TIME, 1020),
        drmemtrace(MARKER, 3, u64::MAX),
        // The code has changed: this address has another instruction now.
        encoding(&[0x21, 0, 4, 0, 6, 10, 11, 12]),
        drmemtrace(10, 3, 0x40_1000),
        drmemtrace(23, 4, 701),
        drmemtrace(26, 0, 0),
    ]
    .concat()
}

/// Content of the page map in `aux` for such a trace: three pages, of which two are contiguous.
pub const PAGE_MAP: &str = "# VirtualToPhysical
# Instance name: made up
address_mapping_group {
  page_size: 2097152
  address_mapping {
    virtual_address: 4194304
    physical_address: 2097152
  }
  address_mapping {
    virtual_address: 2145386496
    physical_address: 4194304
  }
  address_mapping {
    virtual_address: 0x600000
    physical_address: 0x800000
  }
  information {
    page_count: 3
    bytes_mapped: 6291456
  }
}
information {
  page_count: 3
  bytes_mapped: 6291456
}
";

/// Header of a raw drmemtrace file: version 7, x86-64.
pub fn drmemtrace_raw() -> Vec<u8> {
    let header: u64 = 6 << 61 | 4 << 56 | 7 << 48 | 0x40;
    [header, 0x4000_0000_0000_02bd, 0x6000_0000_0000_02bc].map(u64::to_le_bytes).concat()
}

/// A zip archive of these entries, alternately stored and deflated.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut output = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut output);
    for (number, (name, content)) in entries.iter().enumerate() {
        let file = archive.new_file(name);
        if number % 2 == 0 {
            let file = file.compression_method(rawzip::CompressionMethod::STORE);
            let (mut entry, config) = file.start().unwrap();
            let mut writer = config.wrap(&mut entry);
            writer.write_all(content).unwrap();
            let (_, descriptor) = writer.finish().unwrap();
            entry.finish(descriptor).unwrap();
        } else {
            let file = file.compression_method(rawzip::CompressionMethod::DEFLATE);
            let (mut entry, config) = file.start().unwrap();
            let level = flate2::Compression::default();
            let encoder = flate2::write::DeflateEncoder::new(&mut entry, level);
            let mut writer = config.wrap(encoder);
            writer.write_all(content).unwrap();
            let (encoder, descriptor) = writer.finish().unwrap();
            encoder.finish().unwrap();
            entry.finish(descriptor).unwrap();
        }
    }
    archive.finish().unwrap();
    output
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A protocol-buffer message preceded by its length. A field's value is a number; a negative value is
/// the length of a string of x.
pub fn message(fields: &[(u64, i128)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(number, value) in fields {
        if let Ok(value) = u64::try_from(value) {
            bytes.extend(varint(number << 3));
            bytes.extend(varint(value));
        } else {
            let length = value.unsigned_abs() as usize;
            bytes.extend(varint(number << 3 | 2));
            bytes.extend(varint(length as u64));
            bytes.extend(std::iter::repeat_n(b'x', length));
        }
    }
    [varint(bytes.len() as u64), bytes].concat()
}

/// A packet trace: a read, a fetch, a response, and a write with an instruction address.
pub fn gem5_packets() -> Vec<u8> {
    let packet =
        |tick, command, address, size| vec![(1, tick), (2, command), (3, address), (4, size)];
    let mut fetch = packet(20, 1, 0x40_0000, 64);
    fetch.push((5, 0x100));
    let mut write = packet(40, 4, 0x1_0000_0040, 4);
    write.extend([(5, 0x8000), (6, 9), (7, 0x40_1234)]);
    [
        b"gem5".to_vec(),
        message(&[(1, -7), (2, 0), (3, 1_000_000_000_000), (4, -5)]),
        message(&packet(10, 1, 0x2000, 8)),
        message(&fetch),
        message(&packet(30, 2, 0x2000, 8)),
        message(&write),
    ]
    .concat()
}

pub const LACKEY: &str = "==7== Lackey, an example Valgrind tool
==7==
I  0401ab70,3
I  0401ab73,5
 S 1fff000698,8
 L 1fff0006a0,4
I  0401b770,32
 M 0421f0,16
==7==
";

pub const LIST: &str = "# made up
R 0x1000
w\t8192 4

I 0x401000 3
R 0x3000 16
W,0x3010,,5,0x401000
R 0x4000 8 6 0x402000
";

/// A short trace in Perforate's format.
fn ours(chunk: &Chunk) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.trace");
    super::write_all(&path, chunk, 100);
    std::fs::read(path).unwrap()
}

/// Memory with names: a file, anonymous memory, a name that is taken away.
pub fn named() -> Chunk {
    let mut chunk = Chunk::default();
    for (start, name) in
        [(0x10_0000, "/usr/lib/libc.so.6"), (0x20_0000, "[anon:arena]"), (0x10_0000, "")]
    {
        chunk.push_event(super::map(start));
        chunk.push_event(super::name(start, name));
    }
    chunk.append(&super::array_loop(20));
    chunk
}

/// All samples, with their file names.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    let records = drmemtrace_records();
    let (first, second) = records.split_at(12 * 20);
    vec![
        ("champsim", champsim_records()),
        ("champsim.gz", gzip(&champsim_records())),
        ("champsim.xz", xz(&champsim_records())),
        ("champsim.zst", zstd::encode_all(&champsim_records()[..], 3).unwrap()),
        ("cloudsuite", cloudsuite_records()),
        ("drmemtrace", drmemtrace_records()),
        ("drmemtrace.zip", zip(&[("chunk.0000", first), ("chunk.0001", second)])),
        ("drmemtrace.raw", drmemtrace_raw()),
        ("drmemtrace.regdeps", regdeps_records()),
        ("drmemtrace.regdeps.lz4", lz4(&regdeps_records())),
        ("drmemtrace.regdeps.sz", snappy(&regdeps_records())),
        ("gem5", gem5_packets()),
        ("lackey", LACKEY.into()),
        ("list.csv", LIST.into()),
        ("perforate", ours(&super::array_loop(60))),
        ("perforate.named", ours(&named())),
    ]
}

pub fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut stream = lz4_flex::frame::FrameEncoder::new(Vec::new());
    stream.write_all(bytes).unwrap();
    stream.finish().unwrap()
}

pub fn snappy(bytes: &[u8]) -> Vec<u8> {
    let mut stream = snap::write::FrameEncoder::new(Vec::new());
    stream.write_all(bytes).unwrap();
    stream.into_inner().unwrap()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut stream = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    stream.write_all(bytes).unwrap();
    stream.finish().unwrap()
}

pub fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut stream = liblzma::write::XzEncoder::new(Vec::new(), 1);
    stream.write_all(bytes).unwrap();
    stream.finish().unwrap()
}
