use serde_json::{Value, json};

use super::*;
use crate::ids::tests::vocabulary;
use perforate_records::read_results;

use crate::{ReportOptions, html};

/// Name of an option and its values, such as `("memory", ["4G", "16G"])`. Values that parse as numbers are
/// numbers.
type Key<'a> = (&'a str, &'a [&'a str]);

fn setting((key, value): (&str, &str)) -> Value {
    json!({"key": key, "value": value, "number": value.parse::<f64>().ok(), "unit": ""})
}

/// Results of the schemes `4k`, with this IPC, and `thp`, which is twice as fast.
fn lines(varied: &Value, ipc: f64) -> String {
    [("4k", ipc), ("thp", 2.0 * ipc)]
        .map(|(scheme, ipc)| {
            let config = json!({"varied": varied});
            json!({"scheme": scheme, "workload": "w", "machine": "m", "ipc": ipc, "config": config})
                .to_string()
        })
        .join("\n")
}

fn results((key, values): Key<'_>, speeds: &[f64]) -> Vec<RunResult> {
    let all = values.iter().zip(speeds).map(|(value, ipc)| lines(&setting((key, value)), *ipc));
    read_results(&all.collect::<Vec<_>>().join("\n")).unwrap()
}

/// Results for all pairs of values of two options; `speeds` are the IPCs by value of the first option.
fn grid(first: Key<'_>, second: Key<'_>, speeds: &[&[f64]]) -> Vec<RunResult> {
    let mut all = Vec::new();
    for (value, speeds) in first.1.iter().zip(speeds) {
        for (other, ipc) in second.1.iter().zip(*speeds) {
            let mut varied = setting((first.0, value));
            varied["second"] = setting((second.0, other));
            all.push(lines(&varied, *ipc));
        }
    }
    read_results(&all.join("\n")).unwrap()
}

fn sentences_of(results: &[RunResult]) -> Vec<String> {
    let vocabulary = vocabulary();
    sentences(&Table::of(&comparisons(results, &vocabulary)).unwrap())
}

#[test]
fn a_row_for_each_value_and_scheme() {
    let results = results(("tlb.l2.entries", &["8", "16"]), &[0.2, 0.25]);
    let vocabulary = vocabulary();
    let text = varied_table(&results, &vocabulary, 100).unwrap();
    let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(last, ["16", "thp", "0.500", "+25.0", "%", "+100.0", "%"], "{text}");
    assert!(text.contains("over 8") && text.contains("over 4k"), "{text}");
    let found = comparisons(&results, &vocabulary);
    assert_eq!(found[1].difference, "tlb.l2.entries 16");
    let table = Table::of(&found).unwrap();
    let chart = table.chart(&table.all(), &vocabulary);
    assert!(chart["encoding"]["x"]["type"] == "quantitative", "lines over numbers: {chart}");
    let options = ReportOptions { vocabulary, ..ReportOptions::default() };
    assert!(html(&results, &options).contains("id=\"values\""));
}

#[test]
fn the_terminal_says_the_answer_before_the_table() {
    let results = results(("tlb.l2.entries", &["8", "16"]), &[0.2, 0.25]);
    let text = varied_table(&results, &vocabulary(), 80).unwrap();
    // 0.25 ÷ 0.2, and 0.5 ÷ 0.4.
    let expected = "From 8 to 16, tlb.l2.entries makes 4k 25.0 % faster (IPC 0.200 to 0.250).\n\
                    The others from 8 to 16: thp +25.0 %.\n\n";
    let (before, table) = text.split_once(expected).expect(&text);
    assert!(before.starts_with("w · machine m") && table.contains("over 8"), "{text}");
}

