//! Outcome of a validation by mosaics: measurement and prediction for each program and layout, and errors
//! overall and per program.

use serde::Serialize;

use super::errors::Errors;
use super::row::MosaicRow;
use super::{Cycles, Measured};
use crate::machine::LargePageSettings;
use crate::validate::limits::EFFECT_TOLERANCE;
use crate::validate::outcome::{Outcome, Ranked, closest, under};
use crate::validate::plan::Assumption;

/// Outcome of a validation by mosaics (layouts of 4KB and 2MB pages), with one row for each program and
/// layout, grouped by program.
pub type MosaicOutcome = Outcome<MosaicRow>;

/// Errors of the predictions under one assumption about the host's page tables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MosaicScore {
    /// Name of the assumption about the host's page tables, as in tables.
    pub assumption: &'static str,
    /// Prediction errors over the rows of all programs.
    #[serde(flatten)]
    pub errors: Errors,
    /// Name of each program, and summary of the prediction errors over its rows.
    pub programs: Vec<(String, Errors)>,
}

impl Ranked for MosaicScore {
    fn assumption(&self) -> &'static str {
        self.assumption
    }

    fn judged(&self) -> usize {
        self.errors.judged
    }

    fn effect_error(&self) -> Option<f64> {
        self.errors.effect_error
    }
}

impl MosaicOutcome {
    /// Adds the rows of a program, one per layout, to the outcome. `cycles` has the simulated cycles of each
    /// layout under each assumption about the host's page tables.
    pub(super) fn add(&mut self, program: &str, measured: &Measured, cycles: &[Cycles]) {
        // Two samples may be different parts of the same program.
        let taken = self.programs().iter().filter(|name| name.starts_with(program)).count();
        let name = if taken == 0 { program.into() } else { format!("{program} #{}", taken + 1) };
        self.rows.extend(MosaicRow::of_program(&name, measured, cycles, &self.assumptions));
        self.notes.extend(measured.notes.iter().map(|note| format!("{name}: {note}")));
    }

    /// Names of the programs, in the order of their rows.
    pub fn programs(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.rows.iter().map(|row| row.program.as_str()).collect();
        names.dedup();
        names
    }

    /// Rows of the program with this name.
    pub fn rows_of<'a>(&'a self, program: &'a str) -> impl Iterator<Item = &'a MosaicRow> {
        self.rows.iter().filter(move |row| row.program == program)
    }

    /// Summary of the prediction errors under each assumption about the host's page tables, in the order of
    /// `assumptions`.
    pub fn scores(&self) -> Vec<MosaicScore> {
        let score = |(index, assumption): (usize, &Assumption)| MosaicScore {
            assumption: assumption.name,
            errors: Errors::of(self.rows.iter(), index),
            programs: self
                .programs()
                .into_iter()
                .map(|name| (name.to_owned(), Errors::of(self.rows_of(name), index)))
                .collect(),
        };
        self.assumptions.iter().enumerate().map(score).collect()
    }

    /// Scores of the assumption about the host's page tables that predicts best, and of assumptions that
    /// predict about equally well, best first. Empty if no effect of 2MB pages could be judged.
    pub fn closest(&self) -> Vec<MosaicScore> {
        closest(self.scores())
    }

    /// Summary of the outcome for the user, in a few sentences.
    pub fn summary(&self) -> String {
        let closest = self.closest();
        let [best, others @ ..] = closest.as_slice() else {
            return "Nothing could be judged: the measurements are too noisy, no layout has an effect, or \
                    none was obtained."
                .into();
        };
        let others = others.iter().map(|score| score.assumption);
        let under = under(self.assumptions.len(), best.assumption, others);
        let errors = &best.errors;
        let percent = |share: Option<f64>| 100.0 * share.unwrap_or(0.0);
        let all = errors.effect_error.map_or(String::new(), |error| {
            let percent = 100.0 * error;
            format!(" In all, predictions miss {percent:.0} % of the effects (100 % is no effect).")
        });
        format!(
            "{} of {} layouts of {} programs with an effect are predicted within {:.0} % of it{under}. \
             Differences are {:.1} points in the median and {:.1} at worst.{all} Not judged: {} without \
             an effect to predict, {} too noisy, {} not obtained.",
            errors.agrees,
            errors.judged,
            self.programs().len(),
            100.0 * EFFECT_TOLERANCE,
            percent(errors.median_error),
            percent(errors.worst_error),
            errors.no_effect,
            errors.noisy,
            errors.not_obtained
        )
    }

