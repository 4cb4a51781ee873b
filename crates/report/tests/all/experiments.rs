//! Experiments on the page and in the terminal.

use crate::document::{
    chart, check, data, element, find, legend, marks, markup, strings, table, text,
};
use crate::records;
use crate::vocabulary::options;
use perforate_records::{ExperimentResults, read_experiments};
use perforate_report::{Tally, experiments_html, experiments_table};
use roxmltree::Node;
use serde_json::json;

fn read(lines: &str) -> ExperimentResults {
    read_experiments(lines).unwrap()
}

fn page(lines: &str) -> String {
    let options = options("T", "perforate experiment all");
    let page = experiments_html(&read(lines), &options);
    assert_eq!(page, experiments_html(&read(lines), &options), "same results, same bytes");
    page
}

/// Texts of the cells of every row of the table with this label.
fn rows(document: &roxmltree::Document<'_>, label: &str) -> Vec<Vec<String>> {
    let region = document.descendants().find(|node| node.attribute("aria-label") == Some(label));
    let rows = region.expect(label).descendants().filter(|node| node.has_tag_name("tr"));
    rows.skip(1).map(|row| row.children().map(text).collect()).collect()
}

fn with_class<'a>(node: Node<'a, 'a>, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    node.descendants().filter(move |node| {
        node.attribute("class").is_some_and(|all| all.split(' ').any(|one| one == class))
    })
}

#[test]
fn claims_are_counted_in_all_and_by_paper() {
    let tally = Tally { reproduced: 3, same_direction: 1, not_reproduced: 1 };
    assert_eq!(Tally::of(&read(&records::lines().text()).experiments[0].claims), tally);
    check(&page(&records::all()), |document| {
        let expected = [
            // Of P-C7 both claims are reproduced, P-C8 and P-C9 are not, P-C11 is.
            ["P: perforated pages", "5", "3", "1", "1", "4", "2"],
            ["all", "9", "5", "1", "3", "8", "4"],
        ];
        let rows = rows(document, "Claims by paper");
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[2], expected[0]);
        assert_eq!(rows[3], expected[1]);
        let headline = with_class(document.root(), "headline").next().unwrap();
        assert_eq!(
            text(headline),
            "5 of 9 claims reproduced, 1 in the same direction only, 3 not reproduced; furthest from \
             the paper: P-C9, ours +55.3 %, the paper's +59.4 %."
        );
    });
}

/// Of many experiments the page has a line each at first.
#[test]
fn many_experiments_are_made_when_they_are_opened() {
    let all = records::all();
    let named = |number: usize| {
        let numbered = |name: &str| format!("{name}-{number}");
        let names = ["perforated/fig7", "direct/fig11"];
        names.iter().fold(all.clone(), |text, name| text.replace(name, &numbered(name)))
    };
    let many = page(&(0..10).map(named).collect::<Vec<_>>().join("\n"));
    let first = markup(&many);
    let elements = |text: &str| text.matches("</").count();
    assert!(first.contains("<details class=\"part\" id=\"e-perforated-fig7-3\">"));
    // The one figure is what became of all claims.
    assert_eq!(first.matches("<figure").count(), 1);
    assert!(
        first.contains("<figure id=\"verdicts\"") && !first.contains("Not explained in its file.")
    );
    check(&many, |document| {
        assert!(find(document, "e-perforated-fig7-3-chart-0").is_some());
        let whole = document.descendants().filter(|node| node.is_element()).count();
        assert!(3 * elements(&first) < 2 * whole, "{} of {whole}", elements(&first));
    });
}

#[test]
fn every_claim_is_in_the_summary_with_both_numbers() {
    check(&page(&records::all()), |document| {
        let rows = rows(document, "All claims");
        assert_eq!(rows.len(), 9);
        let row = |place: usize| rows[place].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(
            row(0),
            [
                "P-C7",
                "Statement of P-C7",
                "+59.4 %",
                "+55.3 %",
                "+54.0 % – +56.1 %",
                "✓ reproduced",
                "perforated/fig7"
            ]
        );
        assert_eq!(row(1)[2], "≥ +20.0 %");
        assert_eq!(row(4)[2..4], ["93.20 % to 99.90 %", "94.00 % to 99.50 %"]);
        assert_eq!(row(6)[2..4], ["3.60×", "3.50×"]);
        assert_eq!(row(7)[2..4], ["2,097,152", "2,097,152"]);
        assert_eq!(row(8)[2..4], ["–", "–"]);
        for node in document.descendants() {
            let target = node.attribute("href").and_then(|href| href.strip_prefix('#'));
            assert!(target.is_none_or(|id| find(document, id).is_some()), "{target:?}");
        }
    });
}

