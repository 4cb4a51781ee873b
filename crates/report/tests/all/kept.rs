//! Pages and tables of a fixed set of records, compared byte by byte with `tests/data/kept.txt`: an intended
//! change shows there which figures and tables it changes.
//!
//! Of figures and sections of pages, the file has a hash. `UPDATE_KEPT=1` writes it after an intended change.

use std::fmt::Write as _;

use perforate_kept::{self as kept, TextHash};
use perforate_records::{
    ExperimentResults, Vocabulary, read_experiments, read_results, read_snapshot,
};
use perforate_report::{
    Rows, advice_html, advice_text, curves_html, curves_table, experiments_html, experiments_table,
    html, snapshot_html, snapshot_table, summaries, summary_html, table, varied_table,
};
use serde_json::{Map, Value, json};

use crate::document::{data, markup};
use crate::vocabulary::{options, vocabulary};
use crate::{advice, answer, curves, memory, records, snapshot, threads, why};

pub const SAMPLE: &str = include_str!("../data/sample.jsonl");

/// Two seeds of four schemes, in which every registered counter has a value of its own, and different speeds.
pub fn every_counter(vocabulary: &Vocabulary) -> String {
    let schemes = ["4k", "thp", "perforated", "ideal"].into_iter().enumerate();
    let runs =
        schemes.flat_map(|(number, scheme)| [1, 2].map(|seed| (number as u64, scheme, seed)));
    let runs = runs.map(|(number, scheme, seed)| {
        let cycles = 4_000_000 - 700_000 * number + 11_000 * seed;
        let counters = vocabulary.counters.iter().map(|counter| {
            let value = (TextHash::of(&counter.id).0 % 90_000) + number * 3_729 + seed * 31;
            let is_share = matches!(counter.unit, perforate_types::CounterUnit::Share);
            let value = if is_share { json!(value as f64 / 100_000.0) } else { json!(value) };
            (counter.id.to_string(), value)
        });
        let counters: Map<String, Value> = counters.collect();
        json!({
            "scheme": scheme, "workload": "every counter", "machine": "m", "seed": seed,
            "instructions": 2_000_000, "cycles": cycles, "ipc": 2e6 / cycles as f64,
            "counters": counters,
        })
        .to_string()
    });
    runs.collect::<Vec<_>>().join("\n")
}

/// Runs of two values of an option and, without it, of two workloads.
pub fn varied() -> String {
    let runs = [(8, 0.2), (16, 0.25), (32, 0.4)].into_iter().flat_map(|(value, ipc)| {
        ["4k", "thp"].map(|scheme| {
            let ipc = if scheme == "thp" { ipc * 1.5 } else { ipc };
            let setting = json!({"key": "tlb.l2.entries", "value": value.to_string(),
                "number": value, "unit": ""});
            json!({"scheme": scheme, "workload": "w", "machine": "m", "ipc": ipc,
                "instructions": 1000, "cycles": (1000.0 / ipc) as u64,
                "config": {"varied": setting}, "counters": {"walks": value * 3}})
            .to_string()
        })
    });
    runs.collect::<Vec<_>>().join("\n")
}

/// Runs of the values of an option that are names, and of two options.
pub fn named(second: &[&str]) -> String {
    let values = ["first", "last"].into_iter().flat_map(|value| {
        second.iter().flat_map(move |other| ["4k", "thp"].map(|scheme| (value, *other, scheme)))
    });
    let runs = values.enumerate().map(|(number, (value, other, scheme))| {
        let setting = |key, value| json!({"key": key, "value": value, "number": null, "unit": ""});
        let mut varied = setting("tlb.replacement", value);
        if !other.is_empty() {
            varied["second"] = setting("memory.policy", other);
        }
        let cycles = 4000 - 300 * number;
        json!({"scheme": scheme, "workload": "w", "machine": "m", "ipc": 1000.0 / cycles as f64,
            "instructions": 1000, "cycles": cycles, "config": {"varied": varied}})
        .to_string()
    });
    runs.collect::<Vec<_>>().join("\n")
}

/// A proposal that is exactly as fast as today's large pages.
fn equal_gains() -> String {
    let of = |scheme: &str, cycles, waiting| {
        let counters = json!({"l2_tlb_misses": 40, "stall_walk_cycles": 10 * waiting});
        answer::run(scheme, [cycles; 10], [waiting; 10], counters)
    };
    let runs = [of("4k", 4000, 1000), of("thp", 3200, 300), of("perforated", 3200, 200)];
    runs.join("\n")
}

/// A run of which windows were measured, beside one of another machine that was not sampled.
pub fn sampled() -> String {
    let of = |scheme: &str, cycles: u64| {
        json!({"scheme": scheme, "workload": "w", "machine": "m", "instructions": 1000,
            "cycles": cycles, "ipc": 1000.0 / cycles as f64,
            "instructions_represented": 1_000_000,
            "counters": {"walks": 5, "operating_system_cycles": 40_000, "translation_stall_cycles": 300},
            "sampled": {"windows": 40, "window_warmup_instructions": 300,
                "instructions_counted": 20_000, "instructions_represented": 1_000_000,
                "figures": {"ipc": {"mean": 0.5, "half_width_95": 0.01},
                    "l2_tlb_mpki": {"mean": 3.25, "half_width_95": 0.5}},
                "extrapolated": {"cycles": {"mean": 2e6, "half_width_95": 4e4},
                    "walks": {"mean": 5000.0, "half_width_95": 70.0}}}})
        .to_string()
    };
    [of("4k", 2000), of("thp", 1600)].join("\n")
}

