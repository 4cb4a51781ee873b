//! `--policy`: page sizes as a script chooses them.

use crate::place::{Place, json};

const RUN: [&str; 6] = ["--instructions", "100000", "--warmup", "0", "--functional", "--check"];

fn compare(place: &Place, policy: &str, more: &[&str]) -> Vec<serde_json::Value> {
    let compare = ["compare", "random:size=64M", "--json", "--policy", policy];
    json(&place.succeeds(&[&compare[..], &RUN, more].concat()))
}

#[test]
fn a_policy_is_compared_with_transparent_pages() {
    let place = Place::new();
    let text = "// Even regions.\nfn order_for(area, kind, orders) {\n    \
                if (area.address >> 21) % 2 == 0 { 9 } else { 0 }\n}\n";
    place.write("even.rhai", text);
    let results = compare(&place, "even.rhai", &["--fragmentation", "none"]);
    let schemes: Vec<_> = results.iter().map(|result| result["scheme"].as_str().unwrap()).collect();
    assert_eq!(schemes, ["4k", "thp", "scripted", "ideal"]);
    let counters = |index: usize| &results[index]["counters"];
    assert_eq!(counters(1)["large_pages"], 32);
    assert_eq!(counters(2)["large_pages"], 16);
    // One question for each 2MB of the array that is touched; a large page is one touch.
    assert!(counters(2)["policy_questions"].as_u64().unwrap() >= 32);
    assert_eq!(counters(1)["policy_questions"], 0);
    // A result says what made it.
    let stored = &results[2]["config"]["memory"]["policy"];
    assert_eq!(stored["name"], "even.rhai");
    assert_eq!(stored["text"].as_array().unwrap().len(), 4);
    assert_eq!(stored["xxh3"].as_str().unwrap().len(), 16);
    let noted = results[2]["notes"].to_string();
    assert!(noted.contains("policy even.rhai"), "{noted}");
}

#[test]
fn policies_that_come_with_the_program_and_those_of_hosts() {
    let place = Place::new();
    let large = |result: &serde_json::Value, name: &str| result["counters"][name].as_u64().unwrap();
    let schemes = ["--fragmentation", "none", "--scheme", "scripted,scripted+scripted"];
    let host = ["--host-policy", "used"];
    let results = compare(&place, "large-areas", &[&schemes[..], &host].concat());
    assert_eq!(large(&results[0], "large_pages"), 32);
    assert_eq!(large(&results[1], "large_pages"), 32);
    assert_eq!(large(&results[1], "host_large_pages"), 0);

    // One policy after the other.
    let vary = ["compare", "random:size=32M", "--json", "--vary", "policy=thp,large-areas"];
    let more = ["--fragmentation", "none", "--scheme", "scripted"];
    let results = json(&place.succeeds(&[&vary[..], &RUN, &more].concat()));
    let found: Vec<_> = results.iter().map(|result| large(result, "large_pages")).collect();
    assert_eq!(found, [16, 0]);
}

#[test]
fn mistakes_name_the_file_and_the_place() {
    let place = Place::new();
    let fails = |policy: &str, code: i32, expected: &str| {
        let compare = ["compare", "random:size=64M", "--policy", policy];
        place.fails(&[&compare[..], &RUN].concat(), code, expected);
    };
    place.write("open.rhai", "fn order_for(area, kind, orders) {\n    9\n");
    fails("open.rhai", 2, "policy: open.rhai: line ");
    place.write("typo.rhai", "fn order_four(area, kind, orders) { 9 }\n");
    fails(
        "typo.rhai",
        2,
        "policy: typo.rhai: it defines no function that is asked; expected one of",
    );
    // A function has no size: what it carries would grow without bound, also while the file is read.
    let curry = "let f = |x| x; for k in 0..60 { f = f.curry([f, f]) } fn patch(n) { true }";
    place.write("curry.rhai", curry);
    fails("curry.rhai", 2, "; a policy has no maps (#{…}), curry, Fn, eval, print and debug");
    let slow = "fn order_for(area, kind, orders) { let a = []; for i in 0..500 { a.push(i) } 9 }";
    place.write("slow.rhai", slow);
    fails("slow.rhai", 1, "order_for: a list of more than 64 elements, lists within it included");
    place.write("bytes.rhai", [b"// \xff\xfe\n".as_slice(), b"fn patch(n) { true }"].concat());
    fails("bytes.rhai", 2, "bytes.rhai: line 1: a byte that is not UTF-8; expected text");
    fails("none.rhai", 2, "policy: none.rhai: No such file");
    fails("perforate", 2, "of bundled policies did you mean perforated?");
    fails(".", 2, "this is a directory; expected a regular file");
    fails("/dev/zero", 2, "this is a device; expected a regular file");

    // What shows only while the program runs ends the run, and no result is printed.
    place.write("wrong.rhai", "// First.\nfn order_for(area, kind, orders) { 4 }\n");
    let wrong = "wrong.rhai: line 2, column 1: order_for answered 4; expected one or several of the \
                 orders offered: 0, 9";
    fails("wrong.rhai", 1, wrong);
    place.write("endless.rhai", "fn order_for(area, kind, orders) { while true { } }\n");
    fails("endless.rhai", 1, "order_for: more than 20000 operations; expected an answer by then");

    let no_scheme = ["compare", "random", "--policy", "thp", "--scheme", "4k,thp"];
    place.fails(&no_scheme, 2, "policy: has no effect: no scheme here has a scripted policy");
}

/// A pipe that nobody writes to is not waited for.
#[test]
#[cfg(unix)]
fn pipes_are_refused() {
    let place = Place::new();
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe.rhai")).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: mkfifo cannot be run");
        return;
    }
    let compare = ["compare", "random:size=64M", "--policy", "pipe.rhai"];
    place.fails(&compare, 2, "this is a pipe; expected a regular file");
}
