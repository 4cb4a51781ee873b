//! Results of whole runs compared with hand calculations from the machine (Table II of paper P) and
//! the workload.

use crate::runs::{fragmented, measuring};
use crate::sums::checked_run;
use perforate_mmu::{TlbGeometry, WalkCacheConfig};
use perforate_sim::scheme::perforated::PerforatedRadix;
use perforate_sim::{
    Composition, Machine, ProcessorOptions, ResolvedRun, RunResult, System, SystemOptions,
    WarmupLength, Workload, scheme,
};
use perforate_types::{AccessKind, Backing, Counters, Permissions, ProgramEvent, VirtualAddress};

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;
const FRAME: u64 = 4 * KB;

fn comparison(workload: &str, schemes: &str, fragmentation: &str) -> ResolvedRun {
    ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload { instructions: Some(100_000), ..Workload::named(workload) },
        machine: Machine::load("perforated-table2").unwrap(),
        schemes: Composition::list(schemes).unwrap(),
        memory: fragmented(perforate_config::read(fragmentation).unwrap(), 32 << 30),
        seed: 1,
        measuring: measuring(true, false, Some(0)),
    }
}

fn run(comparison: &ResolvedRun) -> Vec<RunResult> {
    checked_run(comparison).unwrap_or_else(|error| panic!("{error}"))
}

fn counter(result: &RunResult, name: &str) -> u64 {
    result.counters.get(name).unwrap_or_else(|| panic!("no counter {name}")) as u64
}

fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let off = (found / expected - 1.0).abs();
    assert!(off <= tolerance, "{what}: {found}, expected {expected} within {tolerance}");
}

/// Asserts that all bytes of the memory are accounted for: mapped, tables, hole bitmap, other
/// programs, free.
fn assert_accounted(
    counters: &Counters,
    mapped: u64,
    table_frames: u64,
    bitmap: u64,
    foreign: u64,
) {
    let bytes = |name: &str| counters.get(name).unwrap() as u64;
    assert_eq!(bytes("mapped_bytes"), mapped);
    assert_eq!(bytes("page_table_bytes"), table_frames * FRAME);
    assert_eq!(bytes("hole_bitmap_bytes"), bitmap);
    assert_eq!(bytes("foreign_bytes"), foreign);
    let used = mapped + table_frames * FRAME + bitmap + foreign;
    assert_eq!(bytes("free_bytes"), bytes("memory_bytes") - used);
}

/// 2GB at 0x7eff80000000 and one code page at 4MB: two and one level-2 nodes, one level-3 node each,
/// and the root. Each 2MB region of 4KB pages has a level-1 node, and so has the code's region.
#[test]
fn frames_of_a_populated_region() {
    let mapped = 2 * GB + FRAME;
    let fragmented = "portion=50%,holes=25%,clustered";
    let directories = 2 + 1;
    let upper = 2 + 1;
    let bitmap = 32 * GB / FRAME / 8; // one bit per frame
    let foreign = 512 * 128 * FRAME; // a quarter of half of the 1024 regions
    for (scheme, fragmentation, table_frames, bitmap, foreign) in [
        ("4k", "none", 1024 + 1 + directories + upper, 0, 0),
        ("thp", "none", 1 + directories + upper, 0, 0),
        ("ideal", fragmented, 1 + directories + upper, 0, 0),
        ("thp", fragmented, 512 + 1 + directories + upper, 0, foreign),
        ("4k", fragmented, 1024 + 1 + directories + upper, 0, foreign),
        // Page directories come in pairs, with the shadow directory. Every perforated page has a
        // node for its holes.
        ("perforated", "none", 1 + 2 * directories + upper, bitmap, 0),
        ("perforated", fragmented, 512 + 1 + 2 * directories + upper, bitmap, foreign),
    ] {
        let result = &run(&comparison("random:size=2G", scheme, fragmentation))[0];
        assert_accounted(&result.counters, mapped, table_frames, bitmap, foreign);
    }
}

fn map(start: u64, length: u64) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: true,
    }
}

fn system(scheme: &str, fragmentation: &str) -> System {
    let given = comparison("random", scheme, fragmentation);
    let options = SystemOptions { check: true, implicit_maps: false, counts_only: false };
    System::new(&given.machine, given.schemes[0], &given.memory, 1, options).unwrap()
}

