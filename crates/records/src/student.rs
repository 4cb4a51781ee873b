//! Student's t distribution, for confidence intervals of means of a few values.

/// 97.5 % quantiles of Student's t distribution for 1, 2, 3 and 4 degrees of freedom.
const FEW: [f64; 4] = [12.7062, 4.3027, 3.1824, 2.7764];
/// 97.5 % quantile of the normal distribution: limit for many degrees of freedom.
const NORMAL: f64 = 1.959_964;

/// Returns the 97.5 % quantile of the t distribution. An interval of this many standard errors around a mean
/// contains the true mean with a probability of 95 %. From 5 degrees of freedom on, the quantile is expanded
/// around that of the normal distribution (Abramowitz and Stegun 1964, 26.7.5) with an error below 0.0005.
pub(crate) fn deviations_95(degrees: usize) -> f64 {
    if degrees == 0 {
        return f64::INFINITY;
    }
    if let Some(&point) = FEW.get(degrees - 1) {
        return point;
    }
    let (z, degrees) = (NORMAL, degrees as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    let fourth = 79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5);
    let fourth = (fourth - 1920.0 * z.powi(3) - 945.0 * z) / 92160.0;
    let terms = [first, second, third, fourth];
    terms.iter().zip(1..).fold(z, |sum, (term, power)| sum + term / degrees.powi(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values as printed in statistical tables.
    #[test]
    fn points_of_the_tables() {
        let table =
            [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281];
        let farther = [(15, 2.1314), (20, 2.0860), (30, 2.0423), (60, 2.0003), (120, 1.9799)];
        for (degrees, point) in (1..).zip(table).chain(farther) {
            let found = deviations_95(degrees);
            assert!((found - point).abs() < 0.0005, "{degrees}: {found}");
        }
        assert!((deviations_95(1_000_000) - NORMAL).abs() < 1e-5);
        assert_eq!(deviations_95(0), f64::INFINITY);
        // All terms of the expansion, added up by a separate program.
        for (degrees, sum) in [(5, 2.570_308_256_916), (6, 2.446_804_418_584)] {
            assert!((deviations_95(degrees) - sum).abs() < 1e-9, "{degrees}");
        }
    }
}
