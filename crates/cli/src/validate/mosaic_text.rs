//! Text output of `perforate validate` for mosaics: layouts that mix 4KB and 2MB pages in one program.

use perforate_host::validate::{Errors, MosaicOutcome, MosaicRow, Spread};
use perforate_report::text::wrapped;

use crate::machine_text::{TableLayout, title};
use crate::output::{notes, text_columns};

/// Widths of the columns: layout, measured ratio with its spread, predicted ratios with errors and verdicts.
const TABLE: TableLayout = TableLayout { name: 18, measured: 19, value: 21 };

/// Formats all results of a validation with mosaics of page sizes.
pub fn text(outcome: &MosaicOutcome) -> String {
    let mut text = title(outcome, &outcome.summary());
    text +=
        "\nTime with 4KB pages only ÷ time with the layout; predicted, its difference in points\n";
    for program in outcome.programs() {
        text += &format!("\n{}", wrapped("", program, text_columns()));
        text += &TABLE.heading(outcome, "median (least–most)");
        outcome.rows_of(program).for_each(|row| text += &line(row));
    }
    text += "\nDifferences of predicted and measured effects in points: median | worst; of all effects\n";
    text += &TABLE.heading(outcome, "judged, noisy, none");
    let scores = outcome.scores();
    for (number, program) in outcome.programs().iter().enumerate() {
        let errors: Vec<Errors> = scores.iter().map(|score| score.programs[number].1).collect();
        text += &errors_line(program, &errors);
    }
    let errors: Vec<Errors> = scores.iter().map(|score| score.errors).collect();
    text += &errors_line("all programs", &errors);
    text + "\n" + notes(&outcome.notes, text_columns()).as_str()
}

fn line(row: &MosaicRow) -> String {
    let measured = row.ratio.map_or("–".into(), |Spread { min, median, max }| {
        format!("{median:.2} ({min:.2}–{max:.2})")
    });
    let predicted = row.predicted.iter().map(|predicted| {
        let error = predicted.error.map_or(String::new(), |error| format!("{:+.0}", 100.0 * error));
        let verdict = predicted.verdict.map_or("no pages".into(), |verdict| verdict.to_string());
        format!("{:.2} {error} {verdict}", predicted.ratio)
    });
    TABLE.line(&row.layout, &measured, predicted)
}

fn errors_line(name: &str, errors: &[Errors]) -> String {
    let counts = errors.first().map_or(String::new(), |errors| {
        let none = errors.no_effect + errors.not_obtained;
        format!("{}, {}, {none}", errors.judged, errors.noisy)
    });
    let points =
        |share: Option<f64>| share.map_or("–".into(), |share| format!("{:.1}", 100.0 * share));
    let values = errors.iter().map(|errors| {
        let all =
            errors.effect_error.map_or(String::new(), |share| format!("; {:.0} %", 100.0 * share));
        format!("{} | {}{all}", points(errors.median_error), points(errors.worst_error))
    });
    TABLE.line(name, &counts, values)
}

#[cfg(test)]
mod tests {
    use crate::output::COLUMNS;
    use perforate_host::validate::{MosaicPrediction, Verdict};

    use super::*;

    #[test]
    fn lines_fit_a_terminal() {
        let predicted = MosaicPrediction {
            assumption: "VM, host 4KB",
            ratio: 1.1,
            error: Some(-0.451),
            verdict: Some(Verdict::Disagrees),
        };
        let mut row = MosaicRow {
            program: "a program".into(),
            layout: "random 1/2".into(),
            ratio: Some(Spread { min: 1.9, median: 2.0, max: 2.1 }),
            large_bytes: 1 << 20,
            obtained_share: Some(1.0),
            predicted: vec![predicted; 3],
        };
        let found = line(&row);
        assert_eq!(found.trim_end().chars().count(), COLUMNS, "{found}");
        assert!(
            found.starts_with("random 1/2           2.00 (1.90–2.10)   1.10 -45 disagrees"),
            "{found}"
        );
        row.predicted[0].verdict = None;
        assert!(line(&row).contains("1.10 -45 no pages"));
        let errors = Errors {
            judged: 5,
            noisy: 1,
            median_error: Some(0.0612),
            worst_error: Some(0.2),
            no_effect: 2,
            effect_error: Some(0.456),
            ..Errors::default()
        };
        let found = errors_line("all programs", &[errors; 3]);
        assert_eq!(found.trim_end().chars().count(), COLUMNS);
        assert!(found.contains("5, 1, 2") && found.contains("6.1 | 20.0; 46 %"), "{found}");
    }
}