/// A single experiment shows its claims next to its charts.
#[test]
fn the_furthest_claims_are_listed_for_several_experiments_only() {
    for (lines, is_listed) in [(records::all(), true), (records::lines().text(), false)] {
        check(&page(&lines), |document| {
            let mut labels = document.descendants().filter_map(|node| node.attribute("aria-label"));
            assert_eq!(labels.any(|label| label == "Furthest from the papers"), is_listed);
        });
    }
}

#[test]
fn what_is_not_reproduced_says_why() {
    check(&page(&records::all()), |document| {
        let list = with_class(document.root(), "explanations").next().unwrap();
        let items: Vec<String> = list.children().map(text).collect();
        assert_eq!(items.len(), 3);
        assert!(items[0].contains("P-C9") && items[0].contains("Memory is faster here."));
        assert!(items[1].contains("D-C2") && items[1].contains("Not explained in its file."));
        let rows = rows(document, "Stand-ins");
        assert_eq!(rows[0], ["mcf", "a route planner", "direct/fig11"]);
    });
    // What the file says in advance of a measurement goes before what the measurement noted.
    let explained = r#""explanation":"Memory is faster here.""#;
    let noted = records::all().replace(r#""note":null"#, r#""note":"Noted here.""#);
    assert!(noted.contains(explained) && noted.contains("Noted here."));
    check(&page(&noted), |document| {
        let list = with_class(document.root(), "explanations").next().unwrap();
        let items: Vec<String> = list.children().map(text).collect();
        assert!(items[0].contains("Memory is faster here. (Not tested.)"), "{}", items[0]);
        assert!(!items[0].contains("Noted") && items[1].contains("Noted here."), "{items:?}");
    });
}

#[test]
fn charts_have_all_their_values() {
    let page = page(&records::all());
    let lines = chart(&page, "e-perforated-fig7-chart-0");
    assert_eq!(legend(&lines), ["4k", "thp", "perforated", "perforated-dispersed"]);
    assert_eq!(marks(&lines).len(), 40, "points of claims are on the line, too");
    assert_eq!(lines["layer"][0]["mark"]["type"], "area", "bands of four lines are seen apart");
    let bars = chart(&page, "e-direct-fig11-chart-0");
    assert_eq!(marks(&bars).len(), 9);
    let known = marks(&bars).iter().filter(|mark| mark["low"].is_number());
    assert_eq!(known.count(), 8, "one has no value");
    let said = |index: usize| {
        ["series", "place", "text", "interval"]
            .map(|name| marks(&bars)[index][name].as_str().unwrap())
    };
    assert_eq!(said(6), ["vmm-direct", "GUPS", "-40.0 %", "-45.0 % – -37.0 % (93.7 %)"]);
    assert_eq!(said(4)[2], "–", "what is missing is said: {:?}", said(4));
    let stack = chart(&page, "e-gtsm-table1-chart-0");
    assert_eq!(stack["encoding"]["y"]["scale"]["domain"].as_array().unwrap().len(), 8);
    assert_eq!(legend(&chart(&page, "e-perforated-many-chart-0")).len(), 20);
    assert_eq!(chart(&page, "e-perforated-many-chart-1")["layer"][0]["mark"]["type"], "rule");
    check(&page, |document| {
        assert!(find(document, "e-direct-empty-chart-0").is_none(), "nothing was measured");
    });
}

#[test]
fn curves_of_one_colour_differ_in_their_filling() {
    let bars = chart(&page(&records::many().text()), "e-perforated-many-chart-0");
    let looks = bars["usermeta"]["legend"].as_array().unwrap();
    let mut looks: Vec<String> = looks
        .iter()
        .map(|look| format!("{} {}", look["colour"], look["sign"]["filling"]))
        .collect();
    looks.sort();
    looks.dedup();
    assert_eq!(looks.len(), 20);
    assert_eq!(strings(&bars["usermeta"]["legend"], "colour")[0], "var(--c-series0)");
}

#[test]
fn data_have_units_in_their_headings() {
    let page = page(&records::all());
    let (head, rows) = table(&page, "e-perforated-fig7-chart-0");
    let expected = [
        "curve",
        "holes (%)",
        "value (gain in %)",
        "low (gain in %)",
        "high (gain in %)",
        "confidence (%)",
        "runs",
    ];
    assert_eq!(head, expected);
    // Second curve, x = 0.2: 1 + (0.8 - 0.2) / 2 = 1.3.
    assert_eq!(rows[12][..2], ["thp", "20"]);
    assert!((rows[12][2].parse::<f64>().unwrap() - 30.0).abs() < 1e-9, "{}", rows[12][2]);
    let (head, _) = table(&page, "e-gtsm-fig3-chart-0");
    let expected =
        ["curve", "retired frames (%)", "value (%)", "drawn (%)", "± 95 % (%)", "draws", "agree"];
    assert_eq!(head, expected);
}

#[test]
fn a_section_says_how_it_was_made_and_how_to_make_it_again() {
    let page = page(&records::lines().text());
    check(&page, |document| {
        let section = text(element(document, "e-perforated-fig7"));
        for words in [
            "3 seeds from 7",
            "warm-up: 10M instructions, found from misses",
            "A note.",
            "perforate experiment run perforated/fig7",
            "Experiment file",
            "Medians of 3 runs with different seeds; least and greatest, which hold the true \
             median with at least 75 % confidence.",
        ] {
            assert!(section.contains(words), "{words}");
        }
        assert!(text(document.root()).contains("Written by perforate 9.9."));
    });
    let quick = records::Records::new("q", json!({"quick": true})).text();
    assert!(self::page(&quick).contains("perforate experiment run q --quick"));
    // An experiment of the user's has no name that could be run, but a file.
    let own = records::Records::new("mine/tlb", json!({"file": "my tlb.toml"})).text();
    check(&self::page(&own), |document| {
        let own = text(document.root());
        assert!(own.contains("perforate experiment run 'my tlb.toml'"), "{own}");
        assert!(own.contains("1 experiment without claims."), "{own}");
    });
}

#[test]
fn seeds_are_named_where_they_are_known() {
    for (seeds, seed, expected) in [
        (json!(1), json!(7), "X §1 · seed 7"),
        (json!(null), json!(7), "X §1 · seed 7"),
        (json!(2), json!(7), "X §1 · 2 seeds from 7"),
        (json!(0), json!(7), "X §1"),
        (json!(2), json!(null), "X §1"),
    ] {
        let text = records::Records::new("q", json!({"seeds": seeds, "seed": seed})).text();
        check(&page(&text), |document| {
            let about = with_class(document.root(), "about").next().unwrap();
            assert_eq!(self::text(about), format!("experiment q · {expected}"));
        });
    }
}

#[test]
fn experiments_with_one_numeric_axis_stand_side_by_side() {
    let lines = records::lines().text();
    let same = lines.replace("perforated/fig7", "perforated/fig8");
    let other = lines.replace("perforated/fig7", "x").replace("\"holes\"", "\"portion\"");
    // Equal but for the last place of the axis.
    let longer = lines.replace("perforated/fig7", "y").replace("\"x\":0.9", "\"x\":0.95");
    let page = page(&[lines, same, other, longer].join("\n"));
    check(&page, |document| {
        for name in ["fig7", "fig8"] {
            element(document, &format!("e-perforated-{name}-beside-chart-0"));
            element(document, &format!("e-perforated-{name}-chart-0"));
        }
        assert!(text(document.root()).contains("Side by side, over holes"));
    });
    assert!(!page.contains("id=\"e-x-beside") && !page.contains("id=\"e-y-beside"));
    assert!(!self::page(&records::lines().text()).contains("Side by side"));
}

#[test]
fn experiments_whose_names_differ_in_punctuation_have_anchors_of_their_own() {
    let lines = records::lines().text();
    let other = lines.replace("perforated/fig7", "perforated-fig7");
    check(&page(&[lines, other].join("\n")), |document| {
        element(document, "e-perforated-fig7--1-chart-0");
        let ids = document.descendants().filter_map(|node| node.attribute("id"));
        let mut ids: Vec<&str> = ids.collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    });
}

#[test]
fn a_table_for_the_terminal() {
    let text = experiments_table(&read(&records::lines().text()), 100);
    for line in [
        "perforated/fig7: Speed over the share of holes (X §1)\n",
        "          paper +59.4 %         ours +55.3 % (+54.0 % – +56.1 %)  reproduced\n",
        "          paper ≥ +20.0 %       ours +55.3 %                    reproduced\n",
        "          why: Memory is faster here. (Not tested.)\n",
        "\nclaims: 3 reproduced, 1 same direction, 1 not reproduced, of 5\n",
        "                     claims  reproduced  direction  not  ids fully\n",
        "\nP: perforated pages       5           3          1    1     2 of 4\n",
        "20.00 %  0 % (-4.00 % – +6.00 %)",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("\n30.00 %"), "points of claims are no rows: {text}");
    let all = experiments_table(&read(&records::all()), 100);
    assert!(
        all.contains("claims: 5 reproduced, 1 same direction, 3 not reproduced, of 9"),
        "{all}"
    );
    for text in [text, all, experiments_table(&read(&records::many().text()), 100)] {
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

/// Labels that differ at their end only stay apart, in headings and beside rows.
#[test]
fn long_labels_of_a_table_are_broken_not_cut() {
    let long = ["key-value store: a trace of zeus", "key-value store: a trace of redis"];
    let curve = |label: &&str| json!({"name": label, "label": label, "show": "ratio"});
    let places = ["a", "b", "c"].map(|end| format!("entries of the second-level TLB, {end}"));
    let text = |curves: &[&str]| {
        let mut records = records::Records::new(
            "x/y",
            json!({"title": "t", "axis_label": "what translates the misses, and how",
                "curves": curves.iter().map(curve).collect::<Vec<_>>()}),
        );
        for curve in curves {
            for place in &places {
                let point = json!({"curve": curve, "place": place, "on_axis": true, "value": 0.5});
                records = records.point(point);
            }
        }
        experiments_table(&read(&records.text()), 80)
    };
    let of_columns = text(&long);
    for end in ["of zeus", "of redis"] {
        let headings = format!(
            "\n{:<34}{:>26}\n{:<34}{end:>26}\n",
            "what translates the misses, and", "key-value store: a trace", "how"
        );
        assert!(of_columns.contains(&headings), "{of_columns}");
    }
    let last = format!("\nentries of the second-level TLB, c{:>26}\n", "0.50×");
    assert!(of_columns.contains(&last), "{of_columns}");
    let of_rows = text(&[&long[..], &["third", "fourth"]].concat());
    assert!(of_rows.contains("\nkey-value store: a trace of redis  "), "{of_rows}");
    assert!(of_rows.contains("level TLB, c\n"), "{of_rows}");
    for text in [of_columns, of_rows] {
        assert!(
            !text.contains('…') && text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}

#[test]
fn curves_stand_under_the_titles_of_their_charts() {
    let curve = |name: &str, label: &str| json!({"name": name, "label": label, "show": "ratio"});
    let chart =
        |title: &str, name: &str| json!({"title": title, "form": "lines", "curves": [name]});
    let mut records = records::Records::new(
        "x/y",
        json!({
            "title": "t", "axis_label": "holes", "axis_form": "share",
            "curves": [curve("a", "10 % holes"), curve("b", "10 % holes"),
                curve("c", "a quotient with a very long name"), curve("d", "d")],
            "charts": [chart("Clustered", "a"), chart("Dispersed", "b"), chart("Again", "b")],
        }),
    );
    for (name, value) in [("a", 2.0), ("b", 3.0), ("c", 4.0), ("d", 5.0)] {
        records = records.point(json!({"curve": name, "x": 0.5, "on_axis": true, "value": value}));
    }
    let text = experiments_table(&read(&records.text()), 100);
    for table in [
        "\nClustered\nholes    10 % holes\n───────────────────\n50.00 %       2.00×\n",
        "\nDispersed\nholes    10 % holes\n───────────────────\n50.00 %       3.00×\n",
        "\na quotient with a very long name    4.00×\nd                                   5.00×\n",
    ] {
        assert!(text.contains(table), "{table}\n{text}");
    }
    assert!(text.contains("\nOther values\n") && !text.contains("Again"), "{text}");
}

/// The title of the experiment says what a single table is of.
#[test]
fn the_only_table_has_no_title() {
    let curve = json!({"name": "a", "label": "a", "show": "ratio"});
    let chart = json!({"title": "Clustered", "form": "lines", "curves": ["a"]});
    let mut records = records::Records::new(
        "x/y",
        json!({"title": "t", "axis_label": "holes", "axis_form": "share", "curves": [curve],
            "charts": [chart]}),
    );
    records = records.point(json!({"curve": "a", "x": 0.5, "value": 2.0, "runs": 1}));
    let text = experiments_table(&read(&records.text()), 100);
    assert!(text.contains("2.00×") && !text.contains("Clustered"), "{text}");
}

#[test]
fn the_terminal_says_where_draws_disagree() {
    let text = experiments_table(&read(&records::closed_forms().text()), 100);
    assert!(text.contains("agrees with the closed form at 2 of 3 points"), "{text}");
    assert!(text.contains("2.00 %          0.10 % ≠ drawn 0.10 %"), "{text}");
    let text = experiments_table(&read(&records::empty().text()), 100);
    assert!(text.contains("No points were measured."), "{text}");
}

#[test]
fn hostile_texts_and_values_leave_the_page_whole() {
    let evil = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&\u{1b}";
    for value in [json!(0), json!(-1e308), json!(1e308), json!(5e-324), json!(null)] {
        for (form, place) in [("places", json!(evil)), ("number", json!(null))] {
            let chart = |form: &str| json!({"title": evil, "form": form, "value_label": evil, "curves": [evil, "?"]});
            let fields = json!({
                "title": evil, "source": evil, "notes": [evil], "axis_label": evil,
                "axis_form": form, "places": [[evil, evil]], "stand_ins": [[evil, evil]],
                "curves": [{"name": evil, "label": evil, "show": "gain"}],
                "charts": [chart("lines"), chart("bars"), chart("stacked"), chart(evil)],
                "warmup": evil, "config": {evil: evil}, "version": evil,
            });
            let point = json!({"curve": evil, "place": place, "x": value, "value": value,
                "low": value, "high": 1e308, "confidence": value, "runs": value});
            let claim = json!({"statement": evil, "paper": value, "ours": value, "note": evil,
                "relation": evil, "paper_high": value, "explanation": evil, "curve": evil});
            let records = records::Records::new(evil, fields).point(point).claim(
                evil,
                "not_reproduced",
                claim,
            );
            let page = page(&records.text());
            assert_eq!(page.matches("<script>").count(), 1);
            assert!(!page.contains("<img") && !page.contains('\u{1b}'));
            check(&page, |document| {
                let mut nodes = document.descendants();
                assert!(
                    nodes.all(|node| !node.attributes().any(|one| one.name().starts_with("on")))
                );
            });
            experiments_table(&read(&records.text()), 100);
        }
    }
}

/// A range for each of several places is drawn at these, the paper's mean at all places.
#[test]
fn ranges_and_means_of_the_paper_are_drawn() {
    let page = page(&records::ranges().text());
    let bands = |id: &str, of: &str| -> Vec<serde_json::Value> {
        let chart = chart(&page, id);
        let layers = chart["layer"].as_array().unwrap().iter();
        let own = layers.filter(|layer| layer["data"]["values"].is_array());
        let own = own.filter(|layer| layer["mark"]["type"] == of);
        own.flat_map(|layer| layer["data"]["values"].as_array().unwrap().clone()).collect()
    };
    let (gains, shares) = ("e-mine-ranges-chart-0", "e-mine-ranges-chart-1");
    let ranges = bands(gains, "bar");
    let places: Vec<_> = ranges.iter().map(|band| band["place"].as_str().unwrap()).collect();
    assert_eq!(places, ["mcf", "xz"]);
    let end = |end: &str| ranges[0][end].as_f64().unwrap();
    assert!((end("low") - 2.0).abs() < 1e-9 && (end("high") - 11.5).abs() < 1e-9);
    assert_eq!(bands(shares, "tick").len(), 3);
    assert!(bands(shares, "bar").is_empty() && bands(gains, "tick").is_empty());
    // The table below says which place a row is about.
    let (head, rows) = table(&page, gains);
    assert_eq!(head[..2], ["curve", "program"]);
    let places: Vec<_> = rows.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(places, ["mcf", "xz", "other"]);
    check(&page, |document| {
        let all = text(document.root_element());
        assert!(
            all.contains("Grey: the paper's range.") && all.contains("Dashed: the paper's mean.")
        );
    });
}

#[test]
fn joint_readings_are_said_in_words() {
    let text = experiments_table(&read(&records::joint()), 100);
    let joint = &text[text.find("One reading for all claims, P").unwrap()..];
    assert!(joint.lines().all(|line| line.chars().count() <= 80), "{joint}");
    for part in [
        "6 numbers and thresholds, each judged in a sample of 40 readings of 3 choices left open",
        "hold at the default 3",
        "hold in some reading, each alone 5",
        "hold together in the best reading 4",
        "hold in every reading 1",
        "hold in no reading 1",
        "The best reading differs from the default in - page walkers: walkers = 4 Claims that",
        "Claims that hold at the default and not there - P-C3 Statement of P-C3 (perforated/fig7)",
        "2 pairs never hold together, though each claim holds in some reading:",
        "Statement of P-C1 (perforated/fig7), in 13 of 40 readings; and P-C3 Statement of P-C3",
        "page walkers: walkers = 4 3.1 (2 to 4); default 2.5 (2 to 3); walkers = 2 1.5 (1 to 2)",
        "The best reading is a result and never a default",
        "One reading for all claims, G: gap-tolerant superpages",
        "1 number or threshold; none depends on anything that the paper leaves open.",
    ] {
        let words = joint.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(part), "{part}: {joint}");
    }
}

#[test]
fn joint_readings_have_a_chart_and_tables() {
    check(&page(&records::joint()), |document| {
        let label = |what: &str| format!("{what}: P: perforated pages");
        let counts = rows(document, &label("Claims that hold"));
        assert_eq!(counts[2], ["hold together in the best reading", "4"]);
        let claims = rows(document, &label("Claims in the best reading"));
        let first = ["P-C1", "Statement of P-C1", "+50.0 %", "+50.0 % ✗", "+70.0 % ✓", "13"];
        assert_eq!(claims[0], first);
        let links = document.descendants().filter_map(|node| node.attribute("href"));
        assert!(links.into_iter().any(|link| link == "#joint"));
    });
    let spec = chart(&page(&records::joint()), "joint-p-perforated-pages");
    let values: Vec<f64> =
        marks(&spec).iter().map(|mark| mark["value"].as_f64().unwrap()).collect();
    assert_eq!(values.len(), 42, "40 readings, and two ends of the line of the default");
    assert!(values[..40].is_sorted_by(|one, other| one >= other), "{values:?}");
}

/// Curves with one label have one style in all charts, as if they were one curve.
#[test]
fn curves_with_one_label_look_alike() {
    let looks = |other: &str| {
        let page = page(&records::same_labels(other).text());
        ["chart-0", "chart-1"].map(|title| {
            let data = data(&page);
            let figures = data["figures"].as_object().unwrap();
            let figure = figures.iter().find(|(id, _)| id.ends_with(title));
            figure.map(|(_, figure)| figure["chart"]["usermeta"]["legend"].clone())
        })
    };
    let one = looks("size");
    assert!(one[0].is_some());
    assert_eq!(looks("size-quick"), one);
}
