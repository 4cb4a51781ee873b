//! Notes of a comparison's results, with similar notes merged.

use perforate_sim::RunResult;
use perforate_types::counted;
use serde_json::Value;

/// A note of one scheme, and the names of other schemes whose notes have the same text with other numbers.
struct MergedNote<'a> {
    text: &'a str,
    /// Text of the note without the scheme's name and without numbers.
    pattern: String,
    scheme: &'a str,
    others: Vec<&'a str>,
    /// Values of the varied key whose results have this note.
    values: Vec<String>,
}

/// Lists the notes of all results, in order, each once. With `--vary`, a note names the values that it holds
/// for, and the descriptions of memory are one note.
///
/// With `details`, notes of several schemes that differ in numbers only are merged, and notes on how the
/// trace was made are only counted; `details` says where to find them.
pub fn merged_notes(results: &[RunResult], details: Option<&str>) -> Vec<String> {
    let all = details.is_none();
    let mut found: Vec<MergedNote<'_>> = Vec::new();
    let mut of_trace: Vec<&str> = Vec::new();
    let memory = memory_of_values(results);
    for result in results {
        let assumptions = assumptions(result);
        for text in result.notes.iter().skip(memory.iter().count()).map(String::as_str) {
            if !all && assumptions.contains(&text) {
                if !of_trace.contains(&text) {
                    of_trace.push(text);
                }
                continue;
            }
            let (scheme, pattern) = (result.scheme.as_str(), pattern(text, &result.scheme));
            let value = varied_value(result);
            let same = |known: &&mut MergedNote<'_>| {
                known.text == text || !all && known.pattern == pattern
            };
            let place = found.iter_mut().find(same);
            let known = match place {
                Some(known) => known,
                None => {
                    let (others, values) = (vec![], vec![]);
                    found.push(MergedNote { text, pattern, scheme, others, values });
                    found.last_mut().expect("one was pushed")
                }
            };
            if known.text != text && known.scheme != scheme && !known.others.contains(&scheme) {
                known.others.push(scheme);
            }
            let is_new = |value: &String| !known.values.contains(value);
            let value = value.filter(is_new);
            known.values.extend(value);
        }
    }
    let (key, all_values) = all_values(results);
    let merged = found.iter().map(|note| note.line(key, all_values));
    let mut lines: Vec<String> = memory.into_iter().chain(merged).collect();
    if let (Some(details), false) = (details, of_trace.is_empty()) {
        let remarks = counted(of_trace.len(), "remark");
        lines.push(format!("{remarks} on how the trace was made: {details}"));
    }
    lines
}

impl MergedNote<'_> {
    /// Text of the note, with the other schemes and the values of the varied key that it holds for.
    fn line(&self, key: Option<&str>, all_values: usize) -> String {
        let mut line = self.text.to_owned();
        if !self.others.is_empty() {
            line += &format!(" (similarly for {})", self.others.join(", "));
        }
        line + with_values(key, &self.values, all_values).as_str()
    }
}

/// Maximum number of pairs of values that a note names.
const MOST_PAIRS: usize = 3;

/// Phrase that names the values of the varied key, or pairs of a grid, that a note holds for; empty if it
/// holds for all.
fn with_values(key: Option<&str>, values: &[String], all_values: usize) -> String {
    let count = values.len();
    match key {
        _ if count >= all_values => String::new(),
        Some(key) => format!(" (with {key}={})", values.join(", ")),
        None if count <= MOST_PAIRS => format!(" (with {})", values.join("; ")),
        None => format!(" (with {count} of {all_values} pairs of values)"),
    }
}

/// Name of the varied key, if only one key is varied, and number of its values, or of pairs of values.
fn all_values(results: &[RunResult]) -> (Option<&str>, usize) {
    let mut values: Vec<String> = results.iter().filter_map(varied_value).collect();
    values.sort_unstable();
    values.dedup();
    let varied = results.iter().find_map(|result| result.config.get("varied"));
    let alone = varied.filter(|varied| varied.get("second").is_none());
    (alone.and_then(|varied| varied.get("key")?.as_str()), values.len())
}

