//! What `perforate validate` prints.

use perforate_report::text::{Column, columns, wrapped};

use super::outcome::{Outcome, Score};
use super::plan::Assumption;
use super::row::RowOutcome;
use super::spread::Spread;
use crate::output::{COLUMNS, notes};

impl Outcome {
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}{}, predicted with {}\n",
            self.processor.name.as_deref().unwrap_or("unknown processor"),
            if self.processor.is_virtual { " (virtual machine)" } else { "" },
            self.machine
        );
        text += "\nTime with 4KB pages ÷ time with 2MB pages\n";
        text += &self.ratios();
        text += &self.times();
        text += &self.walks();
        text += "\nAll rows\n";
        let score = |(assumption, score): (&Assumption, Score)| {
            let text = format!(
                "{} agree, {} same way, {} disagree, {} too noisy; typical miss {:.0} %",
                score.agrees,
                score.same_direction,
                score.disagrees,
                score.noisy,
                100.0 * score.miss
            );
            (assumption.name.to_string(), text)
        };
        let (names, scores) = self.assumptions.iter().zip(self.scores()).map(score).unzip();
        text += &columns(&[Column::texts("", names), Column::texts("", scores)], COLUMNS);
        text += &format!("\n{}\n", wrapped("", &self.summary(), COLUMNS));
        text + &notes(&self.notes, COLUMNS)
    }

    /// A table of rows: what was measured, and what is predicted under each assumption.
    fn table(
        &self,
        rows: &[&RowOutcome],
        heading: &str,
        measured: impl Fn(&RowOutcome) -> String,
        predicted: impl Fn(&RowOutcome, usize) -> String,
    ) -> String {
        let mut all = vec![
            Column::texts("", rows.iter().map(|row| row.name.clone()).collect()),
            Column::numbers(heading, rows.iter().map(|row| measured(row)).collect()),
        ];
        all.extend(self.assumptions.iter().enumerate().map(|(index, assumption)| {
            let cells = rows.iter().map(|row| predicted(row, index)).collect();
            Column::numbers(&assumption.name, cells)
        }));
        columns(&all, COLUMNS)
    }

    fn ratios(&self) -> String {
        let rows: Vec<&RowOutcome> = self.rows.iter().collect();
        self.table(
            &rows,
            "median (least–most)",
            |row| row.ratio.map_or("–".into(), |ratio| spread(&ratio, 2)),
            |row, index| {
                let Some(predicted) = row.predicted.get(index) else { return String::new() };
                let verdict = row.verdicts().into_iter().nth(index).flatten();
                let verdict = verdict.map_or_else(|| "–".into(), |verdict| verdict.to_string());
                format!("{:.2} {verdict}", predicted.ratio())
            },
        )
    }

    /// Nanoseconds of one operation.
    fn times(&self) -> String {
        let pair = |small: f64, large: f64| format!("{} | {}", digits(small), digits(large));
        let rows: Vec<&RowOutcome> = self
            .rows
            .iter()
            .filter(|row| row.small_ns.is_some() && row.large_ns.is_some())
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        let table = self.table(
            &rows,
            "median",
            |row| medians(row).map_or_else(String::new, |(small, large)| pair(small, large)),
            |row, index| {
                let predicted = row.predicted.get(index);
                predicted.map_or_else(String::new, |one| pair(one.small_ns, one.large_ns))
            },
        );
        format!("\nNanoseconds per operation, 4KB | 2MB pages\n{table}")
    }

    /// What translation in 4KB pages adds to one access of a chase, over 2MB pages.
    fn walks(&self) -> String {
        let more = |small: f64, large: f64| format!("{:.1}", small - large);
        let rows: Vec<&RowOutcome> =
            self.rows.iter().filter(|row| row.is_chase && medians(row).is_some()).collect();
        if rows.is_empty() {
            return String::new();
        }
        let table = self.table(
            &rows,
            "median",
            |row| medians(row).map_or_else(String::new, |(small, large)| more(small, large)),
            |row, index| {
                let predicted = row.predicted.get(index);
                predicted.map_or_else(String::new, |one| more(one.small_ns, one.large_ns))
            },
        );
        format!(
            "\nNanoseconds that 4KB pages add to an access of a chase: the cost of walks\n{table}"
        )
    }
}

/// Measured nanoseconds with 4KB and with 2MB pages.
fn medians(row: &RowOutcome) -> Option<(f64, f64)> {
    Some((row.small_ns?.median, row.large_ns?.median))
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
    fn values_have_three_digits_or_so() {
        let values = Spread { least: 1.0, median: 1.234, most: 2.0 };
        assert_eq!(spread(&values, 2), "1.23 (1.00–2.00)");
        assert_eq!((digits(1.234), digits(99.96)), ("1.23".into(), "100.0".into()));
    }
}
