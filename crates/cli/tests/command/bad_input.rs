//! Options and workloads that cannot be: one line, the right exit code, nothing left behind.

use crate::place::{Place, assert_complaint, outcome};

const QUICK: [&str; 4] = ["--instructions", "9000", "--functional", "--json"];

fn fails(place: &Place, arguments: &[&str], code: i32, expected: &str) {
    let mut run = vec!["run"];
    run.extend(arguments);
    run.extend(QUICK);
    place.fails(&run, code, expected);
    run[0] = "compare";
    run.extend(["--out", "results"]);
    place.fails(&run, code, expected);
}

#[test]
fn workloads() {
    let place = Place::new();
    for (workload, expected) in [
        ("nope", "random, sequential, stride, zipf, chase"),
        ("", "no workload or file"),
        ("two\nlines", "two\\nlines"),
        ("\u{1b}[31mred", "\\u{1b}"),
        ("random:foo=1", "there are size, dependent, others, writes"),
        ("random:size", "size"),
        ("random:size=0", "is 4K to 64T"),
        ("random:size=-1", "expected a size"),
        ("random:size=99999999999999999999", "has no unit"),
        ("random:size=16777216T", "size: is 4K to 64T, not 16777216T"),
        ("random:size=4K,size=4K", "twice"),
        ("random:dependent=maybe", "yes or no"),
        ("stroe:keys=5", "did you mean store?"),
        ("store:key=5", "did you mean keys?"),
        ("random:writes=nan", "a share"),
        ("random:writes=101%", "a share"),
        ("zipf:exponent=-inf", "expected a number"),
        ("stride:stride=0", "8B to"),
        ("chase:node=8K", "8B to 4K"),
    ] {
        fails(&place, &[workload, "--memory", "4G"], 2, expected);
    }
}

#[test]
fn an_empty_command_is_not_the_default() {
    let place = Place::new();
    let expected = "nothing after --; expected a program and its arguments, such as -- ls -l";
    for command in ["compare", "run", "validate"] {
        place.fails(&[command, "--"], 2, expected);
        place.fails(&[command, "--", ""], 2, expected);
    }
    place.fails(&["record", "-o", "x.trace", "--"], 2, expected);
    place.fails(&["compare", "--instructions", "9000", "--", "nonesuch", "--"], 1, "nonesuch");
}

