//! Outcome of a validation: all measurements and predictions, the assumption about the host's page tables
//! that fits best, and possible reasons for differences.

use perforate_records::json_line;
use perforate_sim::Machine;
use serde::Serialize;

use super::limits::{EFFECT_TOLERANCE, INDISTINGUISHABLE, MOSTLY, SHARED_PROCESSOR, SLOW_CHASE};
use super::plan::Assumption;
use super::predict::Origin;
use super::row::RowOutcome;
use super::verdict::{Verdict, effect_error, typical_factor};
use crate::counters::Absence;
use crate::machine::Processor;

/// Numbers of result rows (a benchmark at one size, or a program) by verdict on the prediction, under one
/// assumption about the host's page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// Name of the assumption about the host's page tables, as in tables.
    pub assumption: &'static str,
    /// Number of rows (benchmarks or programs) whose predicted speed-up by 2MB pages agrees with the measured
    /// one, within the tolerance.
    pub agrees: usize,
    /// Number of rows (benchmarks or programs) in which 2MB pages help, or harm, in both measurement and
    /// prediction, but by different amounts.
    pub same_direction: usize,
    /// Number of rows (benchmarks or programs) in which only one of measurement and prediction shows an
    /// effect of 2MB pages, or the effects have opposite signs.
    pub disagrees: usize,
    /// Number of rows (benchmarks or programs) whose measured run times spread too far for a verdict.
    pub noisy: usize,
    /// Number of rows (benchmarks or programs) in which 2MB pages change neither the measured nor the
    /// predicted time.
    pub no_effect: usize,
    /// Sum of the absolute differences between predicted and measured effects (speed-up by 2MB pages,
    /// minus 1) over all judged rows, divided by the sum of the absolute measured effects: 1 if no effect is
    /// predicted in any row. `None` if no row is judged.
    pub effect_error: Option<f64>,
    /// Number of rows (benchmarks or programs) with both measured and predicted absolute times.
    pub times: usize,
    /// Number of rows (benchmarks or programs) whose predicted absolute time is near the measured time.
    pub times_agree: usize,
    /// Geometric mean of the factors by which predicted times are too long or too short.
    pub time_factor: Option<f64>,
}

impl Score {
    fn of(assumption: &Assumption, rows: &[RowOutcome], index: usize) -> Self {
        let mut score = Self { assumption: assumption.name, ..Self::default() };
        let (mut effects, mut factors) = (Vec::new(), Vec::new());
        for row in rows {
            let predicted = &row.predicted[index];
            if let (Some(measured), Some(verdict)) = (row.ratio, predicted.verdict) {
                match verdict {
                    Verdict::Agrees => score.agrees += 1,
                    Verdict::SameDirection => score.same_direction += 1,
                    Verdict::Disagrees => score.disagrees += 1,
                    Verdict::Noisy => score.noisy += 1,
                    Verdict::NoEffect => score.no_effect += 1,
                }
                if verdict.is_judged() {
                    effects.push((measured.median, predicted.ratio));
                }
            }
            factors.extend(predicted.time_ratio);
            score.times_agree += usize::from(predicted.is_time_near() == Some(true));
        }
        score.effect_error = effect_error(&effects);
        score.times = factors.len();
        score.time_factor = typical_factor(&factors);
        score
    }

    /// Number of rows (benchmarks or programs) that are judged: neither too noisy nor without an effect of
    /// 2MB pages.
    pub fn judged(&self) -> usize {
        self.agrees + self.same_direction + self.disagrees
    }
}

impl Ranked for Score {
    fn assumption(&self) -> &'static str {
        self.assumption
    }

    fn judged(&self) -> usize {
        self.judged()
    }

    fn effect_error(&self) -> Option<f64> {
        self.effect_error
    }
}

/// Score of the predictions under one assumption about the host's page tables, for ranking by the error of
/// predicted effects.
pub(super) trait Ranked: Serialize {
    /// Name of the assumption about the host's page tables, as in tables.
    fn assumption(&self) -> &'static str;

