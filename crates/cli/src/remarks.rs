//! The notes of a comparison's results, each once, as short as they can be.

use perforate_sim::RunResult;

/// A note, and the schemes of which the same is said in other numbers.
struct Remark<'a> {
    text: &'a str,
    /// The text without what differs from scheme to scheme.
    pattern: String,
    scheme: &'a str,
    others: Vec<&'a str>,
    /// The values of `--vary` with which it is said.
    values: Vec<&'a str>,
}

/// Selection of the notes on how a trace was made.
#[derive(Clone, Copy)]
pub enum Shown<'a> {
    /// All notes are shown.
    All,
    /// Only the number of these notes is shown, with a text that says where to find them.
    Some { rest: &'a str },
}

/// The notes in order. What is said of several schemes in the same words is said of the first, with
/// the names of the others; what holds for some values of `--vary` only, with those, and the memory of
/// all values in one note. Unless all are shown, what the trace's own file says of itself is only counted.
pub fn remarks(results: &[RunResult], shown: Shown<'_>) -> Vec<String> {
    let all = matches!(shown, Shown::All);
    let mut found: Vec<Remark<'_>> = Vec::new();
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
            let value = varied(result).map(|(_, value)| value);
            let same =
                |known: &&mut Remark<'_>| known.text == text || !all && known.pattern == pattern;
            let place = found.iter_mut().find(same);
            let known = match place {
                Some(known) => known,
                None => {
                    found.push(Remark { text, pattern, scheme, others: vec![], values: vec![] });
                    found.last_mut().expect("one was pushed")
                }
            };
            if known.text != text && known.scheme != scheme && !known.others.contains(&scheme) {
                known.others.push(scheme);
            }
            known.values.extend(value.filter(|value| !known.values.contains(value)));
        }
    }
    let (key, all_values) = all_values(results);
    let of_values = found.iter().map(|remark| remark.line(key, all_values));
    let mut lines: Vec<String> = memory.into_iter().chain(of_values).collect();
    if let (Shown::Some { rest }, false) = (shown, of_trace.is_empty()) {
        let remarks = if of_trace.len() == 1 { "remark" } else { "remarks" };
        let count = of_trace.len();
        lines.push(format!("{count} {remarks} on how the trace was made: {rest}"));
    }
    lines
}

impl Remark<'_> {
    /// The note, with the schemes that it is said of and, unless it is said of all, with the values of
    /// the key that is varied.
    fn line(&self, key: &str, all_values: usize) -> String {
        let mut line = self.text.to_owned();
        if !self.others.is_empty() {
            line += &format!(" (similarly for {})", self.others.join(", "));
        }
        line + with_values(key, &self.values, all_values).as_str()
    }
}

/// Which values of the key something holds for, unless for all of them.
fn with_values(key: &str, values: &[&str], all_values: usize) -> String {
    match values.len() < all_values {
        true => format!(" (with {key}={})", values.join(", ")),
        false => String::new(),
    }
}

/// The key that is varied, and the number of its values.
fn all_values(results: &[RunResult]) -> (&str, usize) {
    let mut values: Vec<&str> = results.iter().filter_map(varied).map(|(_, value)| value).collect();
    values.sort_unstable();
    values.dedup();
    (results.iter().find_map(varied).map_or("", |(key, _)| key), values.len())
}

/// The descriptions of memory that results of several values begin their notes with, in one: what is the
/// same for all values is said once. None where nothing is varied.
fn memory_of_values(results: &[RunResult]) -> Option<String> {
    let mut phrases: Vec<(&str, Vec<&str>)> = Vec::new();
    for result in results {
        let (_, value) = varied(result)?;
        for phrase in result.notes.first()?.split("; ") {
            match phrases.iter_mut().find(|(known, _)| *known == phrase) {
                Some((_, values)) if values.contains(&value) => {}
                Some((_, values)) => values.push(value),
                None => phrases.push((phrase, vec![value])),
            }
        }
    }
    let (key, all_values) = all_values(results);
    let texts = phrases
        .iter()
        .map(|(phrase, values)| format!("{phrase}{}", with_values(key, values, all_values)));
    Some(texts.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

/// Key and value of `--vary` that a result is of.
fn varied(result: &RunResult) -> Option<(&str, &str)> {
    let varied = result.config.get("varied")?;
    Some((varied.get("key")?.as_str()?, varied.get("value")?.as_str()?))
}

/// A note about a scheme without its name and without numbers; any other note as it is.
fn pattern(text: &str, scheme: &str) -> String {
    let is_name = |word: &str| word.trim_matches(|c: char| ",:;".contains(c)) == scheme;
    if !text.split(' ').any(is_name) {
        return text.to_owned();
    }
    let words = text.split(' ').filter(|word| !is_name(word));
    let words = words.filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// What the trace's own file says of itself.
fn assumptions(result: &RunResult) -> Vec<&str> {
    let listed = result.config.pointer("/workload/assumptions").and_then(|all| all.as_array());
    listed.into_iter().flatten().filter_map(|text| text.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Shown<'_> = Shown::Some { rest: "--all prints them" };

    fn results() -> Vec<RunResult> {
        let lines = [
            r#"{"scheme":"4k","workload":"w","notes":["the same","cycles of 4k change by 3 %","own"],"config":{"workload":{"assumptions":["own"]}}}"#,
            r#"{"scheme":"thp","workload":"w","notes":["the same","cycles of thp change by 5 %","own"],"config":{"workload":{"assumptions":["own"]}}}"#,
        ];
        perforate_report::read_results(&lines.join("\n")).unwrap()
    }

    #[test]
    fn the_same_of_several_schemes_is_said_once() {
        assert_eq!(
            remarks(&results(), SOME),
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
        let results = perforate_report::read_results(&lines.join("\n")).unwrap();
        let expected = [
            "1GB; swap of 1GB (with swap=1G); swap of 2GB (with swap=2G)",
            "swapped (with swap=1G, 2G)",
            "the same",
            "full (with swap=none)",
        ];
        assert_eq!(remarks(&results, SOME), expected);
    }

    #[test]
    fn all_of_them_can_be_had() {
        let all = ["the same", "cycles of 4k change by 3 %", "own", "cycles of thp change by 5 %"];
        assert_eq!(remarks(&results(), Shown::All), all);
    }
}
