//! Tests of synthetic workloads: properties of their instructions, and parsing of their parameters.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_trace::{Limited, Source, TraceWriter, convert, metadata_for, open};
use perforate_types::{AccessKind, Backing, Branch, Chunk, Instruction, Permissions, ProgramEvent};
use perforate_workloads::{WORKLOADS, Workload, WorkloadSpec};

/// Reads a source to its end.
fn read_all(source: &mut dyn Source) -> Chunk {
    let (mut all, mut chunk) = (Chunk::default(), Chunk::default());
    while source.next_chunk(&mut chunk).unwrap() {
        all.append(&chunk);
    }
    all
}

fn run(spec: &str, seed: u64, instructions: u64) -> Chunk {
    read_all(&mut *WorkloadSpec::parse(spec).unwrap().source(seed, Some(instructions)))
}

fn has(workload: &Workload, option: &str) -> bool {
    workload.options().iter().any(|one| one.name == option)
}

/// Workloads that run an algorithm on data of a given size, and have no option `others`.
fn algorithms() -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().filter(|workload| has(workload, "size") && !has(workload, "others"))
}

fn error_of(spec: &str) -> String {
    WorkloadSpec::parse(spec).unwrap_err().to_string()
}

#[test]
fn workloads_stay_within_their_mappings_and_mix() {
    let is_pattern = |workload: &&Workload| {
        workload.name != "churn" && has(workload, "size") && has(workload, "others")
    };
    for workload in WORKLOADS.iter().filter(is_pattern) {
        let chunk = run(&format!("{}:size=1M", workload.name), 1, 100_001);
        assert_eq!(chunk.instructions.len(), 100_001);
        // Three other instructions per access: four instructions per round.
        assert_eq!(chunk.accesses.len(), 25_000, "{}", workload.name);
        let [(0, data), (0, code)] = &chunk.events[..] else { panic!("two maps first") };
        let ProgramEvent::Map { start, length, populate: true, .. } = *data else { panic!("data") };
        // 0x7f00_0000_0000 − 1MB, rounded down to a multiple of 1GB.
        assert_eq!((start.value(), length), (0x7eff_c000_0000, 1 << 20));
        for access in &chunk.accesses {
            let offset = access.address.value() - start.value();
            assert!(offset + u64::from(access.size) <= length && access.kind == AccessKind::Read);
        }
        let ProgramEvent::Map { start, length, permissions, backing, populate, .. } = *code else {
            panic!("code")
        };
        assert_eq!((permissions, backing), (Permissions::READ_EXECUTE, Backing::File));
        assert!(!populate);
        let inside = start.value()..start.value() + length;
        assert!(chunk.instructions.iter().all(|one| inside.contains(&one.ip.value())));
        let branches = chunk.instructions.iter().filter(|one| one.branch == Branch::Conditional);
        assert_eq!(branches.count(), 25_000);
        assert!(chunk == run(&format!("{}:size=1M", workload.name), 1, 100_001), "reproducible");
    }
}

/// An address always has the same instruction, except for its registers, and each loop is on few cache
/// lines.
fn assert_is_code(name: &str, chunk: &Chunk, code: &Range<u64>) {
    let mut known: BTreeMap<u64, Instruction> = BTreeMap::new();
    for one in &chunk.instructions {
        assert!(code.contains(&one.ip.value()), "{name}");
        let Instruction { ip, accesses, length, branch, operation, .. } = *one;
        let shape =
            Instruction { ip, accesses, length, branch, operation, ..Instruction::default() };
        assert_eq!(*known.entry(ip.value()).or_insert(shape), shape, "{name}");
    }
    let addresses: Vec<u64> = known.into_keys().collect();
    assert_eq!(addresses[0], code.start, "{name}");
    let follows = |pair: &[u64]| pair[1] == pair[0] + 4 || pair[1] == (pair[0] / 64 + 1) * 64;
    assert!(addresses.windows(2).all(follows), "{name}: no gaps but before aligned loops");
}

