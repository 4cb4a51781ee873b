//! What an experiment measured: values over its axis.

use crate::capacity::Estimate;

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Place on the axis.
    pub x: f64,
    /// The value, where there is a closed form.
    pub closed_form: Option<f64>,
    /// The value as drawn or measured at random.
    pub sampled: Option<Estimate>,
}

impl Point {
    /// The closed form where there is one, else the average.
    pub fn value(&self) -> Option<f64> {
        self.closed_form.or(self.sampled.map(|sampled| sampled.mean))
    }

    /// Whether both agree ([`Estimate::agrees_with`]); nothing where there is only one of them.
    pub fn agrees(&self) -> Option<bool> {
        Some(self.sampled?.agrees_with(self.closed_form?))
    }
}

/// Values of one design or scheme over the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name that claims use.
    pub name: String,
    /// Name for readers.
    pub label: String,
    /// Points in order of the axis.
    pub points: Vec<Point>,
}

impl Curve {
    /// The value at a point of the axis.
    pub fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|point| point.x == x)?.value()
    }

    /// The last place up to which all values are `y` or more, between two points on the straight
    /// line through them; nothing where the curve starts below `y` or never falls below it.
    pub fn falls_to(&self, y: f64) -> Option<f64> {
        let places: Vec<(f64, f64)> =
            self.points.iter().filter_map(|point| Some((point.x, point.value()?))).collect();
        let below = places.iter().position(|&(_, value)| value < y)?;
        let (before, after) = (places.get(below.checked_sub(1)?)?, places[below]);
        let part = (before.1 - y) / (before.1 - after.1);
        Some(before.0 + part * (after.0 - before.0))
    }

    /// The least by which this curve lies above another.
    pub fn least_lead(&self, other: &Self) -> Option<f64> {
        let leads = self
            .points
            .iter()
            .zip(&other.points)
            .filter_map(|(ours, theirs)| Some(ours.value()? - theirs.value()?));
        leads.min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: &[f64]) -> Curve {
        let point =
            |(index, &value)| Point { x: index as f64, closed_form: Some(value), sampled: None };
        let points = values.iter().enumerate().map(point).collect();
        Curve { name: "c".into(), label: "c".into(), points }
    }

    #[test]
    fn looking_at_a_curve() {
        let falling = curve(&[1.0, 0.8, 0.4, 0.5]);
        assert_eq!(falling.at(2.0), Some(0.4));
        assert_eq!(falling.at(2.5), None);
        assert!((falling.falls_to(0.7).unwrap() - 1.25).abs() < 1e-12);
        assert_eq!(falling.falls_to(0.8), Some(1.0));
        assert_eq!((falling.falls_to(0.3), falling.falls_to(1.5)), (None, None));
        assert_eq!(falling.least_lead(&curve(&[0.5, 0.7, 0.6, 0.0])), Some(0.4 - 0.6));
    }

    #[test]
    fn closed_forms_come_first() {
        let sampled = Estimate { mean: 0.5, half_width_95: 0.01, draws: 100 };
        let both = Point { x: 0.0, closed_form: Some(0.51), sampled: Some(sampled) };
        assert_eq!((both.value(), both.agrees()), (Some(0.51), Some(true)));
        let far = Point { closed_form: Some(0.53), ..both };
        assert_eq!(far.agrees(), Some(false));
        let drawn = Point { closed_form: None, ..both };
        assert_eq!((drawn.value(), drawn.agrees()), (Some(0.5), None));
    }
}
