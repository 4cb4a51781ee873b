//! Parser of whole numbers with suffixes.

/// Suffixes of counts and their factors, which are powers of 1000.
const THOUSANDS: &[(&str, u64)] =
    &[("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];

/// Reason for which a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The text is not a whole number.
    NotWhole,
    /// The number is larger than 64 bits hold.
    TooLarge,
}

/// Parses a count of at most `most`: `1000`, `1_000_000`, `2e6`, `10M`, `1.5G`. Smaller limits than 64 bits are
/// not checked, but named if the number is larger still.
pub fn count(text: &str, most: u64) -> Result<u64, String> {
    let wrong = || format!("expected a whole number such as 5000, 10M or 2e6, not {text:?}");
    let (digits, unit) = split_unit(text);
    let factor = match unit {
        "" => 1,
        _ => THOUSANDS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
    };
    scaled(digits, factor).map_err(|problem| match problem {
        Unreadable::NotWhole => wrong(),
        Unreadable::TooLarge => format!("is at most {most}, not {text}"),
    })
}

/// Splits a text into a number and the letters after it.
pub fn split_unit(text: &str) -> (&str, &str) {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    text.split_at(digits.len())
}

/// Parses a number, which may have `_`, a decimal point and a power of ten (`2e6`), and multiplies it by
/// `factor`.
pub fn scaled(text: &str, factor: u64) -> Result<u64, Unreadable> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let is_number = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_digit())
            && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    if !is_number(whole) || !is_number(fraction) || !is_number(exponent) || exponent.contains('_') {
        return Err(Unreadable::NotWhole);
    }
    let fraction = fraction.replace('_', "");
    let digits = whole.replace('_', "") + &fraction;
    let quotient = || {
        let power = |exponent: u32| 10_u128.checked_pow(exponent);
        let scale = power(exponent.parse().ok()?)?.checked_mul(factor.into())?;
        let product = digits.parse::<u128>().ok()?.checked_mul(scale)?;
        let divisor = power(fraction.len().try_into().ok()?)?;
        Some((product / divisor, product.is_multiple_of(divisor)))
    };
    match quotient() {
        Some((_, false)) => Err(Unreadable::NotWhole),
        Some((whole, true)) => whole.try_into().map_err(|_| Unreadable::TooLarge),
        None => Err(Unreadable::TooLarge),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        for (text, number) in [
            ("0", 0),
            ("5000", 5000),
            ("500k", 500_000),
            ("10M", 10_000_000),
            ("1_000_000", 1_000_000),
            ("2e6", 2_000_000),
            ("2.5e6", 2_500_000),
            ("1.5G", 1_500_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count(text, u64::MAX), Ok(number), "{text}");
        }
        for wrong in [
            "", "M", "1m", "2X", "-1", "1.5", "0.0001k", "1é", "e6", "2e", "2e-6", "_1", "1.",
            ".5", "1e5_0", "1x2", "nan", "0x10",
        ] {
            let problem =
                format!("expected a whole number such as 5000, 10M or 2e6, not {wrong:?}");
            assert_eq!(count(wrong, 9), Err(problem));
        }
        for large in [
            "18446744073709551616",
            "99999999999999999999",
            "1e30",
            "1e99999999999",
            "20000000T",
            "9999999999999999999999999999999999999999999999",
        ] {
            assert_eq!(count(large, 9), Err(format!("is at most 9, not {large}")));
        }
    }
}