#[test]
fn algorithms_run_consistent_code_within_populated_memory() {
    let mut found = Vec::new();
    for Workload { name, .. } in algorithms() {
        let spec = format!("{name}:size=1M");
        // More than a round; for canneal, 15,000 swaps, after which it cools.
        let instructions = if *name == "canneal" { 12_000_001 } else { 4_000_001 };
        let chunk = run(&spec, 1, instructions);
        assert_eq!(chunk.instructions.len() as u64, instructions);
        let [(0, data), (0, code)] = &chunk.events[..] else { panic!("two maps first") };
        let ProgramEvent::Map { start, length, populate: true, .. } = *data else { panic!("data") };
        assert!(length <= 1 << 20 && length > 900 << 10, "{name}: {length}");
        let data = start.value()..start.value() + length;
        let ProgramEvent::Map { start, length: bytes, .. } = *code else { panic!("code") };
        assert_is_code(name, &chunk, &(start.value()..start.value() + bytes));
        let mut accesses = chunk.accesses.iter();
        let mut touched = vec![false; length as usize / 4096];
        for instruction in &chunk.instructions {
            for access in accesses.by_ref().take(instruction.accesses.into()) {
                let end = access.address.value() + u64::from(access.size);
                assert!(data.contains(&access.address.value()) && end <= data.end, "{name}");
                // An access of a whole element does not straddle two elements.
                assert_eq!(access.address.value() % u64::from(access.size), 0, "{name}");
                // Loads write a register; stores do not.
                let loads = instruction.destinations[0] != 0;
                assert_eq!(loads, access.kind == AccessKind::Read, "{name}");
                touched[(access.address.value() - data.start) as usize / 4096] = true;
            }
        }
        assert!(accesses.next().is_none(), "{name}: accesses that nobody makes");
        // All but a few pages are touched. An undirected graph leaves the room of self-loops unused,
        // few edges are in a forest or matching, and edges before sorting are not read.
        let most = if *name == "mst" { touched.len() / 2 } else { touched.len() / 10 };
        let untouched = touched.iter().filter(|&&touched| !touched).count();
        assert!(untouched < most, "{name}: {untouched} pages not touched");
        let later = chunk.instructions[chunk.instructions.len() - 1_000_000..].to_vec();
        found.push((*name, digest(&Chunk { instructions: later, ..Chunk::default() })));
    }
    assert_eq!(found, KEPT_LATER, "the last million instructions changed:\n{found:#018x?}");
}

#[test]
fn algorithms_depend_on_nothing_but_their_seed() {
    for Workload { name, .. } in algorithms() {
        let spec = WorkloadSpec::parse(&format!("{name}:size=1M")).unwrap();
        let expected = run(&spec.to_string(), 3, 60_000);
        let other = run(&spec.to_string(), 4, 60_000);
        assert!(expected.accesses != other.accesses, "{name}: the seed changes nothing");
        let mut source = spec.source(3, Some(60_000));
        assert_eq!(source.skip(20_001).unwrap(), 20_001);
        let rest = read_all(&mut *source);
        assert_eq!(rest.instructions, expected.instructions[20_001..], "{name}");
        assert_eq!(rest.events, expected.events);
        assert_eq!(
            rest.accesses,
            expected.accesses[expected.accesses.len() - rest.accesses.len()..]
        );
    }
}

/// The set-up of a store is delivered, and does not count towards the limit.
#[test]
fn limits_count_from_the_end_of_the_setup() {
    let spec = WorkloadSpec::parse("store:keys=500,value=4K").unwrap();
    let mut source = spec.source(1, Some(20_000));
    assert_eq!(source.metadata().setup_until, Some("reads"));
    let (mut before, mut after, mut chunk) = (0, None, Chunk::default());
    while source.next_chunk(&mut chunk).unwrap() {
        let count = chunk.instructions.len();
        match (&mut after, chunk.phase_start("reads")) {
            (None, None) => before += count,
            (None, Some(start)) => after = Some(count - start),
            (Some(after), _) => *after += count,
        }
    }
    assert!(before > 500 * 4, "{before}");
    assert_eq!(after, Some(20_000));
}

#[test]
fn the_fork_workload_forks_once_and_reads_in_turns() {
    let chunk = run("fork:heap=4M,written=10%,reads=1000", 1, 1_000_000);
    let forks = |event: &ProgramEvent| matches!(event, ProgramEvent::Fork { .. });
    assert_eq!(chunk.events.iter().filter(|(_, event)| forks(event)).count(), 1);
    let writes = chunk.accesses.iter().filter(|one| one.kind == AccessKind::Write).count();
    // 1024 pages; 1,500 reads by each process, and twice 1,500 by the parent alone.
    assert_eq!((writes, chunk.accesses.len() - writes), (102, 4 * 1500));
    let phases: Vec<&str> = chunk.events.iter().filter_map(|(_, event)| phase_of(event)).collect();
    assert_eq!(
        phases,
        [
            "fork",
            "switch",
            "changes",
            "shared-warm-up",
            "shared-warm-up",
            "shared-parent",
            "shared-child",
            "switch",
            "exit",
            "alone-warm-up",
            "alone-parent",
            "mended-warm-up",
            "mended-parent",
        ]
    );
    let protects = run("fork:heap=4M,written=10%,reads=10,case=c", 1, 1_000_000);
    let is_protect = |event: &ProgramEvent| matches!(event, ProgramEvent::Protect { .. });
    assert_eq!(protects.events.iter().filter(|(_, event)| is_protect(event)).count(), 102);
}

