//! The notes of a comparison's results, each once, as short as they can be.

use perforate_sim::RunResult;

/// A note, and the schemes of which the same is said in other numbers.
struct Remark<'a> {
    text: &'a str,
    /// The text without what differs from scheme to scheme.
    pattern: String,
    others: Vec<&'a str>,
}

/// The notes in order. What is said of several schemes in the same words is said of the first, with
/// the names of the others. Unless `all` are wanted, what the trace's own file says of itself is
/// only counted.
pub fn remarks(results: &[RunResult], all: bool) -> Vec<String> {
    let mut found: Vec<Remark<'_>> = Vec::new();
    let mut of_trace: Vec<&str> = Vec::new();
    for result in results {
        let assumptions = assumptions(result);
        for text in result.notes.iter().map(String::as_str) {
            if !all && assumptions.contains(&text) {
                if !of_trace.contains(&text) {
                    of_trace.push(text);
                }
                continue;
            }
            let pattern = pattern(text, &result.scheme);
            match found.iter_mut().find(|known| known.text == text || known.pattern == pattern) {
                Some(known) if known.text == text || known.others.contains(&&*result.scheme) => {}
                Some(known) if !all => known.others.push(&result.scheme),
                _ => found.push(Remark { text, pattern, others: Vec::new() }),
            }
        }
    }
    let mut lines: Vec<String> = found.iter().map(Remark::line).collect();
    if !of_trace.is_empty() {
        let remarks = if of_trace.len() == 1 { "remark" } else { "remarks" };
        let count = of_trace.len();
        lines.push(format!("{count} {remarks} on how the trace was made: --all prints them"));
    }
    lines
}

impl Remark<'_> {
    fn line(&self) -> String {
        match self.others.is_empty() {
            true => self.text.to_owned(),
            false => format!("{} (similarly for {})", self.text, self.others.join(", ")),
        }
    }
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
            remarks(&results(), false),
            [
                "the same",
                "cycles of 4k change by 3 % (similarly for thp)",
                "1 remark on how the trace was made: --all prints them"
            ]
        );
    }

    #[test]
    fn all_of_them_can_be_had() {
        let all = ["the same", "cycles of 4k change by 3 %", "own", "cycles of thp change by 5 %"];
        assert_eq!(remarks(&results(), true), all);
    }
}
