//! Tables: a workload a row, a figure a column.

use crate::laboratory::{Runs, Study, percent_more};
use crate::spread::{geometric_mean, median, spread};

/// A figure.
pub struct Column<'a> {
    /// Its heading.
    pub heading: &'a str,
    /// Digits after the point.
    pub digits: usize,
    /// The figure of a seed.
    pub of: Box<dyn Fn(&Runs) -> f64 + 'a>,
    /// What the mean over workloads is.
    pub mean: Mean,
}

/// A mean over workloads, of the medians of their seeds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mean {
    /// None is of use.
    None,
    /// Geometric mean of the ratios that the percentages are.
    OfPercentMore,
    /// Geometric mean of shares in percent.
    OfPercent,
}

impl Mean {
    fn over(self, medians: &[f64]) -> Option<f64> {
        match self {
            Self::None => None,
            Self::OfPercent => geometric_mean(medians),
            Self::OfPercentMore => {
                let ratios: Vec<f64> = medians.iter().map(|more| more / 100.0 + 1.0).collect();
                geometric_mean(&ratios).map(percent_more)
            }
        }
    }
}

/// A column of percentages by which one setting is faster than another.
pub fn gain<'a>(heading: &'a str, label: &'static str, over: &'static str) -> Column<'a> {
    Column {
        heading,
        digits: 1,
        of: Box::new(move |runs| runs.gain(label, over)),
        mean: Mean::OfPercentMore,
    }
}

/// A column of percentages of another setting's speed.
pub fn percent_of<'a>(heading: &'a str, label: &'static str, of: &'static str) -> Column<'a> {
    Column {
        heading,
        digits: 1,
        of: Box::new(move |runs| runs.speedup(label, of) * 100.0),
        mean: Mean::OfPercent,
    }
}

/// A column of which no mean is taken.
pub fn figure<'a>(heading: &'a str, digits: usize, of: impl Fn(&Runs) -> f64 + 'a) -> Column<'a> {
    Column { heading, digits, of: Box::new(of), mean: Mean::None }
}

/// Prints a table; `first` is the heading and the text of the first columns.
pub fn print(
    studies: &[Study],
    (heading, first): (&str, impl Fn(usize, &Study) -> String),
    columns: &[Column<'_>],
    width: usize,
) {
    let headings: String =
        columns.iter().map(|column| format!("{:>width$}", column.heading)).collect();
    println!("\n{heading}{headings}");
    for (index, study) in studies.iter().enumerate() {
        let cells = columns
            .iter()
            .map(|column| cell(&study.figures(&column.of), column.digits))
            .map(|cell| format!("{cell:>width$}"));
        println!("{}{}", first(index, study), cells.collect::<String>());
    }
    if columns.iter().any(|column| column.mean != Mean::None) {
        let cells = columns.iter().map(|column| {
            let medians: Vec<f64> =
                studies.iter().filter_map(|study| median(&study.figures(&column.of))).collect();
            let mean = column.mean.over(&medians);
            let mean = mean.map_or(String::new(), |mean| format!("{mean:.*}", column.digits));
            format!("{mean:>width$}")
        });
        let what = "geometric mean";
        println!("{what:<length$}{}", cells.collect::<String>(), length = heading.chars().count());
    }
}

/// The spread over seeds; figures of hundreds have no digits after the point, and what is rounded to
/// zero no sign.
fn cell(figures: &[Option<f64>], digits: usize) -> String {
    let is_large = figures.iter().flatten().any(|figure| figure.abs() >= 100.0);
    let digits = if is_large { 0 } else { digits };
    let least = 0.5 / 10f64.powi(digits as i32);
    let unsigned = |figure: f64| if figure.abs() < least { 0.0 } else { figure };
    let figures: Vec<Option<f64>> = figures.iter().map(|figure| figure.map(unsigned)).collect();
    spread(&figures, digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::tests::runs;

    /// Twice as fast and half as fast are as fast on average.
    #[test]
    fn means_worked_by_hand() {
        assert!(Mean::OfPercentMore.over(&[100.0, -50.0]).unwrap().abs() < 1e-9);
        assert!((Mean::OfPercent.over(&[50.0, 200.0]).unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(Mean::None.over(&[1.0]), None);
        assert_eq!(Mean::OfPercent.over(&[]), None);
    }

    #[test]
    fn cells_worked_by_hand() {
        assert_eq!(cell(&[Some(99.94), Some(1.25)], 1), "1.2–99.9–99.9");
        assert_eq!(cell(&[Some(100.2), Some(98.6)], 1), "99–100–100");
        assert_eq!(cell(&[Some(-0.04), Some(-0.06)], 1), "-0.1–0.0–0.0");
    }

    #[test]
    fn columns_worked_by_hand() {
        let runs = runs(&[("4k", 0.25), ("gt", 0.5)]);
        assert!(((gain("", "gt", "4k").of)(&runs) - 100.0).abs() < 1e-9);
        assert!(((percent_of("", "4k", "gt").of)(&runs) - 50.0).abs() < 1e-9);
    }
}
