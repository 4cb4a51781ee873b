//! Control characters in files and names do not reach the terminal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use perforate_trace::{TraceMetadata, TraceWriter};

use crate::place::{Outcome, Place};

/// Clears the screen, sets the title, turns letters red, goes back, reorders what follows.
const ODD: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31mred\u{8}\r\u{7f}\u{202e}gnp\u{2066}";

/// Nothing that steers a terminal came out, and what was there is to be seen.
fn assert_harmless(found: &Outcome, what: &str) {
    let text = format!("{}{}", found.out, found.err);
    let is_odd = |c: char| (c.is_control() && c != '\n') || ('\u{2000}'..'\u{2100}').contains(&c);
    let odd: Vec<char> = text.chars().filter(|c| is_odd(*c) && !"–—…“”‘’′".contains(*c)).collect();
    assert!(odd.is_empty(), "{what}: {odd:?} in {text:?}");
    assert!(text.contains("red"), "{what}: {text:?}");
}

#[test]
fn traces() {
    let place = Place::new();
    let metadata = TraceMetadata {
        program: vec![ODD.into()],
        recorder: ODD.into(),
        notes: vec![ODD.into()],
        assumptions: vec![ODD.into()],
        ..TraceMetadata::default()
    };
    TraceWriter::create(place.path("x.trace"), &metadata).unwrap().finish().unwrap();
    let found = place.run(&["trace", "info", "x.trace"]);
    assert_harmless(&found, "trace info");
    assert!(found.out.contains(r"\u001b[2J\u001b]0;owned\u0007\u009b31mred"), "{}", found.out);
}

#[test]
fn names_of_files_and_arguments() {
    let place = Place::new();
    let odd = OsStr::from_bytes(ODD.as_bytes());
    let file = format!("{ODD}.toml");
    for arguments in [
        &["compare", ODD][..],
        &["trace", "info", ODD],
        &["trace", "convert", "random", "--instructions", "1", "-o", &format!("no/{ODD}")],
        &["run", "--machine", ODD],
        &["experiment", "run", ODD],
        &["compare", "--vary", ODD],
        &[ODD],
        &["compare", &format!("--{ODD}")],
        &["run", "--set", &format!("{ODD}=1")],
    ] {
        assert_harmless(&place.run(arguments), &format!("{arguments:?}"));
    }
    place.write(
        &file,
        format!("name = {ODD:?}\n[{ODD:?}]\n").replace("\\u{", "\\u00").replace('}', ""),
    );
    assert_harmless(&place.run(&["experiment", "run", &file]), "an experiment's file");
    place.write(&format!("{ODD}.trace"), odd.as_bytes());
    assert_harmless(&place.run(&["trace", "info", &format!("{ODD}.trace")]), "a damaged trace");
}

#[test]
fn policies() {
    let place = Place::new();
    let quoted = ODD.chars().map(|c| format!("\\u{:04x}", c as u32)).collect::<String>();
    place.write("odd.rhai", format!("fn order_for(area, kind, orders) {{ throw \"{quoted}\" }}"));
    let words = ["run", "random:size=4M", "--instructions", "1000", "--scheme", "scripted"];
    let found = place.run(&[&words[..], &["--policy", "odd.rhai"]].concat());
    assert_ne!(found.code, Some(0));
    assert_harmless(&found, "a script's error");
}

/// Letters of other scripts are no control characters.
#[test]
fn ordinary_names_are_shown_as_they_are() {
    let place = Place::new();
    let name = "Größe-日本語-é-👩‍🔬.trace";
    let words = ["trace", "convert", "random:size=4M", "--instructions", "10", "-o", name];
    assert!(place.succeeds(&words).starts_with(&format!("{name}: 10 instructions")));
}
