//! The answer: what it says follows from the runs, and nothing is said that they cannot show.

use perforate_records::{RunResult, read_results};
use perforate_report::{Rows, varied_table};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::vocabulary::vocabulary;

/// A run of ten parts of 1000 instructions with these cycles each, of which so many wait for
/// translation.
pub fn run(scheme: &str, cycles: [u64; 10], waiting: [u64; 10], counters: Value) -> String {
    let all: u64 = cycles.iter().sum();
    let mut counters = counters;
    counters["translation_stall_cycles"] = waiting.iter().sum::<u64>().into();
    json!({
        "scheme": scheme, "workload": "w", "machine": "m", "instructions": 10_000, "cycles": all,
        "ipc": 10_000.0 / all as f64, "counters": counters,
        "batches": {
            "instructions": vec![1000; 10], "cycles": cycles, "translation_stall_cycles": waiting,
        },
    })
    .to_string()
}

fn results(lines: &[String]) -> Vec<RunResult> {
    read_results(&lines.join("\n")).unwrap()
}

pub fn shown(lines: &[String], columns: usize, rows: Rows) -> String {
    perforate_report::table(&results(lines), &vocabulary(), columns, rows)
}

/// The text as one line.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// 4KB pages take 4000 cycles a part, a quarter of them for translation; large pages 3200.
#[test]
fn costs_and_gains_come_with_intervals() {
    let base = [3900, 4100, 4000, 4000, 4000, 4000, 4000, 4000, 4050, 3950];
    let waiting = [1000; 10];
    let large = base.map(|cycles| cycles * 4 / 5);
    let perforated = base.map(|cycles| cycles - 1000);
    let text = shown(
        &[
            run("4k", base, waiting, json!({"huge_page_advices": 0})),
            run("thp", large, [400; 10], json!({})),
            run("perforated", perforated, [0; 10], json!({})),
        ],
        100,
        Rows::Main,
    );
    let text = flat(&text);
    for sentence in [
        // 10,000 of 40,000.
        "With 4KB pages, w spends 25.0 ± 0.2 % of its time waiting for address translation.",
        "Today, thp (transparent_hugepage/enabled=always) would make it 1.250× ± <0.001 as fast; \
         enabled=madvise gains nothing, as the program never asks for large pages (MADV_HUGEPAGE).",
        // 40,000 ÷ 30,000, and 32,000 ÷ 30,000.
        "Of the proposals, perforated gains the most: 1.333× ± 0.004 (1.067× ± 0.003 as fast as thp).",
        // 4000 of 32,000.
        "With thp, translation still takes 12.5 ± 0.1 % of its time.",
    ] {
        assert!(text.contains(sentence), "{sentence}\n{text}");
    }
}

/// Parts differ by more than the mean does.
#[test]
fn a_difference_inside_its_interval_is_none() {
    let base = [4000; 10];
    let large = [3000, 4900, 3000, 4900, 3000, 4900, 3000, 4900, 3000, 4900];
    let lines = [
        run("4k", base, [400; 10], json!({})),
        run("thp", large, [300; 10], json!({})),
        run("perforated", base, [400; 10], json!({})),
    ];
    let text = flat(&shown(&lines, 100, Rows::Main));
    let none = "makes no difference that this run can show";
    assert!(
        text.contains(&format!("Today, thp (transparent_hugepage/enabled=always) {none} (± 0.18)")),
        "{text}"
    );
    assert!(text.contains(&format!("No proposal gains anything; perforated, the best, {none}")));
    assert!(text.contains("IPC ÷ 4KB 1.00× ~1 ± 0.18 ~1 ± <0.01"), "{text}");
    assert!(text.contains("~1: no difference that this run can show"));
    assert!(!text.contains("madvise"), "nobody knows whether the program asked for large pages");
}

