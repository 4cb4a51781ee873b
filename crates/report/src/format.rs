//! Formatting of numbers for readers of reports.

use perforate_records::Interval;
use perforate_types::noun;

use crate::answer::{Difference, difference};

/// Text for a missing value.
pub(crate) const MISSING: &str = "–";

/// Writes a ratio with three decimals if it is below 1, and with fewer if it is larger.
pub(crate) fn ratio(value: f64) -> String {
    ratio_with(value, decimals(value))
}

/// Returns the number of decimals with which a ratio has three or four digits.
pub(crate) fn decimals(value: f64) -> usize {
    match value.abs() {
        size if size < 0.9995 => 3,
        size if size < 99.995 => 2,
        size if size < 999.95 => 1,
        _ => 0,
    }
}

/// Writes a ratio with this many decimals, so that numbers in a column are aligned.
pub(crate) fn ratio_with(value: f64, decimals: usize) -> String {
    let least = 0.5 * 0.1f64.powi(decimals as i32);
    match value.abs() {
        _ if !value.is_finite() => MISSING.to_string(),
        0.0 => "0".to_string(),
        size if size < least && decimals > 0 => {
            format!("<{:.decimals$}", 0.1f64.powi(decimals as i32))
        }
        size if size < 99_999.5 => format!("{value:.decimals$}"),
        _ => compact(value),
    }
}

/// Writes a factor, as in “1.62×”.
pub(crate) fn times(value: f64) -> String {
    let value = if value.abs() < 0.005 { 0.0 } else { value }; // no “-0.00×”
    if value.abs() < 99_999.5 { format!("{value:.2}×") } else { format!("{}×", compact(value)) }
}

/// Writes a speed as a factor with its interval, as in “1.62× ± 0.03”.
pub(crate) fn speed(speed: Interval) -> String {
    match speed.half_width_95 {
        Some(half) if half < 0.005 => format!("{:.3}× {}", speed.mean, plus_minus(half, 3)),
        Some(half) => format!("{} {}", times(speed.mean), plus_minus(half, 2)),
        None => times(speed.mean),
    }
}

/// Writes half the width of an interval with this many decimals, as in “± 0.03”.
pub(crate) fn plus_minus(half: f64, decimals: usize) -> String {
    let least = 0.1f64.powi(decimals as i32);
    if half < least / 2.0 {
        format!("± <{least:.decimals$}")
    } else {
        format!("± {half:.decimals$}")
    }
}

/// Writes a speed relative to another one as [`speed`] does, but as “~1 ± 0.03” if it does not differ
/// significantly from 1.
pub(crate) fn relative_speed(speed: Interval) -> String {
    match difference(speed) {
        Difference::None => {
            let half = speed.half_width_95.map(|half| format!(" {}", plus_minus(half, 2)));
            format!("~1{}", half.unwrap_or_default())
        }
        Difference::Faster | Difference::Slower => self::speed(speed),
    }
}

/// Writes a share (0–1) with its interval, as in “12.3 ± 0.4 %”.
pub(crate) fn share(share: Interval) -> String {
    let half = share.half_width_95.map(|half| format!(" {}", plus_minus(half * 100.0, 1)));
    format!("{}{} %", unsigned_zero(share.mean * 100.0), half.unwrap_or_default())
}

/// Writes a number with one decimal; a number that rounds to 0.0 has no minus sign.
pub(crate) fn unsigned_zero(value: f64) -> String {
    let text = format!("{value:.1}");
    if text == "-0.0" { "0.0".into() } else { text }
}

/// Capitalises the first letter of a text.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// Formats a page size, a power of two, as in “64KB”.
pub(crate) fn page_size(bytes: u64) -> String {
    match bytes >> 10 {
        kilobytes @ ..1024 => format!("{kilobytes}KB"),
        kilobytes @ ..0x10_0000 => format!("{}MB", kilobytes >> 10),
        kilobytes => format!("{}GB", kilobytes >> 20),
    }
}

/// Writes a share (0–1) in percent, as in “97.1 %”.
pub(crate) fn percent(value: f64) -> String {
    let hundredths = value * 100.0;
    if hundredths.abs() < 99_999.5 {
        format!("{} %", unsigned_zero(hundredths))
    } else {
        format!("{} %", compact(hundredths))
    }
}

/// Writes a count with k, M or G (powers of 1000) and up to four digits.
pub fn compact(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P"], "")
}

/// Writes a size in bytes with KB, MB, … (powers of 1024, as in “4KB page”).
pub fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KB", "MB", "GB", "TB", "PB"], " ")
}

