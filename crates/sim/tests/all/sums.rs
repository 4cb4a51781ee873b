//! Sums of a result that are checked against their parts, which the registry of counters knows.

use perforate_mmu::L2Part;
use perforate_sim::{
    Comparison, Machine, MeasuringOptions, Progress, RunResult, SimError, counters,
};

/// Runs a comparison, and checks the sums of every result: tests run theirs by this.
///
/// # Errors
/// As [`perforate_sim::compare`].
///
/// # Panics
/// If a sum is wrong.
pub fn compare(
    comparison: &Comparison,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<RunResult>, SimError> {
    compare_with(comparison, &MeasuringOptions::default(), progress)
}

/// As [`compare`], with options for statistics.
///
/// # Errors
/// As [`perforate_sim::compare_with`].
///
/// # Panics
/// If a sum is wrong.
pub fn compare_with(
    comparison: &Comparison,
    measuring: &MeasuringOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<RunResult>, SimError> {
    let results = perforate_sim::compare_with(comparison, measuring, progress)?;
    for result in &results {
        let cores = comparison.processors.cores as usize;
        assert_sums_add_up(&comparison.machine, cores, result);
    }
    Ok(results)
}

/// Checks every whole that has parts, and totals that are counted twice, of a run on so many cores.
///
/// # Panics
/// If a sum is wrong, or a whole has parts and is unknown here.
pub fn assert_sums_add_up(machine: &Machine, cores: usize, result: &RunResult) {
    let scheme = &result.scheme;
    let find = |name: &str| result.counters.get(name);
    let get = |name: &str| find(name).unwrap_or_else(|| panic!("{scheme}: no {name}"));
    let registered = counters();
    let sum_of = |whole: &str, is_wanted: &dyn Fn(&str) -> bool| -> f64 {
        let parts =
            registered.iter().filter(|it| it.part.as_ref().is_some_and(|of| of.whole == whole));
        parts.filter(|it| is_wanted(&it.meaning)).filter_map(|it| find(&it.id)).sum()
    };
    // Means of hardware threads, and ratios, are rounded.
    let assert_equal = |what: &str, sum: f64, total: f64| {
        let is_equal = (sum - total).abs() <= 1e-9 * total.abs().max(1.0);
        assert!(is_equal, "{scheme}: the parts of {what} add up to {sum}, not {total}");
    };
    let walks = get("walks");
    let references = |is_wanted: &dyn Fn(&str) -> bool| sum_of("walk_references", is_wanted);
    let is_of_host = |meaning: &str| meaning.starts_with("Reads of the host's tables");
    for part in registered.iter().filter_map(|counter| counter.part.as_ref()) {
        let sum = sum_of(part.whole, &|_| true);
        match part.whole {
            "stack_cycles" if result.cycles.is_some() => {
                assert_equal("the cycle stack", sum, get("cycles"));
                let stall = sum_of(part.whole, &|meaning| meaning.ends_with(": translation."));
                assert_equal("the stall of translation", stall, get("translation_stall_cycles"));
            }
            "translation_cycles" if result.cycles.is_some() => {
                // A translation is counted when it ends; of one that began in the warm-up some parts were
                // counted there.
                let total = get("translation_cycles");
                assert!(sum <= total && sum >= 0.999 * total, "{scheme}: {sum} of {total} cycles");
            }
            "operating_system_cycles" if result.cycles.is_some() => {
                assert_equal("the kernel's cycles", sum, get("operating_system_cycles"));
            }
            "stack_cycles" | "translation_cycles" | "operating_system_cycles" => {}
            "walk_references" => {
                assert_equal("references", sum, get("references_per_walk") * walks);
                let host = references(&is_of_host);
                if let Some(of_host) = find("host_references_per_walk") {
                    assert_equal("the host's references", host, of_host * walks);
                    assert_equal(
                        "the guest's references",
                        sum - host,
                        get("guest_references_per_walk") * walks,
                    );
                }
            }
            "bitmap_references" => {
                let tables = references(&|_| true);
                assert_equal(
                    "accesses of walks",
                    sum + tables,
                    get("memory_accesses_per_walk") * walks,
                );
            }
            "l2_tlb_contents" => {
                let parts = [machine.tlb.l2_2m, machine.tlb.l2_1g];
                let own = parts.map(|part| match part {
                    L2Part::Own(array) => array.entries,
                    L2Part::Ways(_) => 0,
                });
                let own: usize = own.into_iter().sum();
                assert_equal("the L2 TLB", sum, (cores * (machine.tlb.l2.entries + own)) as f64);
            }
            // There is no counter of the whole.
            "translation_memory" | "khugepaged_pages_made" | "work_faults" | "work_shootdowns" => {}
            whole => panic!("{whole} has parts: say here what they add up to"),
        }
    }
    assert_equal(
        "bitmap look-ups",
        get("bitmap_hits") + get("bitmap_misses"),
        get("bitmap_lookups"),
    );
    if find("segment_translations").is_some() && !scheme.contains("free") {
        let beyond = get("l1_tlb_misses") + get("l1_instruction_tlb_misses");
        assert!(
            get("l2_tlb_accesses") <= beyond,
            "{scheme}: look-ups without misses of the first level"
        );
    }
    assert!(get("l2_tlb_compulsory_misses") <= get("l2_tlb_misses"), "{scheme}");
    assert!(get("l2_tlb_misses") <= get("l2_tlb_accesses"), "{scheme}");
}
