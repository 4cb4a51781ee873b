//! Policies as scripts. Scripts that reproduce built-in policies give identical results; scripts that
//! fail stop the run.

use crate::runs::measuring;
use crate::sums::checked_run;
use perforate_config::OptionTexts;
use perforate_sim::scheme::scripted::{Script, load};
use perforate_sim::{
    Composition, Machine, MemoryOptions, MemorySnapshot, MemoryState, ProcessorOptions,
    ResolvedRun, RunResult, Workload,
};
use serde_json::Value;

use crate::storms::Storm;

/// Built-in schemes, each with the corresponding scheme for scripts, and the bundled script that
/// reproduces the built-in policy.
const SAME: [(&str, &str, &str); 3] = [
    ("thp", "scripted", "thp"),
    ("thp-madvise", "scripted", "madvise"),
    ("perforated", "perforated-scripted", "perforated"),
];

fn memory(options: &[(&str, &str)]) -> MemoryState {
    let given: OptionTexts = options.iter().copied().collect();
    MemoryOptions::read(given).unwrap().resolve(&MemorySnapshot::load).unwrap()
}

fn run(workload: &str, schemes: &str, memory: MemoryState) -> Result<Vec<RunResult>, String> {
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload { instructions: Some(300_000), ..Workload::named(workload) },
        machine: Machine::load("perforated-table2").unwrap(),
        schemes: Composition::list(schemes).unwrap(),
        memory,
        seed: 1,
        measuring: measuring(false, true, Some(50_000)),
    };
    checked_run(&comparison).map_err(|error| error.to_string())
}

fn counter(result: &RunResult, name: &str) -> u64 {
    result.counters.get(name).unwrap_or_else(|| panic!("no counter {name}")) as u64
}

/// Returns a result without names, notes, configuration and the counters of script calls.
fn anonymous(result: &RunResult) -> Value {
    let mut value = serde_json::to_value(result).unwrap();
    let object = value.as_object_mut().unwrap();
    for name in ["scheme", "guest", "host", "config", "notes"] {
        object.remove(name);
    }
    let counters = object["counters"].as_object_mut().unwrap();
    counters.retain(|name, _| !name.contains("policy_"));
    value
}

fn assert_same(workload: &str, schemes: &str, options: &[(&str, &str)]) -> Vec<RunResult> {
    let results = run(workload, schemes, memory(options)).unwrap();
    let [built_in, scripted] = &results[..] else { panic!("two results") };
    let (expected, found) = (anonymous(built_in), anonymous(scripted));
    for (name, value) in expected["counters"].as_object().unwrap() {
        assert_eq!(found["counters"][name], *value, "{name} of {schemes} on {options:?}");
    }
    for (name, value) in expected.as_object().unwrap() {
        assert!(found[name] == *value, "{name} of {schemes} on {options:?}");
    }
    results
}

/// Compares runs on memory without fragmentation, fragmented, aged with compaction and promotion,
/// and too small.
#[test]
fn scripts_of_built_in_policies_give_the_same_bytes() {
    let memories: [&[(&str, &str)]; 5] = [
        &[("memory", "1G")],
        &[("memory", "1G"), ("fragmentation", "portion=60%,holes=25%,clustered")],
        &[
            ("memory", "1G"),
            ("fragmentation", "portion=90%,holes=40%,dispersed"),
            ("khugepaged", "every=20K"),
        ],
        &[("memory", "512M"), ("age", "weeks"), ("defrag", "always"), ("khugepaged", "every=20K")],
        &[("memory", "256M"), ("swap", "1G"), ("khugepaged", "every=20K")],
    ];
    for (built_in, scripted, policy) in SAME {
        let mut asked = 0;
        for options in memories {
            for workload in ["random:size=200M,writes=50%", "sequential:size=200M"] {
                let options = [options, &[("policy", policy)]].concat();
                let results = assert_same(workload, &format!("{built_in},{scripted}"), &options);
                assert_eq!(counter(&results[0], "policy_questions"), 0);
                asked += counter(&results[1], "policy_questions");
            }
        }
        assert!(asked > 500, "{policy}: {asked}");
    }
}

/// Compares runs of programs with areas of all kinds, forks and copy-on-write.
#[test]
fn scripts_of_built_in_policies_give_the_same_bytes_on_programs() {
    for ((built_in, scripted, policy), workload) in
        SAME.into_iter().zip(["store:keys=5000", "hpcc", "store:keys=5000"])
    {
        assert_same(
            &perforate_trace::bundled::resolve(workload),
            &format!("{built_in},{scripted}"),
            &[("policy", policy), ("memory", "2G"), ("age", "weeks"), ("khugepaged", "every=50K")],
        );
    }
}

