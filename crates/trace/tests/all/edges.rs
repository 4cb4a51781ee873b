//! Readers of foreign formats at the edges of what they accept.

use std::path::Path;

use perforate_trace::{Compression, ForeignWriter, PageMap, TraceFormat, open_bytes};
use perforate_types::{
    AccessKind::{Read, Write},
    Branch, Chunk,
};

use crate::common::samples::*;
use crate::common::{array_loop, read_all};

fn read(bytes: &[u8]) -> Result<Chunk, String> {
    let mut source = open_bytes("edge", bytes.to_vec()).map_err(|error| error.to_string())?;
    let (chunk, error) = read_all(&mut *source);
    error.map_or(Ok(chunk), |error| Err(error.to_string()))
}

/// A file that was cut off anywhere is an error, is reported with the number of whole instructions, or ends at
/// the end of a record.
#[test]
fn a_cut_is_reported_with_what_came_before() {
    let (mut ends, mut packets) = (vec![0], gem5_packets());
    let long = message(&[(2, 1), (3, 0x9000), (4, 8), (9, -200)]);
    packets.extend([long.clone(), long].concat());
    let mut at = 4;
    while at < packets.len() {
        ends.push(at);
        let two_bytes = packets[at] >= 0x80;
        let length = usize::from(packets[at] & 0x7f)
            + if two_bytes { usize::from(packets[at + 1]) << 7 } else { 0 };
        at += 1 + usize::from(two_bytes) + length;
    }
    let multiples = |record: usize| (0..100).map(|number| number * record).collect::<Vec<_>>();
    for (format, bytes, ends) in [
        ("champsim", champsim_records(), multiples(64)),
        ("cloudsuite", cloudsuite_records(), multiples(96)),
        ("drmemtrace", drmemtrace_records(), vec![]),
        ("drmemtrace", regdeps_records(), vec![]),
        ("gem5", packets, ends),
    ] {
        for cut in 1..bytes.len() {
            let name = format!("{format}:edge");
            let Ok(mut source) = open_bytes(&name, bytes[..cut].to_vec()) else { continue };
            let (chunk, error) = read_all(&mut *source);
            match (source.truncated(), error) {
                (_, Some(_)) => {}
                (Some(cut_off), None) => {
                    assert_eq!(
                        cut_off.instructions,
                        chunk.instructions.len() as u64,
                        "{name} {cut}"
                    );
                    assert!(cut_off.offset <= cut as u64, "{name} {cut}: {cut_off}");
                }
                (None, None) => assert!(ends.contains(&cut), "{name} {cut}: nothing is reported"),
            }
        }
    }
}

/// The rules of ChampSim's tracer, for each class of registers that a branch may read and write.
#[test]
fn registers_tell_the_kind_of_a_branch() {
    let [stack_pointer, flags_register, pointer, any] = [6, 25, 26, 11];
    for bits in 0..32u8 {
        let has = |place: u8| bits >> place & 1 != 0;
        let [stack, flags, ip, other, writes_stack] = std::array::from_fn(|place| has(place as u8));
        let [by_flags, by_other] = [flags, other].map(u8::from);
        let named = |is_read, register| if is_read { register } else { 0 };
        let read = [
            named(stack, stack_pointer),
            named(flags, flags_register),
            named(ip, pointer),
            named(other, any),
        ];
        let written = [pointer, named(writes_stack, stack_pointer)];
        for taken in [0, 1] {
            let record = champsim(0x1000, [1, taken], written, read, [0; 6]);
            let next = champsim(0x1004, [0, 0], [0; 2], [0; 4], [0; 6]);
            let bytes = [record, next.repeat(9)].concat();
            let mut source = open_bytes("champsim:edge", bytes).unwrap();
            let one = read_all(&mut *source).0.instructions[0];
            let expected = match (stack, ip, writes_stack, by_flags, by_other) {
                (false, _, _, 0, 0) => (Branch::Jump, true),
                (false, false, _, 0, 1) => (Branch::Indirect, true),
                (false, true, false, _, _) => (Branch::Conditional, taken == 1),
                (true, true, true, 0, 0) => (Branch::Call, true),
                (true, true, true, 0, 1) => (Branch::IndirectCall, true),
                (true, false, true, _, _) => (Branch::Return, true),
                _ => (Branch::Indirect, taken == 1),
            };
            assert_eq!((one.branch, one.taken), expected, "{read:?} {written:?} {taken}");
        }
    }
}

/// Code that runs straight on is recognized up to the longest instruction of x86, which has 15 bytes.
#[test]
fn long_instructions_tell_the_length_of_records() {
    for (step, known) in [(1, true), (15, true), (16, false)] {
        let record = |number: u64| champsim(0x1000 + number * step, [0; 2], [0; 2], [1; 4], [0; 6]);
        let bytes: Vec<u8> = (0..30).flat_map(record).collect();
        let name = if known { "champsim" } else { "" };
        let format = open_bytes("edge", bytes).map(|source| source.metadata().format);
        assert_eq!(format.unwrap_or_default(), name, "{step}");
    }
}

