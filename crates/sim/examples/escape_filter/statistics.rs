//! Means and their confidence intervals.

/// The 0.975 quantile of the normal distribution.
const NORMAL: f64 = 1.959_964;
/// The 0.975 quantiles of Student's t with 1 to 9 degrees of freedom (any table of it).
const FEW: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// A mean, and how far the true one may be from it with a confidence of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    /// Half the width of the 95 % confidence interval.
    pub within: f64,
}

/// The 0.975 quantile of Student's t: 95 % lie between it and its negative. From 10 degrees of
/// freedom on by the expansion around the normal distribution's (Cornish and Fisher), exact to four
/// digits there.
pub fn student(degrees: usize) -> f64 {
    if let Some(&quantile) = degrees.checked_sub(1).and_then(|index| FEW.get(index)) {
        return quantile;
    }
    let (z, n) = (NORMAL, degrees as f64);
    let square = z * z;
    let first = z * (square + 1.0) / 4.0;
    let second = z * ((5.0 * square + 16.0) * square + 3.0) / 96.0;
    let third = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    z + first / n + second / (n * n) + third / (n * n * n)
}

/// Mean and confidence interval of at least two values: t·s/√n.
pub fn estimate(values: &[f64]) -> Estimate {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    Estimate { mean, within: student(values.len() - 1) * deviation / count.sqrt() }
}

/// How likely a page that did not escape passes for one in a filter of `bits` bits shared out among
/// `functions` hash functions, after `escaped` pages: (1 − (1 − k/m)ⁿ)ᵏ.
pub fn false_positives(bits: usize, functions: usize, escaped: usize) -> f64 {
    let kept = 1.0 - functions as f64 / bits as f64;
    (1.0 - kept.powi(escaped as i32)).powi(functions as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (degrees, quantile) in [
            (1, 12.706),
            (4, 2.776),
            (9, 2.262),
            (10, 2.228),
            (15, 2.131),
            (29, 2.045),
            (60, 2.000),
        ] {
            assert!((student(degrees) - quantile).abs() < 6e-4, "{degrees}: {}", student(degrees));
        }
    }

    /// 2, 4, 4, 4, 5, 5, 7, 9: mean 5, squares 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32, s = √(32/7) =
    /// 2.1381, s/√8 = 0.75593, times 2.365.
    #[test]
    fn interval_by_hand() {
        let Estimate { mean, within } = estimate(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert!((mean - 5.0).abs() < 1e-12);
        assert!((within - 1.78777).abs() < 1e-4, "{within}");
        assert_eq!(estimate(&[3.0, 3.0]), Estimate { mean: 3.0, within: 0.0 });
    }

    /// One page in 256 bits and 4 functions: another one meets its bit in each bank of 64 with the
    /// probability 1/64.
    #[test]
    fn one_page_by_hand() {
        assert!((false_positives(256, 4, 1) / (1.0f64 / 64.0).powi(4) - 1.0).abs() < 1e-9);
        assert_eq!(false_positives(256, 4, 0), 0.0);
        assert!((false_positives(256, 4, 16) - 0.002_45).abs() < 2e-5);
    }
}
