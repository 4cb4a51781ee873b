//! What `perforate validate` prints.

use super::outcome::Outcome;
use super::row::RowOutcome;
use super::spread::Spread;
use crate::output::{COLUMNS, notes};

/// Width of a row's name.
const NAME: usize = 17;
/// Width of a measured value with its spread.
const MEASURED: usize = 21;
/// Width of a predicted value with its verdict.
const PREDICTED: usize = 18;

impl Outcome {
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}{}, predicted with {}\n",
            self.processor.name.as_deref().unwrap_or("unknown processor"),
            if self.processor.is_virtual { " (virtual machine)" } else { "" },
            self.machine
        );
        text += "\nTime with 4KB pages ÷ time with 2MB pages\n";
        text += &self.heading("median (least–most)");
        for row in &self.rows {
            text += &self.ratio_line(row);
        }
        text += &self.times();
        text += &self.walks();
        let scores = self.scores();
        text += "\nAll rows\n";
        for (assumption, score) in self.assumptions.iter().zip(scores) {
            text += &format!(
                "{:<NAME$}{} agree, {} same way, {} disagree, {} too noisy; typical miss {:.0} %\n",
                assumption.name,
                score.agrees,
                score.same_direction,
                score.disagrees,
                score.noisy,
                100.0 * score.miss
            );
        }
        text += &format!("\n{}\n", wrapped(&self.summary()));
        text + &notes(&self.notes, COLUMNS)
    }

    fn heading(&self, measured: &str) -> String {
        let mut text = format!("{:<NAME$}{measured:>MEASURED$}", "");
        for assumption in &self.assumptions {
            text += &format!("{:>PREDICTED$}", assumption.name);
        }
        text + "\n"
    }

    fn ratio_line(&self, row: &RowOutcome) -> String {
        let mut text = named(&row.name);
        text += &format!("{:>MEASURED$}", row.ratio.map_or("–".into(), |ratio| spread(&ratio, 2)));
        for (predicted, verdict) in row.predicted.iter().zip(row.verdicts()) {
            let verdict = verdict.map_or_else(|| "–".into(), |verdict| verdict.to_string());
            text += &format!("{:>PREDICTED$}", format!("{:.2} {verdict}", predicted.ratio()));
        }
        text + "\n"
    }

    /// Nanoseconds of one operation.
    fn times(&self) -> String {
        if self.rows.iter().all(|row| row.small_ns.is_none()) {
            return String::new();
        }
        let mut text = "\nNanoseconds per operation, 4KB | 2MB pages\n".to_owned();
        text += &self.heading("median");
        for row in &self.rows {
            let (Some(small), Some(large)) = (row.small_ns, row.large_ns) else { continue };
            let pair = |small: f64, large: f64| format!("{} | {}", digits(small), digits(large));
            text += &named(&row.name);
            text += &format!("{:>MEASURED$}", pair(small.median, large.median));
            for predicted in &row.predicted {
                let pair = pair(predicted.small_ns, predicted.large_ns);
                text += &format!("{pair:>PREDICTED$}");
            }
            text.push('\n');
        }
        text
    }

    /// What translation in 4KB pages adds to one access of a chase, over 2MB pages.
    fn walks(&self) -> String {
        let chases: Vec<&RowOutcome> = self.rows.iter().filter(|row| row.is_chase).collect();
        if chases.is_empty() {
            return String::new();
        }
        let mut text =
            "\nNanoseconds that 4KB pages add to an access of a chase: the cost of walks\n"
                .to_owned();
        text += &self.heading("median");
        for row in chases {
            let (Some(small), Some(large)) = (row.small_ns, row.large_ns) else { continue };
            text += &named(&row.name);
            text += &format!("{:>MEASURED$}", format!("{:.1}", small.median - large.median));
            for predicted in &row.predicted {
                let more = predicted.small_ns - predicted.large_ns;
                text += &format!("{:>PREDICTED$}", format!("{more:.1}"));
            }
            text.push('\n');
        }
        text
    }
}

/// The name in its column, or on a line of its own where it is too long.
fn named(name: &str) -> String {
    let length = name.chars().count();
    if length < NAME { format!("{name:<NAME$}") } else { format!("{name}\n{:<NAME$}", "") }
}

/// The words in lines of at most [`COLUMNS`] characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > COLUMNS {
            lines.push(String::new());
        }
        let line = lines.last_mut().expect("there is a first line");
        if !line.is_empty() {
            line.push(' ');
        }
        *line += word;
    }
    lines.join("\n") + "\n"
}

fn spread(spread: &Spread, digits: usize) -> String {
    let Spread { least, median, most } = spread;
    format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
}

/// Three digits or so.
fn digits(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        assert_eq!(named("chase 1M").chars().count(), NAME);
        assert_eq!(
            named("a program with arguments"),
            format!("a program with arguments\n{:17}", "")
        );
        let lines = wrapped(&"word ".repeat(30));
        assert!(lines.lines().count() == 2 && lines.lines().all(|line| line.len() <= COLUMNS));
        let values = Spread { least: 1.0, median: 1.234, most: 2.0 };
        assert_eq!(spread(&values, 2), "1.23 (1.00–2.00)");
        assert_eq!((digits(1.234), digits(99.96)), ("1.23".into(), "100.0".into()));
    }
}
