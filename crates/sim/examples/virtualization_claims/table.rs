//! Figures over seeds and workloads as text.

pub use crate::spread::{geometric_mean, median, spread};

/// The median with `digits` after the point.
pub fn middle(values: &[Option<f64>], digits: usize) -> String {
    median(values).map_or("–".into(), |value| format!("{value:.digits$}"))
}

/// Arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_by_hand() {
        assert_eq!(middle(&[Some(3.0), Some(1.0), Some(2.0)], 1), "2.0");
        assert_eq!(middle(&[Some(1.0), None], 1), "–");
        assert_eq!((mean(&[1.0, 3.0]), mean(&[])), (Some(2.0), None));
    }
}
