//! Memory with a past: faulty frames, ageing, claiming fragmented blocks, compaction.

use crate::machine::policy;
use perforate_config::read;
use perforate_os::{
    Ageing, CompactionCounts, Defrag, EarlyCompaction, FaultMap, Kernel, KernelConfig, TableFormat,
    ZoneLayout,
};
use perforate_types::{
    AccessKind, Backing, Counters, Permissions, ProgramEvent, VirtualAddress, VirtualPage,
};

const MB: u64 = 1 << 20;
const BASE: u64 = 0x7f00_0000_0000;

fn config(memory_bytes: u64) -> KernelConfig {
    let tables = TableFormat { shadow_directories: true, ..TableFormat::default() };
    KernelConfig { seed: 1, tables, ..KernelConfig::new(memory_bytes) }
}

/// Maps `bytes` at [`BASE`] and touches every page.
fn touch(kernel: &mut Kernel, bytes: u64) {
    let event = ProgramEvent::Map {
        start: VirtualAddress::new(BASE),
        length: bytes,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    };
    kernel.event(&event).unwrap();
    for page in 0..bytes / 4096 {
        kernel.updates().clear();
        let page = VirtualPage::new(BASE / 4096 + page);
        kernel.fault(kernel.current(), page, AccessKind::Write).unwrap();
    }
}

fn counter(kernel: &Kernel, name: &str) -> u64 {
    let mut counters = Counters::default();
    kernel.counters(&mut counters);
    counters.get(name).unwrap_or_else(|| panic!("{name}")) as u64
}

#[test]
fn a_faulty_frame_spoils_a_large_page_but_is_one_hole_of_a_perforated_one() {
    // 64MB with a faulty frame in the middle of each 2MB block except the first.
    let faulty: Vec<u64> = (1..32).map(|block| block * 512 + 256).collect();
    for (name, large, perforated) in [("thp", 1, 0), ("perforated", 1, 7)] {
        let config =
            KernelConfig { faulty: Some(FaultMap::Frames(faulty.clone())), ..config(64 * MB) };
        let mut kernel = Kernel::new(config, policy(name)).unwrap();
        touch(&mut kernel, 16 * MB);
        assert_eq!(counter(&kernel, "large_pages"), large, "{name}");
        assert_eq!(counter(&kernel, "perforated_pages"), perforated, "{name}");
        assert_eq!(counter(&kernel, "retired_bytes"), 31 * 4096);
        if name == "perforated" {
            assert_eq!(counter(&kernel, "holes_allocated"), 7, "each hole is mapped elsewhere");
        }
    }
}

#[test]
fn memory_adds_up_after_ageing_and_use() {
    let sizes = ZoneLayout::Sizes { dma_bytes: 32 * MB, dma32_bytes: 64 * MB };
    for (layout, count) in [(ZoneLayout::Single, 1), (ZoneLayout::X86, 2), (sizes, 3)] {
        let config = KernelConfig {
            zones: layout,
            age: Some(read::<Ageing>("kernel-build,free=40%").unwrap()),
            faulty: Some(FaultMap::Uniform("0.001".parse().unwrap())),
            defrag: Defrag::Always,
            ..config(128 * MB)
        };
        let mut kernel = Kernel::new(config, policy("perforated")).unwrap();
        touch(&mut kernel, 32 * MB);
        let others: u64 = ["other_programs_bytes", "page_cache_bytes", "slab_bytes"]
            .iter()
            .chain(&["kernel_data_bytes", "retired_bytes", "hole_bitmap_bytes"])
            .chain(&["mapped_bytes", "page_table_bytes", "free_bytes"])
            .map(|name| counter(&kernel, name))
            .sum();
        assert_eq!(others, 128 * MB, "{layout:?}");
        kernel.check_invariants().expect("records agree");
        let zones: u64 = kernel
            .zones()
            .iter()
            .map(|zone| zone.buddy.range().end - zone.buddy.range().start)
            .sum();
        assert_eq!(zones * 4096 + counter(&kernel, "hole_bitmap_bytes"), 128 * MB);
        assert_eq!(kernel.zones().iter().count(), count);
    }
}

fn aged_coverage(policy_name: &str, defrag: Defrag, compacts: bool) -> (f64, CompactionCounts) {
    let ageing = Some(read::<Ageing>("kernel-build,free=30%").unwrap());
    // One frame in 500 cannot be moved: e^(−512/500) = 36 % of the blocks have none.
    let faulty = Some(FaultMap::Uniform("0.002".parse().unwrap()));
    let config = KernelConfig { age: ageing, defrag, faulty, ..config(512 * MB) };
    let mut kernel = Kernel::new(config, policy(policy_name)).unwrap();
    if compacts {
        kernel.compact();
    }
    touch(&mut kernel, 128 * MB);
    kernel.check_invariants().expect("records agree");
    (kernel.large_page_coverage(), kernel.compaction())
}