/// Two that this run cannot tell apart are both named.
#[test]
fn schemes_that_are_as_fast_are_named_together() {
    let lines = [
        run("4k", [4000; 10], [400; 10], json!({})),
        run("thp", [3200; 10], [300; 10], json!({})),
        run(
            "1g",
            [3190, 3210, 3190, 3210, 3190, 3210, 3190, 3210, 3190, 3210],
            [300; 10],
            json!({}),
        ),
    ];
    let text = flat(&shown(&lines, 100, Rows::Main));
    let both =
        "would make it 1.250× ± <0.001 as fast (no difference from 1g that this run can show)";
    assert!(text.contains(both), "{text}");
    let lines = ["4k", "thp", "1g"].map(|name| run(name, [4000; 10], [400; 10], json!({})));
    let text = flat(&shown(&lines, 100, Rows::Main));
    let none = "Today, none of thp, 1g makes a difference that this run can show (± <0.01).";
    assert!(text.contains(none), "{text}");
}

#[test]
fn a_program_that_hardly_waits_is_told_so() {
    let lines =
        [run("4k", [4000; 10], [8; 10], json!({})), run("thp", [3996; 10], [1; 10], json!({}))];
    let text = flat(&shown(&lines, 100, Rows::Main));
    assert!(
        text.contains("w spends only 0.2 ± <0.1 % of its time waiting for address translation: no scheme can gain much."),
        "{text}"
    );
}

/// Large pages save nothing but faults: 2000 cycles a part of 4000 + 2000 and 4000 + 500.
#[test]
fn what_large_pages_save_of_the_kernels_work_is_said() {
    let counters = |work: u64| {
        let all = 40_000 + work;
        json!({
            "whole_run_operating_system_cycles": work, "whole_run_cycles": all,
            "whole_run_ipc": 10_000.0 / all as f64,
        })
    };
    let lines = [
        run("4k", [4000; 10], [400; 10], counters(20_000)),
        run("thp", [4000; 10], [400; 10], counters(5_000)),
    ];
    let text = flat(&shown(&lines, 100, Rows::Main));
    assert!(
        text.contains(
            "makes no difference that this run can show (± <0.01), 1.33× with the kernel's work."
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "is not in these figures. It takes 33.3 % of the whole run's time, and 11.1 % with thp."
        ),
        "{text}"
    );
}

/// 40,000 cycles of the program, and as many and more of swapping.
#[test]
fn swapping_comes_first_where_it_takes_most_of_the_time() {
    let first = |swapping: u64| {
        let counters = json!({
            "cycles_with_operating_system": 40_000 + swapping,
            "operating_system_cycles_swapping": swapping,
        });
        flat(&shown(&[run("4k", [4000; 10], [400; 10], counters)], 100, Rows::Main))
    };
    let told = "Swapping takes 75.0 % of the time with 4k, as memory is too small. It is not in the figures that follow. ";
    let text = first(120_000);
    assert!(text.contains(&format!("machine m {told}")), "{text}");
    assert!(!first(40_000).contains("Swapping takes"), "half of it is not most of it");
}

#[test]
fn what_is_always_busy_is_named() {
    let counters = json!({
        "page_walkers_busy": 0.984, "stack_cycles_walker_queue": 7000,
        "stack_cycles_walk_level1": 2500, "stack_cycles_l2_tlb": 500,
    });
    let text = flat(&shown(&[run("4k", [4000; 10], [1000; 10], counters)], 100, Rows::Main));
    assert!(
        text.contains(
            "Why: translation is 25.0 ± <0.1 % of the critical path (waiting for a walker 70 %, level 1 reads 25 %); the page walkers are busy 98.4 % of the time."
        ),
        "{text}"
    );
}

/// 4KB pages take 4000 cycles a part, and 1600 where every large page is contiguous. The cycle stack has
/// another figure, and what makes the difference is named.
#[test]
fn the_headline_is_what_the_ideal_scheme_saves() {
    let base = [3900, 4100, 4000, 4000, 4000, 4000, 4000, 4000, 4050, 3950];
    let ideal = base.map(|cycles| cycles * 2 / 5);
    let text = |stall: u64, in_memory: [u64; 2]| {
        let memory = |cycles: u64| json!({"stack_cycles_memory": cycles});
        let lines = [
            run("4k", base, [stall; 10], memory(in_memory[0])),
            run("thp", base.map(|cycles| cycles / 2), [10; 10], memory(0)),
            run("ideal", ideal, [0; 10], memory(in_memory[1])),
        ];
        flat(&shown(&lines, 120, Rows::Main))
    };
    let same = text(2400, [16_000, 16_000]);
    for sentence in [
        // 1 − 16,000 ÷ 40,000, and 1 − 16,000 ÷ 20,000.
        "With 4KB pages, free address translation would save w 60.0 ± <0.1 % of its time.",
        "With thp, free translation would still save 20.0 ± <0.1 % of its time.",
        "saved if free 60.0 ± <0.1 % 20.0 ± <0.1 % –",
        "Why: translation is 60.0 ± 0.6 % of the critical path.",
    ] {
        assert!(same.contains(sentence), "{sentence}\n{same}");
    }
    let less = text(240, [16_000, 8_000]);
    let why = "free translation would save more, 60.0 %, as other waits shorten with it: memory takes \
               20.0 % less of the time.";
    assert!(less.contains(why), "{less}");
    let more = text(3600, [0, 10_000]);
    let why = "free translation would save less, 60.0 %, as other waits then show: memory takes 25.0 % \
               more of the time.";
    assert!(more.contains(why), "{more}");
}