fn phase_of(event: &ProgramEvent) -> Option<&str> {
    match event {
        ProgramEvent::Phase { name, .. } => Some(name),
        _ => None,
    }
}

#[test]
fn readers_repeat_their_rounds() {
    let spec = "readers:heap=4M,processes=2,touch,reads=40,warmup=20,slice=10";
    // 2048 pages are written; a round is 120 reads. Each access has three other instructions.
    let chunk = run(spec, 1, 4 * 240);
    let reads = &chunk.accesses[2048..];
    assert_eq!((reads.len(), &reads[..120]), (240, &reads[120..]));
    let switches = |event: &ProgramEvent| matches!(event, ProgramEvent::Switch { .. });
    let switches = chunk.events.iter().filter(|(_, event)| switches(event)).count();
    assert_eq!(switches, 2 + 4 * 6);
    let single = run("readers:heap=4M,processes=1", 1, 4000);
    let [(0, map), (0, phase)] = &single.events[..] else { panic!("{:?}", single.events) };
    assert!(matches!(map, ProgramEvent::Map { length: 0x40_0000, populate: true, .. }));
    assert_eq!(phase_of(phase), Some("uniform-warm-up"));
}

#[test]
fn churn_maps_pieces_anew_and_fills_them() {
    // Four pieces of two pages. Ten random accesses and two filling accesses make a round of 48
    // instructions.
    let chunk = run("churn:size=32K,piece=8K,between=10", 1, 40 + 48 * 100);
    assert_eq!(chunk.accesses.len(), 10 + 12 * 100);
    let rounds = chunk.events[2..].chunks(2).enumerate();
    let mut pieces = [0; 4];
    for (round, events) in rounds {
        let [(at, unmap), (also, map)] = events else { panic!("unmap and map") };
        assert_eq!((*at, at), (40 + 48 * round as u32, also));
        let ProgramEvent::Unmap { start, length: 8192 } = *unmap else { panic!("{unmap:?}") };
        let ProgramEvent::Map { start: again, length: 8192, populate: false, .. } = *map else {
            panic!("{map:?}")
        };
        assert_eq!(start, again);
        pieces[(start.value() / 8192 % 4) as usize] += 1;
        let fills = &chunk.accesses[10 + 12 * round..][..2];
        for (page, access) in fills.iter().enumerate() {
            assert_eq!(access.address.value(), start.value() + page as u64 * 4096);
            assert_eq!(access.kind, AccessKind::Write);
        }
    }
    assert_eq!(pieces.iter().sum::<u32>(), 100);
    assert!(pieces.iter().all(|&count| count > 10), "{pieces:?}");
}

#[test]
fn the_mix_follows_the_parameters() {
    // No other instructions: rounds of 64 accesses and one branch.
    assert_eq!(run("random:size=1M,others=0", 1, 6500).accesses.len(), 6400);
    // One other instruction: the branch. Ten: eleven instructions per round.
    assert_eq!(run("random:size=1M,others=1", 1, 1000).accesses.len(), 500);
    assert_eq!(run("random:size=1M,others=10", 1, 1100).accesses.len(), 100);
    let chunk = run("random:size=1M,others=0,writes=25%", 1, 65_000);
    let writes = chunk.accesses.iter().filter(|one| one.kind == AccessKind::Write).count();
    // 64,000 accesses: 16,000 writes expected, standard deviation 110.
    assert!((15_450..16_550).contains(&writes), "{writes}");
}

#[test]
fn dependent_loads_read_what_the_last_one_loaded() {
    let loads = |spec| {
        let chunk = run(spec, 1, 8);
        chunk.instructions.into_iter().filter(|one| one.accesses > 0).collect::<Vec<_>>()
    };
    for (spec, dependent) in
        [("random:size=1M", false), ("random:size=1M,dependent", true), ("chase:size=1M", true)]
    {
        let [load, _] = loads(spec)[..] else { panic!("two loads") };
        assert_eq!(load.sources.contains(&load.destinations[0]), dependent, "{spec}");
    }
}

