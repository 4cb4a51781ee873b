//! Notation of the values of experiments: percentages, gains, factors or plain numbers.

use perforate_records::{AxisForm, Show};

use crate::format::{MISSING, compact, exact, ratio_with, times};
use crate::html::{Cell, Heading};

/// Scale, format and unit of values in one notation, such as percent, gain or ratio.
pub(super) struct Notation {
    /// Function that converts a value to the unit in which charts and CSV files show it, such as percent.
    pub scale: fn(f64) -> f64,
    /// Function that writes a converted value as text.
    pub write: fn(f64) -> String,
    /// Unit after the numbers on an axis; empty for plain numbers.
    pub suffix: &'static str,
    /// Unit in the heading of a table's column; empty for plain numbers.
    pub unit: &'static str,
}

/// Formatting of values in the notation of a curve or claim.
pub(super) trait Written: Copy {
    fn notation(self) -> Notation;

    /// Converts a value to the unit in which charts and CSV files show it, such as percent.
    fn shown(self, value: f64) -> f64 {
        (self.notation().scale)(value)
    }

    fn text(self, value: f64) -> String {
        (self.notation().write)(self.shown(value))
    }

    /// Writes the value; “–” if it is missing.
    fn text_or_missing(self, value: Option<f64>) -> String {
        let value = value.filter(|value| value.is_finite());
        value.map_or_else(|| MISSING.to_owned(), |value| self.text(value))
    }

    /// Writes the size of a difference between two values; differences of percentages are in points.
    fn size_text(self, size: f64) -> String;

    fn cell(self, value: Option<f64>) -> Cell {
        Cell::value(value.map(|value| self.shown(value)), self.notation().write)
    }

    /// Returns the heading, with the unit, of a column named `name` with values in this notation.
    fn heading(self, name: &str) -> Heading {
        match self.notation().unit {
            "" => name.into(),
            unit => Heading::with_unit(name, unit),
        }
    }
}

impl Written for Show {
    fn notation(self) -> Notation {
        let notation = |scale, write, suffix, unit| Notation { scale, write, suffix, unit };
        match self {
            Self::Percent => notation(|value| value * 100.0, percent, " %", "%"),
            Self::Gain => notation(|value| (value - 1.0) * 100.0, gain, " %", "gain in %"),
            Self::Ratio => notation(|value| value, times, "×", "×"),
            Self::Number => notation(|value| value, number, "", ""),
        }
    }

    fn size_text(self, size: f64) -> String {
        match self {
            Self::Percent | Self::Gain => format!("{} points", ratio_with(size * 100.0, 2)),
            Self::Ratio | Self::Number => number(size),
        }
    }
}

/// Returns the notation of positions on an experiment's axis: percent for shares, otherwise plain numbers.
pub(super) fn of_axis(form: AxisForm) -> Show {
    match form {
        AxisForm::Share => Show::Percent,
        AxisForm::Number | AxisForm::Places => Show::Number,
    }
}

/// Formats a percentage with two decimals, one more than papers print.
fn percent(percent: f64) -> String {
    match percent.abs() {
        size if size >= 99_999.5 => format!("{} %", compact(percent)),
        0.0 => "0 %".into(),
        size if size < 0.005 => format!("{percent:.0e} %"),
        _ => format!("{percent:.2} %"),
    }
}

fn gain(percent: f64) -> String {
    match percent.abs() {
        size if size >= 99_999.5 => format!("{} %", compact(percent)),
        size if size < 0.005 => "0 %".into(),
        size if size < 9.995 => format!("{percent:+.2} %"),
        _ => format!("{percent:+.1} %"),
    }
}

/// Writes a number: integers with thousands separators, others with four significant digits.
fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    if value.fract() == 0.0 && size < 1e15 {
        let sign = if value < 0.0 { "-" } else { "" };
        return sign.to_owned() + &exact(&(size as u64).into());
    }
    match size {
        _ if !(1e-4..1e15).contains(&size) => format!("{value:.3e}"),
        _ if size >= 1000.0 => number(value.round()),
        _ => {
            let digits = 3 - size.log10().floor() as i32;
            let text = format!("{value:.*}", digits.max(0) as usize);
            let text = if text.contains('.') { text.trim_end_matches('0') } else { &text };
            text.trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_a_digit_more_than_the_paper() {
        assert_eq!(Show::Percent.text(0.933), "93.30 %");
        assert_eq!(Show::Percent.text(0.0), "0 %");
        assert_eq!(Show::Percent.text(-0.000_3), "-0.03 %");
        assert_eq!(Show::Percent.text(2.6e-13), "3e-11 %");
    }

    #[test]
    fn gains_have_a_sign_and_start_at_one() {
        assert_eq!(Show::Gain.text(1.594), "+59.4 %");
        assert_eq!(Show::Gain.text(0.688), "-31.2 %");
        assert_eq!(Show::Gain.text(0.95), "-5.00 %");
        assert_eq!(Show::Gain.text(1.0), "0 %");
    }

    #[test]
    fn other_numbers() {
        assert_eq!(Show::Ratio.text(2.4), "2.40×");
        for (value, text) in [
            (17.0, "17"),
            (2_097_152.0, "2,097,152"),
            (-2048.0, "-2,048"),
            (0.1, "0.1"),
            (1.048_72, "1.049"),
            (12.345, "12.35"),
            (9_999.9, "10,000"),
            (1.5e-9, "1.500e-9"),
            (1e300, "1.000e300"),
        ] {
            assert_eq!(Show::Number.text(value), text);
        }
        assert_eq!(Show::Number.text_or_missing(Some(f64::NAN)), MISSING);
    }

    #[test]
    fn digits_of_small_and_large_values() {
        for (show, value, text) in [
            (Show::Percent, 999.99, "99999.00 %"),
            (Show::Percent, 1000.0, "100k %"),
            (Show::Percent, 0.000_049, "5e-3 %"),
            (Show::Percent, 0.000_051, "0.01 %"),
            (Show::Gain, 1.000_049, "0 %"),
            (Show::Gain, 1.000_051, "+0.01 %"),
            (Show::Gain, 0.999_949, "-0.01 %"),
            (Show::Gain, 1.0999, "+9.99 %"),
            (Show::Gain, 1.099_96, "+10.0 %"),
            (Show::Gain, 1000.9, "+99990.0 %"),
            (Show::Gain, 1001.0, "100k %"),
            (Show::Number, 0.000_1, "0.0001"),
            (Show::Number, 0.000_099, "9.900e-5"),
            (Show::Number, 999.96, "1000"),
            (Show::Number, 999.5, "999.5"),
            (Show::Number, 1000.5, "1,001"),
            (Show::Number, 1e14, "100,000,000,000,000"),
            (Show::Number, 1e15, "1.000e15"),
            (Show::Number, 0.0, "0"),
            (Show::Number, f64::INFINITY, MISSING),
        ] {
            assert_eq!(show.text(value), text, "{show:?} {value}");
        }
        let units = [Show::Percent, Show::Gain, Show::Ratio, Show::Number]
            .map(|show| (show.notation().suffix, show.notation().unit, show.shown(1.5)));
        assert_eq!(
            units,
            [(" %", "%", 150.0), (" %", "gain in %", 50.0), ("×", "×", 1.5), ("", "", 1.5)]
        );
        let forms = [AxisForm::Share, AxisForm::Number, AxisForm::Places].map(of_axis);
        assert_eq!(forms, [Show::Percent, Show::Number, Show::Number]);
    }
}
