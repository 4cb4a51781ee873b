//! Texts of comparisons whose schemes, speeds, waits, seeds and counters a seed chooses, on both sides of the
//! thresholds of the answer. `tests/data/answers.txt` has a hash of each eight; `UPDATE_KEPT=1` writes it after
//! an intended change.

use std::fmt::Write as _;

use perforate_kept::{self as kept, TextHash};
use perforate_records::{Vocabulary, read_results};
use perforate_report::{Rows, summaries, table, varied_table};
use perforate_types::Random;
use serde_json::{Map, Value, json};

use crate::vocabulary::vocabulary;

struct Choice(Random);

impl Choice {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next() % end as u64) as usize
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

const SCHEMES: [&str; 10] = [
    "4k",
    "thp",
    "1g",
    "thp-madvise",
    "perforated",
    "perforated-on-demand",
    "gt-pde-2m",
    "segment",
    "ideal",
    "free",
];

/// Counters on which sentences depend, and values on both sides of their thresholds.
const DECISIVE: [(&str, &[f64]); 13] = [
    ("dram_busy", &[0.5, 0.899, 0.9, 0.96]),
    ("huge_page_advices", &[0.0, 1.0, 7.0]),
    ("huge_page_refusals", &[0.0, 1.0, 3200.0]),
    ("l1d_mshrs_busy", &[0.2, 0.89, 0.91]),
    ("l1_tlb_misses", &[0.0, 70_000.0]),
    ("l1_tlb_mpki", &[0.0, 70.0]),
    ("l2_tlb_compulsory_share", &[0.0, 0.49, 0.5, 0.75]),
    ("l2_tlb_misses", &[0.0, 1.0, 300.0, 420.0]),
    ("l2_tlb_mpki", &[0.0, 30.0, 42.0]),
    ("page_walkers_busy", &[0.1, 0.9, 1.0]),
    ("whole_run_cycles", &[0.0, 50_000.0, 52_000.0]),
    ("whole_run_ipc", &[0.1, 0.2, 0.25]),
    ("whole_run_operating_system_cycles", &[0.0, 499.0, 501.0, 4000.0, 9000.0]),
];

/// A run of ten parts.
fn run(
    choice: &mut Choice,
    vocabulary: &Vocabulary,
    scheme: &str,
    (cycles, spread): (u64, u64),
) -> Value {
    let waiting = cycles * choice.of(&[0, 0, 3, 9, 10, 11, 50, 300]) / 1000;
    let parts: Vec<u64> = (0..10).map(|_| cycles + choice.of(&[0, spread])).collect();
    let waits: Vec<u64> = (0..10).map(|_| waiting + choice.of(&[0, spread / 2])).collect();
    let (all, waited) = (parts.iter().sum::<u64>(), waits.iter().sum::<u64>());
    let mut counters = Map::new();
    counters.insert("translation_stall_cycles".into(), json!(waited));
    for (id, values) in DECISIVE {
        if choice.below(3) > 0 {
            counters.insert(id.into(), json!(choice.of(values)));
        }
    }
    let number = choice.0.next();
    for counter in &vocabulary.counters {
        // A further counter leaves the values of the others as they are.
        let mut choice = Choice(Random::new(TextHash::of(&counter.id).0 ^ number));
        // Parts of the time, mostly: the sentences name the largest of them.
        let chance = if counter.part.is_some() { 3 } else { 12 };
        if choice.below(chance) == 0 && !counters.contains_key(&*counter.id) {
            let value =
                all as f64 * choice.of(&[0.0, 0.02, 0.1, 0.1, 0.3]) * choice.of(&[1.0, 0.1]);
            counters.insert(counter.id.to_string(), json!(value.floor()));
        }
    }
    let mut run = json!({
        "scheme": scheme, "workload": "w", "machine": "m", "instructions": 10_000, "cycles": all,
        "ipc": 10_000.0 / all as f64, "counters": counters,
    });
    if let Some((guest, host)) = scheme.split_once('+') {
        (run["guest"], run["host"]) = (json!(guest), json!(host));
    }
    if choice.below(4) > 0 {
        run["batches"] = json!({
            "instructions": vec![1000; 10], "cycles": parts, "translation_stall_cycles": waits,
        });
    }
    run
}

