//! Structure of the HTML page: every series there, numbers as in the input, nothing from outside,
//! nothing that hostile names could inject.

use crate::document::{
    chart, check, data, element, legend, marks, markup, strings, table, text, value,
};
use crate::vocabulary;
use perforate_records::{RunResult, TOO_LITTLE_WORK, read_results};
use perforate_report::{ReportOptions, html};
use roxmltree::{Document, Node};

const SAMPLE: &str = include_str!("../data/sample.jsonl");

fn options() -> ReportOptions {
    vocabulary::options("Sample", "perforate compare random")
}

fn sample() -> Vec<RunResult> {
    read_results(SAMPLE).unwrap()
}

fn with_class<'a>(
    document: &'a Document<'a>,
    class: &'a str,
) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| {
        node.attribute("class").is_some_and(|all| all.split(' ').any(|one| one == class))
    })
}

#[test]
fn every_scheme_and_series_is_drawn() {
    let page = html(&sample(), &options());
    assert_eq!(
        legend(&chart(&page, "c0-references-per-walk")),
        ["level 4", "level 3", "level 2", "level 1", "shadow", "hole"]
    );
    // Fourteen parts, of which those that are too small to be seen are drawn as one.
    assert_eq!(legend(&chart(&page, "c0-cycle-stack")).len(), 10);
    assert_eq!(legend(&chart(&page, "c0-cycle-stack"))[9], "5 others");
    assert_eq!(table(&page, "c0-cycle-stack").0.len(), 1 + 14 + 1, "the data have all");
    // Six schemes were sampled, of which the contents of one hardly change; every other shows the six
    // kinds that occur, and the same axes.
    let axes = |chart: &serde_json::Value| {
        ["x", "y"].map(|axis| chart["layer"][0]["encoding"][axis]["scale"]["domain"].clone())
    };
    let first = axes(&chart(&page, "c0-l2-tlb-0"));
    assert!(!page.contains("c0-l2-tlb-2"));
    for index in [0, 1, 3, 4, 5] {
        let chart = chart(&page, &format!("c0-l2-tlb-{index}"));
        let kinds = ["perforated", "2MB page", "4KB page", "hole (4KB)", "hole bitmap", "empty"];
        assert_eq!(legend(&chart), kinds);
        assert_eq!(axes(&chart), first);
        assert_eq!(marks(&chart)[0]["values"].as_array().unwrap().len(), 6);
    }
    // One bar per scheme, each with least and most of three seeds.
    let speeds = chart(&page, "c0-ipc-to-reference");
    assert_eq!(marks(&speeds).len(), 6);
    let has_whiskers =
        |mark: &serde_json::Value| mark["low"].is_number() && mark["high"].is_number();
    assert!(marks(&speeds).iter().all(has_whiskers));
    for index in 0..4 {
        let chart = chart(&page, &format!("c0-holes-{index}"));
        assert_eq!(marks(&chart["layer"][0]).len(), 8, "eight filter regions");
        let letters = &strings(&chart["layer"][1]["data"]["values"], "letters")[0];
        assert_eq!(letters.len(), 512, "{letters}");
    }
}

#[test]
fn every_figure_has_its_data() {
    let page = html(&sample(), &options());
    let data = data(&page);
    let figures = data["figures"].as_object().unwrap();
    // IPC, cycles, references, two of memory, one and five of TLB contents, four of holes.
    assert_eq!(figures.len(), 15);
    for id in figures.keys() {
        let (head, rows) = table(&page, id);
        assert!(head.len() > 1 && !rows.is_empty(), "{id}");
    }
    check(&page, |document| {
        let drawn = document.descendants().filter(|node| node.has_tag_name("figure"));
        let drawn: Vec<&str> = drawn.filter_map(|figure| figure.attribute("id")).collect();
        assert_eq!(drawn.len(), 15);
        assert!(drawn.iter().all(|id| figures.contains_key(*id)));
        let ids: Vec<&str> =
            document.descendants().filter_map(|node| node.attribute("id")).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "ids are unique");
    });
}