    /// Number of rows (benchmarks or programs) that are judged: neither too noisy nor without an effect of
    /// 2MB pages.
    fn judged(&self) -> usize;

    /// Relative error of the predicted effects of 2MB pages; `None` if effects are predicted but none was
    /// measured.
    fn effect_error(&self) -> Option<f64>;
}

/// Scores of the assumption about the host's page tables that predicts best, and of assumptions that predict
/// about equally well, best first. Empty if no effect of 2MB pages could be judged.
pub(super) fn closest<S: Ranked>(mut scores: Vec<S>) -> Vec<S> {
    let error = |score: &S| score.effect_error().unwrap_or(f64::INFINITY);
    scores.retain(|score| score.judged() > 0);
    scores.sort_by(|a, b| error(a).total_cmp(&error(b)));
    let limit = scores.first().map_or(0.0, |best| error(best) + INDISTINGUISHABLE);
    scores.retain(|score| error(score) <= limit);
    scores
}

/// Outcome of a validation: the machine, all measurements and predictions, and notes.
pub struct Outcome<R = RowOutcome> {
    /// Processor on which the benchmarks and programs were measured.
    pub processor: Processor,
    /// Machine for which the benchmarks and programs were simulated.
    pub machine: Machine,
    /// Clock frequency of the processor in GHz, measured.
    pub clock_ghz: Option<f64>,
    /// Reason for missing hardware counters; `None` if there are counters. Validation by mosaics uses none.
    pub absence: Option<Absence>,
    /// Assumptions about the host's page tables, each of which was simulated.
    pub assumptions: Vec<Assumption>,
    /// Measurements and predictions of each benchmark or program.
    pub rows: Vec<R>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl<R: Serialize> Outcome<R> {
    pub(super) fn new(
        processor: &Processor,
        machine: &Machine,
        assumptions: &[Assumption],
        notes: Vec<String>,
    ) -> Self {
        Self {
            processor: processor.clone(),
            machine: machine.clone(),
            clock_ghz: None,
            absence: None,
            assumptions: assumptions.to_vec(),
            rows: Vec::new(),
            notes,
        }
    }

    /// Writes rows and summary as lines of JSON. `counters_absent`, a reason for missing hardware counters,
    /// is left out if `None`.
    pub(super) fn lines<S: Ranked>(
        &self,
        overall: Vec<S>,
        closest: &[S],
        counters_absent: Option<Option<String>>,
    ) -> String {
        #[derive(Serialize)]
        struct Summary<'a, S> {
            overall: Vec<S>,
            closest: Vec<&'static str>,
            processor: &'a str,
            is_virtual: bool,
            machine: &'a str,
            clock_ghz: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            counters_absent: Option<Option<String>>,
            notes: &'a [String],
            version: &'static str,
        }
        let summary = Summary {
            overall,
            closest: closest.iter().map(S::assumption).collect(),
            processor: &self.processor.name,
            is_virtual: self.processor.is_virtual(),
            machine: &self.machine.name,
            clock_ghz: self.clock_ghz,
            counters_absent,
            notes: &self.notes,
            version: env!("CARGO_PKG_VERSION"),
        };
        self.rows.iter().map(json_line).chain([json_line(&summary)]).collect()
    }
}

impl Outcome {
    /// Score of the predictions under each assumption, in the order of `assumptions`.
    pub fn scores(&self) -> Vec<Score> {
        let assumptions = self.assumptions.iter().enumerate();
        assumptions.map(|(index, assumption)| Score::of(assumption, &self.rows, index)).collect()
    }

    /// Scores of the assumption about the host's page tables that predicts best, and of assumptions that
    /// predict about equally well, best first. Empty if no effect of 2MB pages could be judged.
    pub fn closest(&self) -> Vec<Score> {
        closest(self.scores())
    }