fn scaled(value: f64, step: f64, suffixes: &[&str], space: &str) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    // 9999 is written in full; from 10 000 (or 1024 bytes) a suffix is shorter.
    let keep = if step > 1000.0 { step } else { 9999.5 };
    let mut rest = value;
    let mut index = 0;
    while rest.abs() >= if index == 0 { keep } else { step - 0.5 } && index + 1 < suffixes.len() {
        rest /= step;
        index += 1;
    }
    let decimals = match rest.abs() {
        _ if index == 0 && rest.fract() == 0.0 => 0,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    if rest.abs() >= 99_999.5 {
        return format!("{value:.2e}");
    }
    let suffix = suffixes[index];
    let space = if suffix.is_empty() { "" } else { space };
    format!("{rest:.decimals$}{space}{suffix}")
}

/// Formats a count with its noun, as in “1 sample” and “1,200 samples”.
pub(crate) fn counted(count: u64, singular: &str) -> String {
    format!("{} {}", exact(&count.into()), noun(count, singular))
}

/// Writes a counter in full. Integers of up to 15 digits have thousands separators; all other
/// numbers have six significant digits.
pub(crate) fn exact(number: &serde_json::Number) -> String {
    if let Some(count) = number.as_u64().filter(|&count| count < 1_000_000_000_000_000) {
        return grouped(&count.to_string());
    }
    match number.as_f64() {
        Some(value) if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.0}"),
        Some(value) if value.abs() >= 1e-4 && value.abs() < 1e15 => {
            let digits = 5 - value.abs().log10().floor().clamp(-4.0, 5.0) as i32;
            let text = format!("{value:.*}", digits.max(1) as usize);
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
        Some(value) => scientific(value),
        None => MISSING.to_string(),
    }
}