#[test]
fn counters_of_a_single_run_are_those_of_the_input() {
    let results: Vec<RunResult> = sample().into_iter().filter(|run| run.seed == 2).collect();
    let page = html(&results, &options());
    check(&page, |document| {
        let table =
            with_class(document, "counters").find(|node| node.has_tag_name("table")).unwrap();
        let mut seen = 0;
        let rows: Vec<Node<'_, '_>> =
            table.descendants().filter(|node| node.has_tag_name("tr")).skip(1).collect();
        for row in rows {
            let cells: Vec<String> = row.children().map(value).collect();
            for (run, cell) in results.iter().zip(&cells[1..]) {
                let of_run = run.counters.iter().find(|(name, _)| *name == cells[0]);
                let number = serde_json::to_string(&of_run.unwrap().1).unwrap();
                assert_eq!(*cell, number, "{}", cells[0]);
                seen += 1;
            }
        }
        let expected: usize = results.iter().map(|run| run.counters.iter().count()).sum();
        assert_eq!(seen, expected);
    });
}

#[test]
fn the_main_table_and_the_headline_say_what_the_runs_say() {
    let text_of = |scheme: &str, ipc: &str| {
        format!(
            r#"{{"scheme":"{scheme}","workload":"random","machine":"m","seed":1,"instructions":1000000,"ipc":{ipc},"counters":{{"l2_tlb_misses":2500}}}}"#
        )
    };
    let lines = [
        text_of("4k", "0.4"),
        text_of("thp", "0.5"),
        text_of("perforated", "0.6"),
        text_of("ideal", "0.75"),
    ];
    let page = html(&read_results(&lines.join("\n")).unwrap(), &options());
    check(&page, |document| {
        let headline = with_class(document, "headline").next().unwrap();
        // 0.5 / 0.4 = 1.25; 0.6 / 0.4 = 1.5; 0.6 / 0.5 = 1.2.
        assert_eq!(
            text(headline),
            "With 4KB pages, free address translation would save random 46.7 % of its time; thp would \
             make it 1.25× as fast today, and the proposal perforated 1.50×."
        );
        let rest = with_class(document, "answer").next().unwrap();
        assert_eq!(
            text(rest).trim(),
            "With 4KB pages, free address translation would save random 46.7 % of its time. \
             Today, thp (transparent_hugepage/enabled=always) would make it 1.25× as fast. \
             Of the proposals, perforated gains the most: 1.50× (1.20× as fast as thp). \
             With thp, free translation would still save 33.3 % of its time."
        );
        let strong = rest.descendants().filter(|node| node.has_tag_name("strong")).map(text);
        let expected = ["random", "46.7 %", "thp", "1.25×", "perforated", "1.50×", "thp", "33.3 %"];
        assert_eq!(strong.collect::<Vec<_>>(), expected);
        let table = with_class(document, "main").find(|node| node.has_tag_name("table")).unwrap();
        let rows = table.descendants().filter(|node| node.has_tag_name("tr"));
        let column = rows.map(|row| text(row.children().nth(3).unwrap()));
        // 2500 misses in 1,000,000 instructions: 2.5 per 1,000.
        let expected = ["perforated", "0.600", "1.50×", "20.0 %", "2.50"];
        assert_eq!(column.collect::<Vec<_>>(), expected);
    });
}

/// A sentence says what there is to say: what translation costs, and what would be gained.
#[test]
fn the_headline_is_one_sentence() {
    let said = |runs: &[(&str, u64, u64)]| {
        let line = |(scheme, cycles, waiting): &(&str, u64, u64)| {
            format!(
                r#"{{"scheme":"{scheme}","workload":"w","machine":"m","seed":1,"instructions":1000,"cycles":{cycles},"ipc":{},"counters":{{"translation_stall_cycles":{waiting}}}}}"#,
                1000.0 / *cycles as f64
            )
        };
        let lines: Vec<String> = runs.iter().map(line).collect();
        let page = html(&read_results(&lines.join("\n")).unwrap(), &options());
        check(&page, |document| text(with_class(document, "headline").next().unwrap()))
    };
    let cost = "With 4KB pages, w spends 25.0 % of its time waiting for address translation";
    let base = ("4k", 2000, 500);
    assert_eq!(said(&[base]), format!("{cost}."));
    assert_eq!(
        said(&[base, ("thp", 1600, 100)]),
        format!("{cost}; thp would make it 1.25× as fast today.")
    );
    assert_eq!(
        said(&[base, ("thp", 2000, 500), ("perforated", 1600, 100)]),
        format!("{cost}; the proposal perforated would make it 1.25× as fast.")
    );
    assert_eq!(
        said(&[base, ("thp", 1999, 500)]),
        format!("{cost}; no scheme makes it faster by more than this run can show.")
    );
    assert_eq!(
        said(&[("4k", 2000, 4), ("thp", 1996, 0)]),
        "With 4KB pages, w spends only 0.2 % of its time waiting for address translation: \
         no scheme can gain much."
    );
}