#[test]
fn uniform_random_covers_everything_evenly() {
    let chunk = run("random:size=64K,others=0", 5, 650_000); // 640,000 accesses
    let mut counts = [0u32; 16];
    for access in &chunk.accesses {
        counts[(access.address.value() as usize >> 12) % 16] += 1;
    }
    // 40,000 per page expected, standard deviation 194.
    assert!(counts.iter().all(|count| (39_000..41_000).contains(count)), "{counts:?}");
    assert!(chunk.accesses.iter().all(|access| access.address.value() % 8 == 0));
    assert_ne!(chunk.accesses, run("random:size=64K,others=0", 6, 650_000).accesses);
}

#[test]
fn a_terabyte_needs_no_memory_and_skipping_is_exact() {
    for name in ["chase:size=1T", "zipf:size=64T,item=8B", "random:size=1T,others=0"] {
        let spec = WorkloadSpec::parse(name).unwrap();
        let expected = run(name, 3, 60_000);
        let mut source = spec.source(3, Some(60_000));
        assert_eq!(source.skip(20_001).unwrap(), 20_001);
        let rest = read_all(&mut *source);
        assert_eq!(rest.instructions, expected.instructions[20_001..]);
        assert_eq!(rest.events, expected.events);
        let start = expected.accesses.len() - rest.accesses.len();
        assert_eq!(rest.accesses, expected.accesses[start..]);
        assert_eq!(source.skip(1).unwrap(), 0);
    }
}

#[test]
fn without_a_limit_a_workload_never_ends() {
    let mut source = WorkloadSpec::parse("sequential:size=4K").unwrap().source(0, None);
    assert_eq!(source.metadata().instructions, None);
    let (mut all, mut chunk) = (Chunk::default(), Chunk::default());
    for _ in 0..3 {
        assert!(source.next_chunk(&mut chunk).unwrap());
        all.append(&chunk);
    }
    let first = all.accesses[0].address.value();
    // 512 words, then the first again.
    assert_eq!(all.accesses[511].address.value() - first, 4088);
    assert_eq!(all.accesses[512].address.value(), first);
}

#[test]
fn a_workload_prints_as_text_that_parses_to_the_same() {
    let parsed = |text: &str| WorkloadSpec::parse(text).unwrap();
    let spec = parsed("random:dependent,others=4,size=4g");
    assert_eq!(spec.to_string(), "random:size=4G,dependent,others=4,writes=0%");
    assert_eq!(parsed(&spec.to_string()).to_string(), spec.to_string());
    for workload in WORKLOADS {
        let spec = parsed(workload.name);
        assert_eq!(parsed(&spec.to_string()).to_string(), spec.to_string());
        assert!(workload.example.starts_with(&format!("{}:", workload.name)));
        assert_ne!(parsed(workload.example).to_string(), spec.to_string());
        let source = spec.source(0, Some(5));
        assert_eq!(source.metadata().name, spec.to_string());
        assert_eq!(source.metadata().instructions, Some(5));
        for option in workload.options() {
            assert!(!option.help.is_empty() && !option.form.is_empty(), "{option:?}");
            assert!(!option.default.is_empty(), "{option:?}");
        }
    }
    assert!(WorkloadSpec::is_workload("random:nonsense") && !WorkloadSpec::is_workload("a.trace"));
}

