//! `--layout`: page sizes of parts of a program's memory.

use crate::place::{Place, json};

const HEADER: &str = "type,pageSize,startOffset,endOffset\n";

/// A file with these lines after the header.
fn layout(place: &Place, name: &str, lines: &str) {
    place.write(name, format!("{HEADER}{lines}"));
}

#[test]
fn a_layout_is_compared_with_4kb_and_transparent_pages() {
    let place = Place::new();
    layout(&place, "half.csv", "mmap,-1,0,67108864\nmmap,2097152,0,33554432\n");
    let run = ["--instructions", "100000", "--warmup", "0", "--functional", "--check", "--json"];
    let compare = ["compare", "random:size=64M", "--layout", "half.csv"];
    let results = json(&place.succeeds(&[&compare[..], &run].concat()));
    let schemes: Vec<_> = results.iter().map(|result| result["scheme"].as_str().unwrap()).collect();
    assert_eq!(schemes, ["4k", "layout", "thp", "ideal"]);
    // 16 pages of 2MB, 32MB of 4KB pages, and a page of code.
    assert_eq!(results[1]["counters"]["large_pages"], 16);
    assert_eq!(results[1]["counters"]["base_pages"], 8192 + 1);
    assert_eq!(results[3]["counters"]["large_pages"], 32);
    let lines = ["half", "mmap,-1,0,67108864", "mmap,2097152,0,33554432"];
    let stored = &results[1]["config"]["memory"]["layout"];
    assert_eq!(stored, &serde_json::json!(lines), "{stored}");

    // One layout after the other.
    layout(&place, "all.csv", "mmap,-1,0,67108864\nmmap,2097152,0,67108864\n");
    let vary = ["compare", "random:size=64M", "--vary", "layout=half.csv,all.csv"];
    let results = json(&place.succeeds(&[&vary[..], &run, &["--scheme", "layout"]].concat()));
    let large: Vec<_> =
        results.iter().map(|result| result["counters"]["large_pages"].as_u64().unwrap()).collect();
    assert_eq!(large, [16, 32]);
}

/// A recorded program, whose heap gets 2MB pages: all its accesses lie where the pools put them.
#[test]
fn a_recorded_program_runs_in_pools() {
    let place = Place::new();
    let pools = "brk,-1,0,1073741824\nmmap,-1,0,4294967296\n";
    let run = ["run", "hpcc", "--scheme", "layout", "--instructions", "3M", "--warmup", "0"];
    let run = |lines: &str| {
        layout(&place, "pools.csv", &format!("{pools}{lines}"));
        let options = ["--functional", "--check", "--json", "--layout", "pools.csv"];
        json(&place.succeeds(&[&run[..], &options].concat())).remove(0)
    };
    let small = run("");
    let large = run("brk,2097152,0,1073741824\nmmap,2097152,0,4294967296\n");
    let of = |result: &serde_json::Value, name: &str| result["counters"][name].as_f64().unwrap();
    for result in [&small, &large] {
        assert_eq!(of(result, "accesses_refused"), 0.0);
        assert_eq!(of(result, "layout_missing"), 0.0);
    }
    assert_eq!(of(&small, "large_pages"), 0.0);
    // An array of 1GB is there at once, wherever in the pool it begins.
    assert!(of(&large, "large_pages") >= 512.0, "{}", of(&large, "large_pages"));
    assert!(of(&large, "base_pages") + 512.0 * 512.0 <= of(&small, "base_pages"));
    assert!(of(&large, "walks") < of(&small, "walks"));
}

#[test]
fn mistakes_name_the_file_and_the_place() {
    let place = Place::new();
    let compare = |name: &str| {
        ["compare", "random:size=64M", "--layout", name, "--instructions", "1000"]
            .map(str::to_owned)
    };
    let fails = |name: &str, code: i32, expected: &str| {
        let arguments = compare(name);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        place.fails(&arguments, code, expected);
    };
    layout(&place, "odd.csv", "mmap,-1,0,67108864\nmmap,2097152,4096,2097152\n");
    fails("odd.csv", 2, "layout: odd.csv: line 3, column 14: 4096; expected a multiple of 2097152");
    layout(&place, "twice.csv", "mmap,-1,0,4194304\nmmap,4096,0,8192\nmmap,2097152,0,2097152\n");
    fails("twice.csv", 2, "twice.csv: line 4, column 1: overlaps line 3; expected intervals apart");
    fails("none.csv", 2, "layout: none.csv: ");
    layout(&place, "small.csv", "mmap,-1,0,4194304\n");
    fails("small.csv", 1, "the pool mmap of 4194304 bytes has no room for 67108864 bytes");

    // Layouts are for guests, and need a scheme with their page sizes and a trace with memory events.
    layout(&place, "any.csv", "mmap,-1,0,67108864\n");
    let no_scheme = ["compare", "random", "--layout", "any.csv", "--scheme", "4k,thp"];
    place.fails(&no_scheme, 2, "layout: has no effect: no scheme here has pages by a layout");
    place.write("list.csv", "R 0x1000\nR 0x2000\n");
    let no_events = ["run", "list.csv", "--layout", "any.csv", "--scheme", "layout"];
    place.fails(&no_events, 1, "does not tell what the program maps");
}
