//! Progress on a terminal, which `script` makes.

use std::process::{Command, Stdio};

use crate::place::Place;

const COLUMNS: usize = 60;

/// Output of a command on a terminal of [`COLUMNS`] columns; `None`, with a message, without `script`.
fn on_terminal(place: &Place, arguments: &str) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_perforate");
    let command = format!("stty rows 24 cols {COLUMNS}; {program} {arguments}");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(place.path("")).stdin(Stdio::null());
    let Ok(output) = script.output() else {
        println!("skipped: script is not installed, so there is no terminal");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// The lines as they were drawn, one over the other, without escapes.
fn drawn(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => drop(letters.find(|letter| letter.is_ascii_alphabetic())),
            letter => plain.push(letter),
        }
    }
    plain.split(['\r', '\n']).map(str::to_owned).collect()
}

#[test]
fn a_bar_takes_one_line() {
    let place = Place::new();
    let values = "fragmentation=portion=50%,holes=25%,clustered;portion=25%,holes=25%,clustered";
    let words = format!("compare random:size=64M --scheme 4k --instructions 2M --vary '{values}'");
    let Some(text) = on_terminal(&place, &words) else { return };
    let lines = drawn(&text);
    let bars: Vec<&String> = lines.iter().filter(|line| line.contains(" instructions")).collect();
    let bars: Vec<&&String> = bars.iter().filter(|line| line.starts_with("1 of 2:")).collect();
    assert!(!bars.is_empty(), "{lines:?}");
    assert!(bars.iter().all(|bar| bar.trim_end().chars().count() <= COLUMNS), "{bars:?}");
}

#[test]
fn no_bar_is_drawn_among_the_lines_of_a_recorded_program() {
    let place = Place::new();
    let program = "sh -c 'for i in 1 2 3; do echo line $i; sleep 0.3; done'";
    let words = format!("compare --scheme 4k --functional -- {program} || true");
    let Some(text) = on_terminal(&place, &words) else { return };
    if text.contains("apt-get install qemu-user") {
        return println!("skipped: there is no emulator to record with");
    }
    let (first, last) = (text.find("line 1").unwrap(), text.find("line 3").unwrap());
    assert_eq!(drawn(&text[first..last]), ["line 1", "", "line 2", "", ""], "{text:?}");
}