    /// Summary for the user, in a few sentences: how many effects and times are predicted well, and
    /// which rows are wrong by most.
    pub fn summary(&self) -> String {
        let closest = self.closest();
        let names = || closest.iter().skip(1).map(|score| score.assumption);
        let best = closest.first().copied().or_else(|| self.best_times());
        let Some(best) = best else {
            return "Nothing could be judged: the measurements are too noisy.".into();
        };
        let under = under(self.assumptions.len(), best.assumption, names());
        let mut text = match best.judged() {
            0 => "No effect of 2MB pages could be judged".to_owned(),
            judged => format!(
                "{} of {judged} effects of 2MB pages {} predicted within {:.0} %{under}",
                best.agrees,
                if best.agrees == 1 { "is" } else { "are" },
                100.0 * EFFECT_TOLERANCE,
            ),
        };
        if let Some(error) = best.effect_error {
            text += &format!(
                "; in all, predictions miss {:.0} % of the effects (100 % is a prediction of no effect)",
                100.0 * error
            );
        }
        if let Some(factor) = best.time_factor {
            text += &format!(
                ". Of absolute times, {} of {} are, and typical ones are off by a factor of {factor:.1}",
                best.times_agree, best.times
            );
        }
        let index = self.assumptions.iter().position(|one| one.name == best.assumption);
        let farthest = index.map_or_else(Vec::new, |index| self.farthest(index));
        if !farthest.is_empty() {
            text += &format!(". Farthest off: {}", farthest.join("; "));
        }
        let left =
            [(best.noisy, "too noisy to judge"), (best.no_effect, "without an effect to predict")];
        for (count, what) in left.into_iter().filter(|(count, _)| *count > 0) {
            let rows = if count == 1 { "1 row is".into() } else { format!("{count} rows are") };
            text += &format!(". {rows} {what}");
        }
        text + "."
    }

    /// Score of the assumption whose predicted times are nearest to the measured times. Used if no effect
    /// could be judged.
    fn best_times(&self) -> Option<Score> {
        let factor = |score: &Score| score.time_factor.unwrap_or(f64::INFINITY);
        let scores = self.scores().into_iter().filter(|score| score.times > 0);
        scores.min_by(|a, b| factor(a).total_cmp(&factor(b)))
    }

    /// Describes, for the assumption with this index, the benchmark or program with the worst wrong effect,
    /// and the one with the worst wrong time. Leaves out either if none is wrong.
    fn farthest(&self, index: usize) -> Vec<String> {
        let mut found = Vec::new();
        let missed = self.rows.iter().filter_map(|row| {
            let predicted = &row.predicted[index];
            let is_missed = predicted.verdict.is_some_and(|verdict| {
                matches!(verdict, Verdict::SameDirection | Verdict::Disagrees)
            });
            let measured = row.ratio.filter(|_| is_missed)?.median;
            Some((row, measured, predicted.ratio))
        });
        let distance = |one: &(&RowOutcome, f64, f64)| (one.2 - one.1).abs();
        if let Some((row, measured, predicted)) =
            missed.max_by(|a, b| distance(a).total_cmp(&distance(b)))
        {
            found.push(format!(
                "the effect in {}, {:+.0} % measured and {:+.0} % predicted",
                row.name,
                100.0 * (measured - 1.0),
                100.0 * (predicted - 1.0)
            ));
        }
        let far = self.rows.iter().filter_map(|row| {
            let predicted = &row.predicted[index];
            let factor =
                predicted.time_ratio.filter(|_| predicted.is_time_near() == Some(false))?;
            Some((row, factor))
        });
        if let Some((row, factor)) = far.max_by(|a, b| a.1.ln().abs().total_cmp(&b.1.ln().abs())) {
            let (times, way) =
                if factor > 1.0 { (factor, "long") } else { (1.0 / factor, "short") };
            found.push(format!("the time of {}, predicted {times:.1} times too {way}", row.name));
        }
        found
    }

    /// Rows and summary of the outcome as lines of JSON.
    pub fn json_lines(&self) -> String {
        let absence = self.absence.as_ref().map(ToString::to_string);
        self.lines(self.scores(), &self.closest(), Some(absence))
    }

