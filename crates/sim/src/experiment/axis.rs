//! The axis of an experiment.

use serde::{Deserialize, Serialize};

/// Most points of an axis.
const MOST_POINTS: f64 = 10_000.0;
/// Points are rounded to this, so that 0.1 and 20 × 0.005 are one.
const RESOLUTION: f64 = 1e9;

/// A range of shares between 0 and 1, in equal steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What it is a share of.
    pub label: String,
    /// First point.
    pub from: f64,
    /// Last point.
    pub to: f64,
    /// Distance of two points.
    pub step: f64,
}

impl Axis {
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { label, from, to, step } = self;
        if label.chars().any(char::is_control) {
            return Err("axis.label must be plain text in one line".into());
        }
        for (key, value) in [("from", from), ("to", to)] {
            if !(0.0..=1.0).contains(value) {
                return Err(format!("axis.{key} is {value}, not a share from 0 to 1"));
            }
        }
        if from > to {
            return Err(format!("axis.from is {from}, beyond axis.to, which is {to}"));
        }
        if !(step.is_finite() && *step > 0.0 && (to - from) / step <= MOST_POINTS) {
            return Err(format!("axis.step is {step}; expected at most {MOST_POINTS} steps"));
        }
        Ok(())
    }

    /// Its points, in order.
    pub(super) fn points(&self) -> Vec<f64> {
        let steps = ((self.to - self.from) / self.step + 1e-6).floor() as u32;
        (0..=steps).map(|step| rounded(self.from + f64::from(step) * self.step)).collect()
    }

    /// Whether a share lies on it.
    pub(super) fn contains(&self, x: f64) -> bool {
        (self.from..=self.to).contains(&x)
    }
}

/// Without the noise of adding.
pub(super) fn rounded(x: f64) -> f64 {
    (x * RESOLUTION).round() / RESOLUTION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_those_one_would_write() {
        let axis = Axis { label: "x".into(), from: 0.0, to: 0.1, step: 0.005 };
        let points = axis.points();
        assert_eq!(points.len(), 21);
        assert_eq!((points[3], points[20]), (0.015, 0.1));
        assert!(axis.contains(0.1) && !axis.contains(0.11));
    }
}