#[test]
fn functional_runs_speak_of_misses_and_draw_no_speed() {
    let text_of = |scheme: &str, misses: u64| {
        format!(
            r#"{{"scheme":"{scheme}","workload":"w","instructions":1000000,"cycles":null,"ipc":null,"counters":{{"l2_tlb_misses":{misses},"walks":{misses},"walk_references_level1":{misses},"walk_references_level2":1000,"references_per_walk":1.0}}}}"#
        )
    };
    let lines = [text_of("4k", 10_000), text_of("perforated", 2_000)].join("\n");
    let page = html(&read_results(&lines).unwrap(), &options());
    check(&page, |document| {
        let headline = with_class(document, "headline").next().unwrap();
        assert_eq!(
            text(headline),
            "With 4KB pages, w needs 10.00 page walks per 1,000 instructions; with perforated 80.0 % fewer."
        );
        assert!(!page.contains("Speed relative to"));
        assert_eq!(marks(&chart(&page, "c0-misses")).len(), 2);
        assert!(element(document, "c0-references-per-walk").is_element());
    });
    // Of schemes that users have, the one with the fewest walks, wherever it stands.
    let headline = |lines: &str| {
        let page = html(&read_results(lines).unwrap(), &options());
        check(&page, |document| text(with_class(document, "headline").next().unwrap()))
    };
    let (large, between) = (text_of("thp", 9_000), text_of("mthp-64k", 1_000));
    let lines = [text_of("4k", 10_000), large, between, text_of("1g", 5_000)].join("\n");
    assert!(headline(&lines).ends_with("; with mthp-64k 90.0 % fewer."), "{}", headline(&lines));
    let note = format!(r#""notes":["{TOO_LITTLE_WORK}"],"cycles""#);
    let little = headline(&lines.replace("\"cycles\"", &note));
    assert!(little.starts_with("Too little to tell") && !little.contains("fewer"), "{little}");
}

#[test]
fn nothing_comes_from_outside() {
    let page = html(&sample(), &options());
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("@import"));
    assert!(!page.contains("url("));
    check(&page, |document| {
        for node in document.descendants() {
            assert_eq!(node.attribute("src"), None);
            if let Some(target) = node.attribute("href") {
                assert!(target.starts_with('#') || target == "data:,", "{target}");
            }
        }
    });
    assert_eq!(page, html(&sample(), &options()), "same results, same bytes");
}

/// Records of this process are not read from a file, where such characters are replaced.
#[test]
fn records_may_hold_any_character() {
    let odd = "a\u{1b}b\u{202e}c";
    let mut results = sample();
    for run in &mut results {
        run.workload = odd.into();
        run.notes = vec![odd.into()];
    }
    let page = html(&results, &options());
    let data = data(&page).to_string();
    assert!(page.contains("a\u{fffd}b\u{fffd}c"));
    for text in [page, data] {
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && !text.contains("u001b"));
    }
}

