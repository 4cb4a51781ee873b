//! Page sizes from a layout: hand-calculated numbers of pages, page-table frames and walks.

use crate::runs::measuring;
use crate::sums::checked_run;
use perforate_config::OptionTexts;
use perforate_sim::{
    Composition, Machine, MemoryOptions, MemorySnapshot, MemoryState, ProcessorOptions,
    ResolvedRun, RunResult, Workload,
};
use tempfile::TempDir;

const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;
const FRAME: u64 = 4096;

/// Resolves these options, with a layout of these lines. Also returns the folder that contains the
/// layout's file.
fn memory(lines: &str, options: &[(&str, &str)]) -> (TempDir, Result<MemoryState, String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixed.csv");
    std::fs::write(&path, format!("type,pageSize,startOffset,endOffset\n{lines}")).unwrap();
    let file = path.to_str().unwrap();
    let given: OptionTexts = options.iter().copied().chain([("layout", file)]).collect();
    let memory = MemoryOptions::read(given).unwrap().resolve(&MemorySnapshot::load);
    (folder, memory.map_err(|error| error.to_string()))
}

fn run(workload: &str, schemes: &str, memory: MemoryState) -> Result<Vec<RunResult>, String> {
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload { instructions: Some(400_000), ..Workload::named(workload) },
        machine: Machine::load("perforated-table2").unwrap(),
        schemes: Composition::list(schemes).unwrap(),
        memory,
        seed: 1,
        measuring: measuring(true, true, Some(0)),
    };
    checked_run(&comparison).map_err(|error| error.to_string())
}

fn counter(result: &RunResult, name: &str) -> u64 {
    result.counters.get(name).unwrap_or_else(|| panic!("no counter {name}")) as u64
}

/// In a mapping of 2GB, 256MB at offset 0 have 2MB pages, and the second gigabyte is one page. The
/// code page is in no pool. The pool is at 0x3500_0000_0000 and the code at 4MB, so the root has
/// two entries.
#[test]
fn pages_are_as_large_as_the_layout_says() {
    let lines = "mmap,-1,0,4294967296\nmmap,2097152,0,268435456\n\
                 mmap,1073741824,1073741824,2147483648\n";
    for fragmentation in ["none", "portion=50%,holes=25%,clustered"] {
        let (_folder, memory) =
            memory(lines, &[("memory", "32G"), ("fragmentation", fragmentation)]);
        let results = run("random:size=2G", "layout,4k", memory.unwrap()).unwrap();
        let [layout, small] = &results[..] else { panic!("two results") };
        assert_eq!(counter(layout, "large_pages"), 128);
        assert_eq!(counter(layout, "huge_pages"), 1);
        assert_eq!(counter(layout, "layout_pages"), 129);
        assert_eq!(counter(layout, "layout_missing"), 0);
        assert_eq!(counter(layout, "base_pages"), (GB - 256 * MB) / FRAME + 1);
        assert_eq!(counter(layout, "mapped_bytes"), 2 * GB + FRAME);
        // The root, two level-3 nodes, level-2 nodes of the first gigabyte and of the code, the code's
        // level-1 node, and one level-1 node for each 2MB of 4KB pages.
        assert_eq!(counter(layout, "page_table_bytes"), (1 + 2 + 2 + 1 + 512 - 128) * FRAME);
        // With 4KB pages only, the second gigabyte has a level-2 node as well.
        assert_eq!(counter(small, "base_pages"), 2 * GB / FRAME + 1);
        assert_eq!(counter(small, "page_table_bytes"), (1 + 2 + 3 + 1 + 1024) * FRAME);
        assert!(counter(layout, "walks") < counter(small, "walks"));
    }
}

/// The whole array is in one 1GB page, so there is one walk for the array and one for the code.
#[test]
fn one_page_needs_one_walk() {
    let lines = "mmap,-1,0,1073741824\nmmap,1073741824,0,1073741824\n";
    let (_folder, memory) = memory(lines, &[("memory", "8G")]);
    let results = run("random:size=512M", "layout", memory.unwrap()).unwrap();
    assert_eq!(counter(&results[0], "huge_pages"), 1);
    assert_eq!(counter(&results[0], "base_pages"), 1);
    assert_eq!(counter(&results[0], "walks"), 2);
}

#[test]
fn what_cannot_be_had_is_counted_and_noted() {
    let all = "mmap,-1,0,1073741824\nmmap,1073741824,0,1073741824\n";
    let pages = 64 * MB / FRAME;
    // 512MB of memory contain no 1GB page.
    let (_folder, small) = memory(all, &[("memory", "512M")]);
    let results = run("random:size=64M", "layout", small.unwrap()).unwrap();
    assert_eq!(counter(&results[0], "huge_pages"), 0);
    assert_eq!(counter(&results[0], "base_pages"), pages + 1);
    assert_eq!(counter(&results[0], "layout_missing"), pages);
    let notes = results[0].notes.join("\n");
    assert!(notes.contains("0 were mapped; 16384 first touches had a 4KB page instead"), "{notes}");

    // A layout without a pool leaves memory in place. Without a layout, a note says so.
    let (_folder, none) = memory("", &[("memory", "1G")]);
    let results = run("random:size=64M", "layout", none.unwrap()).unwrap();
    assert_eq!(counter(&results[0], "base_pages"), pages + 1);
    let results = run("random:size=64M", "layout", MemoryState::of(GB)).unwrap();
    assert_eq!(counter(&results[0], "base_pages"), pages + 1);
    let notes = results[0].notes.join("\n");
    assert!(notes.contains("layout: all pages are of 4KB: no --layout says otherwise"), "{notes}");
}

/// The layout decides the guest's pages under any host.
#[test]
fn guests_have_layouts_too() {
    let lines = "mmap,-1,0,134217728\nmmap,2097152,0,67108864\n";
    let (_folder, memory) = memory(lines, &[("memory", "1G")]);
    let results = run("random:size=128M", "layout,layout+thp,layout+4k", memory.unwrap()).unwrap();
    for result in &results {
        assert_eq!(counter(result, "large_pages"), 32, "{}", result.scheme);
        assert_eq!(counter(result, "base_pages"), 64 * MB / FRAME + 1, "{}", result.scheme);
    }
}

#[test]
fn mistakes_say_what_would_be_right() {
    let (_folder, small) = memory("mmap,-1,0,1048576\n", &[]);
    let error = run("random:size=64M", "layout", small.unwrap()).err().unwrap();
    assert!(error.contains("the pool mmap of 1048576 bytes has no room for 67108864"), "{error}");
    let (_folder, wrong) = memory("brk,2097152,0,2097153\n", &[]);
    let error = wrong.unwrap_err();
    assert!(error.starts_with("layout: "), "{error}");
    let place = "mixed.csv: line 2, column 15: 2097153; expected a multiple of 2097152";
    assert!(error.contains(place), "{error}");
}