    /// Adds notes for the user on possible reasons for differences between predictions and measurements.
    pub(super) fn add_notes(&mut self) {
        let mut notes = Vec::new();
        if self.processor.is_virtual() {
            notes.push(
                "this is a virtual machine: the pages of its host cannot be seen from inside, and \
                 other machines share its caches, memory and perhaps its core; the best fit is no \
                 proof of what the host does"
                    .to_owned(),
            );
        }
        if let Some(clock) = self.clock_ghz {
            let (file, name) = (self.machine.core.frequency_ghz, &self.machine.name);
            notes.push(format!(
                "the clock runs at {clock:.2} GHz as measured; {name} says {file} GHz, by which \
                 predicted times are computed (their ratios hardly depend on it)"
            ));
        }
        notes.extend(self.absence.as_ref().map(ToString::to_string));
        notes.extend(self.remark_on_caches());
        notes.extend(self.remarks_on_pages());
        notes.extend(self.remark_on_waiting());
        if self.rows.iter().any(|row| row.origin == Origin::Synthetic) {
            notes.push(
                "recording needs qemu-x86_64 (apt-get install qemu-user); synthetic workloads of \
                 the same pattern stand in, with other instructions around their accesses"
                    .into(),
            );
        }
        notes.extend(self.rows.iter().flat_map(|row| row.notes.iter().cloned()));
        self.notes.extend(notes);
    }

    /// Returns a note if other programs seem to use the last-level cache: a pointer chase in 2MB pages, which
    /// hardly needs translation, fits into the machine file's cache but takes much longer than predicted.
    fn remark_on_caches(&self) -> Option<String> {
        let cache = &self.machine.cache;
        let largest_bytes = cache.llc.as_ref().unwrap_or(&cache.l2).size_bytes;
        let chases = self.rows.iter().filter(|row| row.is_chase && row.bytes <= largest_bytes);
        let times =
            |row: &RowOutcome| Some((row.large_ns?.median, row.predicted.first()?.large_pages_ns?));
        let mut slow = chases.filter_map(|row| Some((row, times(row)?)));
        let (row, (measured, predicted)) =
            slow.find(|(_, (measured, predicted))| *measured > SLOW_CHASE * predicted)?;
        Some(format!(
            "{} in 2MB pages takes {measured:.0} ns an access, {predicted:.0} by the caches of {}: \
             others are likely to use the shared cache too. Page tables that it would hold are read \
             from memory then, and 4KB pages cost more than predicted",
            row.name, self.machine.name
        ))
    }

    fn remarks_on_pages(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for row in self.rows.iter().filter(|row| row.small_ns.is_some()) {
            if let Some(share) = row.large_share.filter(|share| *share < MOSTLY) {
                remarks.push(format!(
                    "{}: only {:.0} % of the memory came in 2MB pages, the prediction is for all",
                    row.name,
                    100.0 * share
                ));
            }
        }
        let coalescing = self.machine.tlb.l2_coalescing;
        let coalesces = coalescing.is_some_and(|it| it.form.contiguity().is_none());
        let grouped = self.rows.iter().filter_map(|row| row.grouped_share);
        let lowest = grouped.reduce(f64::min);
        if let Some(lowest) = lowest.filter(|lowest| coalesces && *lowest < MOSTLY) {
            remarks.push(format!(
                "frames of 4KB pages are scattered here: as few as {:.0} % of a row's groups of four \
                 follow each other, which {} joins in one TLB entry; where memory was not aged \
                 (--age), all simulated ones do, and page tables of the host are read in order",
                100.0 * lowest,
                self.machine.name
            ));
        }
        remarks
    }

    fn remark_on_waiting(&self) -> Option<String> {
        let most = self.rows.iter().filter_map(|row| row.waiting).reduce(f64::max)?;
        (most > SHARED_PROCESSOR).then(|| {
            format!(
                "others had the processor: up to {:.0} % more time passed than was used; times are \
                 of the processor, but caches were shared",
                100.0 * (most - 1.0)
            )
        })
    }
}