/// Runs of several schemes, at times of several seeds, of part of a program, of windows, or without a clock.
fn comparison(choice: &mut Choice, vocabulary: &Vocabulary) -> String {
    let is_pair = choice.below(6) == 0;
    let mut schemes: Vec<String> = Vec::new();
    for _ in 0..=choice.below(7) {
        let [guest, host] = [0; 2].map(|_| choice.of(&SCHEMES));
        let name =
            if is_pair && choice.below(4) > 0 { format!("{guest}+{host}") } else { guest.into() };
        if !schemes.contains(&name) {
            schemes.push(name);
        }
    }
    let seeds = choice.of(&[1, 1, 1, 2, 3]);
    let spread = choice.of(&[0, 0, 8, 40, 400]);
    let is_sampled = choice.below(6) == 0;
    let is_timed = choice.below(8) > 0;
    let is_varied = choice.below(6) == 0;
    let config = match choice.below(5) {
        0 => {
            json!({"workload": {"is_cut_off": true, "instructions_skipped": choice.of(&[0, 150, 1250, 1500, 2_000_000])},
            "skipped_instructions": choice.of(&[0, 10_000])})
        }
        1 => json!({"workload": {"is_cut_off": false}, "memory": {"portion": 50}}),
        _ => json!({}),
    };
    let mut lines = Vec::new();
    for place in 0..if is_varied { 2 } else { 1 } {
        for scheme in &schemes {
            let speed = choice
                .of(&[0.5, 0.9, 0.98, 0.994, 0.996, 1.0, 1.0, 1.004, 1.006, 1.009, 1.011, 1.06]);
            for seed in 0..seeds {
                let cycles = (4000.0 * speed) as u64 + seed * choice.of(&[0, 30]);
                let mut run = run(choice, vocabulary, scheme, (cycles, spread));
                run["seed"] = json!(seed);
                run["config"] = config.clone();
                if is_varied {
                    run["config"]["varied"] = json!({"key": "tlb.l2.entries", "value": place.to_string(),
                        "number": place, "unit": ""});
                }
                if is_sampled {
                    let half = choice.of(&[0.0, 1e-4, 0.05]);
                    run["instructions_represented"] = json!(2_000_000);
                    run["sampled"] = json!({"windows": choice.of(&[1, 4, 29, 30, 70]),
                        "only_timing": choice.below(3) == 0, "window_warmup_instructions": 300,
                        "instructions_counted": 10_000, "instructions_represented": 2_000_000,
                        "figures": {"ipc": {"mean": 0.25, "half_width_95": half},
                            "l2_tlb_mpki": {"mean": 3.25, "half_width_95": 0.5}},
                        "extrapolated": {"cycles": {"mean": 8e6, "half_width_95": 8e6 * half}}});
                }
                if !is_timed {
                    (run["cycles"], run["ipc"], run["batches"]) =
                        (Value::Null, Value::Null, json!({}));
                }
                lines.push(run.to_string());
            }
        }
    }
    lines.join("\n")
}

/// Runs over the values of one option, or of two.
fn values(choice: &mut Choice) -> String {
    let is_timed = choice.below(4) > 0;
    let (first, second) = (choice.below(5) + 1, choice.of(&[0, 0, 1, 2, 3]));
    let unit = choice.of(&["", "", " %", "M", "x"]);
    let (are_numbers, is_rising) = (choice.below(4) > 0, choice.below(3) > 0);
    let (schemes, seeds, spread) =
        (choice.below(6) + 1, choice.of(&[1, 1, 3]), choice.of(&[0, 0, 6, 90]));
    let (has_batches, has_work) = (choice.below(2) > 0, choice.below(3) == 0);
    let step = choice.of(&[0, 3, 30, 300]);
    let setting = |key: &str, place: usize| {
        let number = [8, 4, 64, 16, 32][place];
        let value = if are_numbers {
            format!("{number}{unit}")
        } else {
            format!("value-{place}-of-the-option")
        };
        json!({"key": key, "value": value, "number": are_numbers.then_some(number), "unit": unit})
    };
    let mut lines = Vec::new();
    for place in 0..first {
        for other in 0..second.max(1) {
            for scheme in &SCHEMES[..schemes] {
                for seed in 0..seeds {
                    let change =
                        if is_rising { step * place as u64 } else { choice.below(4) as u64 * step };
                    let cycles = 4000 - change + 7 * other as u64 + choice.of(&[0, spread]);
                    let mut varied = setting("tlb.l2.entries", place);
                    if second > 0 {
                        varied["second"] = setting("memory", other);
                    }
                    let mut run = json!({
                        "scheme": scheme, "workload": "w", "machine": "m", "seed": seed, "instructions": 10_000,
                        "config": {"varied": varied},
                        "counters": {"walks": choice.of(&[0, 1, 1]) * cycles, "l2_tlb_misses": cycles / 3},
                    });
                    if is_timed {
                        run["cycles"] = json!(10 * cycles);
                        run["ipc"] = json!(1000.0 / cycles as f64);
                    }
                    if is_timed && has_batches {
                        let parts: Vec<u64> =
                            (0..10).map(|part| cycles + part % 2 * spread).collect();
                        run["batches"] = json!({"instructions": vec![1000; 10], "cycles": parts,
                            "translation_stall_cycles": vec![0; 10]});
                    }
                    if has_work {
                        run["counters"]["whole_run_ipc"] = json!(900.0 / cycles as f64);
                    }
                    lines.push(run.to_string());
                }
            }
        }
    }
    lines.join("\n")
}

fn compare(name: &str, count: usize, text: impl Fn(&mut Choice, &Vocabulary) -> String) -> String {
    let (vocabulary, mut kept, mut choice) = (vocabulary(), String::new(), Choice(Random::new(17)));
    for number in 1..=count {
        let eight: String = (0..8).map(|_| text(&mut choice, &vocabulary)).collect();
        writeln!(kept, "{name} {number} | {}", TextHash::of(&eight)).unwrap();
    }
    kept
}

#[test]
fn texts_of_random_comparisons_are_as_they_were() {
    let answers = compare("comparisons", 40, |choice, vocabulary| {
        let results = read_results(&comparison(choice, vocabulary)).unwrap();
        let columns = choice.of(&[40, 60, 80, 80, 100, 132]);
        let rows = if choice.below(4) == 0 { Rows::All } else { Rows::Main };
        let summaries = serde_json::to_string(&summaries(&results, vocabulary)).unwrap();
        let varied = varied_table(&results, vocabulary, columns).unwrap_or_default();
        [table(&results, vocabulary, columns, rows), varied, summaries].concat()
    });
    let values = compare("values", 20, |choice, vocabulary| {
        let results = read_results(&values(choice)).unwrap();
        varied_table(&results, vocabulary, choice.of(&[40, 70, 100])).unwrap()
    });
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/answers.txt");
    kept::compare(path, &[answers, values].concat());
}
