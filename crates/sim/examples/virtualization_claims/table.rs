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

/// Least, median and greatest with `digits` after the point; once where they look alike.
pub fn spread(values: &[Option<f64>], digits: usize) -> String {
    let Some(sorted) = sorted(values) else { return "–".into() };
    let text = |value: f64| format!("{value:.digits$}");
    let (least, greatest) = (text(sorted[0]), text(sorted[sorted.len() - 1]));
    if least == greatest {
        return least;
    }
    format!("{least}–{}–{greatest}", text(sorted[sorted.len() / 2]))
}

/// The median with `digits` after the point.
pub fn middle(values: &[Option<f64>], digits: usize) -> String {
    median(values).map_or("–".into(), |value| format!("{value:.digits$}"))
}

/// Geometric mean; none without figures or where one is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let is_possible = !values.is_empty() && values.iter().all(|&value| value > 0.0);
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    is_possible.then(|| (logarithms / values.len() as f64).exp())
}

/// Arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