/// Four schemes besides the first are named, and the rest is counted.
#[test]
fn other_schemes_are_named_up_to_four() {
    let said = |others: usize| {
        let run = |(value, ipc): (&str, f64), scheme: usize| {
            json!({"scheme": format!("s{scheme}"), "workload": "w", "machine": "m", "ipc": ipc,
                "config": {"varied": setting(("entries", value))}})
            .to_string()
        };
        let runs = [("1", 0.2), ("2", 0.3)];
        let lines = runs.into_iter().flat_map(|value| (0..=others).map(move |n| run(value, n)));
        sentences_of(&read_results(&lines.collect::<Vec<_>>().join("\n")).unwrap()).pop().unwrap()
    };
    let four = "s1 +50.0 %, s2 +50.0 %, s3 +50.0 %, s4 +50.0 %";
    assert_eq!(said(4), format!("The others from 1 to 2: {four}."));
    assert_eq!(said(5), format!("The others from 1 to 2: {four}, and 1 more in the table."));
    assert_eq!(said(7), format!("The others from 1 to 2: {four}, and 3 more in the table."));
}

#[test]
fn where_a_key_stops_mattering() {
    let first = |key, values: &[&str], speeds: &[f64]| {
        sentences_of(&results((key, values), speeds)).remove(0)
    };
    // Values are in no order: 2048 is the largest, 0.4 ÷ 0.2 = 2, and 0.399 is within 1 % of 0.4.
    assert_eq!(
        first("entries", &["1024", "512", "2048", "256"], &[0.399, 0.3, 0.4, 0.2]),
        "From 256 to 2048, entries makes 4k 100.0 % faster (IPC 0.200 to 0.400); from 1024 on, it \
         changes by less than 1 %."
    );
    assert_eq!(
        first("entries", &["256", "512", "1024"], &[0.5, 0.45, 0.4]),
        "From 256 to 1024, entries makes 4k 20.0 % slower (IPC 0.500 to 0.400); it still matters at \
         1024: −11.1 % from 512."
    );
    assert_eq!(
        first("entries", &["256", "512"], &[0.5, 0.501]),
        "No value of entries changes the speed of any scheme by 1 % or more (at most 0.2 %, 4k: IPC \
         0.500 to 0.501)."
    );
    assert_eq!(
        first("entries", &["1", "2", "3"], &[0.2, 0.3, 0.2]),
        "entries changes the speed of 4k by up to 50.0 %: IPC 0.300 with 2, 0.200 with 1."
    );
    assert_eq!(
        first("defrag", &["never", "always"], &[0.2, 0.3]),
        "defrag changes the speed of 4k by up to 50.0 %: IPC 0.300 with always, 0.200 with never."
    );
}

/// Results of schemes for two values of an option, with three seeds of each: the figures of a scheme are
/// those for the first value and for the second one.
fn seeded(
    values: [&str; 2],
    schemes: &[(&str, [f64; 3], [f64; 3])],
    figure: &str,
) -> Vec<RunResult> {
    let mut all = Vec::new();
    for (place, value) in values.into_iter().enumerate() {
        for (scheme, first, second) in schemes {
            for (seed, number) in [first, second][place].iter().enumerate() {
                let mut line = json!({
                    "scheme": scheme, "workload": "w", "machine": "m", "seed": seed,
                    "instructions": 1000, "counters": {},
                    "config": {"varied": setting(("limit", value))},
                });
                match figure {
                    "ipc" => line["ipc"] = json!(number),
                    counter => line["counters"][counter] = json!(number),
                }
                all.push(line.to_string());
            }
        }
    }
    read_results(&all.join("\n")).unwrap()
}

/// An option of one scheme: the sentence is about that scheme wherever it stands, with the spread of the seeds.
#[test]
fn the_first_sentence_is_about_the_scheme_that_changes_most() {
    let same = [0.2, 0.21, 0.22];
    let results = seeded(
        ["few", "many"],
        &[
            ("4k", same, same),
            ("thp", [0.3; 3], [0.301; 3]),
            ("perforated", [0.4; 3], [0.5, 0.52, 0.54]),
        ],
        "ipc",
    );
    // Ratios 1.25, 1.3 and 1.35: 4.303 × 0.05 ÷ √3 = 0.124.
    assert_eq!(
        sentences_of(&results),
        [
            "limit changes the speed of perforated most, by up to 30.0 ± 12.4 %: IPC 0.520 with many, 0.400 \
             with few.",
            "It changes no other scheme by 1 % or more.",
        ]
    );
    let results = seeded(
        ["1", "2"],
        &[
            ("4k", [0.2; 3], [0.21; 3]),
            ("perforated", [0.4; 3], [0.3; 3]),
            ("thp", [0.3; 3], [0.3; 3]),
        ],
        "ipc",
    );
    assert_eq!(
        sentences_of(&results),
        [
            "From 1 to 2, limit changes the speed of perforated most: 25.0 ± <0.1 % slower (IPC 0.400 to \
             0.300).",
            "The others from 1 to 2: 4k +5.0 ± <0.1 %; thp by less than 1 %.",
        ]
    );
}

