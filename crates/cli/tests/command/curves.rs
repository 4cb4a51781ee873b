//! `perforate curves`: misses against entries.

use serde_json::Value;

use crate::place::Place;

/// `random` touches one of 16,384 pages of 4KB, or 32 of 2MB, at each access: a TLB with half as many entries
/// misses in half of the accesses, one with all in none.
#[test]
fn random_accesses_miss_in_proportion_to_what_is_not_held() {
    let place = Place::new();
    let arguments =
        ["curves", "random:size=64M", "--instructions", "2M", "--machine", "ice-lake-sp", "--json"];
    let record: Value = serde_json::from_str(&place.succeeds(&arguments)).unwrap();
    let accesses = record["accesses"].as_f64().unwrap();
    let sizes = record["page_sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 5);
    let at = |size: usize, entries: u64| {
        let points = sizes[size]["points"].as_array().unwrap();
        let point = points.iter().find(|point| point["entries"] == entries);
        let misses = point.unwrap_or_else(|| panic!("no {entries}"))["misses"].as_f64().unwrap();
        misses / accesses
    };
    // At the beginning, fewer pages than that were touched.
    assert!((0.45..0.5).contains(&at(0, 8192)), "{}", at(0, 8192));
    assert!((at(3, 16) - 0.5).abs() < 0.02, "{}", at(3, 16));
    assert_eq!((at(0, 16_384), at(3, 64), at(4, 1)), (0.0, 0.0, 0.0));
    let needed = sizes[0]["entries_for_share"].as_u64().unwrap();
    assert!((15_800..16_384).contains(&needed), "{needed}");
    assert_eq!(sizes[3]["machine_l1_entries"], 32);
}

#[test]
fn the_answer_comes_first_and_the_page_has_the_chart() {
    let place = Place::new();
    let text = place.succeeds(&["curves", "redis", "--instructions", "1M", "--out", "out"]);
    let answer = text.lines().nth(2).unwrap();
    assert!(answer.starts_with("4KB pages need "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("L2 4KB, 2MB"), "{text}");
    let page = place.read("out/report.html");
    assert!(page.contains("Misses against entries") && page.contains("curves redis"));
    let stored: Value = serde_json::from_str(&place.read("out/curves.json")).unwrap();
    assert_eq!(stored["reference_entries"], 64);
}

#[test]
fn a_sample_has_its_error_beside_it() {
    let place = Place::new();
    let text =
        place.succeeds(&["curves", "random:size=1G", "--instructions", "1M", "--sample", "1/16"]);
    assert!(text.contains('±') && text.contains("a sample of one in 16"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// One in 4096 of a short run's pages is one page at most, which says nothing about the other pages.
#[test]
fn a_sample_that_is_too_small_has_no_answer() {
    let place = Place::new();
    let words = ["curves", "bfs", "--instructions", "1M", "--sample", "1/4096"];
    let text = place.succeeds(&words);
    assert!(text.lines().nth(2).unwrap().starts_with("No answer from this sample"), "{text}");
    let record: Value =
        serde_json::from_str(&place.succeeds(&[&words[..], &["--json"]].concat())).unwrap();
    for size in record["page_sizes"].as_array().unwrap() {
        // All of 2MB and 1GB are followed.
        let is_small = size["page_bytes"].as_u64() < Some(2 << 20);
        assert_eq!(size["entries_for_share"].is_null(), is_small, "{size}");
        for point in size["points"].as_array().unwrap() {
            assert!(point["misses"].as_u64() <= record["accesses"].as_u64(), "{point}");
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let place = Place::new();
    let wrong = |arguments: &[&str], expected: &str| place.fails(arguments, 2, expected);
    wrong(&["curves", "random", "--sample", "1/3"], "--sample: expected auto or 1/N");
    wrong(&["curves", "random", "--sample", "half"], "such as 1/16");
    wrong(&["curves", "nosuch"], "nosuch");
    place.write("other.trace", "no trace");
    place.fails(&["curves", "other.trace"], 1, "other.trace");
}