/// Three pages far apart: each has its own level-1, level-2 and level-3 node.
#[test]
fn frames_of_a_sparse_map() {
    for (scheme, nodes_per_page, bitmap) in
        [("4k", 3, 0), ("thp", 3, 0), ("perforated", 4, 32 * GB / FRAME / 8)]
    {
        let mut system = system(scheme, "none");
        for start in [0x1000_0000_0000, 0x2000_0000_0000, 0x7000_0000_0000] {
            system.event(&map(start, FRAME)).unwrap();
        }
        let mut counters = Counters::default();
        system.record(1, &mut counters);
        assert_accounted(&counters, 3 * FRAME, 1 + 3 * nodes_per_page, bitmap, 0);
    }
}

/// One pass over 2GB, page by page: a walk for each page and for the code page. A walk always reads the
/// level-1 entry, a level-2 entry once per 2MB, and both upper entries once per 1GB (no cache holds
/// level-4 entries).
#[test]
fn references_of_a_4kb_stride() {
    let mut given = comparison("stride:size=2G,others=1", "4k", "none");
    given.workload.instructions = Some(2 * 2 * GB / FRAME); // a load and a branch per page
    let result = &run(&given)[0];
    for (name, expected) in [
        ("walks", 524_288 + 1),
        ("walk_references_level1", 524_288 + 1),
        ("walk_references_level2", 1024 + 1),
        ("walk_references_level3", 2 + 1),
        ("walk_references_level4", 2 + 1),
    ] {
        assert_eq!(counter(result, name), expected, "{name}");
    }
}

/// A walk-cache hit at level n leaves n − 1 references.
#[test]
fn references_after_a_walk_cache_hit() {
    for (level4_entries, level3_entries, level2_entries, references) in
        [(0, 0, 0, 4.0), (4, 0, 0, 3.0), (0, 4, 0, 2.0), (4, 4, 0, 2.0), (0, 0, 512, 1.0)]
    {
        let mut given = comparison("random:size=1G", "4k", "none");
        given.machine.walk_cache =
            WalkCacheConfig::fully_associative(level4_entries, level3_entries, level2_entries);
        given.workload.instructions = Some(200_000);
        given.measuring.warmup = Some(WarmupLength::Instructions(100_000)); // 25000 accesses: all 512 level-2 entries were used
        let result = &run(&given)[0];
        assert!(counter(result, "walks") > 20_000);
        assert_eq!(result.counters.get("references_per_walk"), Some(references));
    }
}

/// Eight page-table entries share a cache line, so one read in eight misses the cache that only the
/// walkers use. The level-2 entry, read once in 512 walks, misses too, because that cache has only
/// 16 lines.
#[test]
fn eight_entries_share_a_line() {
    let mut given = comparison("stride:size=2G,others=1", "4k", "none");
    given.measuring.functional = false;
    given.workload.instructions = Some(400_000);
    given.measuring.warmup = Some(WarmupLength::Instructions(100_000));
    let result = &run(&given)[0];
    let hits = counter(result, "walker_reads_from_walker_cache");
    let misses = (counter(result, "walker_reads") - hits) as f64 / counter(result, "walks") as f64;
    assert_close(misses, 1.0 / 8.0 + 1.0 / 512.0, 0.001, "misses per walk");
}

