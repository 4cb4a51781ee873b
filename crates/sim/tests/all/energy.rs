//! Energy of whole runs, recalculated from other counters.

use crate::runs::measuring;
use crate::sums::checked_run;
use perforate_sim::{
    Composition, EnergyCosts, Machine, MemoryState, ProcessorOptions, ResolvedRun, RunResult,
    Workload,
};

fn run(functional: bool) -> RunResult {
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload { instructions: Some(20_000), ..Workload::named("random:size=64M") },
        machine: Machine::load("perforated-table2").unwrap(),
        schemes: Composition::list("4k").unwrap(),
        memory: MemoryState::of(1 << 30),
        seed: 1,
        measuring: measuring(functional, true, Some(1_000)),
    };
    checked_run(&comparison).unwrap().remove(0)
}

/// With 4KB pages, every miss fills one entry. Every walk looks up the walk caches once and fills
/// the entries that it read at levels 3 and 2, because this machine caches no level-4 entries.
#[test]
fn energy_is_accesses_times_their_energy() {
    let result = run(false);
    let count = |name: &str| result.counters.get(name).unwrap_or_else(|| panic!("no {name}"));
    let EnergyCosts { l1_tlb_4k_pj, l1_tlb_2m_pj, l1_tlb_1g_pj, .. } = EnergyCosts::default();
    let costs = EnergyCosts::default();
    let data = (count("l1_tlb_accesses") + count("l1_tlb_misses"))
        * (l1_tlb_4k_pj + l1_tlb_2m_pj + l1_tlb_1g_pj);
    let fetches = (count("l1_instruction_tlb_accesses") + count("l1_instruction_tlb_misses"))
        * (l1_tlb_4k_pj + l1_tlb_2m_pj);
    let filled = count("walk_references_level3") + count("walk_references_level2");
    let from_memory = count("walker_reads_from_memory");
    let from_l2 = count("walker_reads_from_l2") + from_memory;
    let expected = [
        ("l1_tlb", data + fetches),
        ("l2_tlb", (count("l2_tlb_accesses") + count("l2_tlb_misses")) * costs.l2_tlb_pj),
        // The cache that only the walkers use counts as another walk cache.
        ("walk_cache", (count("walks") + filled + count("walker_reads")) * costs.walk_cache_pj),
        ("nested_tlb", 0.0),
        ("segment_check", 0.0),
        ("selection", 0.0),
        ("walker_l1d", 0.0),
        ("walker_l2", from_l2 * costs.l2_read_pj),
        ("walker_llc", 0.0),
        ("walker_memory", from_memory * costs.memory_read_pj),
    ];
    assert!(count("walks") > 1_000.0 && from_memory > 0.0 && filled > 0.0);
    let mut sum = 0.0;
    for (structure, energy_pj) in expected {
        let found = count(&format!("translation_energy_dynamic_nj_{structure}"));
        assert!((found - energy_pj / 1000.0).abs() < 1e-6, "{structure}: {found}, {energy_pj} pJ");
        sum += energy_pj / 1000.0;
    }
    assert!((count("translation_energy_dynamic_nj") - sum).abs() < 1e-6);
    // 1 W for cycles of half a nanosecond.
    let cycles = result.cycles.unwrap() as f64;
    assert!((count("static_energy_nj") - cycles / 2.0).abs() < 1e-6);
}

/// Without a clock, it is unknown which cache served a read.
#[test]
fn functional_runs_have_no_energy() {
    let result = run(true);
    assert!(result.counters.iter().all(|(name, _)| !name.contains("energy")));
}
