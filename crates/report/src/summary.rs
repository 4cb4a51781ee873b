//! Short summaries of comparisons for notebooks and scripts, which present them in their own way.

use maud::{Markup, html};
use perforate_records::{Interval, RunResult, Vocabulary};
use serde::Serialize;

use crate::answer::answer;
use crate::comparison::{Comparison, MOST_COLUMNS, comparisons};
use crate::metric::{Metric, metrics};
use crate::palette;

/// Summary of one comparison: its answer and its main figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the workload with its parameters, or name of the trace.
    pub workload: String,
    /// Name of the machine model.
    pub machine: String,
    /// Settings that distinguish this comparison from others in the results; empty if there are none.
    pub difference: String,
    /// Answer of the comparison, one sentence per element.
    pub answer: Vec<String>,
    /// Name of the scheme that speeds are relative to, as in headings.
    pub reference: String,
    /// Summaries of the schemes, in the order of the comparison.
    pub schemes: Vec<SchemeSummary>,
    /// Indices of the comparison's runs in the list of results.
    pub places: Vec<usize>,
}

/// Summary of a scheme in a comparison. Figures are medians over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SchemeSummary {
    /// Name of the scheme.
    pub name: String,
    /// Colour of the scheme in all charts, as `#rrggbb`.
    pub colour: &'static str,
    /// Speed relative to the reference scheme; 1 is equal speed.
    pub speed: Option<Interval>,
    /// Share of the scheme's time, 0–1, that free translation would save. `None` if neither free translation
    /// nor ideal large pages were run, and for the scheme used as the bound.
    pub saving: Option<Interval>,
    /// Share of the scheme's time, 0–1, that is spent waiting for address translation.
    pub translation_share: Option<Interval>,
}

/// Returns a summary of each comparison in these results.
pub fn summaries(results: &[RunResult], vocabulary: &Vocabulary) -> Vec<Summary> {
    let found = comparisons(results, vocabulary);
    found
        .iter()
        .map(|comparison| Summary { places: places(comparison, results), ..summary(comparison) })
        .collect()
}

/// Returns the indices of a comparison's runs in the list of results.
fn places(comparison: &Comparison<'_>, results: &[RunResult]) -> Vec<usize> {
    let runs = || comparison.schemes.iter().flat_map(|scheme| &scheme.runs);
    let is_of_it = |result: &RunResult| runs().any(|&run| std::ptr::eq(run, result));
    (0..results.len()).filter(|&place| is_of_it(&results[place])).collect()
}

/// Returns the speed of `scheme` divided by that of `other`, in the first comparison of these results. The
/// interval is from paired batches of their runs. `None` if a scheme is missing or not timed.
pub fn speed_over(
    results: &[RunResult],
    vocabulary: &Vocabulary,
    scheme: &str,
    other: &str,
) -> Option<Interval> {
    let found = comparisons(results, vocabulary);
    let comparison = found.first()?;
    let place = |name: &str| comparison.schemes.iter().position(|one| one.name == name);
    comparison.speed(place(scheme)?, place(other)?)
}

fn summary(comparison: &Comparison<'_>) -> Summary {
    let scheme = |index: usize| {
        let runs = &comparison.schemes[index];
        SchemeSummary {
            name: runs.name.to_owned(),
            colour: palette::light(runs.colour),
            speed: comparison.speed(index, comparison.reference),
            saving: comparison.saving(index),
            translation_share: comparison.translation_share(index),
        }
    };
    Summary {
        workload: comparison.workload.to_owned(),
        machine: comparison.machine.to_owned(),
        difference: comparison.difference.clone(),
        answer: answer(comparison).iter().map(|sentence| sentence.text()).collect(),
        reference: comparison.reference_name().to_owned(),
        schemes: (0..comparison.schemes.len()).map(scheme).collect(),
        places: Vec::new(),
    }
}

/// Returns the answer and the main figures of each comparison as HTML for use in any page. The HTML has no
/// style sheet and no script, and inherits the page's colours. All text is escaped.
pub fn summary_html(results: &[RunResult], vocabulary: &Vocabulary) -> String {
    let found = comparisons(results, vocabulary);
    let several = found.len() > 1;
    let pieces = found.iter().map(|comparison| piece(comparison, several));
    html! { div { @for piece in pieces { (piece) } } }.into_string()
}