/// In a pointer chase, each load depends on the previous one, so its cycles are the sum of all
/// latencies: second-level TLB 9, walk cache 1, the walkers' cache 2, L1D 4, L2 20, and main
/// memory. The return of the data takes 29 from memory to the L2, and 4 from there.
#[test]
fn a_dependent_chase_costs_the_sum_of_its_latencies() {
    for (scheme, size) in [("4k", "2G"), ("thp", "16G"), ("thp", "2G")] {
        let mut given = comparison(&format!("chase:size={size},node=4K,others=0"), scheme, "none");
        given.measuring.functional = false;
        given.workload.instructions = Some(200_000);
        given.measuring.warmup = Some(WarmupLength::Instructions(50_000));
        let result = &run(&given)[0];
        let count = |name| counter(result, name) as f64;
        let memory = count("dram_reads") * result.counters.get("dram_read_average_cycles").unwrap();
        let expected = 9.0 * count("l2_tlb_accesses")
            + count("walks")
            + 2.0 * count("walker_reads")
            + (20.0 + 4.0) * count("walker_reads_from_l2")
            + (20.0 + 29.0 + 4.0) * count("walker_reads_from_memory")
            + (4.0 + 20.0 + 29.0 + 4.0) * count("loads")
            + memory;
        assert_close(result.cycles.unwrap() as f64, expected, 0.005, scheme);
        // No node of the chase is accessed twice, so all data come from memory. An access to an
        // open row takes 75 cycles, a row conflict 75 + 2 × 28. With 16 or more rows in each of 128
        // banks, conflicts prevail.
        assert!(count("dram_reads") >= count("loads"));
        let read = memory / count("dram_reads");
        assert!((117.0..=131.5).contains(&read), "{scheme} {size}: {read} cycles per read");
        let walks = count("walks") / count("loads");
        match (scheme, size) {
            // The TLB holds 1535 of 524288 pages.
            ("4k", _) => assert!(walks > 0.99, "{walks}"),
            // The TLB holds 1536 of 8192 large pages, so 81 % of loads walk.
            (_, "16G") => assert_close(walks, 1.0 - 1536.0 / 8192.0, 0.02, "walks per load"),
            _ => assert_eq!(walks, 0.0),
        }
    }
}

/// The second-level TLB has 128 sets of 12 ways, so up to 1536 consecutive large pages fit. One more
/// page makes 13 pages share a set, and least-recently-used replacement then misses 13 times per pass.
#[test]
fn reach_of_the_second_level_tlb() {
    for (pages, misses_per_pass) in
        [(1024, 0), (1536, 0), (1537, 13), (1600, 64 * 13), (3072, 3072)]
    {
        let workload = format!("stride:size={}M,stride=2M,others=1", 2 * pages);
        for scheme in ["thp", "perforated"] {
            let mut given = comparison(&workload, scheme, "none");
            let pass = 2 * pages; // instructions
            given.measuring.warmup = Some(WarmupLength::Instructions(2 * pass));
            given.workload.instructions = Some(5 * pass);
            let result = &run(&given)[0];
            assert_eq!(counter(result, "l1_tlb_misses"), 3 * pages, "32 entries hold none");
            assert_eq!(counter(result, "l2_tlb_misses"), 3 * misses_per_pass, "{pages} pages");
        }
    }
}

const MISSES: [&str; 7] = [
    "l1_tlb_accesses",
    "l1_tlb_misses",
    "l1_instruction_tlb_misses",
    "l2_tlb_accesses",
    "l2_tlb_misses",
    "walks",
    "walk_references_level2",
];

/// Without fragmentation, perforated pages are large pages. The schemes differ only in the location of
/// their tables.
#[test]
fn without_fragmentation_large_perforated_and_ideal_are_one() {
    for fragmentation in
        ["none", "portion=0%,holes=25%,clustered", "portion=50%,holes=0%,dispersed"]
    {
        let mut given = comparison("zipf:size=8G", "thp,perforated,ideal", fragmentation);
        given.measuring.functional = false;
        given.workload.instructions = Some(300_000);
        given.measuring.warmup = Some(WarmupLength::Instructions(50_000));
        let [thp, perforated, ideal] = run(&given).try_into().unwrap();
        assert_eq!(thp.cycles, ideal.cycles);
        assert_eq!(thp.counters, ideal.counters);
        for name in MISSES {
            assert_eq!(counter(&perforated, name), counter(&ideal, name), "{name}");
        }
        assert_eq!(counter(&perforated, "bitmap_lookups"), 0);
        let cycles = |result: &RunResult| result.cycles.unwrap() as f64;
        assert_close(cycles(&perforated), cycles(&ideal), 0.01, "cycles");
    }
}