/// Joins the descriptions of memory, which come first in the notes of each result, to one note. Phrases that
/// hold for all values are not repeated. `None` without `--vary`.
fn memory_of_values(results: &[RunResult]) -> Option<String> {
    let mut phrases: Vec<(&str, Vec<String>)> = Vec::new();
    for result in results {
        let value = varied_value(result)?;
        for phrase in result.notes.first()?.split("; ") {
            match phrases.iter_mut().find(|(known, _)| *known == phrase) {
                Some((_, values)) if values.contains(&value) => {}
                Some((_, values)) => values.push(value.clone()),
                None => phrases.push((phrase, vec![value.clone()])),
            }
        }
    }
    let (key, all_values) = all_values(results);
    let texts = phrases
        .iter()
        .map(|(phrase, values)| format!("{phrase}{}", with_values(key, values, all_values)));
    Some(texts.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

/// Value of the varied key in a result; for a grid, both keys with their values. `None` without `--vary`.
fn varied_value(result: &RunResult) -> Option<String> {
    let varied = result.config.get("varied")?;
    let text = |varied: &Value, name: &str| Some(varied.get(name)?.as_str()?.to_owned());
    let pair =
        |varied: &Value| Some(format!("{}={}", text(varied, "key")?, text(varied, "value")?));
    match varied.get("second") {
        None => text(varied, "value"),
        Some(second) => Some(format!("{}, {}", pair(varied)?, pair(second)?)),
    }
}

/// Removes the scheme's name and numbers from the text of a note about the scheme; other notes are not
/// changed.
fn pattern(text: &str, scheme: &str) -> String {
    let is_name = |word: &str| word.trim_matches(|c: char| ",:;".contains(c)) == scheme;
    if !text.split(' ').any(is_name) {
        return text.to_owned();
    }
    let words = text.split(' ').filter(|word| !is_name(word));
    let words = words.filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// Assumptions about the trace, from the metadata of its file.
fn assumptions(result: &RunResult) -> Vec<&str> {
    let listed = result.config.pointer("/workload/assumptions").and_then(|all| all.as_array());
    listed.into_iter().flatten().filter_map(|text| text.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Option<&str> = Some("--all prints them");

    fn results() -> Vec<RunResult> {
        let lines = [
            r#"{"scheme":"4k","workload":"w","notes":["the same","cycles of 4k change by 3 %","own"],"config":{"workload":{"assumptions":["own"]}}}"#,
            r#"{"scheme":"thp","workload":"w","notes":["the same","cycles of thp change by 5 %","own"],"config":{"workload":{"assumptions":["own"]}}}"#,
        ];
        perforate_records::read_results(&lines.join("\n")).unwrap()
    }

    #[test]
    fn the_same_of_several_schemes_is_said_once() {
        assert_eq!(
            merged_notes(&results(), SOME),
            [
                "the same",
                "cycles of 4k change by 3 % (similarly for thp)",
                "1 remark on how the trace was made: --all prints them"
            ]
        );
    }

    #[test]
    fn what_holds_for_some_values_names_them() {
        let line = |value: &str, memory: &str, note: &str| {
            format!(
                r#"{{"scheme":"4k","workload":"w","notes":["{memory}","{note}","the same"],"config":{{"varied":{{"key":"swap","value":"{value}"}}}}}}"#
            )
        };
        let lines = [
            line("1G", "1GB; swap of 1GB", "swapped"),
            line("2G", "1GB; swap of 2GB", "swapped"),
            line("none", "1GB", "full"),
        ];
        let results = perforate_records::read_results(&lines.join("\n")).unwrap();
        let expected = [
            "1GB; swap of 1GB (with swap=1G); swap of 2GB (with swap=2G)",
            "swapped (with swap=1G, 2G)",
            "the same",
            "full (with swap=none)",
        ];
        assert_eq!(merged_notes(&results, SOME), expected);
    }

    #[test]
    fn what_holds_for_some_pairs_of_a_grid_names_them() {
        let line = |entries: u64, memory: &str, note: &str| {
            format!(
                r#"{{"scheme":"4k","workload":"w","notes":["1GB","{note}"],"config":{{"varied":{{"key":"entries","value":"{entries}","second":{{"key":"memory","value":"{memory}"}}}}}}}}"#
            )
        };
        let lines = [
            line(8, "1G", "swapped"),
            line(8, "2G", "fits"),
            line(16, "1G", "swapped"),
            line(16, "2G", "fits"),
        ];
        let results = perforate_records::read_results(&lines.join("\n")).unwrap();
        let expected = [
            "1GB",
            "swapped (with entries=8, memory=1G; entries=16, memory=1G)",
            "fits (with entries=8, memory=2G; entries=16, memory=2G)",
        ];
        assert_eq!(merged_notes(&results, SOME), expected);
    }

    #[test]
    fn all_of_them_can_be_had() {
        let all = ["the same", "cycles of 4k change by 3 %", "own", "cycles of thp change by 5 %"];
        assert_eq!(merged_notes(&results(), None), all);
    }
}