#[test]
fn scripts_of_built_in_policies_give_the_same_bytes_in_virtual_machines() {
    let workload = "random:size=200M";
    let fragmented = ("fragmentation", "portion=60%,holes=25%,clustered");
    let guest = |policy| [("memory", "1G"), fragmented, ("policy", policy)];
    let host =
        |policy| [("memory", "1G"), ("host-fragmentation", fragmented.1), ("host-policy", policy)];
    for (built_in, scripted, policy) in SAME {
        let pair = |host: &str| format!("{built_in}+{host},{scripted}+{host}");
        assert_same(workload, &pair("4k"), &guest(policy));
        assert_same(workload, &pair(built_in), &guest(policy));
        let pair = |guest: &str| format!("{guest}+{built_in},{guest}+{scripted}");
        assert_same(workload, &pair("thp"), &host(policy));
    }
}

/// Two kernels, one of them with a script, get the same events: forks, shared memory, advice,
/// promotion, reclaim and everything else in storms.
#[test]
fn scripts_of_built_in_policies_do_the_same_in_storms() {
    for (built_in, scripted, policy) in SAME {
        for seed in 0..12 {
            let storm = |scheme: &str| {
                Storm::changed(Composition::find(scheme).unwrap(), seed, &|memory| {
                    memory.policies.perforation = None;
                    memory.policies.script = Some(load(policy).unwrap());
                })
            };
            let (mut expected, mut found) = (storm(built_in), storm(scripted));
            for event in 0..1500 {
                for storm in [&mut expected, &mut found] {
                    storm.system.at_instruction(event);
                    storm.step().unwrap_or_else(|error| panic!("{policy}, seed {seed}: {error}"));
                }
            }
            let counters = |storm: &Storm| {
                let mut counters = perforate_types::Counters::default();
                storm.system.kernel().counters(&mut counters);
                let all = counters.iter().filter(|(name, _)| !name.starts_with("policy_"));
                all.map(|(name, value)| format!("{name} {value:?}")).collect::<Vec<_>>()
            };
            assert_eq!(counters(&found), counters(&expected), "{policy}, seed {seed}");
        }
    }
}

/// A defect planted in the script, not in the kernel, ends a storm.
#[test]
fn storms_end_with_an_answer_that_nobody_offered() {
    let text =
        "fn order_for(area, kind, orders) { if (area.address >> 21) % 4 == 1 { 1 } else { 9 } }";
    let caught = |seed: u64| {
        let mut storm = Storm::changed(Composition::find("scripted").unwrap(), seed, &|memory| {
            memory.policies.script = Some(Script::compile("planted", text).unwrap());
        });
        (0..2000).find_map(|event| {
            storm.system.at_instruction(event);
            storm.step().err()
        })
    };
    for seed in 0..4 {
        let error = caught(seed).expect("some region has that address").to_string();
        assert!(
            error.contains("planted: line 1, column 1: order_for answered 1; expected"),
            "{error}"
        );
    }
}

/// Returns a memory whose kernel has a script as its policy.
fn with_script(text: &str, options: &[(&str, &str)]) -> MemoryState {
    let mut memory = memory(options);
    memory.policies.script = Some(Script::compile("mine.rhai", text).unwrap());
    memory
}

/// The program has an array of 64MB and one page of code. The script gives large pages to all of
/// the array, to none of it, or to every other region.
#[test]
fn an_order_for_each_region() {
    let large = |body: &str| {
        let text = format!("fn order_for(area, kind, orders) {{ {body} }}");
        let memory = with_script(&text, &[("memory", "1G")]);
        let results = run("random:size=64M", "scripted", memory).unwrap();
        (counter(&results[0], "large_pages"), counter(&results[0], "base_pages"))
    };
    assert_eq!(large("9"), (32, 1));
    assert_eq!(large("0"), (0, 32 * 512 + 1));
    assert_eq!(large("if (area.address >> 21) % 2 == 0 { 9 } else { 0 }"), (16, 16 * 512 + 1));
    assert_eq!(large("if area.free_bytes > area.memory_bytes { 9 } else { 0 }"), (0, 32 * 512 + 1));
    assert_eq!(
        large("if area.length == 67108864 && area.kind == \"anonymous\" { 9 } else { 0 }"),
        (32, 1)
    );
}