/// If every region is fragmented, conventional large pages degrade to 4KB pages.
#[test]
fn with_all_regions_fragmented_large_pages_are_4kb_pages() {
    let mut given = comparison("zipf:size=2G", "4k,thp,1g", "portion=100%,holes=1%,dispersed");
    given.workload.instructions = Some(300_000);
    let [base, large, huge] = run(&given).try_into().unwrap();
    assert!(counter(&base, "l2_tlb_misses") > 10_000);
    for name in MISSES {
        assert_eq!(counter(&large, name), counter(&base, name), "{name}");
        assert_eq!(counter(&huge, name), counter(&base, name), "{name}");
    }
}

/// A perforated page takes at most 17 entries of the second-level TLB (P §IV.E): one for the 2MB
/// page, and 16 bitmap entries. Its 4KB pages would take 512. The naive variant loads all bitmap
/// entries with the page.
#[test]
fn a_perforated_page_takes_17_entries() {
    const PAGES: u64 = 64;
    for (scheme, bitmap_entries) in [
        ("perforated-naive", 16..=16),
        ("perforated-on-demand", 16..=16),
        // 26 consecutive holes are in one or two of eight regions of 256KB, with two bitmap entries
        // each.
        ("perforated", 2..=4),
    ] {
        let fragmentation = "portion=100%,holes=5%,clustered";
        let mut system = system(scheme, fragmentation);
        system.event(&map(0x7f00_0000_0000, PAGES * 2 * MB)).unwrap();
        let tables: &PerforatedRadix = system.mmu().dimension().part().unwrap();
        let pages = tables.perforated_pages();
        assert_eq!(pages.len() as u64, PAGES);
        for page in &pages {
            for index in (0..512).filter(|&index| !page.holes.contains(index)) {
                let address = page.page.add(index as u64).address();
                assert!(system.translate(AccessKind::Read, address).unwrap().is_some());
            }
        }
        let contents = system.mmu().l2_contents();
        assert_eq!((contents.perforated, contents.hole, contents.page_4k), (PAGES, 0, 0));
        let (least, most) = (PAGES * bitmap_entries.start(), PAGES * bitmap_entries.end());
        assert!((least..=most).contains(&contents.bitmap), "{scheme}: {contents:?}");
    }
}

#[test]
fn accesses_agree_with_the_oracle() {
    check_accesses(30_000);
}

#[test]
#[ignore = "a million accesses under each scheme: minutes"]
fn a_million_accesses_agree_with_the_oracle() {
    check_accesses(250_000);
}

/// Runs `accesses` accesses of four programs under each scheme; the oracle checks every translation. One
/// program has the default TLB, the others have a small one that evicts often.
fn check_accesses(accesses: u64) {
    let fragmentation = "portion=60%,holes=20%,dispersed,unusable=10%";
    for workload in ["random", "sequential", "chase", "zipf"] {
        let text = format!("{workload}:size=256M,others=1,writes=20%");
        let mut given = comparison(&text, "all", fragmentation);
        given.measuring.check = true;
        given.workload.instructions = Some(2 * accesses);
        if workload != "random" {
            given.machine.tlb.l2 = TlbGeometry { entries: 48, ways: 12 };
        }
        let results = run(&given);
        assert_eq!(results.len(), scheme::all().count());
        for result in &results {
            assert_eq!(counter(result, "l1_tlb_accesses"), accesses);
            assert_eq!(counter(result, "accesses_refused"), 0);
        }
    }
}

/// Results do not depend on the order of threads: every scheme gives identical results alone and
/// with others.
#[test]
fn results_do_not_depend_on_other_schemes() {
    let line = |result: &RunResult| serde_json::to_string(result).unwrap();
    let mut given =
        comparison("random:size=1G,writes=10%", "all", "portion=50%,holes=25%,clustered");
    given.measuring.functional = false;
    given.workload.instructions = Some(30_000);
    let together = run(&given);
    assert_eq!(
        together.iter().map(line).collect::<Vec<_>>(),
        run(&given).iter().map(line).collect::<Vec<_>>()
    );
    for result in &together {
        given.schemes = vec![Composition::find(&result.scheme).unwrap()];
        assert_eq!(line(&run(&given)[0]), line(result), "{}", result.scheme);
    }
}