/// Names the assumption that fits best, and those that fit equally well, as text for a sentence.
/// Empty if there is only one assumption.
pub(super) fn under<'a>(
    assumptions: usize,
    best: &str,
    others: impl Iterator<Item = &'a str>,
) -> String {
    let others: Vec<String> = others.map(|name| format!("\"{name}\"")).collect();
    match (assumptions, others.as_slice()) {
        (1, _) => String::new(),
        (_, []) => format!(" under \"{best}\", which fits best"),
        (_, others) => format!(" under \"{best}\" ({} fits as well)", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Rates;
    use crate::machine::Hypervisor;
    use crate::validate::predict::{Observed, Prediction, Simulated};
    use crate::validate::spread::Spread;

    const ASSUMPTIONS: [Assumption; 2] = [
        Assumption { name: "one", schemes: ["4k", "thp"] },
        Assumption { name: "two", schemes: ["4k", "thp"] },
    ];

    /// Creates a row with these measured ratios and 3 ns in 2MB pages. Both assumptions predict 1
    /// ns in 2MB pages.
    fn row(measured: &[f64], predicted: [f64; 2]) -> RowOutcome {
        let ratio = Spread::of(measured);
        let times = |ratio: f64| [Spread::of(&[3.0 * ratio]).unwrap(), Spread::of(&[3.0]).unwrap()];
        let ns = ratio.map(|ratio| times(ratio.median));
        let predict = |assumption, small| {
            let both = [small, 1.0].map(|ns| Simulated { ns, rates: Rates::default() });
            Prediction::new(assumption, both, &Observed::Operations { ratio, ns })
        };
        RowOutcome {
            name: "chase 1M".into(),
            ratio,
            small_ns: ns.map(|[small, _]| small),
            large_ns: ns.map(|[_, large]| large),
            seconds: None,
            predicted: vec![
                predict(ASSUMPTIONS[0], predicted[0]),
                predict(ASSUMPTIONS[1], predicted[1]),
            ],
            large_share: Some(1.0),
            grouped_share: Some(0.5),
            counters: None,
            waiting: Some(1.3),
            wall_ratio: None,
            origin: Origin::Recorded,
            is_chase: true,
            bytes: 1 << 20,
            notes: Vec::new(),
        }
    }

    fn outcome(rows: Vec<RowOutcome>) -> Outcome {
        let machine = Machine::load("zen4-genoa").unwrap();
        let processor = Processor::default();
        Outcome { rows, ..Outcome::new(&processor, &machine, &ASSUMPTIONS, Vec::new()) }
    }

    fn names(scores: &[Score]) -> Vec<&str> {
        scores.iter().map(|score| score.assumption).collect()
    }

    #[test]
    fn the_closest_assumption_is_named() {
        let found = outcome(vec![row(&[2.0], [1.0, 2.1]), row(&[1.5], [1.5, 1.2])]);
        let scores = found.scores();
        assert_eq!((scores[0].agrees, scores[0].disagrees), (1, 1));
        assert_eq!((scores[1].agrees, scores[1].same_direction), (1, 1));
        // Effects are 1.0 and 0.5. One assumption misses 1.0 of their sum; the other misses 0.1 and
        // 0.3.
        assert!((scores[0].effect_error.unwrap() - 1.0 / 1.5).abs() < 1e-12);
        assert!((scores[1].effect_error.unwrap() - 0.4 / 1.5).abs() < 1e-12);
        assert_eq!(names(&found.closest()), ["two"]);
        let summary = found.summary();
        assert!(
            summary.starts_with("1 of 2 effects of 2MB pages is predicted within 25 %"),
            "{summary}"
        );
        assert!(
            summary.contains("\"two\", which fits best; in all, predictions miss 27 %"),
            "{summary}"
        );
        assert!(
            summary.contains("0 of 2 are, and typical ones are off by a factor of 3."),
            "{summary}"
        );
        assert!(summary.contains("+50 % measured and +20 % predicted; the time of"), "{summary}");
        assert!(summary.contains("predicted 3.8 times too short"), "3 ns of 4.5, 1.2: {summary}");
    }

    /// A model that always predicts a ratio of 1.00 gets no credit, because it misses all effects.
    #[test]
    fn a_model_that_says_nothing_scores_nothing() {
        let measured =
            [[1.04, 1.05, 1.06], [1.4, 1.41, 1.42], [1.1, 1.11, 1.12], [0.98, 1.0, 1.02]];
        let rows = measured.iter().map(|measured| row(measured, [1.0, 1.0])).collect();
        let found = outcome(rows);
        let score = found.scores()[0];
        assert_eq!((score.agrees, score.disagrees, score.no_effect), (0, 3, 1));
        assert!((score.effect_error.unwrap() - 1.0).abs() < 1e-12);
        let summary = found.summary();
        assert!(summary.starts_with("0 of 3 effects of 2MB pages are"), "{summary}");
        assert!(summary.contains("miss 100 %"), "{summary}");
        assert!(summary.contains("1 row is without an effect to predict"), "{summary}");
    }

    #[test]
    fn indistinguishable_assumptions_are_both_named() {
        let found = outcome(vec![row(&[2.0], [2.01, 2.0])]);
        assert_eq!(names(&found.closest()), ["two", "one"]);
        let summary = found.summary();
        assert!(summary.contains("under \"two\" (\"one\" fits as well)"), "{summary}");
    }

    #[test]
    fn noise_is_no_verdict() {
        let found = outcome(vec![row(&[1.0, 2.0, 3.0], [2.0, 2.0])]);
        assert!(found.closest().is_empty());
        assert_eq!(found.scores()[0].noisy, 1);
        let summary = found.summary();
        assert!(
            summary.starts_with("No effect of 2MB pages could be judged. Of absolute"),
            "{summary}"
        );
        assert!(summary.contains("1 row is too noisy to judge"), "{summary}");
        assert!(outcome(Vec::new()).summary().contains("too noisy"));
    }

    #[test]
    fn remarks_and_lines_of_json() {
        let mut found = outcome(vec![row(&[2.0], [2.0, 2.0])]);
        found.processor.hypervisor = Hypervisor::Present(None);
        found.clock_ghz = Some(3.5);
        found.absence = crate::counters::Counting::of_thread().err();
        let is_counted = found.absence.is_none();
        found.add_notes();
        let all = found.notes.join("\n");
        for expected in [
            "virtual machine",
            "takes 3 ns an access, 1 by",
            "3.50 GHz",
            "as few as 50 %",
            "30 % more",
        ] {
            assert!(all.contains(expected), "{expected}: {all}");
        }
        assert_eq!(!all.contains("hardware counters are not available here"), is_counted, "{all}");
        let lines = found.json_lines();
        assert_eq!(lines.lines().count(), 2);
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(first["predicted"][0]["verdict"], "agrees");
        assert_eq!(first["predicted"][1]["assumption"], "two");
        assert_eq!(first["measured_ratio"]["median"], 2.0);
    }

    #[test]
    fn slow_chases_that_fit_the_cache_are_remarked() {
        let cache = Machine::load("zen4-genoa").unwrap().cache;
        let largest = cache.llc.unwrap().size_bytes;
        let remark = |row: RowOutcome| outcome(vec![row]).remark_on_caches();
        let of = |is_chase, bytes| RowOutcome { is_chase, bytes, ..row(&[2.0], [2.0, 2.0]) };
        assert!(remark(of(true, largest)).unwrap().starts_with("chase 1M in 2MB pages takes 3 ns"));
        assert_eq!(remark(of(true, largest + 1)), None, "it does not fit");
        assert_eq!(remark(of(false, largest)), None, "it does not wait for each load");
        let [chase, other] = [true, false].map(|is_chase| of(is_chase, 1 << 20));
        assert!(outcome(vec![other, chase]).remark_on_caches().is_some(), "the second is one");
    }
}