/// Pieces of a page: its sections as they stand in the markup, those that are made later, and its figures.
pub fn add_page(kept: &mut String, name: &str, page: &str) {
    let mut add = |piece: &str, text: &str| {
        writeln!(kept, "{name} | {piece} | {}", TextHash::of(text)).expect("a string takes all");
    };
    for (number, section) in markup(page).split("<h").enumerate() {
        let heading: String = section.chars().take(48).filter(|one| !one.is_control()).collect();
        add(&format!("markup {number} {heading}"), section);
    }
    if page.contains("id=\"data\"") {
        let data = data(page);
        for (id, figure) in data["figures"].as_object().into_iter().flatten() {
            for (part, value) in figure.as_object().into_iter().flatten() {
                add(&format!("figure {id} {part}"), &value.to_string());
            }
        }
        for (number, part) in data["parts"].as_array().into_iter().flatten().enumerate() {
            add(&format!("part {number}"), &part.to_string());
        }
        add("texts", &data["texts"].to_string());
    }
}

fn add_text(kept: &mut String, name: &str, text: &str) {
    for line in text.lines() {
        writeln!(kept, "{name} | {}", line.trim_end()).expect("a string takes all");
    }
}

#[test]
fn pages_and_tables_are_as_they_were() {
    let (vocabulary, mut kept) = (vocabulary(), String::new());
    let options = options("Kept", "perforate compare");
    for (name, lines) in [
        ("sample", SAMPLE.to_owned()),
        ("every counter", every_counter(&vocabulary)),
        ("pairs", records::pairs()),
        ("memory", memory::runs().join("\n")),
        ("why", why::three_runs().join("\n")),
        ("varied", varied()),
        ("named values", named(&[""])),
        ("named pairs of values", named(&["one", "two", "three"])),
        ("equal gains", equal_gains()),
        ("sampled", sampled()),
        ("threads", threads::two_cores()),
        ("timed windows", threads::timed_windows()),
    ] {
        let results = read_results(&lines).unwrap();
        add_page(&mut kept, name, &html(&results, &options));
        for (columns, rows) in [(60, Rows::Main), (110, Rows::Main), (110, Rows::All)] {
            let text = table(&results, &vocabulary, columns, rows);
            add_text(&mut kept, &format!("{name}, {columns} columns"), &text);
        }
        let varied = varied_table(&results, &vocabulary, 100);
        add_text(&mut kept, &format!("{name}, varied"), &varied.unwrap_or_default());
        add_page(&mut kept, &format!("{name}, summary"), &summary_html(&results, &vocabulary));
        for summary in summaries(&results, &vocabulary) {
            let text = serde_json::to_string(&summary).unwrap();
            writeln!(kept, "{name} | summary | {}", TextHash::of(&text)).unwrap();
        }
    }
    let experiments = [records::all(), records::others()].join("\n");
    let experiments = read_experiments(&experiments).unwrap();
    add_page(&mut kept, "experiments", &experiments_html(&experiments, &options));
    for columns in [60, 110] {
        let text = experiments_table(&experiments, columns);
        add_text(&mut kept, &format!("experiments, {columns} columns"), &text);
    }
    for one in experiments.experiments {
        let name = one.experiment.clone();
        let alone = ExperimentResults { experiments: vec![one], joint: Vec::new() };
        add_page(&mut kept, &name, &experiments_html(&alone, &options));
    }
    let joint = [records::joint(), records::many_readings()].join("\n");
    let joint = read_experiments(&joint).unwrap();
    add_page(&mut kept, "joint readings", &experiments_html(&joint, &options));
    add_text(&mut kept, "joint readings", &experiments_table(&joint, 100));
    let pairs = snapshot::HOST.replace("\"blocks_per_cell\":1", "\"blocks_per_cell\":2");
    let host = [("host", snapshot::HOST), ("host, two blocks a cell", &pairs)];
    let (full_host, full_process) = (snapshot::full_host(), snapshot::full_process());
    let others = [
        ("process", snapshot::PROCESS),
        ("full host", &full_host),
        ("full process", &full_process),
    ];
    for (name, text) in host.into_iter().chain(others) {
        let snapshot = read_snapshot(text).unwrap();
        add_page(&mut kept, name, &snapshot_html(&snapshot, &options));
        add_text(&mut kept, name, &snapshot_table(&snapshot, 100));
    }
    for (name, record) in advice::kinds() {
        add_page(&mut kept, name, &advice_html(&record, &options));
        add_text(&mut kept, name, &advice_text(&record, 80));
    }
    let record = curves::record();
    add_page(&mut kept, "curves", &curves_html(&record, &options));
    add_text(&mut kept, "curves", &curves_table(&record, 80));

    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kept.txt"), &kept);
}