/// Writes a number in scientific notation with six digits.
fn scientific(value: f64) -> String {
    let text = format!("{value:.5e}");
    match text.split_once('e') {
        Some((digits, power)) if digits.contains('.') => {
            format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

fn grouped(digits: &str) -> String {
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Number;

    #[test]
    fn page_sizes_have_short_names() {
        assert_eq!(
            [4096, 512 << 10, 1023 << 10, 1 << 20, 2 << 20, 1023 << 20, 1 << 30].map(page_size),
            ["4KB", "512KB", "1023KB", "1MB", "2MB", "1023MB", "1GB"]
        );
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(ratio(0.64), "0.640");
        assert_eq!(ratio(12.3456), "12.35");
        assert_eq!(ratio(3455.3), "3455");
        assert_eq!(ratio_with(4.0567, 1), "4.1");
        assert_eq!(ratio_with(0.01, 1), "<0.1");
        assert_eq!(ratio(0.0001), "<0.001");
        assert_eq!(ratio(f64::NAN), MISSING);
        assert_eq!(compact(9999.0), "9999");
        assert_eq!(compact(31_234_567.0), "31.2M");
        assert_eq!(compact(999_999.0), "1.00M");
        assert_eq!(bytes(4096.0), "4.00 KB");
        assert_eq!(bytes(2.0 * 1024.0 * 1024.0 * 1024.0), "2.00 GB");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(percent(0.9712), "97.1 %");
        assert_eq!(times(1.618), "1.62×");
        assert_eq!(times(1e300), "1.00e300×");
        assert_eq!(percent(1e300), "1.00e302 %");
        assert_eq!(percent(2000.0), "200k %");
        assert_eq!(compact(1e300), "1.00e300");
        assert_eq!(compact(5e19), "50000P");
    }

    #[test]
    fn intervals_have_digits_that_say_something() {
        let one = |mean, half| Interval { mean, half_width_95: Some(half) };
        assert_eq!(speed(one(1.2613, 0.021)), "1.26× ± 0.02");
        assert_eq!(speed(one(1.2613, 0.0021)), "1.261× ± 0.002");
        assert_eq!(speed(one(1.2613, 0.00001)), "1.261× ± <0.001");
        assert_eq!(speed(Interval { mean: 2.0, half_width_95: None }), "2.00×");
        assert_eq!(relative_speed(one(1.02, 0.03)), "~1 ± 0.03", "inside its interval");
        assert_eq!(relative_speed(one(1.001, 0.0)), "~1 ± <0.01", "too small to matter");
        assert_eq!(relative_speed(one(0.9, 0.03)), "0.90× ± 0.03");
        assert_eq!(share(one(0.1234, 0.004)), "12.3 ± 0.4 %");
        assert_eq!(share(one(0.1234, 0.0001)), "12.3 ± <0.1 %");
    }

    #[test]
    fn exact_numbers_keep_their_digits() {
        assert_eq!(exact(&Number::from(31_234_567u64)), "31,234,567");
        assert_eq!(exact(&Number::from(100u64)), "100");
        assert_eq!(exact(&Number::from_f64(12.345678).unwrap()), "12.3457");
        assert_eq!(exact(&Number::from_f64(0.5).unwrap()), "0.5");
        assert_eq!(exact(&Number::from_f64(0.0).unwrap()), "0");
        assert_eq!(exact(&Number::from(999_999_999_999_999u64)), "999,999,999,999,999");
        assert_eq!(exact(&Number::from(u64::MAX)), "1.84467e19");
        assert_eq!(exact(&Number::from(10u64.pow(15))), "1e15");
        assert_eq!(exact(&Number::from_f64(1.234_567_890_123_456_7e-8).unwrap()), "1.23457e-8");
        assert_eq!(exact(&Number::from_f64(-1.5e300).unwrap()), "-1.5e300");
    }

    /// Values on both sides of each limit.
    #[test]
    fn digits_are_as_many_as_the_size_asks_for() {
        type Row = (fn(f64) -> String, f64, &'static str);
        let rows: [Row; 52] = [
            (ratio, 0.9994, "0.999"),
            (ratio, 0.9996, "1.00"),
            (ratio, 99.994, "99.99"),
            (ratio, 99.996, "100.0"),
            (ratio, 999.94, "999.9"),
            (ratio, 999.96, "1000"),
            (ratio, 99_999.4, "99999"),
            (ratio, 99_999.6, "100k"),
            (ratio, 0.0, "0"),
            (ratio, 0.00049, "<0.001"),
            (ratio, 0.00051, "0.001"),
            (ratio, -0.5, "-0.500"),
            (ratio, -99_999.6, "-100k"),
            (ratio, f64::INFINITY, MISSING),
            (|value| ratio_with(value, 0), 0.4, "0"),
            (|value| ratio_with(value, 2), 0.0049, "<0.01"),
            (|value| ratio_with(value, 2), 0.0051, "0.01"),
            (times, -0.0049, "0.00×"),
            (times, -0.0051, "-0.01×"),
            (times, 99_999.4, "99999.40×"),
            (times, 99_999.6, "100k×"),
            (percent, -0.0004, "0.0 %"),
            (percent, -0.0006, "-0.1 %"),
            (percent, 999.99, "99999.0 %"),
            (percent, 1000.0, "100k %"),
            (compact, 0.0, "0"),
            (compact, 0.5, "0.50"),
            (compact, 12.0, "12"),
            (compact, 12.34, "12.3"),
            (compact, 9.994, "9.99"),
            (compact, 9.996, "10.0"),
            (compact, 99.94, "99.9"),
            (compact, 99.96, "100"),
            (compact, 9999.4, "9999"),
            (compact, 9999.6, "10.0k"),
            (compact, 99_940.0, "99.9k"),
            (compact, 99_960.0, "100k"),
            (compact, 999_499.0, "999k"),
            (compact, 999_500.0, "1.00M"),
            (compact, 9.994e6, "9.99M"),
            (compact, 2e9, "2.00G"),
            (compact, 3e12, "3.00T"),
            (compact, 4e15, "4.00P"),
            (compact, -20_000.0, "-20.0k"),
            (compact, f64::NAN, MISSING),
            (bytes, 0.0, "0 B"),
            (bytes, 1023.0, "1023 B"),
            (bytes, 1024.0, "1.00 KB"),
            (bytes, 1023.0 * 1024.0, "1023 KB"),
            (bytes, 1023.6 * 1024.0, "1.00 MB"),
            (bytes, 3.0 * 1024f64.powi(4), "3.00 TB"),
            (bytes, 3.0 * 1024f64.powi(5), "3.00 PB"),
        ];
        for (number, (write, value, text)) in rows.into_iter().enumerate() {
            assert_eq!(write(value), text, "row {number}: {value}");
        }
        let one = |mean, half| Interval { mean, half_width_95: Some(half) };
        assert_eq!(speed(one(1.2613, 0.0049)), "1.261× ± 0.005");
        assert_eq!(speed(one(1.2613, 0.0051)), "1.26× ± 0.01");
        assert_eq!(
            (plus_minus(0.0049, 2), plus_minus(0.0051, 2)),
            ("± <0.01".into(), "± 0.01".into())
        );
        assert_eq!(share(Interval { mean: -0.0004, half_width_95: None }), "0.0 %");
        assert_eq!(relative_speed(Interval { mean: 1.0, half_width_95: None }), "~1");
        assert_eq!(["sample"; 3].map(|noun| counted(1, noun))[0], "1 sample");
        assert_eq!(
            (counted(0, "sample"), counted(1200, "sample")),
            ("0 samples".into(), "1,200 samples".into())
        );
        let exactly = |value: f64| exact(&Number::from_f64(value).unwrap());
        assert_eq!([1e14, 1e15, -3.0].map(exactly), ["100000000000000", "1e15", "-3"]);
        assert_eq!([0.0001, 0.000_099, 123_456.78].map(exactly), ["0.0001", "9.9e-5", "123456.8"]);
    }
}
