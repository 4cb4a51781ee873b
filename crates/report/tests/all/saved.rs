//! Figures as files: the page's own, drawn without a browser.

use perforate_records::{read_experiments, read_results};
use perforate_report::{SavedFigure, experiments_figures, figures, html};
use roxmltree::Document;

use crate::document::{data, table};
use crate::records;
use crate::vocabulary::options;
use crate::why;

fn words_of(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts.filter_map(|node| node.text().map(str::to_owned)).collect()
}

/// A picture that needs nothing else, of a size that is known.
fn check(figure: &SavedFigure) {
    let SavedFigure { id, svg, csv, .. } = figure;
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{id}: {error}"));
    let root = document.root_element();
    let size = |name| root.attribute(name).unwrap().parse::<f64>().unwrap();
    assert!(size("width") >= 300.0 && size("height") >= 20.0, "{id}");
    assert!(!svg.contains("var(") && !svg.contains("NaN"), "{id}");
    assert!(csv.lines().count() > 1, "{id}");
}

#[test]
fn each_figure_of_a_comparison_is_a_picture_and_its_data() {
    let results = read_results(&why::three_runs().join("\n")).unwrap();
    let options = options("t", "");
    let (page, saved) = (html(&results, &options), figures(&results, &options).unwrap());
    saved.iter().for_each(check);
    let mut ids: Vec<&str> = saved.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids[..3], ["c0-ipc-to-reference", "c0-why", "c0-cycle-stack"]);
    ids.sort_unstable();
    assert_eq!(ids, data(&page)["figures"].as_object().unwrap().keys().collect::<Vec<_>>());
    for figure in &saved {
        let (head, rows) = table(&page, &figure.id);
        let fields: Vec<Vec<&str>> =
            figure.csv.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(
            (&fields[0], fields.len()),
            (&head.iter().map(String::as_str).collect(), rows.len() + 1)
        );
        assert_eq!(fields[1], rows[0].iter().map(String::as_str).collect::<Vec<_>>());
    }
    assert_eq!(saved, figures(&results, &options).unwrap(), "the same results, the same bytes");
}

/// Titles become parts of expressions, in which they must not end a text.
#[test]
fn titles_of_any_letters_can_be_drawn() {
    let results = read_experiments(&records::odd_labels().text()).unwrap();
    let saved = experiments_figures(&results, &options("t", "")).unwrap();
    saved.iter().for_each(check);
    assert_eq!(saved.len(), 3);
    let words = words_of(&saved[0].svg);
    assert!(words.iter().any(|word| word.starts_with("a\u{2216}\"b\u{2216}' + ")), "{words:?}");
    assert!(["64", "128"].iter().all(|tick| words.iter().any(|word| word == tick)), "{words:?}");
}

/// From 4 cycles to 1.5 by the parts that `why` has worked out by hand.
#[test]
fn the_waterfall_says_its_numbers() {
    let results = read_results(&why::three_runs()[..2].join("\n")).unwrap();
    let saved = figures(&results, &options("t", "")).unwrap();
    let waterfall = saved.iter().find(|figure| figure.id == "c0-why").unwrap();
    let words = words_of(&waterfall.svg);
    for number in ["4.000", "+0.100", "−0.750", "−2.250", "+0.150", "+0.500", "−0.250", "1.500"]
    {
        assert_eq!(words.iter().filter(|word| *word == number).count(), 1, "{number}: {words:?}");
    }
    assert!(words.contains(&"All time: 10.00 → 7.00 cycles per access".to_owned()), "{words:?}");
}

#[test]
fn figures_of_experiments_are_drawn_too() {
    let results = read_experiments(&records::all()).unwrap();
    let saved = experiments_figures(&results, &options("t", "")).unwrap();
    assert!(saved.len() > 2);
    saved.iter().for_each(check);
}

#[test]
fn without_figures_there_are_no_files() {
    let results = read_results(r#"{"scheme":"4k","workload":"w"}"#).unwrap();
    assert_eq!(figures(&results, &options("t", "")).unwrap(), []);
}