#[test]
fn hostile_names_inject_nothing() {
    let evil =
        r#"</title></script><script>alert(1)</script><img src=x onerror="alert(2)">'&\u0000\u001b"#;
    let line = |scheme: &str, seed: u64| {
        format!(
            r#"{{"scheme":"{scheme}","workload":"EVIL","machine":"EVIL","seed":{seed},"ipc":1,"instructions":1000,"version":"EVIL",
            "config":{{"EVIL":"EVIL"}},"notes":["EVIL"],"counters":{{"EVIL":1,"walks":1,"walk_references_EVIL":1,"translation_cycles_EVIL":2,"mapped_bytes":1}},
            "series":{{"l2_tlb_contents":[{{"instruction":1,"EVIL":3}}]}},"regions":[{{"page":"EVIL","scheme_kind":"EVIL","holes":["1"]}}]}}"#
        )
        .replace('\n', " ")
        .replace("EVIL", &evil.replace('"', "\\\""))
    };
    let lines = [line("EVIL", 1), line("EVIL", 1), line("4k", 1)].join("\n");
    let hostile = vocabulary::options(evil, evil);
    let page = html(&read_results(&lines).unwrap(), &hostile);
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(!page.contains("<img") && !page.contains('\u{1b}') && !page.contains('\0'));
    check(&page, |document| {
        for node in document.descendants().filter(Node::is_element) {
            assert!(!node.attributes().any(|one| one.name().starts_with("on")));
            assert_ne!(node.tag_name().name(), "img");
        }
    });
}

#[test]
fn extreme_and_empty_values_leave_the_pictures_whole() {
    let values = ["0", "-1", "1e308", "5e-324", "18446744073709551615", "null", "\"text\""];
    for value in values {
        let line = |scheme: &str| {
            format!(
                r#"{{"scheme":"{scheme}","workload":"w","ipc":{ipc},"instructions":{ipc},"counters":{{"walks":{value},"walk_references_level1":{value},"walk_references_level2":{value},"translation_cycles_hole":{value},"translation_cycles_l2_tlb":{value},"page_table_bytes":{value},"mapped_bytes":{value},"touched_bytes":{value}}},
                "series":{{"l2_tlb_contents":[{{"instruction":0,"hole":{value}}}]}},"regions":[{{"holes":[]}},{{"holes":["0xffffffffffffffff"]}}]}}"#,
                ipc = if value.contains("text") { "null" } else { value },
            )
            .replace('\n', " ")
        };
        let lines = [line("4k"), line("perforated"), line("ideal")].join("\n");
        let page = html(&read_results(&lines).unwrap(), &options());
        let markup = markup(&page);
        assert!(!markup.contains("NaN") && !markup.contains(">inf"), "{value}");
        // JSON has no infinities: what is no number is left out.
        assert!(data(&page)["figures"].is_object());
    }
}

#[test]
fn several_comparisons_have_sections_of_their_own() {
    let other = SAMPLE
        .replace("\"random\"", "\"sequential\"")
        .replace("\"portion\":0.5", "\"portion\":1.0");
    let third = SAMPLE.replace("\"portion\":0.5", "\"portion\":1.0");
    let page = html(&read_results(&format!("{SAMPLE}{other}{third}")).unwrap(), &options());
    check(&page, |document| {
        let names: Vec<String> =
            (0..3).map(|index| text(element(document, &format!("c{index}-summary")))).collect();
        assert_eq!(
            names,
            [
                "random · table2 · portion 0.5",
                "sequential · table2",
                "random · table2 · portion 1.0"
            ]
        );
    });
}

#[test]
fn a_very_long_number_takes_little_room_and_keeps_its_digits() {
    let line = r#"{"scheme":"4k","workload":"w","counters":{"walks":18446744073709551615,"mapped_bytes":1e308,"few":12345}}"#;
    let page = html(&read_results(line).unwrap(), &options());
    check(&page, |document| {
        let table =
            with_class(document, "counters").find(|node| node.has_tag_name("table")).unwrap();
        let cells: Vec<Node<'_, '_>> =
            table.descendants().filter(|node| node.has_tag_name("td")).collect();
        let shown: Vec<String> = cells.iter().map(|cell| text(*cell)).collect();
        assert_eq!(shown, ["12,345", "1e308", "1.84467e19"]);
        assert_eq!(value(cells[2]), "18446744073709551615");
        let hint = cells[2].first_child().unwrap().attribute("title");
        assert_eq!(hint, Some("18446744073709551615"));
        let written =
            document.descendants().filter(|node| ["td", "b"].contains(&node.tag_name().name()));
        for words in written.map(text) {
            assert!(words.chars().count() <= 40, "{words:?}");
        }
    });
}
