//! Tables: a label, what the paper says, and least – median – most of ours.

/// Columns of a label; tables are at most 100 columns wide.
const LABEL_WIDTH: usize = 37;
/// Columns of the tables by scheme.
pub const WIDTHS: [usize; 3] = [20, 20, 20];

/// Least, median and most of some values in one short text.
pub fn spread(values: impl Iterator<Item = f64>, decimals: usize) -> String {
    let values = sorted(values);
    let places = [0, values.len() / 2, values.len() - 1];
    let [least, middle, most] = places.map(|place| number(values[place], decimals));
    if least == most { middle } else { format!("{least}–{middle}–{most}") }
}

/// A number with so many decimals, and no minus before a zero.
pub fn number(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".into(); // A share of nothing.
    }
    let is_zero = value.abs() < 0.5 / 10f64.powi(decimals as i32);
    format!("{:.decimals$}", if is_zero { 0.0 } else { value })
}

/// The middle value, of an even number the higher of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    values[values.len() / 2]
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Prints a row: the label on the left, everything else on the right of its column.
pub fn row(label: &str, widths: &[usize], cells: &[String]) {
    let mut line = format!("{label:<LABEL_WIDTH$}");
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(&format!(" {cell:>width$}"));
    }
    println!("{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_by_hand() {
        assert_eq!(spread([3.0, 1.0, 2.0].into_iter(), 1), "1.0–2.0–3.0");
        assert_eq!(spread([1.01, 1.02].into_iter(), 1), "1.0");
        assert_eq!(spread([-0.04].into_iter(), 1), "0.0");
        assert_eq!(spread([f64::NAN].into_iter(), 1), "–");
        assert_eq!(median([5.0, 1.0, 3.0].into_iter()), 3.0);
    }
}
