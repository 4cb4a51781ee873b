//! Series and maps of physical memory in results.

use crate::runs::{fragmented, measuring};
use crate::sums::checked_run;
use perforate_config::Size;
use perforate_sim::{Composition, Machine, ProcessorOptions, ResolvedRun, RunResult, Workload};

/// Largest size of memory maps, and of the memory series, in one result, as stated in
/// docs/results.md.
const MOST_MAP_BYTES: usize = 64 << 10;
const MOST_SERIES_BYTES: usize = 12 << 10;

fn run(workload: &str, memory: &str, fragmentation: Option<&str>, long: u64) -> Vec<RunResult> {
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload { instructions: Some(long), ..Workload::named(workload) },
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list("4k,thp,perforated").unwrap(),
        memory: fragmented(
            fragmentation.map(|text| perforate_config::read(text).unwrap()),
            memory.parse::<Size>().unwrap().bytes(),
        ),
        seed: 1,
        measuring: measuring(true, false, None),
    };
    checked_run(&comparison).unwrap()
}

fn bytes(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).unwrap().len()
}

#[test]
fn maps_are_of_the_start_of_measuring_and_the_end_and_cover_all_memory() {
    for result in run("random:size=64M", "256M", Some("portion=50%,holes=25%,dispersed"), 2_000_000)
    {
        let maps = &result.memory_maps;
        let moments: Vec<u64> = maps.iter().flat_map(|map| map.instructions.clone()).collect();
        assert_eq!(moments.first(), Some(&400_000), "a fifth is warm-up");
        assert_eq!(moments.last(), Some(&2_000_000));
        assert!(moments.len() <= 5 && moments.is_sorted(), "{moments:?}");
        for map in maps {
            assert_eq!(map.blocks, 128);
            let cells: u64 = map.cells.iter().map(|run| run.cells).sum();
            assert_eq!(cells, map.blocks.div_ceil(map.blocks_per_cell));
            assert_eq!(map.frames.values().sum::<u64>(), 128 * 512);
            assert_eq!(map.block_classes.values().sum::<u64>(), 128);
            let free: u64 = map.cells.iter().map(|run| run.cells * run.free_frames).sum();
            assert_eq!(free, map.frames["free"]);
            assert!(map.classes.iter().all(|class| map.block_classes.contains_key(class)));
        }
        let last = maps.last().unwrap();
        // A quarter of the 512 frames of every perforated block are holes.
        let holes: u64 = last.cells.iter().map(|run| run.cells * run.hole_frames).sum();
        let perforated = last.block_classes.get("perforated").copied().unwrap_or(0);
        assert_eq!(holes, 128 * perforated);
        assert_eq!(perforated > 0, result.scheme == "perforated");
    }
}

#[test]
fn the_series_ends_with_the_counters() {
    for result in run("random:size=64M", "256M", None, 3_000_000) {
        let series = &result.series.memory;
        let counter = |name| result.counters.get(name).unwrap() as u64;
        assert!(series.is_sorted_by(|a, b| a.instruction < b.instruction));
        assert!(series.is_sorted_by_key(|point| point.touched_bytes));
        let last = series.last().unwrap();
        assert_eq!(last.instruction, 3_000_000);
        assert_eq!(last.touched_bytes, Some(counter("touched_bytes")));
        assert_eq!(last.mapped_bytes, Some(counter("mapped_bytes")));
        assert_eq!(last.free_bytes, Some(counter("free_bytes")));
        assert_eq!(series[0].touched_bytes, Some(0));
        assert!(series[series.len() / 2].touched_bytes > Some(0));
    }
}

#[test]
fn results_stay_small_on_large_memories() {
    // About every second region is a block of another kind: 2048 regions make far too many runs.
    let fragmentation = Some("portion=50%,holes=20%,dispersed");
    for result in run("random:size=4G", "1T", fragmentation, 1_000_000) {
        let maps = &result.memory_maps;
        assert!(maps.iter().all(|map| map.cells.len() <= 512 && map.blocks == 1 << 19));
        assert!(bytes(maps) < MOST_MAP_BYTES, "{}: {}", result.scheme, bytes(maps));
        let series = &result.series.memory;
        assert!(series.len() <= 64);
        assert!(bytes(series) < MOST_SERIES_BYTES, "{}: {}", result.scheme, bytes(series));
    }
}