/// Free translation equals 4KB pages that always hit in the first-level TLB. On the same frames,
/// and with first accesses in the warm-up, both take the same cycles. With the machine's TLB,
/// `free` has the same walks and frames as `4k`, and saves all its stalls. Each address depends on
/// the previous load, so nothing overlaps.
#[test]
fn free_translation_is_a_first_level_tlb_that_never_misses() {
    for (base, free) in [("4k", "free"), ("4k+4k", "free+4k"), ("4k+shadow-4k", "free+shadow-4k")] {
        let schemes = format!("{base},{free}");
        let [small, mut large] = [(); 2].map(|()| ResolvedRun {
            measuring: measuring(false, false, Some(50_000)),
            ..comparison("random:size=1M,dependent=yes", &schemes, "none")
        });
        large.machine.tlb.l1_data_4k = TlbGeometry { entries: 1 << 14, ways: 16 };
        large.machine.tlb.l1_instruction_4k = TlbGeometry { entries: 1 << 14, ways: 16 };
        let [same, same_free] = <[RunResult; 2]>::try_from(run(&large)).ok().unwrap();
        assert_eq!(counter(&same, "l1_tlb_misses"), 0, "{base}");
        assert_eq!(same.cycles, same_free.cycles, "{base}");
        let [small, small_free] = <[RunResult; 2]>::try_from(run(&small)).ok().unwrap();
        let waits = |result: &RunResult| counter(result, "translation_stall_cycles");
        assert_eq!(waits(&small_free), 0, "{free}");
        let saved = small.cycles.unwrap() - small_free.cycles.unwrap();
        assert!(saved > 50_000, "{saved}");
        assert_close(saved as f64, waits(&small) as f64, 0.01, free);
        for same in ["walks", "l2_tlb_misses", "page_table_bytes", "mapped_bytes"] {
            assert_eq!(counter(&small_free, same), counter(&small, same), "{free}: {same}");
        }
    }
}

/// A second-level TLB with room for everything has compulsory misses only, by definition. The real TLB
/// has the same compulsory misses.
#[test]
fn a_tlb_with_room_for_all_pages_has_compulsory_misses_only() {
    let schemes = "4k,thp,1g,perforated,gt-pde-2m,ideal,4k+4k,thp+thp,perforated+thp,4k+perforated";
    let fragmented = "portion=50%,holes=25%,clustered";
    let [small, mut large] = [(); 2].map(|()| comparison("random:size=16M", schemes, fragmented));
    large.machine.tlb.l2 = TlbGeometry { entries: 1 << 20, ways: 16 };
    for (small, large) in run(&small).iter().zip(&run(&large)) {
        let of_large = counter(large, "l2_tlb_misses");
        assert!(of_large > 0, "{}", large.scheme);
        assert_eq!(counter(large, "l2_tlb_compulsory_misses"), of_large, "{}", large.scheme);
        assert_eq!(counter(large, "l2_tlb_first_misses"), of_large, "{}", large.scheme);
        assert!(counter(small, "l2_tlb_misses") >= of_large, "{}", small.scheme);
    }
    let [small, large] = [&small, &large].map(|comparison| run(comparison).swap_remove(0));
    let compulsory = counter(&small, "l2_tlb_compulsory_misses");
    assert_eq!(compulsory, counter(&large, "l2_tlb_misses"), "whatever the size");
    assert!(compulsory < counter(&small, "l2_tlb_misses") / 2, "most are of capacity here");
}

/// Sixteen superpages are read in turn, again and again: a TLB of as many entries misses each once, and one of fewer
/// that replaces the least recently used always misses. The L2 TLB's own geometry does not matter.
#[test]
fn superpages_have_the_tlb_of_the_machine() {
    let fills = |entries: &str| {
        let mut comparison = comparison("stride:size=64M,stride=4M", "gt-pde-4m-native", "none");
        let geometry = [("tlb.gap_tolerant", entries)];
        comparison.machine = Machine::load_with("gtsm-table4", geometry.into_iter()).unwrap();
        let result = &run(&comparison)[0];
        (counter(result, "gap_tolerant_tlb_fills"), counter(result, "l1_tlb_misses"))
    };
    let (few, _) = fills("{ entries = 16, ways = 16 }");
    let (many, misses) = fills("{ entries = 8, ways = 8 }");
    assert_eq!(few, 16);
    assert!(many > 1_000 && many <= misses, "{many} of {misses}");
}