/// The kernel offers 1GB pages where one fits. If the answer lacks order 9, other areas get 4KB
/// pages.
#[test]
fn orders_of_1gb() {
    let huge = |answer: &str, size: &str| {
        let text = format!("fn order_for(area, kind, orders) {{ {answer} }}");
        let memory = with_script(&text, &[("memory", "8G")]);
        let results = run(&format!("random:size={size}"), "scripted,1g", memory).unwrap();
        let counted =
            |result| ["huge_pages", "large_pages", "base_pages"].map(|name| counter(result, name));
        (counted(&results[0]), counted(&results[1]))
    };
    let (found, built_in) = huge("orders", "2G");
    assert_eq!(found, [2, 0, 1]);
    assert_eq!(found, built_in);
    assert_eq!(huge("if orders.contains(18) { 18 } else { 0 }", "2G").0, [2, 0, 1]);
    assert_eq!(huge("9", "2G").0, [0, 1024, 1]);
    // The first gigabyte around an array of 64MB does not fit into the array.
    assert_eq!(huge("orders", "64M").0, [0, 32, 1]);
}

/// khugepaged examines the areas that the script selects, and promotes in the way that the script
/// selects.
#[test]
fn promotion_is_the_scripts() {
    let promoted = |text: &str| {
        let memory = with_script(text, &[("memory", "1G"), ("khugepaged", "every=50K")]);
        let results = run("random:size=64M", "scripted", memory).unwrap();
        ["large_pages", "khugepaged_pages_made_whole", "khugepaged_refused_by_policy"]
            .map(|name| results[0].counters.get(name).unwrap_or(0.0) as u64)
    };
    let only = |kind: &str| {
        format!("fn order_for(area, kind, orders) {{ if kind == \"{kind}\" {{ 9 }} else {{ 0 }} }}")
    };
    assert_eq!(promoted(&only("khugepaged")), [32, 32, 0]);
    assert_eq!(promoted(&only("fault")), [32, 0, 0]);
    let refuses = only("khugepaged") + "fn promote(region, ways) { () }";
    let [large, made, refused] = promoted(&refuses);
    assert_eq!([large, made], [0, 0]);
    assert!(refused >= 32, "{refused}");
}

/// Reclaim skips victims that the script spares. With an array larger than memory, even regions stay.
/// If the script spares everything, something is reclaimed nevertheless.
#[test]
fn reclaim_spares_what_the_script_spares() {
    let swapped = |body: &str| {
        let text = format!("fn reclaim(victim) {{ {body} }}");
        let memory = with_script(&text, &[("memory", "64M"), ("swap", "1G")]);
        let results = run("random:size=80M,writes=100%", "scripted", memory).unwrap();
        ["swap_outs", "swap_ins"].map(|name| counter(&results[0], name))
    };
    let all = swapped("true");
    assert!(all[0] > 0);
    assert!(swapped("false")[0] > 0);
    assert_ne!(swapped("(victim.address >> 21) % 2 == 1"), all);
}

/// If a script returns an invalid answer, to the first call or a later one, the run stops without a
/// result and without a panic.
#[test]
fn answers_that_nobody_offered_stop_the_run() {
    for (text, options, problem) in [
        (
            "fn order_for(area, kind, orders) { 5 }",
            &[("memory", "1G")][..],
            "mine.rhai: line 1, column 1: order_for answered 5; expected one or several of the orders offered: 0, 9",
        ),
        (
            "fn order_for(area, kind, orders) {\n if area.address > area.start + (20 << 20) { loop {} } 9\n}",
            &[("memory", "1G")],
            "mine.rhai: line 1, column 1: order_for: more than 20000 operations",
        ),
        (
            "fn order_for(area, kind, orders) { if kind == \"fault\" { 0 } else { area.nothing } }",
            &[("memory", "1G"), ("khugepaged", "every=290K")],
            "mine.rhai: line 1, column 72: order_for: Area has no field nothing; it has address, start,",
        ),
        (
            "fn reclaim(victim) { 1 }",
            &[("memory", "64M"), ("swap", "1G")],
            "mine.rhai: line 1, column 1: reclaim answered 1; expected true or false",
        ),
    ] {
        let workload = "random:size=80M,writes=100%";
        let error = run(workload, "thp,scripted", with_script(text, options)).err();
        let error = error.unwrap_or_else(|| panic!("{text}"));
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn questions_about_holes_that_are_answered_wrongly_stop_the_run() {
    let fragmented = [("memory", "1G"), ("fragmentation", "portion=60%,holes=25%,clustered")];
    let text = "fn with_holes(block) { block.holes }";
    let error = run("random:size=64M", "perforated-scripted", with_script(text, &fragmented));
    let error = error.err().unwrap();
    let problem = "with_holes answered 128; expected true, false, \"eager\" or \"lazy\"";
    assert!(error.contains(problem), "{error}");
    // Ordinary page tables have no pages with holes, so the function is not called.
    assert!(run("random:size=64M", "scripted", with_script(text, &fragmented)).is_ok());
}
