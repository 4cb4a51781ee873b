//! Checks that the parts of a counter, as registered, add up to its value.

use perforate_mmu::L2Part;
use perforate_sim::{Machine, ResolvedRun, RunResult, Silent, SimError, counters};

/// Carries out a run and checks the sums of every result. All tests start their runs with this
/// function.
///
/// # Errors
/// As [`perforate_sim::run`].
///
/// # Panics
/// If a sum is wrong.
pub fn checked_run(run: &ResolvedRun) -> Result<Vec<RunResult>, SimError> {
    let results = perforate_sim::run(run, &mut Silent)?;
    for result in &results {
        let cores = run.processors.cores as usize;
        assert_sums_add_up(&run.machine, cores, result);
    }
    Ok(results)
}

/// Checks every counter that has parts, and totals that are counted in two ways, for a run on
/// `cores` cores.
///
/// # Panics
/// If a sum is wrong, or if this function does not know a counter with parts.
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
    // Means over hardware threads, and ratios, are rounded.
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
                // A translation is counted when it ends. For a translation that began in the warm-up,
                // some parts were counted there.
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
            // No counter has the total.
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