#[test]
fn wrong_text_gets_one_clear_line() {
    for (spec, expected) in [
        ("ramdom", "there is no \"ramdom\"; did you mean random?"),
        ("random:sise=4G", "there is no \"sise\"; did you mean size?"),
        ("random:colour=4", "there is no \"colour\"; there are size, dependent, others, writes"),
        ("random:size=0", "size: is 4K to 64T, not 0"),
        ("random:size=64", "size: 64 has no unit: 64M or 64G?"),
        ("random:size=-1", "size: expected a size such as 64M or 4G, not \"-1\""),
        ("random:size=99999999T", "size: is 4K to 64T, not 99999999T"),
        ("random:size=65T", "size: is 4K to 64T, not 65T"),
        ("random:size=4Q", "size: expected a size"),
        ("random:size", "size: has no value; write size=…"),
        ("random:size=1G,size=2G", "size is given twice"),
        ("random:dependent=maybe", "dependent: expected yes or no, not \"maybe\""),
        ("random:others=1001", "others: is at most 1000, not 1001"),
        ("random:writes=101%", "writes: expected a share from 0% to 100%"),
        ("random:writes=nan", "writes: expected a share"),
        ("random:,", "there is no \"\"; there are size"),
        ("stride:stride=0", "stride: is 8B to 64T"),
        ("zipf:exponent=11", "exponent: expected a number from 0 to 10, not 11"),
        ("chase:node=1B", "node: is 8B to 4K, not 1B"),
        ("gups:instructions=10", "instructions: is at least 11, not 10"),
        ("spmv:columns=0", "columns: is at least 1, not 0"),
        ("dict:batch=0", "batch: is at least 1, not 0"),
        ("store:keys=17M", "keys: is at most 16000000, not 17000000"),
        ("store:keys=1.5", "keys: expected a whole number"),
        ("fork:case=d", "case: expected a, b or c, not \"d\""),
        ("readers:processes=0", "processes: is at least 1, not 0"),
        ("mst:size=4K", "size: is 1M to 64G, not 4K"),
        ("rmat-bfs:size=1T", "size: is 1M to 64G, not 1T"),
        ("breadth", "there is no \"breadth\"; there are random, sequential, stride, zipf, chase"),
    ] {
        let text = error_of(spec);
        assert!(text.starts_with(&format!("workload '{spec}': ")), "{text}");
        assert!(text.contains(expected) && !text.contains('\n'), "{text}");
    }
    // The largest allowed values work.
    for spec in ["random:size=64T", "stride:size=64T,stride=64T", "chase:size=4K,node=4K"] {
        assert_eq!(run(spec, 0, 40).accesses.len(), 10, "{spec}");
    }
}

#[test]
fn a_workload_converts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    let spec = WorkloadSpec::parse("zipf:size=1M,writes=10%").unwrap();
    let mut source = spec.source(1, Some(100_000));
    let metadata = metadata_for(&*source);
    let writer = TraceWriter::create(&path, &metadata).unwrap();
    assert_eq!(convert(&mut *source, writer).unwrap().instructions, 100_000);
    let expected = read_all(&mut *spec.source(1, Some(100_000)));
    assert_eq!(read_all(&mut *open(&path).unwrap()), expected);
    let mut limited = Limited::new(open(&path).unwrap(), 10_001);
    assert_eq!(limited.metadata().instructions, Some(10_001));
    let first = read_all(&mut limited);
    assert_eq!(first.instructions, expected.instructions[..10_001]);
    assert_eq!(first.accesses, expected.accesses[..first.accesses.len()]);
}

/// FNV-1a over the fields of all instructions, accesses and events.
fn digest(chunk: &Chunk) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |value: u64| hash = (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3);
    for one in &chunk.instructions {
        let Instruction { ip, sources, data_sources, destinations, accesses, length, .. } = *one;
        add(ip.value());
        add(u64::from(u32::from_le_bytes(sources)));
        add(u64::from(u16::from_le_bytes(destinations)));
        add(u64::from(u32::from_le_bytes([data_sources, accesses, length, u8::from(one.taken)])));
        add(one.branch as u64);
        add(one.operation as u64);
    }
    for access in &chunk.accesses {
        add(access.address.value());
        add(u64::from(access.size) << 8 | access.kind as u64);
    }
    for (before, event) in &chunk.events {
        add(u64::from(*before));
        format!("{event:?}").bytes().for_each(|byte| add(byte.into()));
    }
    hash
}

/// Results are compared between versions, so a workload stays the same, instruction by instruction. A hash
/// that differs is printed with the line that replaces it after an intended change.
#[test]
fn workloads_are_as_they_were() {
    let mut changed = String::new();
    for (spec, expected) in KEPT {
        let chunk = run(spec, 5, 1_000_000);
        let found = digest(&chunk);
        if found != *expected {
            changed += &format!("    (\"{spec}\", {found:#018x}),\n");
        }
    }
    assert!(changed.is_empty(), "these workloads changed:\n{changed}");
}

