//! Text output of `perforate calibrate`.

use std::path::Path;

use perforate_host::calibrate::{Calibration, NearestMachine, Quantity};
use perforate_host::validate::Spread;
use perforate_report::text::wrapped;

use crate::machine_text::{TableLayout, processor_name};
use crate::output::{notes, text_columns};

/// Widths of the columns: quantity, measured value with its spread, values of the machine file.
const TABLE: TableLayout = TableLayout { name: 38, measured: 32, value: 13 };

/// Formats all results of a calibration; `file` is the written machine file.
pub fn text(found: &Calibration, file: &Path) -> String {
    let mut text = processor_name(&found.processor) + "\n\n";
    text += &TABLE.line("", "median (least–most)", ["before", "in the file"]);
    found.quantities.iter().for_each(|quantity| text += &line(quantity));
    let assumption = match found.processor.is_virtual() {
        true => format!(" (simulated: {})", found.assumption),
        false => String::new(),
    };
    text += &format!("\nThe same chases, nanoseconds a load{assumption}\n");
    text += &TABLE.line("", "measured", ["simulated", "ratio"]);
    for check in &found.checks {
        let measured = check.measured_ns.map_or("–".into(), |ns| spread(&ns, "ns"));
        let ratio = check.ratio().map_or("–".into(), |ratio| format!("{ratio:.2}"));
        let simulated = format!("{:.1}", check.simulated_ns);
        text += &TABLE.line(&check.name, &measured, [simulated, ratio]);
    }
    text += &found.nearest.as_ref().map_or(String::new(), nearest);
    let verdict = if found.is_too_noisy() {
        "This machine is too noisy now: more than a third of the quantities spread over half of \
         their median. Do not rely on the file; measure again."
            .to_owned()
    } else {
        format!(
            "{} is {} with what was measured here. Predict with it: --machine {}",
            file.display(),
            found.base,
            file.display()
        )
    };
    text += &format!("\n{}\n", wrapped("", &verdict, text_columns()));
    let remarks = found.quantities.iter().filter_map(|quantity| {
        let remark = quantity.remark.as_ref()?;
        (remark != "as the processor states").then(|| format!("{}: {remark}", quantity.name))
    });
    let all: Vec<String> = found.notes.iter().cloned().chain(remarks).collect();
    text + notes(&all, text_columns()).as_str()
}

/// Formats the nearest known machine and the values that differ from it.
fn nearest(found: &NearestMachine) -> String {
    let NearestMachine { nearest, values, mean_ratio, differences } = found;
    let sentence = format!(
        "Of the known machines, {nearest} is nearest: {} of {values} values differ by more than their \
         spread and a tenth, on average by a factor of {mean_ratio:.2}.",
        differences.len()
    );
    let mut text = format!("\n{}\n", wrapped("", &sentence, text_columns()));
    if !differences.is_empty() {
        text += &TABLE.line("", "in the file", ["known", "ratio"]);
    }
    for one in differences {
        let values = [digits(one.known), format!("{:.2}", one.measured / one.known)];
        text += &TABLE.line(one.name, &digits(one.measured), values);
    }
    text
}

fn line(quantity: &Quantity) -> String {
    let unit = quantity.unit;
    let measured = match quantity.measured {
        Some(measured) if quantity.is_noisy() => format!("{} noisy", spread(&measured, unit)),
        Some(measured) => spread(&measured, unit),
        None => "–".into(),
    };
    // The key of this value, which is not the measured one, names its unit.
    let shown = if quantity.key == Some("walker.read_overhead_cycles") { "" } else { unit };
    let value = |value: Option<f64>| value.map_or(String::new(), |value| with_unit(value, shown));
    TABLE.line(quantity.name, &measured, [value(quantity.before), value(quantity.value)])
}

fn spread(spread: &Spread, unit: &str) -> String {
    let number = |value| match unit {
        "bytes" => amount(value),
        _ => digits(value),
    };
    let text = format!("{} ({}–{})", number(spread.median), number(spread.min), number(spread.max));
    match unit {
        "" | "bytes" | "entries" => text,
        _ => format!("{text} {unit}"),
    }
}

fn with_unit(value: f64, unit: &str) -> String {
    if unit == "bytes" { amount(value) } else { digits(value) }
}

/// Formats a size in bytes in the largest unit that fits.
fn amount(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1048576.0 => format!("{}M", digits(bytes / 1048576.0)),
        bytes => format!("{}K", digits(bytes / 1024.0)),
    }
}

/// Formats a value with about three digits; whole numbers without a point.
fn digits(value: f64) -> String {
    match value {
        value if value.fract() == 0.0 || value.abs() >= 100.0 => format!("{value:.0}"),
        value if value.abs() >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_do_not_touch() {
        let line = TABLE.line("", "median (least–most)", ["before", "in the file"]);
        assert!(line.ends_with("median (least–most)       before  in the file\n"), "{line}");
    }

    #[test]
    fn numbers() {
        let shown: Vec<_> = [5.0, 0.123, 12.34, 123.4].map(digits).into();
        assert_eq!(shown, ["5", "0.12", "12.3", "123"]);
        assert_eq!((amount(49152.0), amount(1310720.0)), ("48K".into(), "1.25M".into()));
        let values = Spread { min: 1.0, median: 2.5, max: 4.0 };
        assert_eq!(spread(&values, "ns"), "2.50 (1–4) ns");
        assert_eq!(spread(&values, "entries"), "2.50 (1–4)");
    }
}