/// A bound is the subject of the first sentence only if nothing else changes. A larger difference than that of
/// others may be chance, too.
#[test]
fn neither_bounds_nor_chance_come_first() {
    let results = seeded(
        ["1", "2"],
        &[
            ("4k", [0.2; 3], [0.22; 3]),
            ("thp", [0.3, 0.4, 0.5], [0.6, 0.4, 0.3]),
            ("ideal", [0.4; 3], [0.8; 3]),
        ],
        "ipc",
    );
    let found = sentences_of(&results);
    assert_eq!(found[0], "From 1 to 2, limit makes 4k 10.0 ± <0.1 % faster (IPC 0.200 to 0.220).");
    let results =
        seeded(["1", "2"], &[("4k", [0.2; 3], [0.2; 3]), ("ideal", [0.4; 3], [0.8; 3])], "ipc");
    let found = sentences_of(&results);
    assert!(
        found[0].starts_with("From 1 to 2, limit changes the speed of ideal most: 100.0"),
        "{found:?}"
    );
    let chance = [("4k", [0.2, 0.25, 0.3], [0.3, 0.24, 0.2]), ("thp", [0.3; 3], [0.3; 3])];
    let found = sentences_of(&seeded(["1", "2"], &chance, "ipc"));
    let expected = "From 1 to 2, limit changes the speed of any scheme by nothing that this run can show (4k: \
                    IPC 0.250 to 0.240).";
    assert_eq!(found, [expected]);
}

/// Walks are compared by their number: a scheme with few walks does not come first.
#[test]
fn walks_have_the_spread_of_seeds() {
    let schemes = [
        ("4k", [40.0, 41.0, 39.0], [20.0, 20.5, 19.5]),
        ("perforated", [0.4; 3], [0.1; 3]),
        ("thp", [8.0, 10.0, 12.0], [9.0, 10.0, 11.0]),
    ];
    let results = seeded(["1", "2"], &schemes, "walks");
    assert_eq!(
        sentences_of(&results),
        [
            "From 1 to 2, limit changes the walks of 4k by −50.0 ± <0.1 % (40.00 to 20.00 walks/1000 \
             instructions).",
            "The others from 1 to 2: perforated -75.0 ± <0.1 %, thp ~0 ± 26.0 %.",
        ]
    );
    let text = varied_table(&results, &vocabulary(), 100).unwrap();
    assert!(text.contains("~0 ± 26.0 %") && text.contains("half of the 95 % interval"), "{text}");
}

#[test]
fn walks_where_there_is_no_clock() {
    let line = |value: &str, walks: u64| {
        let varied = setting(("entries", value));
        json!({
            "scheme": "4k", "workload": "w", "machine": "m", "instructions": 1000,
            "counters": {"walks": walks}, "config": {"varied": varied},
        })
        .to_string()
    };
    let text = [line("1", 40), line("2", 10)].join("\n");
    assert_eq!(
        sentences_of(&read_results(&text).unwrap()),
        ["From 1 to 2, entries changes the walks of 4k by −75.0 % (40.00 to 10.00 walks/1000 \
          instructions)."]
    );
}