/// Hashes of the last million instructions of the algorithms after more than a round, with 1MB and seed 1.
const KEPT_LATER: &[(&str, u64)] = &[
    ("gups", 0x57ca_506d_04e1_5cf5),
    ("canneal", 0x5c01_6ea0_39da_4da7),
    ("dict", 0x3d29_8fb2_39a3_5f2c),
    ("rmat-bfs", 0x8551_d05d_48b4_2a08),
    ("set-cover", 0xa16c_92db_92ee_7f44),
    ("mst", 0xce8d_ff13_5dc2_cbda),
    ("spmv", 0xa51d_c4c8_d799_6fbb),
    ("matching", 0xbcdb_2d54_5658_ceed),
    ("mis", 0xfede_c9ac_c533_e5c7),
    ("btree", 0x659a_686d_2fec_a309),
    ("hash-join", 0xfd89_b2a4_c671_40fe),
    ("xsbench", 0xf6e0_6631_c568_b87b),
    ("pagerank", 0xed09_4218_a22d_b445),
];

/// Specifications with every option away from its default somewhere, and hashes of their instructions.
const KEPT: &[(&str, u64)] = &[
    ("random:size=1M", 0x1ed8_857a_e4e9_3670),
    ("random:size=3M,others=0,dependent,writes=30%", 0x34ad_7512_81f0_5444),
    ("random:size=1M,others=1,dependent", 0x50af_5db2_b473_5b10),
    ("sequential:size=1M", 0x29f9_4a9b_3fc6_6b08),
    ("sequential:size=100K,others=0,writes=100%", 0x3c6e_7166_0808_2876),
    ("stride:size=1M,stride=72B", 0xbd16_d290_8b4d_49c8),
    ("stride:size=1M,stride=8K,others=5,writes=25%", 0xe6b9_9c3e_34ea_69e1),
    ("zipf:size=1M", 0x8d4e_e56b_fda4_7ec8),
    ("zipf:size=2M,exponent=1.3,item=1K,writes=10%", 0x69d9_9ebb_a36f_63d1),
    ("chase:size=1M", 0x860a_f5b8_acde_c008),
    ("chase:size=1M,node=256B,others=2", 0xc586_07b3_86c8_93f3),
    ("churn:size=1M", 0x15f5_4cde_0d53_10e8),
    ("churn:size=4M,piece=64K,between=1k", 0x2cbe_979e_eead_9c0a),
    ("gups:size=1M", 0x9a9f_9a5d_1812_9dab),
    ("gups:size=2M,instructions=30", 0xcc7a_6405_4743_42c2),
    ("canneal:size=1M", 0x69fc_2901_b838_245c),
    ("dict:size=1M", 0x39ee_f74e_78a1_0340),
    ("dict:size=1M,batch=100", 0x8f5f_896b_7174_2678),
    ("rmat-bfs:size=1M", 0x8070_809e_37a8_fbda),
    ("set-cover:size=1M", 0x1770_f74e_3331_aff7),
    ("mst:size=1M", 0x1356_b90f_3a96_4ecb),
    ("spmv:size=1M", 0x1d10_03a8_6d0d_71d3),
    ("spmv:size=1M,columns=7", 0xe602_853e_c780_90e7),
    ("matching:size=1M", 0xe229_cbac_4748_1164),
    ("mis:size=1M", 0xab54_6d68_59a1_8fe8),
    ("mis:size=1M,order=numbers", 0x4627_4983_207a_c87d),
    ("btree:size=1M", 0x5354_a39a_7df9_6d54),
    ("hash-join:size=1M", 0xacf4_8840_ef81_74d0),
    ("hash-join:size=2M,ratio=1", 0x7f74_c1af_fbd5_267f),
    ("xsbench:size=1M", 0x2f29_0936_989b_3e9d),
    ("pagerank:size=1M", 0x8673_f886_87ba_6cea),
    ("chase:size=1M,chains=3,scattered", 0x2889_4ded_2edc_a62d),
    ("store:keys=500", 0x75cd_6ff9_b275_f451),
    ("store:keys=2k,value=1K,live=30%,compact,page-reads=1k,reads=2k", 0x5fc2_65bf_1651_a3ed),
    ("fork:heap=2M,reads=2k", 0x1c68_634c_4441_9175),
    ("fork:heap=4M,written=50%,case=b,reads=2k", 0x621e_84e8_32fe_5dd8),
    ("fork:heap=4M,written=20%,case=c,reads=2k", 0x01f9_1a7d_778b_bfac),
    ("readers:heap=2M", 0x0754_8f8d_c9ee_450c),
    (
        "readers:heap=4M,processes=3,touch,reads=20k,warmup=3k,slice=700,exponent=0.6",
        0x2199_d1de_cd80_7963,
    ),
];
