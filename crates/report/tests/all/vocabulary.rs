//! The vocabulary of the program: what the report refers to is registered, what is registered has its
//! place in the report, and what nobody has registered is shown as well.

use perforate_records::{Vocabulary, read_results};
use perforate_report::{COUNTERS_USED, ReportOptions, Rows, WHOLES_USED, html, table};
use perforate_types::{Counter, CounterUnit, Prominence};
use serde_json::json;

use crate::document::{chart, legend};

/// The program's registered counters and schemes.
pub fn vocabulary() -> Vocabulary {
    perforate_sim::vocabulary()
}

/// Options of a page with that.
pub fn options(title: &str, command: &str) -> ReportOptions {
    ReportOptions {
        title: title.into(),
        command: command.into(),
        results: "{}\n".into(),
        vocabulary: vocabulary(),
    }
}

#[test]
fn counters_that_the_report_computes_with_are_registered() {
    let vocabulary = vocabulary();
    for id in COUNTERS_USED {
        assert!(vocabulary.counter(id).is_some(), "{id}");
    }
    for whole in WHOLES_USED {
        assert!(vocabulary.parts(whole).count() > 1, "{whole}");
    }
}

#[test]
fn registered_colours_are_in_the_palette() {
    let vocabulary = vocabulary();
    let page = html(&read_results(r#"{"scheme":"4k","workload":"w"}"#).unwrap(), &options("", ""));
    let parts = vocabulary.counters.iter().filter_map(|counter| counter.part.as_ref());
    let schemes = vocabulary.schemes.iter().map(|scheme| &scheme.colour);
    for colour in parts.map(|part| &part.colour).chain(schemes) {
        assert!(page.contains(&format!("--c-{colour}:")), "{colour}");
    }
}

/// One line of registration, and a counter of a mechanism stands in the tables under its heading.
#[test]
fn a_registered_counter_is_shown_where_its_registration_says() {
    let counter = Counter {
        id: "prefetch_hits".into(),
        label: "hits of the buffer".into(),
        unit: CounterUnit::Bytes,
        group: "Prefetch buffer",
        meaning: "".into(),
        prominence: Prominence::Main,
        part: None,
    };
    let mut options = options("", "");
    options.vocabulary.counters.push(counter);
    let run =
        json!({"scheme": "4k", "workload": "w", "counters": {"prefetch_hits": 2048, "walks": 1}});
    let results = read_results(&run.to_string()).unwrap();
    let text = table(&results, &options.vocabulary, 100, Rows::All);
    let (_, after) = text.split_once("Prefetch buffer\n").unwrap();
    assert!(after.trim_start().starts_with("hits of the buffer"), "{text}");
    assert!(after.contains("2.00 KB"), "{text}");
    assert!(html(&results, &options).contains("hits of the buffer"));
}

/// Results of another version: schemes, counters, parts and kinds that nobody has registered.
#[test]
fn what_nobody_knows_is_shown_by_name_in_an_extra_colour() {
    let line = |scheme: &str, reads: u64| {
        json!({
            "scheme": scheme, "workload": "w", "instructions": 1000, "cycles": 10, "ipc": 100.0,
            "counters": {
                "walks": 10, "walk_references_level8": reads, "walk_references_level9": 20,
                "quarks_found": 3,
            },
            "series": {"l2_tlb_contents": [{"instruction": 1, "odd_kind": reads, "page_4k": 1}]},
        })
        .to_string()
    };
    let results = read_results(&[line("quux", 5), line("quux+foo", 4)].join("\n")).unwrap();
    for vocabulary in [vocabulary(), Vocabulary::default()] {
        let options = ReportOptions { vocabulary, ..ReportOptions::default() };
        let page = html(&results, &options);
        assert!(page.contains("quux") && page.contains("quarks_<wbr>found"));
        assert_eq!(legend(&chart(&page, "c0-references-per-walk")), ["level8", "level9"]);
        assert!(legend(&chart(&page, "c0-l2-tlb")).contains(&"odd kind".to_owned()));
        assert!(chart(&page, "c0-l2-tlb").to_string().contains("--c-extra0"));
        assert!(table(&results, &options.vocabulary, 100, Rows::All).contains("quux"));
    }
}
