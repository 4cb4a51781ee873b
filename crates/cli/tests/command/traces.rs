//! `perforate trace info | head | convert`, with foreign traces made here.

use std::io::Write;

use crate::place::{Place, json};

/// A ChampSim record: a load from `address` at `ip`.
pub fn champsim(ip: u64, address: u64) -> [u8; 64] {
    let mut record = [0; 64];
    record[..8].copy_from_slice(&ip.to_le_bytes());
    record[32..40].copy_from_slice(&address.to_le_bytes());
    record
}

fn loads(count: u64) -> Vec<u8> {
    (0..count).flat_map(|n| champsim(0x40_0000 + 4 * (n % 64), 0x1000_0000 + n * 4096)).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_workload_as_a_trace_runs_as_the_workload_does() {
    let place = Place::new();
    let workload = "random:size=64M,writes=10%";
    let convert = ["trace", "convert", workload, "--instructions", "50000", "-o", "made.trace"];
    let text = place.succeeds(&convert);
    assert!(text.starts_with("made.trace: 50000 instructions, 12500 accesses, 2 events"), "{text}");
    assert_eq!(place.names(), ["made.trace"]);
    let counters = |workload: &str| {
        let arguments = ["compare", workload, "--instructions", "50000", "--json", "--check"];
        let results = json(&place.succeeds(&arguments));
        results.iter().map(|result| result["counters"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(counters("made.trace"), counters(workload));
    let info = place.succeeds(&["trace", "info", "made.trace"]);
    for line in ["instructions  50000", "branches      12500", "knows map events: yes"] {
        assert!(info.contains(line), "{line} is not in\n{info}");
    }
}

/// `--instructions` counts what the program does after its set-up; the output says how much is set-up.
#[test]
fn a_converted_workload_says_how_much_is_set_up() {
    let place = Place::new();
    let convert = ["trace", "convert", "store:keys=1k,live=60%", "--instructions", "1000"];
    let text = place.succeeds(&[&convert[..], &["-o", "store.csv"]].concat());
    let number = |text: &str| text.split(' ').next().unwrap().parse::<u64>().unwrap();
    let (_, all) = text.split_once("store.csv: ").unwrap();
    let (_, setup) = text.split_once("note: the first ").expect(&text);
    assert_eq!(number(all) - number(setup), 1000, "{text}");
    assert!(setup.contains(" are the program's set-up, which --instructions does not count\n"));
    let plain = ["trace", "convert", "random:size=1M", "--instructions", "1000", "-o", "r.csv"];
    assert!(!place.succeeds(&plain).contains("set-up"));
}

#[test]
fn head_shows_events_and_instructions_in_words() {
    let place = Place::new();
    place.succeeds(&["trace", "convert", "chase", "--instructions", "100", "-o", "chase.trace"]);
    let text = place.succeeds(&["trace", "head", "chase.trace", "--instructions", "3"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + 3, "{text}");
    let map = "map 0x7eff80000000+2147483648 rw- anonymous present at once";
    assert_eq!(lines[..2], [map, "map 0x400000+4096 r-x file"]);
    assert!(lines[2].starts_with("0x0000000000400000 integer"), "{text}");
    assert!(lines[4].contains("r2 <- r1,r2") && lines[4].contains("Read 0x7eff"), "{text}");
}

#[test]
fn champsim_traces_raw_and_compressed() {
    let place = Place::new();
    let raw = loads(5000);
    place.write("raw.champsim", &raw);
    place.write("packed.gz", gzip(&raw));
    let mut walks = Vec::new();
    for name in ["raw.champsim", "packed.gz"] {
        let info = place.succeeds(&["trace", "info", name]);
        assert!(info.contains("champsim format") && info.contains("instructions  5000"), "{info}");
        assert!(info.contains("data pages    5000 of 4KB (19 MB)"), "{info}");
        let converted = place.succeeds(&["trace", "convert", name, "-o", "ours.trace"]);
        assert!(converted.contains("5000 instructions, 5000 accesses"), "{converted}");
        for trace in [name, "ours.trace"] {
            let run = ["run", trace, "--scheme", "4k", "--warmup", "0", "--json", "--check"];
            let result = &json(&place.succeeds(&run))[0];
            assert_eq!(result["instructions"], 5000);
            walks.push(result["counters"]["walks"].clone());
        }
    }
    assert_eq!(walks, vec![walks[0].clone(); 4]);
    // One walk for each page of data and one for the code.
    assert_eq!(walks[0], 5001);
}

#[test]
fn lackey_text() {
    let place = Place::new();
    let text = "==1== Lackey\nI  04001000,3\n L 1ffe000ff8,8\n S 1ffe001000,4\nI  04001003,2\n M 30000,8\n";
    place.write("lackey.txt", text);
    let info = place.succeeds(&["trace", "info", "lackey.txt"]);
    for line in ["lackey format", "instructions  2", "reads         2", "writes        2"] {
        assert!(info.contains(line), "{line} is not in\n{info}");
    }
    place.succeeds(&["compare", "lackey.txt", "--warmup", "0", "--check"]);
    let head = place.succeeds(&["trace", "head", "lackey.txt"]);
    assert!(head.contains("Read 0x1ffe000ff8+8 Write 0x1ffe001000+4"), "{head}");
}

/// Addresses that no user program has: kernel half, not canonical, across the top, and odd sizes.
#[test]
fn hostile_addresses_are_refused_and_counted() {
    let place = Place::new();
    let high = [
        u64::MAX,
        u64::MAX - 7,
        u64::MAX - 4095,
        1 << 63,
        1 << 48,
        1 << 47,
        0xffff_8000_0000_0000,
        (1 << 47) - 1,
    ];
    let mut bytes = Vec::new();
    for &address in &high {
        bytes.extend(champsim(0x40_0000, address));
        bytes.extend(champsim(address, 0x1000_0000));
    }
    place.write("hostile.champsim", &bytes);
    let mut lackey = String::new();
    for address in high {
        lackey += &format!("I  {address:x},15\n L {address:x},16\n S {address:x},255\n");
    }
    lackey += &" L 1fff,8\n".repeat(255);
    lackey += &" M 1fff,8\n".repeat(200);
    place.write("hostile.lackey", &lackey);
    for trace in ["hostile.champsim", "hostile.lackey"] {
        let run = ["compare", trace, "--scheme", "all", "--warmup", "0", "--check", "--json"];
        let results = json(&place.succeeds(&run));
        assert_eq!(results.len(), perforate_sim::scheme::all().count());
        for result in &results {
            let refused = result["counters"]["accesses_refused"].as_u64().unwrap();
            assert!(refused >= 14, "{refused}");
            assert_eq!(
                result["counters"]["accesses_refused"],
                results[0]["counters"]["accesses_refused"]
            );
        }
        place.succeeds(&["trace", "convert", trace, "-o", "ours.trace"]);
        let run = ["run", "ours.trace", "--warmup", "0", "--check"];
        place.succeeds(&run);
        place.succeeds(&["explain", "--workload", trace]);
    }
}

/// A trace of ours, made of a list of accesses and converted to both foreign formats that can be
/// written, walks as often as the list itself.
#[test]
fn foreign_traces_are_written_and_run() {
    let place = Place::new();
    let list: String = (0..3000)
        .map(|n| format!("I {:#x} 4\nR {:#x}\n", 0x40_0000 + 4 * (n % 64), 0x1000_0000 + n * 4096))
        .collect();
    place.write("list.txt", &list);
    place.succeeds(&["trace", "convert", "list.txt", "-o", "ours.trace"]);
    let names = ["ours.champsimtrace.xz", "ours.csv.gz", "ours.champsim.zst", "plain"];
    for name in &names[..3] {
        let text = place.succeeds(&["trace", "convert", "ours.trace", "-o", name]);
        assert!(text.contains("3000 instructions, 3000 accesses, 0 events"), "{text}");
        assert!(text.contains("does not hold"), "{text}");
    }
    let plain = ["trace", "convert", "ours.trace", "--to", "champsim", "-o", "plain"];
    place.succeeds(&plain);
    for name in names.iter().chain(&["list.txt", "ours.trace", "csv:list.txt", "champsim:plain"]) {
        let run = ["run", name, "--scheme", "4k", "--warmup", "0", "--json", "--check"];
        assert_eq!(json(&place.succeeds(&run))[0]["counters"]["walks"], 3001, "{name}");
    }
    let info = place.succeeds(&["trace", "info", "csv:list.txt"]);
    assert!(
        info.contains("csv format") && info.contains("note: accesses without a size"),
        "{info}"
    );
    let convert = ["trace", "convert", "ours.trace", "-o", "x.trace.gz"];
    place.fails(&convert, 2, "compressed already");
    place.fails(&["trace", "info", "gem5:list.txt"], 1, "expected a packet trace of gem5");
}

#[test]
fn a_drmemtrace_folder() {
    let place = Place::new();
    let record = |kind: u16, size: u16, value: u64| {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    std::fs::create_dir_all(place.path("app.dir/trace")).unwrap();
    for thread in 0..2u64 {
        let start = [(25, 0, 5), (22, 4, 70 + thread), (24, 4, 7), (28, 2, 1000 + thread)];
        let mut bytes: Vec<u8> =
            start.into_iter().flat_map(|(kind, size, value)| record(kind, size, value)).collect();
        for page in 0..100 {
            bytes.extend(record(10, 4, 0x40_0000));
            bytes.extend(record(1, 8, 0x7000_0000 + (thread * 100 + page) * 4096));
        }
        bytes.extend(record(26, 0, 0));
        place.write(&format!("app.dir/trace/drmemtrace.app.7.{thread}.trace.gz"), gzip(&bytes));
    }
    let info = place.succeeds(&["trace", "info", "app.dir"]);
    for line in ["drmemtrace format", "instructions  200", "writes        200", "events        1"] {
        assert!(info.contains(line), "{line} is not in\n{info}");
    }
    let run = ["run", "app.dir", "--scheme", "4k", "--warmup", "0", "--json", "--check"];
    assert_eq!(json(&place.succeeds(&run))[0]["counters"]["walks"], 201);
}

/// A folder as of Google's workload traces, version 2: the synthetic instruction set, a zipped file
/// for each thread in `trace`, and a map of pages in `aux`.
#[test]
fn a_trace_in_regdeps_with_its_page_map() {
    let place = Place::new();
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/samples");
    let records = std::fs::read(format!("{samples}/drmemtrace.regdeps")).unwrap();
    for folder in ["arizona/trace", "arizona/aux"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
    }
    place.write("arizona/trace/16362031984258116688.701.memtrace.gz", gzip(&records));
    let page = |address: u64, physical: u64| {
        format!("address_mapping {{ virtual_address: {address} physical_address: {physical} }}\n")
    };
    // The code, and the three pages of data, which lie in one page of 2MB; and one that is not used.
    let pages =
        [page(0x40_0000, 0x20_0000), page(0x7fe0_0000, 0x80_0000), page(0x60_0000, 0x40_0000)]
            .concat();
    let map = format!("address_mapping_group {{ page_size: 2097152\n{pages} }}\n");
    place.write("arizona/aux/v2p.textproto", map + "information { page_count: 4 }");
    let info = place.succeeds(&["trace", "info", "arizona"]);
    for line in [
        "instructions  9\nreads         3\nwrites        1\nbranches      2",
        "register dependencies: yes",
        "recorded      version 6, a synthetic instruction set (regdeps), encodings",
        "page map      arizona/aux/v2p.textproto: pages 3 of 2M (6 MB)",
        "2 runs contiguous in both address spaces, the longest of 4M",
        "has 3 of the 3 data pages",
        "warning: arizona/aux/v2p.textproto: the file says that it has 4 pages, and has 3",
    ] {
        assert!(info.contains(line), "{line} is not in\n{info}");
    }
    let head = place.succeeds(&["trace", "head", "arizona", "--instructions", "9"]);
    let line =
        |number: usize| head.lines().nth(number).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(line(2)[1..], ["integer", "r93", "<-", "r29", "Read", "0x7fff1000+32"]);
    assert_eq!(line(7)[1..], ["serializing", "r23,r33", "<-"]);

    place.succeeds(&["trace", "convert", "arizona", "-o", "ours.trace"]);
    assert_eq!(place.succeeds(&["trace", "head", "ours.trace", "--instructions", "9"]), head);
    let compare =
        ["compare", "arizona", "--scheme", "4k,thp", "--warmup", "0", "--json", "--check"];
    let results = json(&place.succeeds(&compare));
    assert_eq!(results.len(), 3, "with ideal");
    // One page of code at a time and three of data.
    assert_eq!(results[0]["counters"]["walks"], 5);
    place.write("arizona/aux/v2p.textproto", "address_mapping_group {");
    let problem = "v2p.textproto: byte 23: line 1, column 24: the text ends inside a message";
    place.fails(&["trace", "info", "arizona"], 1, problem);
}

/// A name that says one format and --to another: neither is taken silently.
#[test]
fn formats_that_contradict_each_other_are_refused() {
    let place = Place::new();
    let convert = ["trace", "convert", "random:size=1M", "--instructions", "1k", "-o"];
    for (output, to) in
        [("x.champsimtrace", "csv"), ("x.csv", "champsim"), ("x.csv.gz", "perforate")]
    {
        let expected = format!("--to {to}: {output} is the name of a ");
        place.fails(&[&convert[..], &[output, "--to", to]].concat(), 2, &expected);
    }
    place.succeeds(&[&convert[..], &["x.champsimtrace", "--to", "champsim"]].concat());
    place.succeeds(&[&convert[..], &["y", "--to", "csv"]].concat());
    assert_eq!(place.names(), ["x.champsimtrace", "y"]);
}

/// A workload maps its memory by events, which a list of accesses cannot hold; what was read from such a list
/// has none.
#[test]
fn converting_tells_what_the_other_format_leaves_out() {
    let place = Place::new();
    let convert = |from: &[&str], to: &str| {
        place.succeeds(&[&["trace", "convert"], from, &["-o", to]].concat())
    };
    let workload = ["random:size=4M", "--instructions", "1000"];
    let ours = convert(&workload, "own.trace");
    assert!(ours.contains(" 2 events") && !ours.contains("note: "), "{ours}");
    let list = convert(&workload, "list.csv");
    assert!(
        list.contains("note: 2 events (maps, protections, switches …) were left out"),
        "{list}"
    );
    assert!(list.contains(" does not hold registers, branches and operations"), "{list}");
    assert!(!list.contains("note: 0 "), "{list}");
    let again = convert(&["list.csv"], "again.csv");
    assert!(!again.contains("left out"), "{again}");
}
