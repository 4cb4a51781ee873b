//! Repeated measurements in three numbers.

use serde_json::{Value, json};

/// Least, median and most of some measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Spread {
    /// The spread of these values; absent without any, or where one is no number. The median of an
    /// even number of values is the mean of the two in the middle.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        sorted.iter().all(|value| value.is_finite()).then_some(Self { least, median, most })
    }

    /// How far least and most lie apart, as a share of the median.
    pub fn width(&self) -> f64 {
        (self.most - self.least) / self.median
    }

    pub fn json(&self) -> Value {
        json!({ "least": self.least, "median": self.median, "most": self.most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { least: 1.0, median: 2.0, most: 3.0 });
        assert_eq!(spread.width(), 1.0);
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 8.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of(&[5.0]), Some(Spread { least: 5.0, median: 5.0, most: 5.0 }));
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
        assert_eq!(Spread::of(&[1.0, f64::INFINITY]), None);
    }
}