/// Ideal large pages that wait for translation themselves are no free translation.
#[test]
fn a_saving_is_the_least_where_ideal_pages_miss_too() {
    let lines = [
        run("4k", [4000; 10], [2000; 10], json!({})),
        run("ideal", [3000; 10], [600; 10], json!({})),
    ];
    let text = flat(&shown(&lines, 100, Rows::Main));
    assert!(text.contains("would save w at least 25.0 ± <0.1 % of its time."), "{text}");
    let same =
        [run("4k", [4000; 10], [9; 10], json!({})), run("ideal", [4000; 10], [0; 10], json!({}))];
    let text = flat(&shown(&same, 100, Rows::Main));
    let none = "free address translation would save w nothing that this run can show (± <0.1 %): no \
                scheme can gain much.";
    assert!(text.contains(none), "{text}");
}

/// Free translation is what is measured by where it was simulated; ideal pages are a scheme like others
/// then, but no gain of today or of a proposal.
#[test]
fn free_translation_goes_before_ideal_pages() {
    let lines = [
        run("4k", [4000; 10], [2000; 10], json!({})),
        run("ideal", [3000; 10], [600; 10], json!({})),
        run("free", [2000; 10], [0; 10], json!({})),
    ];
    let text = flat(&shown(&lines, 100, Rows::Main));
    for words in
        ["would save w 50.0 ± <0.1 % of its time.", "saved if free 50.0 ± <0.1 % 33.3 ± <0.1 % –"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("Today") && !text.contains("proposal"), "{text}");
    let pairs = ["4k+4k", "thp+thp", "free+4k"].map(|name| {
        let cycles = if name == "4k+4k" { 4000 } else { 2000 };
        run(name, [cycles; 10], [0; 10], json!({}))
    });
    let text = flat(&shown(&pairs, 100, Rows::Main));
    assert!(text.contains("Under 4k+4k, free address translation would save w 50.0"), "{text}");
    assert!(text.contains("Today, thp+thp would make it 2.000×"), "{text}");
}

/// A scheme that is faster than free translation gains by something else.
#[test]
fn a_gain_beyond_free_translation_is_explained() {
    let text = |thp: u64| {
        let lines = [
            run("4k", [4000; 10], [0; 10], json!({})),
            run("thp", [thp; 10], [0; 10], json!({})),
            run("free", [3990; 10], [0; 10], json!({})),
        ];
        flat(&shown(&lines, 120, Rows::Main))
    };
    let beyond = text(3800);
    assert!(beyond.contains("only 0.2 ± <0.1 % of its time. Today, thp"), "{beyond}");
    let why = "thp is 1.050× ± <0.001 as fast as free translation with 4KB pages is: that part of its gain is not \
               translation";
    assert!(beyond.contains(why), "{beyond}");
    let within = text(3985);
    assert!(within.contains("of its time: no scheme can gain much."), "{within}");
    assert!(!within.contains("not translation"), "{within}");
}

#[test]
fn cold_misses_are_warned_of_in_the_answer() {
    let text = |share: f64| {
        let counters = json!({"l2_tlb_misses": 1000, "l2_tlb_compulsory_share": share});
        let lines = [
            run("4k", [4000; 10], [400; 10], counters),
            run("ideal", [3600; 10], [0; 10], json!({})),
        ];
        flat(&shown(&lines, 100, Rows::Main))
    };
    let caution =
        "Caution: 83.0 % of its L2 TLB misses are the first access to a page in this run.";
    assert!(text(0.83).contains(caution), "{}", text(0.83));
    assert!(!text(0.4).contains("Caution"), "{}", text(0.4));
}

