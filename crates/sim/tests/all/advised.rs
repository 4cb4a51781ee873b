//! Runs of programs as advised (`--madvise`): hand-calculated numbers of large pages, checked by the oracle.

use crate::runs::measuring;
use crate::sums::checked_run;
use perforate_sim::{
    AdvisedRanges, Composition, Machine, MemoryState, ResolvedRun, RunResult, Workload,
};

const MB: u64 = 1 << 20;
/// Address of the only data mapping of the workload `random`, if it has less than 1GB.
const START: u64 = 0x7eff_c000_0000;

fn run(workload: &str, schemes: &str, advised: &str) -> Vec<RunResult> {
    run_on("perforated-table2", workload, schemes, advised)
}

fn run_on(machine: &str, workload: &str, schemes: &str, advised: &str) -> Vec<RunResult> {
    let workload = Workload {
        instructions: Some(600_000),
        advised: advised.parse::<AdvisedRanges>().unwrap(),
        ..Workload::named(workload)
    };
    let run = ResolvedRun {
        machine: Machine::load(machine).unwrap(),
        memory: MemoryState::of(4 << 30),
        measuring: measuring(true, true, Some(0)),
        ..ResolvedRun::new(workload, Composition::list(schemes).unwrap())
    };
    checked_run(&run).unwrap()
}

fn counter(result: &RunResult, name: &str) -> u64 {
    result.counters.get(name).unwrap_or_else(|| panic!("no counter {name}")) as u64
}

/// Of 64MB of data, the range covers 20MB from the fourth MB on, which contain nine whole aligned blocks of
/// 2MB. All other memory, and the code, has 4KB pages. With `thp`, all blocks are large but the two that the
/// ends of the range cut: advice cuts the mapping in three, and a large page lies in one.
#[test]
fn whole_blocks_in_the_ranges_have_large_pages() {
    let range = format!("{:#x}-{:#x}", START + 3 * MB, START + 23 * MB);
    let results = run("random:size=64M", "4k,thp-madvise,thp,4k+4k,thp-madvise+thp", &range);
    let large: Vec<u64> = results.iter().map(|result| counter(result, "large_pages")).collect();
    assert_eq!(large, [0, 9, 30, 0, 9]);
    let [small, advised, ..] = &results[..] else { panic!("five results") };
    assert!(counter(advised, "walks") < counter(small, "walks"));
    for result in &results {
        assert_eq!(counter(result, "huge_page_advices"), 1, "{}", result.scheme);
        let is_noted = result.notes.iter().any(|note| note.contains("--madvise"));
        assert!(is_noted, "{:?}", result.notes);
    }
}

/// A range of all data leads to the pages of `thp`, one elsewhere to those of `4k`.
#[test]
fn advice_for_all_memory_is_thp_and_for_none_is_4k() {
    let walks = |schemes: &str, (start, end): (u64, u64)| -> Vec<u64> {
        let range = format!("{:#x}-{:#x}", start, end);
        let results = run("random:size=32M,writes=20%", schemes, &range);
        results.iter().map(|result| counter(result, "walks")).collect()
    };
    let all = walks("thp-madvise,thp", (START, START + 32 * MB));
    let none = walks("thp-madvise,4k", (START + 64 * MB, START + 96 * MB));
    assert_eq!((all[0], none[0]), (all[1], none[1]));
    assert!(all[0] < none[0]);
}

/// The program requests 64KB pages for the first 16MB of its 32MB and 2MB pages for the next 8MB. Under `4k`, the
/// requests have no effect.
#[test]
fn each_range_has_pages_of_its_size() {
    let (middle, end) = (START + 16 * MB, START + 24 * MB);
    let ranges = format!("{START:#x}-{middle:#x}=64K,{middle:#x}-{end:#x}");
    let results = run("random:size=32M", "4k,thp-madvise,thp-madvise+thp", &ranges);
    let pages: Vec<[u64; 2]> = results
        .iter()
        .map(|result| ["folios_64k", "large_pages"].map(|name| counter(result, name)))
        .collect();
    assert_eq!(pages, [[0, 0], [256, 4], [256, 4]]);
    let joined = run_on("neoverse-n1", "random:size=32M", "4k,thp-madvise", &ranges);
    let walks: Vec<u64> = joined.iter().map(|result| counter(result, "walks")).collect();
    assert!(walks[1] * 2 < walks[0], "{walks:?}");
}

/// An aligned gigabyte of a mapping of 1.5GB has a page of that size. The rest has 4KB pages, which it also has if
/// the gigabyte is too short for the page.
#[test]
fn a_gigabyte_is_one_page_where_it_is_asked_for() {
    const GB: u64 = 1 << 30;
    let large = |range: (u64, u64)| -> Vec<u64> {
        let range = format!("{:#x}-{:#x}=1G", range.0, range.1);
        let results = run("random:size=1536M", "thp-madvise", &range);
        ["huge_pages", "large_pages"].map(|name| counter(&results[0], name)).to_vec()
    };
    // The mapping begins at this address.
    let start = START - GB;
    assert_eq!(large((start, start + GB)), [1, 0]);
    assert_eq!(large((start, start + GB - 4096))[0], 0);
}