#[test]
fn memory() {
    let place = Place::new();
    for size in ["0", "1K", "99999999T", "65T", "18446744073709551616", "-1", "", "x", "1.5B", "64"]
    {
        let memory = format!("--memory={size}");
        fails(&place, &["random:size=64M", &memory], 2, "--memory: ");
    }
    fails(&place, &["random", "--memory", "64"], 2, "--memory: 64 has no unit: 64M or 64G?");
    fails(&place, &["random", "--segment", "min=64"], 2, "--segment: min: 64 has no unit");
    // 64T is the most there is; the caches' 32-bit tags reach 2T with the 8 sets of
    // the walkers' own.
    let run = ["run", "random:size=64M", "--instructions", "9000", "--json", "--memory"];
    let with = |more: &[&'static str]| [&run[..], more].concat();
    let lines = place.succeeds(&with(&["64T", "--functional"]));
    assert!(lines.contains("\"memory_bytes\":70368744177664"));
    place.succeeds(&with(&["1T"]));
    place.fails(&with(&["64T"]), 2, "a functional run goes without caches");
    place.fails(&["explain", "--memory", "64T"], 2, "more than the caches");
    let pair = ["explain", "--memory", "256M", "--scheme", "4k+4k", "--host-memory", "64T"];
    place.fails(&pair, 2, "more than the caches");
}

#[test]
fn pasts() {
    let place = Place::new();
    place.write("beyond.txt", b"99999999\n");
    place.write("words.txt", b"12\nfoo\n");
    for (option, expected) in [
        ("--age=years", "--age: there is no \"years\"; there are desktop-day, kernel-build"),
        ("--age=weeks,unusable=x", "--age: unusable: expected a share from 0% to 100%"),
        ("--faulty=uniform=200%", "--faulty: uniform: expected a share from 0% to 100%"),
        ("--faulty=nofile.txt", "a file with one frame number a line"),
        ("--faulty=words.txt", "line 2: expected the number of a frame"),
        ("--faulty=beyond.txt", "frame 99999999 lies outside the memory of 1048576 frames"),
        ("--compaction=soon", "--compaction: expected background, not \"soon\""),
        ("--defrag=later", "--defrag: expected never, madvise, defer+madvise, defer or always"),
        ("--swap=much", "--swap: expected a size such as 64M or 4G, not \"much\""),
        ("--swap=65T", "--swap: at most 64T"),
        ("--khugepaged=max-ptes-none=512", "max-ptes-none: is at most 511, not 512"),
        ("--khugepaged=max-pte-none=5", "did you mean max-ptes-none?"),
        ("--khugepaged=every=0", "--khugepaged: every: is at least 1, not 0"),
        ("--ksm=default", "--ksm: needs contents"),
        ("--contents=zero=10%", "--contents: has no effect without ksm"),
        ("--host-ksm=default", "--host-ksm: needs contents"),
        ("--perforation=max-filter-bits=9", "max-filter-bits: is at most 8, not 9"),
        ("--perforation=holes=lazy,holes=eager", "--perforation: holes is given twice"),
        ("--perforation=max-hole-share=25%,demote-above=20%", "is less than max-hole-share=25%"),
        (
            "--zones=numa",
            "--zones: there is no \"numa\"; there are layout, single, x86, dma, dma32",
        ),
        ("--zones=dma=1G,dma=1G", "--zones: dma is given twice"),
        ("--zones=dma=1G,dma32=4G", "--zones: the zones are larger than the memory"),
        ("--zones=dma=3M", "--zones: zones are multiples of 4M"),
    ] {
        fails(&place, &["random:size=64M", "--memory", "4G", option], 2, expected);
    }
    let both = ["--age=weeks", "--fragmentation=portion=50%,holes=25%,clustered"];
    fails(&place, &["random:size=64M", both[0], both[1]], 2, "choose one");
}

#[test]
fn an_aged_memory_is_the_same_for_the_same_seed() {
    let place = Place::new();
    let run = ["compare", "random:size=64M", "--memory", "512M", "--age", "kernel-build,free=40%"];
    let run = [
        &run[..],
        &["--compaction", "background", "--defrag", "always", "--scheme", "thp,perforated"],
    ]
    .concat();
    let run = [&run[..], &["--instructions", "60000", "--check", "--json"]].concat();
    let lines = place.succeeds(&run);
    assert_eq!(lines, place.succeeds(&run));
    assert!(lines.contains("\"page_cache_bytes\""), "{lines}");
}

/// A program that is too large for memory alone fits into memory and swap.
#[test]
fn swap_makes_room() {
    let place = Place::new();
    let run = ["run", "random:size=64M", "--memory", "32M", "--fragmentation", "none"];
    let run = [&run[..], &["--scheme", "thp", "--instructions", "60000", "--check"]].concat();
    place.fails(&run, 1, "memory");
    let counters = place.succeeds(&[&run[..], &["--swap", "64M", "--json"]].concat());
    for counter in ["\"swap_ins\":0,", "\"swap_outs\":0,", "\"work_faults_swap\":0,"] {
        assert!(!counters.contains(counter), "{counters}");
    }
    assert!(counters.contains("\"operating_system_cycles_swapping\":"), "{counters}");
}

/// The complaint names a size, and that size does.
#[test]
fn more_memory_touched_than_there_is() {
    let place = Place::new();
    for scheme in ["4k", "thp", "1g", "perforated", "perforated-naive", "perforated-lazy", "ideal"]
    {
        for fragmentation in ["none", "portion=50%,holes=25%,clustered"] {
            let arguments = ["run", "random:size=2G", "--scheme", scheme, "--functional"];
            let fragmentation = ["--fragmentation", fragmentation, "--instructions", "9000"];
            let arguments = [&arguments[..], &fragmentation].concat();
            let run = |memory: &str| place.run(&[&arguments[..], &["--memory", memory]].concat());
            let failed = run("256M");
            assert_eq!((failed.code, failed.err.lines().count()), (Some(1), 1), "{}", failed.err);
            let (before, _) = failed.err.split_once(" are enough for").expect(&failed.err);
            let enough = before.split_whitespace().last().unwrap();
            let done = run(enough);
            assert_eq!(done.code, Some(0), "{scheme}: {} and then {}", failed.err, done.err);
        }
    }
}

#[test]
fn fragmentation_and_perforation() {
    let place = Place::new();
    for text in [
        "portion=150%",
        "portion=150%,holes=25%,clustered",
        "portion=-1,holes=25%,clustered",
        "portion=nan,holes=25%,clustered",
        "portion=50%",
        "holes=25%,clustered",
        "nonsense",
        "",
        ",",
        "portion=50%,holes=25%,clustered,dispersed",
        "portion=50%,portion=50%,holes=25%,clustered",
        "portion=60%,unusable=60%,holes=10%,clustered",
    ] {
        let expected = "--fragmentation";
        fails(&place, &["random:size=64M", "--fragmentation", text], 2, expected);
    }
    for text in ["nonsense", "holes=never", "max-hole-share=101%", "max-filter-bits=x"] {
        fails(&place, &["random:size=64M", "--perforation", text], 2, "--perforation");
    }
}

#[test]
fn schemes_lengths_and_seeds() {
    let place = Place::new();
    for scheme in ["nope", "", "4k,,thp"] {
        fails(&place, &["random:size=64M", "--scheme", scheme], 2, "there are 4k, 4k-colt-4");
    }
    place.fails(&["run", "random", "--scheme", "4k,thp"], 2, "use compare");
    place.fails(&["explain", "--scheme", "4k,thp"], 2, "one scheme");
    fails(&place, &["random:size=64M", "--warmup", "9000"], 2, "the run has only 9000");
    fails(&place, &["random:size=64M", "--warmup", "18446744073709551615"], 2, "has only 9000");
    place.fails(&["run", "random:size=64M", "--instructions", "0"], 1, "no instructions");
    for (arguments, expected) in [
        (&["compare", "random", "--seeds", "0"][..], "--seeds: is at least 1, not 0"),
        (&["compare", "random", "--seed=-1"], "--seed: expected a whole number"),
        (&["compare", "random", "--instructions", "x"], "--instructions: expected a whole number"),
        (&["compare", "random", "--warmup", "some"], "--warmup: expected a whole number"),
        (
            &["explain", "0x7eff80000000", "0xffff800000000000", "0"],
            "0xffff800000000000: not a user address of x86-64",
        ),
        (&["compare", "random", "--instructions", "-1"], "--instructions: expected a whole number"),
        (&["curves", "random", "--instructions", "-1"], "--instructions: expected a whole number"),
        (&["record", "-o", "x", "--skip", "-5", "--", "true"], "--skip: expected a whole number"),
        (
            &["compare", "random", "--seed", "18446744073709551616"],
            "--seed: is at most 18446744073709551615, not 18446744073709551616",
        ),
        (&["compare", "random", "--memory", "1P"], "1024T is more than the 64T"),
        (&["compare", "random", "--memory", "99999999999G"], "--memory: is at most 16777215T, not"),
        (&["explain", "zz"], "expected an address such as 0x7f0000200000"),
        (&["record", "-o", "x", "--skip", "1X", "--", "true"], "--skip: expected a whole number"),
        (&["record", "-o", "x", "--max-size", "1K", "--", "true"], "1K: expected at least 256K"),
        (&["record", "-o", "x", "--spool", "4", "--", "true"], "--spool: 4 has no unit: 4M or 4G?"),
    ] {
        place.fails(arguments, 2, expected);
    }
    for arguments in [&["list", "nothing"][..], &["run", "--wormup", "5"]] {
        let outcome = place.run(arguments);
        assert_eq!((outcome.code, outcome.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(outcome.err.starts_with("error: ") && !outcome.err.contains("panicked"));
    }
    assert!(place.names().is_empty());
}

#[test]
fn places_where_results_cannot_be_written() {
    let place = Place::new();
    place.write("taken", "mine");
    let quick = ["compare", "random:size=64M", "--instructions", "9000", "--out"];
    place.fails(&[&quick[..], &["taken"]].concat(), 2, "expected a folder");
    place.fails(&[&quick[..], &["taken/below"]].concat(), 1, "taken/below: cannot be written");
    place.fails(&[&quick[..], &["/proc/perforate"]].concat(), 1, "/proc/perforate: cannot be");
    assert_eq!(place.read("taken"), "mine");
    // A result file that cannot be replaced.
    std::fs::create_dir_all(place.path("out/results.jsonl/below")).unwrap();
    place.fails(&[&quick[..], &["out"]].concat(), 1, "results.jsonl: cannot be written");
    assert_eq!(std::fs::read_dir(place.path("out")).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn names_that_are_no_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    let name = OsStr::from_bytes(b"\xff\xfe\n");
    let words =
        |words: &[&'static str]| words.iter().map(|word| OsStr::new(*word)).collect::<Vec<_>>();
    let mut arguments = words(&["run"]);
    arguments.push(name);
    let outcome = place.run(&arguments);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.err.contains("invalid UTF-8"), "{}", outcome.err);
    let mut arguments = words(&["compare", "random:size=64M", "--instructions", "9000", "--out"]);
    arguments.push(name);
    place.succeeds(&arguments);
    assert!(place.path("").join(name).join("report.html").exists());
}

#[test]
fn superpages_that_cannot_be() {
    let place = Place::new();
    for (options, expected) in [
        ("bs=6", "--superpages: bs: is at most 5, not 6"),
        ("bs=5,paired=yes", "GT=1, P=1, BS=5 is no mode of G Table 3"),
        ("pages=2m", "either 2MB-page PDEs or GT-PDEs"),
        ("from=1G,to=8G", "slices from 1G to 8G: the memory ends at 64M"),
        ("least-blocks=65", "least-blocks: is at most 64, not 65"),
    ] {
        let memory = ["--scheme", "gt-pde-2m", "--memory", "64M", "--superpages", options];
        fails(&place, &[&["random:size=4M"], &memory[..]].concat(), 2, expected);
    }
}

#[test]
fn values_are_told_in_plain_words() {
    let place = Place::new();
    for (value, expected) in [
        (
            "tlb.l2.entries=abc",
            "--set tlb.l2.entries=abc: expected a whole number, such as 1536, not \"abc\"",
        ),
        ("tlb.l2=5", "--set tlb.l2=5: expected keys and values in braces, such as { entries"),
        ("tlb.tagged=7", "--set tlb.tagged=7: expected true or false, not 7"),
        ("walker.attach=foo", "--set walker.attach=foo: expected l1d, l2 or llc, not \"foo\""),
        (
            "tlb.l2.more.ways=3",
            "--set tlb.l2.more.ways=3: l2.more.ways: more.ways is not a key of a table",
        ),
    ] {
        fails(&place, &["random", "--set", value], 2, expected);
    }
    fails(
        &place,
        &["random", "--memory", "17179869184"],
        2,
        "17179869184 has no unit: 16G, which is",
    );
    fails(&place, &["nope"], 2, "traces that come with the program are bfs, ");
    place.fails(
        &["snapshot", "process", "abc"],
        2,
        "<PID>: expected a whole number, such as 8, not \"abc\"",
    );
    place.fails(
        &["record", "--level", "99", "-o", "x", "--", "ls"],
        2,
        "--level: expected 1 to 22, not 99",
    );
}

#[test]
fn what_is_quoted_is_shortened() {
    let place = Place::new();
    let long = "A".repeat(10_000);
    for arguments in [
        &["run", "random", "--seed", &long][..],
        &["run", &long],
        &["run", "random", "--set", &long],
        &["run", "random", &format!("--{long}")],
        &["run", &format!("random:{long}=3")],
    ] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, Some(2), "{}", outcome.err);
        assert!(outcome.err.contains("AAAA…") && outcome.err.len() < 1500, "{}", outcome.err);
    }
}

#[test]
fn skips_beyond_the_end() {
    let place = Place::new();
    fails(
        &place,
        &["xz", "--skip", "100G"],
        2,
        "--skip 100000000000: xz.trace has 40000000 instructions",
    );
    let skip = ["random:size=4M", "--skip", "9223372036854775807"];
    fails(
        &place,
        &skip,
        2,
        "is generated as it is skipped, and has no end; expected at most 10000000000",
    );
}

/// Each value is possible by itself.
#[test]
fn machines_that_no_computer_can_hold() {
    let place = Place::new();
    let large = ["--set", "tlb.l2.entries=4194304", "--set", "tlb.l2.ways=16"];
    let run = [&["random:size=4M", "--scheme", "4k", "--cores", "64"][..], &large].concat();
    fails(&place, &run, 2, "tlb.l2.entries = 4194304 is too large for 64 cores and 1 scheme");
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error() {
    let place = Place::new();
    let mut command = place.command(&["run", "random:size=4M", "--instructions", "9000"]);
    // No thread can have such a stack; a limit on processes would not hold for root.
    let outcome = outcome(command.env("RUST_MIN_STACK", "999999999999999999"));
    assert_complaint(&outcome, 1, "a thread cannot be started", "run");
}
