//! Figures over seeds as text.

/// The median; the upper one of an even number. None where a seed has no figure.
pub fn median(values: &[Option<f64>]) -> Option<f64> {
    sorted(values).map(|sorted| sorted[sorted.len() / 2])
}

fn sorted(values: &[Option<f64>]) -> Option<Vec<f64>> {
    let mut sorted = values.iter().copied().collect::<Option<Vec<f64>>>()?;
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then_some(sorted)
}

/// Least, median and greatest with `digits` after the point, none of thousands; once where they
/// look alike.
pub fn spread(values: &[Option<f64>], digits: usize) -> String {
    let Some(sorted) = sorted(values) else { return "–".into() };
    let digits = if sorted[sorted.len() - 1] >= 1000.0 { 0 } else { digits };
    let text = |value: f64| format!("{value:.digits$}");
    let (least, greatest) = (text(sorted[0]), text(sorted[sorted.len() - 1]));
    if least == greatest {
        return least;
    }
    format!("{least}–{}–{greatest}", text(sorted[sorted.len() / 2]))
}

/// Geometric mean; none without figures or where one is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let is_possible = !values.is_empty() && values.iter().all(|&value| value > 0.0);
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    is_possible.then(|| (logarithms / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_by_hand() {
        let values = [Some(3.0), Some(1.0), Some(2.0)];
        assert_eq!(spread(&values, 1), "1.0–2.0–3.0");
        assert_eq!(spread(&[Some(1234.4), Some(7.6)], 1), "8–1234–1234");
        assert_eq!((spread(&values[..1], 0), median(&values)), ("3".into(), Some(2.0)));
        assert_eq!((spread(&[], 1), spread(&[Some(1.0), None], 1)), ("–".into(), "–".into()));
        assert!((geometric_mean(&[1.0, 4.0]).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!((geometric_mean(&[1.0, -4.0]), geometric_mean(&[])), (None, None));
    }
}