fn piece(comparison: &Comparison<'_>, is_named: bool) -> Markup {
    let sentences = answer(comparison);
    html! {
        @if is_named { p { b { (comparison.name()) } } }
        p { @for sentence in &sentences { (sentence.markup()) " " } }
        (table(comparison))
    }
}

fn table(comparison: &Comparison<'_>) -> Markup {
    let mut main = metrics(comparison);
    main.retain(|metric| metric.is_main);
    let schemes: Vec<usize> = (0..comparison.schemes.len()).collect();
    let name = |index: &usize| {
        let scheme = &comparison.schemes[*index];
        let style = format!("color:{}", palette::light(scheme.colour));
        html! { span style=(style) { "■" } " " (scheme.name) }
    };
    let label = |metric: &Metric| html! { (metric.label) };
    let cell = |index: usize, metric: &Metric| html! { td style=(RIGHT) { (metric.text(index)) } };
    html! {
        table {
            @if schemes.len() <= MOST_COLUMNS {
                thead { tr { th {} @for index in &schemes { th style=(RIGHT) { (name(index)) } } } }
                tbody { @for metric in &main { tr {
                    th style=(LEFT) { (label(metric)) }
                    @for index in &schemes { (cell(*index, metric)) }
                } } }
            } @else {
                thead { tr { th {} @for metric in &main { th style=(RIGHT) { (label(metric)) } } } }
                tbody { @for index in &schemes { tr {
                    th style=(LEFT) { (name(index)) }
                    @for metric in &main { (cell(*index, metric)) }
                } } }
            }
        }
    }
}

const LEFT: &str = "text-align:left";
const RIGHT: &str =
    "text-align:right;padding-left:1.2em;white-space:nowrap;font-variant-numeric:tabular-nums";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::tests::vocabulary;
    use perforate_records::read_results;

    fn lines() -> Vec<RunResult> {
        let line = |scheme: &str, cycles: u64, stall: u64| {
            format!(
                r#"{{"scheme":"{scheme}","workload":"<w>","machine":"m","seed":1,"instructions":100,"cycles":{cycles},"ipc":{},"counters":{{"translation_stall_cycles":{stall}}}}}"#,
                100.0 / cycles as f64
            )
        };
        read_results(&[line("4k", 200, 80), line("thp", 100, 10)].join("\n")).unwrap()
    }

    #[test]
    fn speeds_are_relative_to_4kb_pages() {
        let found = summaries(&lines(), &vocabulary());
        let [one] = &found[..] else { panic!("one comparison") };
        assert_eq!((one.workload.as_str(), one.reference.as_str()), ("<w>", "4KB"));
        assert!(one.answer[0].contains("40.0 %"), "{:?}", one.answer);
        let [base, large] = &one.schemes[..] else { panic!("two schemes") };
        assert_eq!((base.name.as_str(), base.speed.unwrap().mean), ("4k", 1.0));
        assert_eq!(large.speed.unwrap().mean, 2.0);
        assert_eq!(large.translation_share.unwrap().mean, 0.1);
        assert!(base.colour.starts_with('#') && base.colour != large.colour);
    }

    #[test]
    fn any_two_schemes_are_compared() {
        let (results, vocabulary) = (lines(), vocabulary());
        let speed = |one, other| speed_over(&results, &vocabulary, one, other);
        assert_eq!(speed("4k", "thp").unwrap().mean, 0.5);
        assert_eq!(speed("4k", "tph"), None);
    }

    #[test]
    fn each_comparison_knows_its_runs() {
        let results = [lines(), lines()].concat();
        let found = summaries(&results, &vocabulary());
        let places: Vec<_> = found.iter().map(|one| one.places.clone()).collect();
        assert_eq!(places, [[0, 1], [2, 3]]);
    }

    #[test]
    fn the_piece_begins_with_the_answer_and_is_escaped() {
        let text = summary_html(&lines(), &vocabulary());
        assert!(text.starts_with("<div><p>"), "{text}");
        assert!(text.contains("&lt;w&gt;") && !text.contains("<w>"), "{text}");
        assert!(text.contains("<strong>40.0 %</strong>") && text.contains("2.00×"), "{text}");
        assert!(!text.contains("<script") && !text.contains("<style"), "{text}");
    }
}