/// The same run as a sample of `windows` windows.
fn sampled(line: &str, windows: u64) -> String {
    let mut line: Value = serde_json::from_str(line).unwrap();
    line["sampled"] = json!({
        "windows": windows, "instructions_counted": 10_000, "instructions_represented": 1_000_000,
    });
    line.to_string()
}

#[test]
fn a_few_windows_have_no_interval() {
    let text = |windows: u64| {
        let lines = [
            run(
                "4k",
                [3990, 4010, 4000, 4000, 4000, 4000, 4000, 4000, 4000, 4000],
                [400; 10],
                json!({}),
            ),
            run("ideal", [3600; 10], [0; 10], json!({})),
        ];
        flat(&shown(&lines.map(|line| sampled(&line, windows)), 100, Rows::Main))
    };
    let few = text(9);
    assert!(
        few.contains(
            "would save w 10.0 % of its time. Caution: this sample has 9 windows, too few"
        ),
        "{few}"
    );
    let many = text(30);
    assert!(many.contains("would save w 10.0 ± 0.1 % of its time."), "{many}");
    assert!(!many.contains("Caution"), "{many}");
}

/// A program that went on is spoken of only as far as it was recorded.
#[test]
fn the_first_sentence_says_that_the_recording_ended_early() {
    let text = |workload: Value| {
        let lines = [
            run("4k", [4000; 10], [400; 10], json!({})),
            run("ideal", [3600; 10], [0; 10], json!({})),
        ];
        let with_workload = |line: String| {
            let mut line: Value = serde_json::from_str(&line).unwrap();
            line["config"] = json!({"workload": workload});
            line["warmup"] = json!({"instructions": 2_000});
            line.to_string()
        };
        flat(&shown(&lines.map(with_workload), 100, Rows::Main))
    };
    let first = text(json!({"is_cut_off": true}));
    assert!(
        first.contains("In its first 12k instructions with 4KB pages, free address"),
        "{first}"
    );
    let later = text(json!({"is_cut_off": true, "instructions_skipped": 3_000_000}));
    assert!(later.contains("In 12k instructions after its first 3M with 4KB"), "{later}");
    let both = text(json!({"is_cut_off": true, "programs_beside": 1}));
    assert!(both.contains("In the first 12k instructions of both programs with 4KB"), "{both}");
    let three =
        text(json!({"is_cut_off": true, "programs_beside": 2, "instructions_skipped": 3_000_000}));
    let expected = "In 12k instructions of all 3 programs after their first 3M with 4KB";
    assert!(three.contains(expected), "{three}");
    assert!(text(json!({})).contains("With 4KB pages, free address"));
    let whole = text(json!({"is_cut_off": false, "instructions_skipped": 3_000_000}));
    assert!(whole.contains("With 4KB pages, free address"), "{whole}");
}

/// Large pages that the program itself forbids are not for want of contiguous memory.
#[test]
fn forbidden_large_pages_are_said_to_be_forbidden() {
    let base = run("4k", [4000; 10], [400; 10], json!({"huge_page_refusals": 3}));
    let lines = [base, run("thp", [4000; 10], [400; 10], json!({}))];
    let text = flat(&shown(&lines, 100, Rows::Main));
    let forbidden =
        "; the program forbids large pages for memory of its own (MADV_NOHUGEPAGE, 3 calls).";
    assert!(text.contains(forbidden), "{text}");
}

#[test]
fn the_main_table_is_short_and_fits() {
    let names = ["4k", "thp", "1g", "perforated", "range", "segment", "gt-pde-4m", "ideal"];
    let line = |name: &&str| {
        let counters = json!({"l1_tlb_mpki": 1.5, "walks": 3, "page_table_bytes": 4096, "touched_bytes": 1 << 20});
        run(name, [4000; 10], [100; 10], counters)
    };
    let lines: Vec<String> = names.iter().map(line).collect();
    for columns in [80, 120, 200] {
        for count in [4, 5, 6, 8] {
            let text = shown(&lines[..count], columns, Rows::Main);
            assert!(text.lines().all(|line| line.width() <= columns), "{columns}:\n{text}");
            let rule = text.lines().position(|line| line.starts_with('─')).unwrap();
            let rows = text.lines().skip(rule + 1).take_while(|line| !line.is_empty());
            assert!(rows.count() <= 17, "{text}");
        }
        // More than six: each is a row.
        let text = shown(&lines, columns, Rows::Main);
        for name in names {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name}:\n{text}");
        }
    }
}