    /// Rows and summary of the outcome as lines of JSON.
    pub fn json_lines(&self) -> String {
        self.lines(self.scores(), &self.closest(), None)
    }

    /// Adds notes for the user on possible reasons for differences between predictions and measurements.
    pub(super) fn add_notes(&mut self) {
        let setting = LargePageSettings::now().get("enabled").unwrap_or("unknown").to_owned();
        if setting != "madvise" {
            self.notes.push(format!(
                "transparent_hugepage/enabled is \"{setting}\"; with \"madvise\" only the intervals of \
                 a layout get 2MB pages, as predicted"
            ));
        }
        if self.processor.is_virtual() {
            self.notes.push(
                "this is a virtual machine: the pages of its host cannot be seen from inside, and \
                 other machines share its caches and memory; the best fit is no proof of what the \
                 host does"
                    .into(),
            );
        }
        if self.rows.iter().any(|row| !row.is_obtained()) {
            self.notes.push(
                "layouts that were not obtained: the kernel gave less than 95 % of their 2MB pages, \
                 or the program has no memory there; they are not judged"
                    .into(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_sim::Machine;

    use super::*;
    use crate::layout::{Layout, Shape};
    use crate::machine::Processor;
    use crate::validate::mosaic::{Pages, Rounds};
    use crate::validate::verdict::Verdict;

    const ASSUMPTIONS: [Assumption; 2] = [
        Assumption { name: "one", schemes: ["4k", "thp"] },
        Assumption { name: "two", schemes: ["4k+4k", "thp+4k"] },
    ];

    /// Creates measurements in which each layout takes these seconds in two rounds, and `obtained`
    /// of 100 wanted bytes are in 2MB pages.
    fn measured(seconds: &[[f64; 2]], obtained: &[u64]) -> Measured {
        let mut rounds = Rounds::default();
        for round in 0..2 {
            rounds.begin(seconds.len());
            seconds.iter().enumerate().for_each(|(layout, both)| rounds.add(layout, both[round]));
        }
        let layout = |(number, _): (usize, _)| Layout {
            name: [Shape::AllSmall, Shape::AllLarge, Shape::Alternating][number].name(),
            ..Layout::default()
        };
        Measured {
            layouts: seconds.iter().enumerate().map(layout).collect(),
            rounds,
            pages: obtained
                .iter()
                .map(|&large_bytes| Pages { wanted_bytes: 100, large_bytes })
                .collect(),
            notes: vec!["a remark".into()],
        }
    }

    fn outcome() -> MosaicOutcome {
        let machine = Machine::load("zen4-genoa").unwrap();
        MosaicOutcome::new(&Processor::default(), &machine, &ASSUMPTIONS, Vec::new())
    }

    #[test]
    fn errors_by_hand() {
        let mut found = outcome();
        // With all 2MB, the ratio is measured as 2.0, predicted as 1.8 and 2.2; with every second,
        // 1.25, and 1.0 and 1.25.
        let times = [[4.0, 4.0], [2.0, 2.0], [3.2, 3.2]];
        let cycles = [vec![9.0, 11.0], vec![5.0, 5.0], vec![9.0, 8.8]];
        found.add("program", &measured(&times, &[0, 100, 96]), &cycles);
        assert_eq!(found.rows.len(), 2, "the base has no row");
        let [large, second] = &found.rows[..] else { panic!("two rows") };
        assert_eq!((large.layout.as_str(), second.layout.as_str()), ("all 2MB", "every second"));
        assert!((large.predicted[0].error.unwrap() + 0.2).abs() < 1e-12);
        assert!((large.predicted[1].error.unwrap() - 0.2).abs() < 1e-12);
        assert!((second.predicted[0].error.unwrap() + 0.25).abs() < 1e-12);
        assert_eq!(second.predicted[1].verdict, Some(Verdict::Agrees));
        assert_eq!(second.predicted[0].verdict, Some(Verdict::Disagrees));
        let scores = found.scores();
        assert!((scores[0].errors.median_error.unwrap() - 0.225).abs() < 1e-12);
        assert!((scores[0].errors.worst_error.unwrap() - 0.25).abs() < 1e-12);
        // The assumptions miss 0.2 + 0.25 and 0.2 of effects of 1 + 0.25.
        assert!((scores[0].errors.effect_error.unwrap() - 0.36).abs() < 1e-12);
        assert!((scores[1].errors.effect_error.unwrap() - 0.16).abs() < 1e-12);
        assert_eq!((scores[0].errors.agrees, scores[1].errors.agrees), (1, 2));
        assert_eq!(scores[1].programs[0].1, scores[1].errors);
        assert_eq!(found.closest()[0].assumption, "two");
        let summary = found.summary();
        let expected = "2 of 2 layouts of 1 programs with an effect are predicted within 25 % of it \
                        under \"two\", which fits best.";
        assert!(summary.starts_with(expected), "{summary}");
        assert!(summary.contains("10.0 points in the median and 20.0 at worst"), "{summary}");
        assert!(summary.contains("miss 16 % of the effects"), "{summary}");
    }

    /// A layout without an effect does not count as success for a prediction of no effect.
    #[test]
    fn layouts_without_an_effect_count_for_nothing() {
        let mut found = outcome();
        let times = [[4.0, 4.0], [3.98, 4.02], [4.0, 3.99]];
        let cycles = [vec![9.0, 11.0], vec![9.0, 11.0], vec![9.0, 11.0]];
        found.add("program", &measured(&times, &[0, 100, 100]), &cycles);
        let errors = found.scores()[0].errors;
        assert_eq!((errors.judged, errors.no_effect, errors.median_error), (0, 2, None));
        assert!(found.summary().starts_with("Nothing could be judged"));
    }

    #[test]
    fn noisy_rows_and_those_not_obtained_have_no_error() {
        let mut found = outcome();
        let times = [[4.0, 4.0], [1.0, 4.0], [2.0, 2.0]];
        let cycles = [vec![2.0, 2.0], vec![1.0, 1.0], vec![1.0, 1.0]];
        found.add("program", &measured(&times, &[0, 100, 94]), &cycles);
        found.add("program", &measured(&times[..1], &[0]), &cycles);
        let errors = found.scores()[0].errors;
        assert_eq!((errors.judged, errors.noisy, errors.not_obtained), (0, 1, 1));
        assert_eq!((errors.median_error, errors.worst_error), (None, None));
        assert!(found.summary().starts_with("Nothing could be judged"));
        found.add_notes();
        let notes = found.notes.join("\n");
        assert!(notes.contains("program: a remark") && notes.contains("not obtained"), "{notes}");
        let lines = found.json_lines();
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(first["predicted"][0]["verdict"], "noisy");
        assert_eq!(first["layout"], "all 2MB");
        let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(last["overall"][1]["not_obtained"], 1);
    }

    #[test]
    fn programs_with_equal_command_lines_get_distinct_names() {
        let mut found = outcome();
        for _ in 0..2 {
            let cycles = [vec![2.0, 2.0], vec![1.0, 1.0]];
            found.add("program", &measured(&[[2.0, 2.0], [1.0, 1.0]], &[0, 100]), &cycles);
        }
        assert_eq!(found.programs(), ["program", "program #2"]);
        assert_eq!(found.rows_of("program").count(), 1);
    }
}
