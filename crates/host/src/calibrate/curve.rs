//! Measured curves: values against sizes.

/// Curve of measured values against the size, in bytes or pages, of the memory that a pointer chase visits:
/// points (size, value), sorted by size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve(Vec<(f64, f64)>);

impl Curve {
    pub(super) fn new(points: impl IntoIterator<Item = (u64, f64)>) -> Self {
        let mut points: Vec<_> = points.into_iter().map(|(x, y)| (x as f64, y)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(points)
    }

    /// Median of the curve's values at sizes from `from` to `to`, or the value at the size nearest
    /// to that range.
    pub(super) fn level(&self, from: f64, to: f64) -> Option<f64> {
        let inside = self.0.iter().filter(|(x, _)| (from..=to).contains(x));
        let mut values: Vec<f64> = inside.map(|(_, y)| *y).collect();
        if values.is_empty() {
            let middle = (from.max(1.0) * to.max(1.0)).sqrt();
            let distance = |x: f64| (x / middle).ln().abs();
            let nearest = self.0.iter().min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)))?;
            return Some(nearest.1);
        }
        values.sort_by(f64::total_cmp);
        Some(f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]))
    }

    /// Largest size at which the curve rises above `value`, interpolated between two sizes on a
    /// logarithmic scale; `None` if it never does.
    pub(super) fn rises_above(&self, value: f64) -> Option<f64> {
        let last_below = self.0.iter().rposition(|(_, y)| *y <= value)?;
        let (below, above) = (self.0[last_below], *self.0.get(last_below + 1)?);
        let share = (value - below.1) / (above.1 - below.1);
        Some(below.0 * (above.0 / below.0).powf(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_steps() {
        let curve = Curve::new([(64, 20.0), (16, 4.0), (32, 5.0), (8, 4.0), (128, 20.0)]);
        assert_eq!(curve.level(0.0, 16.0), Some(4.0));
        assert_eq!(curve.level(16.0, 32.0), Some(4.5));
        assert_eq!(curve.level(90.0, 100.0), Some(20.0), "the nearest");
        // Half of the way from size 32 to size 64 on a logarithmic scale.
        assert!((curve.rises_above(12.5).unwrap() - 32.0 * 2_f64.sqrt()).abs() < 1e-9);
        assert_eq!(curve.rises_above(30.0), None);
        assert_eq!(curve.rises_above(1.0), None);
        assert_eq!(Curve::new([]).level(1.0, 2.0), None);
    }

    /// A single slow measurement at a small size is not taken for the size at which the curve
    /// rises.
    #[test]
    fn a_single_slow_point_is_not_a_step() {
        let curve = Curve::new([(1, 1.0), (2, 9.0), (4, 1.0), (8, 9.0), (16, 9.0)]);
        assert!((4.0..8.0).contains(&curve.rises_above(5.0).unwrap()));
    }
}
