//! The answer on both sides of each of its thresholds: figures, and the sentence that they make. Runs are of
//! ten parts of 4000 cycles where nothing else is said.

use perforate_report::Rows;
use serde_json::{Value, json};

use crate::answer::{flat, run, shown};

/// Runs, a sentence, and whether the answer has it.
type Row<'a> = (&'a [String], &'a str, bool);

/// A run whose parts are all alike.
fn steady(scheme: &str, cycles: u64, waiting: u64, counters: Value) -> String {
    run(scheme, [cycles; 10], [waiting; 10], counters)
}

/// Runs of [`steady`] without counters.
fn plain(scheme: &str, cycles: u64, waiting: u64) -> String {
    steady(scheme, cycles, waiting, json!({}))
}

fn check(rows: &[Row<'_>]) {
    for (lines, sentence, is_said) in rows {
        let text = flat(&shown(lines, 100, Rows::Main));
        assert_eq!(text.contains(sentence), *is_said, "{sentence}\n{text}");
    }
}

/// 1 % of the time, by the upper end of the interval: parts that wait for 16 cycles more or less have one of
/// ± 0.3 % (2.262 × 16 × √(10 ÷ 9) ÷ √10 ÷ 4000).
#[test]
fn a_cost_is_worth_a_look_from_1_percent_on() {
    let base = |waiting| [plain("4k", 4000, waiting)];
    let around = |less, more| {
        [run(
            "4k",
            [4000; 10],
            [less, more, less, more, less, more, less, more, less, more],
            json!({}),
        )]
    };
    let start = "With 4KB pages, w spends ";
    let end = "of its time waiting for address translation";
    let said = |share: &str, end_of: &str| format!("{start}{share} % {end}{end_of}");
    check(&[
        (&base(36), &said("only 0.9 ± <0.1", ": no scheme can gain much."), true),
        (&base(36), "Why:", false),
        (&base(40), &said("1.0 ± <0.1", "."), true),
        (&base(40), "Why: translation is 1.0 ± <0.1 % of the critical path.", true),
        // "Why" goes by the mean of the critical path's share, not by its interval.
        (&around(20, 52), &said("0.9 ± 0.3", "."), true),
        (&around(20, 52), "Why:", false),
        (&around(28, 60), &said("1.1 ± 0.3", "."), true),
        (&around(28, 60), "Why: translation is 1.1 ± 0.3 % of the critical path.", true),
    ]);
}

#[test]
fn free_translation_saves_much_from_1_percent_on() {
    let free = |cycles| [plain("4k", 4000, 0), plain("free", cycles, 0)];
    let gains = |thp| [plain("4k", 4000, 0), plain("free", 3964, 0), plain("thp", thp, 0)];
    let beyond = |thp| [plain("4k", 4000, 0), plain("free", 3990, 0), plain("thp", thp, 0)];
    let ideal = |waiting| [plain("4k", 4000, 0), plain("ideal", 3000, waiting)];
    let saves = "free address translation would save w ";
    let said = |share: &str| format!("{saves}{share} of its time");
    check(&[
        (&free(3964), &(said("only 0.9 ± <0.1 %") + ": no scheme can gain much."), true),
        (&free(3960), &(said("1.0 ± <0.1 %") + "."), true),
        (&free(4000), &format!("{saves}nothing that this run can show (± <0.1 %)"), true),
        // A scheme gains 1 % otherwise: 4000 ÷ 3960, and ÷ 3961.
        (&gains(3960), &(said("only 0.9 ± <0.1 %") + ". Today"), true),
        (&gains(3961), &(said("only 0.9 ± <0.1 %") + ": no scheme can gain much."), true),
        // 3990 ÷ 3950, and ÷ 3951.
        (
            &beyond(3950),
            "thp is 1.010× ± <0.001 as fast as free translation with 4KB pages is:",
            true,
        ),
        (&beyond(3951), "as fast as free translation", false),
        // Ideal pages that wait themselves, for 1 % of their time.
        (&ideal(30), &(said("at least 25.0 ± <0.1 %") + "."), true),
        (&ideal(29), &(said("25.0 ± <0.1 %") + "."), true),
    ]);
}

#[test]
fn what_is_left_is_said_from_1_percent_on() {
    let charged = |waiting| [plain("4k", 4000, 400), plain("thp", 3200, waiting)];
    let saved = |free| [plain("4k", 4000, 0), plain("thp", 3200, 0), plain("free", free, 0)];
    check(&[
        (&charged(32), "With thp, translation still takes 1.0 ± <0.1 % of its time.", true),
        (&charged(31), "still takes", false),
        (
            &saved(3167),
            "With thp, free translation would still save 1.0 ± <0.1 % of its time.",
            true,
        ),
        (&saved(3169), "would still save", false),
    ]);
}

/// 0.5 % faster or slower: 4000 ÷ 3979 and ÷ 3981, ÷ 4021 and ÷ 4019.
#[test]
fn a_difference_has_a_name_from_half_a_percent_on() {
    let thp = |cycles| [plain("4k", 4000, 400), plain("thp", cycles, 400)];
    let perforated = |cycles| [plain("4k", 4000, 400), plain("perforated", cycles, 400)];
    let both = |perforated| {
        [plain("4k", 4000, 400), plain("thp", 3200, 300), plain("perforated", perforated, 0)]
    };
    let today = "Today, thp (transparent_hugepage/enabled=always)";
    let none = "makes no difference that this run can show (± <0.01).";
    let slower = ", the best that there is, would be slower: 0.995× ± <0.001 the speed.";
    check(&[
        (&thp(3979), &format!("{today} would make it 1.005× ± <0.001 as fast."), true),
        (&thp(3981), &format!("{today} {none}"), true),
        (&thp(4019), &format!("{today} {none}"), true),
        (&thp(4021), &format!("{today}{slower}"), true),
        (&perforated(3979), "Of the proposals, perforated gains the most: 1.005× ± <0.001.", true),
        (
            &perforated(3981),
            &format!("No proposal gains anything; perforated, the best, {none}"),
            true,
        ),
        (
            &perforated(4021),
            "The proposals would be slower: perforated, the best of them, 0.995× ± <0.001 the speed.",
            true,
        ),
        // Against thp: 3200 ÷ 3184, and ÷ 3185.
        (&both(3184), "1.256× ± <0.001 (1.005× ± <0.001 as fast as thp).", true),
        (&both(3185), "1.256× ± <0.001; against thp, it makes no difference", true),
    ]);
}

/// Ideal pages and free translation are never named as the best scheme, natively and in pairs.
#[test]
fn bounds_are_neither_of_today_nor_proposals() {
    let of = |names: &[(&str, u64)]| -> Vec<String> {
        names.iter().map(|(name, cycles)| plain(name, *cycles, 0)).collect()
    };
    let native =
        of(&[("4k", 4000), ("thp", 3200), ("perforated", 3000), ("ideal", 2000), ("free", 1000)]);
    let pairs = of(&[
        ("4k+4k", 4000),
        ("thp+thp", 3200),
        ("perforated+perforated", 3000),
        ("ideal+ideal", 2000),
        ("ideal+thp", 2100),
        ("thp+ideal", 2100),
        ("free+4k", 1000),
    ]);
    let without_free = &pairs[..6];
    let only_bounds = [pairs[0].clone(), pairs[3].clone()];
    check(&[
        (&native, "Today, thp (transparent_hugepage/enabled=always) would make it 1.250×", true),
        (&native, "Of the proposals, perforated gains the most: 1.333×", true),
        (&pairs, "Today, thp+thp would make it 1.250× ± <0.001 as fast.", true),
        (&pairs, "Of the proposals, perforated+perforated gains the most: 1.333×", true),
        (without_free, "Today, thp+thp would make it 1.250× ± <0.001 as fast.", true),
        (without_free, "Of the proposals, perforated+perforated gains the most: 1.333×", true),
        (&only_bounds, "Today,", false),
        (&only_bounds, "proposal", false),
    ]);
}

/// Parts from 10 % of the wait on, three at most; hardware that is busy for 90 % of the time.
#[test]
fn the_reason_names_large_parts_and_saturated_hardware() {
    let parts = |counters| [steady("4k", 4000, 1000, counters)];
    let busy = |name: &str, share: f64| [steady("4k", 4000, 0, json!({ name: share }))];
    let why = "Why: translation is 25.0 ± <0.1 % of the critical path";
    let tenth = json!({"stack_cycles_walker_queue": 9_000, "stack_cycles_walk_level1": 1_000});
    let less = json!({"stack_cycles_walker_queue": 9_001, "stack_cycles_walk_level1": 999});
    let four = json!({
        "stack_cycles_walker_queue": 2_000, "stack_cycles_walk_level1": 4_000,
        "stack_cycles_walk_level2": 3_000, "stack_cycles_walk_level3": 1_000,
    });
    check(&[
        (&parts(tenth), &format!("{why} (waiting for a walker 90 %, level 1 reads 10 %)."), true),
        (&parts(less), &format!("{why} (waiting for a walker 90 %)."), true),
        (
            &parts(four),
            &format!("{why} (level 1 reads 40 %, level 2 reads 30 %, waiting for a walker 20 %)."),
            true,
        ),
        (&parts(json!({})), &format!("{why}."), true),
    ]);
    for (name, what) in [
        ("page_walkers_busy", "the page walkers are busy"),
        ("l1d_mshrs_busy", "the L1D's MSHRs are taken"),
        ("dram_busy", "memory's buses are busy"),
    ] {
        check(&[
            (&busy(name, 0.9), &format!("Why: {what} 90.0 % of the time."), true),
            (&busy(name, 0.899), "Why:", false),
        ]);
    }
    let all = json!({"page_walkers_busy": 0.95, "l1d_mshrs_busy": 0.5, "dram_busy": 0.99});
    let both = "Why: the page walkers are busy 95.0 % of the time; memory's buses are busy 99.0 % of the \
                time.";
    check(&[(&[steady("4k", 4000, 0, all)], both, true)]);
}

/// 5 % between translation's share of the critical path, 25 % here, and what free translation saves.
#[test]
fn a_saving_that_differs_from_the_share_is_explained_from_5_percent_on() {
    let lines = |free, memory: [u64; 2]| {
        let of = |memory: u64| json!({"stack_cycles_memory": memory});
        [steady("4k", 4000, 1000, of(memory[0])), steady("free", free, 0, of(memory[1]))]
    };
    let less = "free translation would save less, 19.5 %, as other waits then show: memory takes 2.5 % more \
                of the time.";
    let more = "free translation would save more, 30.5 %, as other waits shorten with it: memory takes \
                2.5 % less of the time.";
    check(&[
        (&lines(3220, [1000, 2000]), less, true),
        (&lines(3180, [1000, 2000]), "would save less", false),
        (&lines(2820, [2000, 1000]), "would save more", false),
        (&lines(2780, [2000, 1000]), more, true),
        // No other wait became longer, or shorter, so that none is the reason.
        (&lines(3220, [1000, 1000]), "would save less", false),
        (&lines(2780, [1000, 1000]), "would save more", false),
    ]);
}

#[test]
fn cold_misses_are_warned_of_from_half_of_them_on() {
    let lines = |waiting, misses: u64, share: f64| {
        let counters = json!({"l2_tlb_misses": misses, "l2_tlb_compulsory_share": share});
        [steady("4k", 4000, waiting, counters)]
    };
    let caution =
        "Caution: 50.0 % of its L2 TLB misses are the first access to a page in this run.";
    check(&[
        (&lines(400, 1000, 0.5), caution, true),
        (&lines(400, 1000, 0.499), "Caution", false),
        (&lines(400, 0, 0.5), "Caution", false),
        // Misses that cost 0.9 % of the time are not worth a warning.
        (&lines(40, 1000, 0.5), caution, true),
        (&lines(36, 1000, 0.5), "Caution", false),
    ]);
}

/// The kernel's work from 1 % of the whole run on, and another scheme's where it differs by as much; its effect
/// on a speed where it changes that by more than 2 %.
#[test]
fn the_kernels_work_is_said_from_1_percent_on() {
    let of = |work: u64, ipc: f64| {
        json!({
            "whole_run_operating_system_cycles": work, "whole_run_cycles": 40_000, "whole_run_ipc": ipc,
        })
    };
    let one = |work| [steady("4k", 4000, 400, of(work, 1.0))];
    let two =
        |thp| [steady("4k", 4000, 400, of(800, 1.0)), steady("thp", 3200, 300, of(thp, 1.25))];
    let speeds = |ipc| [steady("4k", 4000, 400, of(0, 1.0)), steady("thp", 4000, 400, of(0, ipc))];
    let none = "makes no difference that this run can show (± <0.01)";
    check(&[
        (&one(400), "It takes 1.0 % of the whole run's time.", true),
        (&one(399), "The kernel's work", false),
        (&two(400), "It takes 2.0 % of the whole run's time, and 1.0 % with thp.", true),
        (&two(404), "It takes 2.0 % of the whole run's time.", true),
        (&two(1204), "It takes 2.0 % of the whole run's time, and 3.0 % with thp.", true),
        (&speeds(1.021), &format!("{none}, 1.02× with the kernel's work."), true),
        (&speeds(1.019), &format!("{none}."), true),
        (&speeds(0.979), &format!("{none}, 0.98× with the kernel's work."), true),
    ]);
}

/// One call is enough.
#[test]
fn what_the_program_said_of_large_pages_is_said_where_it_matters() {
    let lines = |thp, counters| [steady("4k", 4000, 400, counters), plain("thp", thp, 300)];
    let never = "; enabled=madvise gains nothing, as the program never asks for large pages (MADV_HUGEPAGE).";
    let forbids =
        "; the program forbids large pages for memory of its own (MADV_NOHUGEPAGE, 1 call).";
    check(&[
        (&lines(3200, json!({"huge_page_advices": 0})), never, true),
        (&lines(3200, json!({"huge_page_advices": 1})), "madvise", false),
        (&lines(4000, json!({"huge_page_advices": 0})), "madvise gains", false),
        (&lines(4000, json!({"huge_page_refusals": 1})), forbids, true),
        (&lines(4000, json!({"huge_page_refusals": 0})), "forbids", false),
        (&lines(3200, json!({"huge_page_refusals": 1})), "forbids", false),
    ]);
}