/// Of 4k with three values of a key: the second makes it faster, the third nothing that can be shown.
#[test]
fn changes_by_a_value_come_with_intervals() {
    let line = |value: &str, cycles: [u64; 10]| {
        let mut line: Value = serde_json::from_str(&run("4k", cycles, [0; 10], json!({}))).unwrap();
        line["config"] = json!({"varied": {"key": "knob", "value": value, "number": null}});
        line.to_string()
    };
    let unsure = [3000, 5000, 3000, 5000, 3000, 5000, 3000, 5000, 3000, 5000];
    let lines = [line("a", [4000; 10]), line("b", [3200; 10]), line("c", unsure)].join("\n");
    let vocabulary = vocabulary();
    let text = varied_table(&read_results(&lines).unwrap(), &vocabulary, 100).unwrap();
    for row in ["a     4k      0.250", "b     4k      0.312  +25.0 ± <0.1 %", "c     4k      0.250"]
    {
        assert!(text.contains(row), "{row}\n{text}");
    }
    assert!(text.contains("~0 ± ") && text.contains("~0: no difference"), "{text}");
}

/// Runs that miss, walk and read page tables equally often differ by where memory lies, whatever their speeds.
#[test]
fn a_scheme_that_translates_alike_gains_nothing() {
    let counts = |walks: u64| json!({"l1_tlb_misses": 900, "l2_tlb_misses": 800, "walks": walks, "references_per_walk": 1.8});
    let text = |walks: u64, speed: u64, seeds: &[u64]| {
        let of = |scheme: &str, cycles: u64, walks| {
            let line = run(scheme, [cycles; 10], [400; 10], counts(walks));
            let seeded = seeds.iter().map(move |seed| {
                let mut line: Value = serde_json::from_str(&line).unwrap();
                line["seed"] = json!(seed);
                line.to_string()
            });
            seeded.collect::<Vec<_>>()
        };
        let lines = [of("4k", 4000, 800), of("thp", 4000, 800), of("perforated", speed, walks)];
        flat(&shown(&lines.concat(), 100, Rows::Main))
    };
    let alike = text(801, 3200, &[1]);
    assert!(
        alike.contains(
            "No proposal gains anything; perforated, the best, walks and reads page tables as often as 4k: its speed, \
             1.250× ± <0.001, differs by where memory lies in caches and DRAM, which other seeds change (--seeds 5)."
        ),
        "{alike}"
    );
    assert!(text(801, 3200, &[1, 2]).contains("which other seeds change."));
    assert!(text(798, 3200, &[1]).contains("perforated gains the most: 1.250×"));
    assert!(
        text(801, 4000, &[1])
            .contains("No proposal gains anything; perforated, the best, makes no difference")
    );
}

/// The note on too little translation work comes first, unless translation costs nothing.
#[test]
fn too_little_work_is_told_before_any_gain() {
    let text = |waiting: u64, note: &str| {
        let of = |scheme: &str, cycles: u64, waiting: u64| {
            let line = run(scheme, [cycles; 10], [waiting; 10], json!({}));
            let mut line: Value = serde_json::from_str(&line).unwrap();
            line["notes"] = json!([note]);
            line.to_string()
        };
        flat(&shown(&[of("4k", 4000, waiting), of("perforated", 3000, 0)], 100, Rows::Main))
    };
    let note = "there is too little translation work in this run to tell schemes apart: a reason";
    let little = text(1000, note);
    let first = "Too little to tell: a note below says why this run cannot tell schemes apart.";
    assert!(little.contains(first) && !little.contains("gains the most"), "{little}");
    for (waiting, note) in [(1000, "another note"), (30, note)] {
        let text = text(waiting, note);
        assert!(!text.contains(first) && text.contains("gains the most"), "{text}");
    }
}
