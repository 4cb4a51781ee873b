//! A report can be reproduced: its command, results and machine file give the same bytes.

use std::io::Read as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::place::{Place, json};

/// The command as the page has it, word by word, without the program's name.
fn command(page: &str) -> Vec<String> {
    let (_, rest) = page.split_once("<div class=\"command\"><pre tabindex=\"0\">").unwrap();
    let text = rest.split_once("</pre>").unwrap().0;
    text.split(' ').skip(1).map(str::to_owned).collect()
}

/// A file that the page carries.
fn file(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let packed = BASE64_STANDARD.decode(rest.split_once('<').unwrap().0).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    let data: Value = serde_json::from_str(&text).unwrap();
    let files = data["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["name"] == name).expect(name);
    file["text"].as_str().unwrap().to_owned()
}

#[test]
fn the_command_of_a_page_makes_it_again() {
    let place = Place::new();
    place.write(
        "mine.toml",
        "base = \"zen4-genoa\"\nname = \"mine\"\n[tlb]\nl1_data_1g = \"absent\"\n",
    );
    let words = "compare random:size=64M --instructions 30k --memory 1G --scheme 4k,thp,perforated \
                 --machine mine.toml --set tlb.l2.entries=768 --set tlb.l2.ways=12 --seed 7 --out first";
    place.succeeds(&words.split_whitespace().collect::<Vec<_>>());
    let (page, results) = (place.read("first/report.html"), place.read("first/results.jsonl"));

    let again = command(&page);
    assert_eq!(again.join(" "), words.split_whitespace().collect::<Vec<_>>().join(" "));
    std::fs::remove_dir_all(place.path("first")).unwrap();
    place.succeeds(&again);
    assert_eq!(place.read("first/results.jsonl"), results);
    assert_eq!(place.read("first/report.html"), page);

    // Somebody who has the page and not the machine file.
    assert_eq!(file(&page, "results.jsonl"), results);
    let elsewhere = Place::new();
    elsewhere.write("machine.toml", file(&page, "machine.toml"));
    let set = again.iter().position(|word| word == "--set").unwrap();
    let mut words = [&again[..set], &again[set + 4..]].concat();
    let machine = words.iter().position(|word| word == "mine.toml").unwrap();
    words[machine] = "machine.toml".into();
    elsewhere.succeeds(&words);
    // What was set is no longer said to be set; all that was measured is the same.
    let measured = |lines: &str| -> Vec<Value> {
        let parts =
            |run: &Value| ["scheme", "cycles", "counters", "batches"].map(|part| run[part].clone());
        json(lines).iter().map(|run| parts(run).into_iter().collect()).collect()
    };
    assert_eq!(measured(&elsewhere.read("first/results.jsonl")), measured(&results));
}