#[test]
fn lists_take_every_word_and_number_of_their_columns() {
    let entry = |text: &str| {
        let chunk = read(format!("{text}\n").as_bytes());
        chunk.map(|chunk| {
            let access = chunk.accesses.first();
            let one = chunk.instructions[0];
            (one.ip.value(), access.map(|it| (it.address.value(), it.size, it.kind)))
        })
    };
    let ip = 0x40_0000;
    for (text, expected) in [
        ("R 0", (ip, Some((0, 8, Read)))),
        ("r 0XFF 1", (ip, Some((255, 1, Read)))),
        ("read 18446744073709551615 65535", (ip, Some((u64::MAX, 65535, Read)))),
        ("READ,0x10,2,7,0x99", (0x99, Some((16, 2, Read)))),
        ("Read\t0x10\t2", (ip, Some((16, 2, Read)))),
        ("W 0xffffffffffffffff", (ip, Some((u64::MAX, 8, Write)))),
        ("w,16,,,1", (1, Some((16, 8, Write)))),
        ("write 16", (ip, Some((16, 8, Write)))),
        ("WRITE 16", (ip, Some((16, 8, Write)))),
        ("Write 16 3 2", (ip, Some((16, 3, Write)))),
        ("I 16", (16, None)),
        ("i 16", (16, None)),
        ("instruction 16", (16, None)),
        ("INSTRUCTION 16", (16, None)),
        ("Instruction 16", (16, None)),
        ("op,pc,vaddr,asid,bytes\nW,1,2,0,3", (1, Some((2, 3, Write)))),
        ("Addr TYPE IP Length Process\n5 r 6 7 0", (6, Some((5, 7, Read)))),
        ("access,ADDRESS\nr,9", (ip, Some((9, 8, Read)))),
    ] {
        assert_eq!(entry(text), Ok(expected), "{text}");
    }
    for text in [
        "R 0x+5",
        "R +5",
        "R 0x",
        "R -1",
        "R 18446744073709551616",
        "rEAD 5",
        "R 5 0",
        "R 5 65536",
        "R 5 8 -1",
        "R 5 8 1 0xg",
        "R 5 8 1 2 3",
        ",5",
        "R,",
        "kind,size\nR,8",
        "address,size\n5,8",
        "kind,address,addr\nR,5,5",
        "kind,address,colour\nR,5,5",
    ] {
        assert!(entry(text).is_err(), "{text}");
    }
}

/// A header in the new order has its version in the seventh byte, one in the old order in the first.
#[test]
fn raw_files_of_drmemtrace_have_a_version() {
    let is_raw = |start: [u8; 8]| {
        let text = read(&[&start[..], &[0; 184]].concat()).unwrap_err();
        text.contains("a raw drmemtrace file")
    };
    for (version, known) in [(0, false), (1, true), (31, true), (32, false)] {
        assert_eq!(is_raw([0, 0, 0, 0, 0, 0, version, 0xc4]), known, "{version}");
        assert_eq!(is_raw([version, 0, 0, 0, 0, 0, 0, 0xc0]), known, "{version}");
    }
    assert!(!is_raw([1, 0, 0, 0, 0, 1, 0, 0xc0]) && !is_raw([0, 0, 0, 0, 0, 0, 1, 0xc8]));
}

#[test]
fn each_group_of_a_page_map_is_compared_with_its_own_totals() {
    let group = |first: u64, pages: u64, stated: u64| {
        let mapping = |page: u64| {
            let address = (first + page) * 4096;
            format!("address_mapping {{ virtual_address: {address} physical_address: {address} }}")
        };
        let mappings: String = (0..pages).map(mapping).collect();
        format!(
            "address_mapping_group {{ page_size: 4096 {mappings} \
             information {{ page_count: {stated} bytes_mapped: {} }} }}",
            stated * 4096
        )
    };
    let remarks = |text: String| {
        PageMap::parse(Path::new("v2p"), text.as_bytes()).unwrap().remarks().to_vec()
    };
    assert!(remarks(group(1, 2, 2) + &group(8, 3, 3)).is_empty());
    let second = [
        "a group says that it has 4 pages, and has 3",
        "a group says that it has 16384 bytes, and has 12288",
    ];
    assert_eq!(remarks(group(1, 2, 2) + &group(8, 3, 4)), second);
    let shared = group(1, 2, 2)
        + &group(8, 3, 3).replace("physical_address: 32768", "physical_address: 4096");
    assert_eq!(remarks(shared), ["1 page has the physical address of another"]);
}

/// Neighbouring compression levels give different files. A level outside the valid range acts as the nearest
/// valid level.
#[test]
fn levels_of_compression_have_an_effect() {
    let folder = tempfile::tempdir().unwrap();
    let mut chunk = array_loop(700);
    chunk.events.clear();
    let written = |compression, level| {
        let path = folder.path().join("written");
        let file = std::fs::File::create(&path).unwrap();
        let format = TraceFormat::ChampSim;
        let mut writer = ForeignWriter::on(file, &path, format, compression, level).unwrap();
        writer.write_chunk(&chunk).unwrap();
        writer.finish().unwrap();
        std::fs::read(path).unwrap()
    };
    for compression in [Compression::Gzip, Compression::Xz, Compression::Zstd] {
        assert!(written(compression, 1) != written(compression, 2), "{compression:?}");
        assert!(written(compression, 1) == written(compression, 0), "{compression:?}");
    }
    assert!(written(Compression::Gzip, 8) != written(Compression::Gzip, 9));
    assert!(written(Compression::Gzip, 10) == written(Compression::Gzip, 9));
}