#[test]
fn two_keys_make_a_grid() {
    let (entries, memory) = (("entries", &["8", "16"][..]), ("memory", &["4G", "16G"][..]));
    let results = grid(entries, memory, &[&[0.2, 0.1], &[0.25, 0.1]]);
    assert_eq!(
        sentences_of(&results),
        [
            "With memory 4G: from 8 to 16, entries makes 4k 25.0 % faster (IPC 0.200 to 0.250).",
            "With memory 16G: no value of entries changes the speed of any scheme at all."
        ]
    );
    let vocabulary = vocabulary();
    let text = varied_table(&results, &vocabulary, 80).unwrap();
    let grid = "IPC of 4k, entries down and memory across\n       4G    16G\n";
    assert!(text.contains(grid) && text.contains("\n16  0.250  0.100\n"), "{text}");
    let found = comparisons(&results, &vocabulary);
    assert_eq!(found[1].difference, "entries 8, memory 16G");
    let table = Table::of(&found).unwrap();
    let figures = table.figures(&vocabulary);
    let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["values-chart", "values-chart-2"], "a chart for each scheme");
    let curves: Vec<String> =
        table.series(&table.all(), &vocabulary).into_iter().map(|one| one.label).collect();
    assert_eq!(curves, ["memory 4G", "memory 16G"], "a curve for each value of the second");
    let last = table.rows.last().unwrap();
    assert_eq!(last.over_first_value.unwrap().mean, 1.0, "over 8 with the same memory");
    let options = ReportOptions { vocabulary, ..ReportOptions::default() };
    let page = html(&results, &options);
    assert!(page.contains("id=\"values-chart-2\"") && page.contains("entries and memory"));
}

#[test]
fn a_page_of_many_values_has_their_chart_and_table_only() {
    let values: Vec<String> = (1..=33).map(|value| value.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let page = |count: usize| {
        let results = results(("entries", &values[..count]), &vec![0.2; count]);
        html(&results, &ReportOptions { vocabulary: vocabulary(), ..ReportOptions::default() })
    };
    assert!(page(32).contains("id=\"c31\"") && page(32).contains("href=\"#c31\""));
    let many = page(33);
    assert!(many.contains("id=\"values-table\"") && many.contains("these 33 comparisons are in"));
    assert!(!many.contains("id=\"c0\"") && !many.contains("href=\"#c0\""));
}

#[test]
fn names_have_bars() {
    let results = results(("defrag", &["never", "always"]), &[0.2, 0.2]);
    let vocabulary = vocabulary();
    let found = comparisons(&results, &vocabulary);
    let table = Table::of(&found).unwrap();
    let chart = table.chart(&table.all(), &vocabulary);
    assert_eq!(chart["encoding"]["y"]["scale"]["domain"][1], "always", "{chart}");
    let text = varied_table(&results, &vocabulary, 100).unwrap();
    assert!(text.contains("0 %") && !text.contains("+0.0"), "{text}");
}

#[test]
fn results_of_one_value_each_are_no_table_of_values() {
    let text = r#"{"scheme":"4k","workload":"w","ipc":0.5,"config":{}}"#;
    let results = read_results(text).unwrap();
    assert!(varied_table(&results, &vocabulary(), 100).is_none());
}

/// A scheme compared with itself is no measurement: its speed is 1 without an interval.
#[test]
fn the_first_scheme_has_no_interval_over_itself() {
    let seeds = [0.0, 0.02, 0.04].map(|more| lines(&setting(("a", "1")), 0.2 + more));
    let others = [0.0, 0.01, 0.03].map(|more| lines(&setting(("a", "2")), 0.3 + more));
    let numbered = seeds.iter().chain(&others).enumerate().map(|(number, text)| {
        text.replace("{\"config\"", &format!("{{\"seed\":{},\"config\"", number % 3))
    });
    let text = numbered.collect::<Vec<_>>().join("\n");
    assert!(text.contains("\"seed\":2,"), "{text}");
    let results = read_results(&text).unwrap();
    let vocabulary = vocabulary();
    let found = comparisons(&results, &vocabulary);
    let table = Table::of(&found).unwrap();
    for row in &table.rows {
        let over = row.over_first_scheme.unwrap();
        assert_eq!(over.half_width_95.is_some(), row.scheme != "4k", "{} {over:?}", row.scheme);
        assert_eq!(over.mean, if row.scheme == "4k" { 1.0 } else { 2.0 });
    }
}