#[test]
fn compaction_makes_large_pages_and_perforation_needs_less_of_it() {
    let (at_once, none) = aged_coverage("thp", Defrag::Never, false);
    let (compacted, background) = aged_coverage("thp", Defrag::Never, true);
    let policy = "perforated:max-hole-share=25%,max-filter-bits=4";
    let (perforated, claims) = aged_coverage(policy, Defrag::Always, false);
    assert_eq!(none.frames_migrated, 0);
    assert!(compacted > at_once + 0.1, "{at_once} → {compacted}");
    assert!(background.blocks_emptied > 0 && background.frames_migrated > 0);
    assert!(compacted < 0.9 && perforated > 0.98, "{compacted}, {perforated}");
    assert!(claims.blocks_perforated > 0, "{claims:?}");
}

#[test]
fn early_compaction_is_that_of_a_kernel_that_has_just_booted() {
    let boot = |compaction| {
        let age = Some(read::<Ageing>("kernel-build,free=30%").unwrap());
        Kernel::new(KernelConfig { age, compaction, ..config(128 * MB) }, policy("thp")).unwrap()
    };
    let early = boot(Some(EarlyCompaction::Background));
    let mut late = boot(None);
    assert_ne!(early.free_memory(), late.free_memory());
    let done = late.compact();
    assert!(done.blocks_emptied > 0 && late.updates().is_empty(), "{done:?}");
    assert_eq!(early.free_memory(), late.free_memory());
    early.check_invariants().expect("records agree");
}

#[test]
fn compaction_moves_a_programs_pages_without_losing_them() {
    let config = KernelConfig { tables: TableFormat::default(), ..config(64 * MB) };
    let mut kernel = Kernel::new(config, policy("base-pages")).unwrap();
    touch(&mut kernel, 16 * MB);
    // Every second page is unmapped: all blocks are half full.
    for page in (0..16 * MB / 4096).step_by(2) {
        let start = VirtualAddress::new(BASE + page * 4096);
        let event = ProgramEvent::Unmap { start, length: 4096 };
        kernel.event(&event).unwrap();
    }
    let mapped = counter(&kernel, "mapped_bytes");
    let free_blocks = kernel.zones().free_blocks(9) + 2 * kernel.zones().free_blocks(10);
    let done = kernel.compact();
    assert_eq!(counter(&kernel, "mapped_bytes"), mapped);
    let after = kernel.zones().free_blocks(9) + 2 * kernel.zones().free_blocks(10);
    // Eight half-full blocks fit into four.
    assert_eq!(after, free_blocks + 4, "{done:?}");
    assert_eq!((done.blocks_emptied, done.frames_migrated), (4, 4 * 256));
    kernel.check_invariants().expect("records agree");
}

#[test]
fn pressure_drops_page_cache_before_memory_runs_out() {
    let age = Some(read::<Ageing>("kernel-build").unwrap());
    let config = KernelConfig { age, swap: read("64M").unwrap(), ..config(256 * MB) };
    let mut kernel = Kernel::new(config, policy("base-pages")).unwrap();
    let cached = counter(&kernel, "page_cache_bytes");
    assert!(counter(&kernel, "free_bytes") < 16 * MB, "the build depleted memory");
    touch(&mut kernel, 64 * MB);
    assert!(counter(&kernel, "page_cache_bytes") < cached - 48 * MB);
    assert!(counter(&kernel, "reclaims") > 0);
    assert_eq!(counter(&kernel, "swap_outs"), 0, "the program keeps its memory");
    kernel.check_invariants().expect("records agree");
}

#[test]
fn a_fault_map_beyond_memory_is_refused() {
    let faulty = Some(FaultMap::Frames(vec![20_000]));
    let config = KernelConfig { faulty, ..config(64 * MB) };
    let error = Kernel::new(config, policy("thp")).err().unwrap().to_string();
    assert!(error.contains("frame 20000 lies outside the memory of 16384 frames"), "{error}");
}

/// Ageing is a model whose results are compared between versions: equal seeds give the same memory.
#[test]
fn memory_ages_as_it_did() {
    let mut found = Vec::new();
    for preset in ["desktop-day", "kernel-build", "weeks,free=40%,pinned=10%"] {
        let age: Ageing = read(preset).unwrap();
        let config = KernelConfig { age: Some(age), ..config(192 * MB) };
        let kernel = Kernel::new(config, policy("thp")).unwrap();
        let mut counters = Counters::default();
        kernel.counters(&mut counters);
        let counters: Vec<_> = counters.iter().collect();
        // FNV-1a over all counters and the map of memory.
        let text = format!("{counters:?} {:?}", kernel.memory_map().runs());
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        found.push(format!("{preset}: {hash:016x}"));
    }
    let expected = [
        "desktop-day: b70faa0a1cff18f0",
        "kernel-build: 7c5617a3a75b368d",
        "weeks,free=40%,pinned=10%: 13ee690f23d1512a",
    ];
    assert_eq!(found, expected, "an intended change of ageing changes these hashes");
}
