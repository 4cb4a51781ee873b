//! The outcome over all rows: the assumption that fits best, and possible reasons of differences.

use perforate_sim::Machine;
use serde::Serialize;

use super::limits::{INDISTINGUISHABLE, MOSTLY, SHARED_PROCESSOR, SLOW_CHASE, TOLERANCE};
use super::plan::Assumption;
use super::predict::Origin;
use super::row::RowOutcome;
use super::verdict::{Verdict, typical_error};
use crate::machine::Processor;

/// Verdicts under one assumption, counted over all rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Name of the assumption.
    pub assumption: &'static str,
    /// Rows that agree.
    pub agrees: usize,
    /// Rows with the same direction.
    pub same_direction: usize,
    /// Rows that disagree.
    pub disagrees: usize,
    /// Rows whose measurements are too noisy.
    pub noisy: usize,
    /// Typical error of the predictions of the other rows, as a share.
    #[serde(rename = "typical_miss")]
    pub typical_error: f64,
}

impl Score {
    fn of(assumption: &Assumption, rows: &[RowOutcome], index: usize) -> Self {
        let mut score = Self {
            assumption: assumption.name,
            agrees: 0,
            same_direction: 0,
            disagrees: 0,
            noisy: 0,
            typical_error: 0.0,
        };
        let mut pairs = Vec::new();
        for row in rows {
            let predicted = row.predicted[index];
            let (Some(measured), Some(verdict)) = (row.ratio, predicted.verdict) else { continue };
            match verdict {
                Verdict::Agrees => score.agrees += 1,
                Verdict::SameDirection => score.same_direction += 1,
                Verdict::Disagrees => score.disagrees += 1,
                Verdict::Noisy => score.noisy += 1,
            }
            if verdict != Verdict::Noisy {
                pairs.push((measured.median, predicted.ratio));
            }
        }
        score.typical_error = typical_error(&pairs);
        score
    }

    fn is_judged(&self) -> bool {
        self.agrees + self.same_direction + self.disagrees > 0
    }
}

/// All rows, with the machine and remarks.
pub struct Outcome {
    /// The processor.
    pub processor: Processor,
    /// The machine file.
    pub machine: Machine,
    /// Measured clock of the processor, in GHz.
    pub clock_ghz: Option<f64>,
    /// The assumptions of the predictions.
    pub assumptions: Vec<Assumption>,
    /// The rows.
    pub rows: Vec<RowOutcome>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl Outcome {
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
            assumptions: assumptions.to_vec(),
            rows: Vec::new(),
            notes,
        }
    }

    /// Scores of all assumptions.
    pub fn scores(&self) -> Vec<Score> {
        let assumptions = self.assumptions.iter().enumerate();
        assumptions.map(|(index, assumption)| Score::of(assumption, &self.rows, index)).collect()
    }

    /// The scores with the lowest typical error and those indistinguishable from it, best first; none
    /// if no row could be judged.
    pub fn closest(&self) -> Vec<Score> {
        let mut found: Vec<Score> = self.scores().into_iter().filter(Score::is_judged).collect();
        found.sort_by(|a, b| a.typical_error.total_cmp(&b.typical_error));
        let limit = found.first().map_or(0.0, |best| best.typical_error + INDISTINGUISHABLE);
        found.retain(|score| score.typical_error <= limit);
        found
    }

    /// The verdict in one sentence.
    pub fn summary(&self) -> String {
        let closest = self.closest();
        let [best, others @ ..] = closest.as_slice() else {
            return "Verdict: nothing could be judged; the measurements are too noisy.".into();
        };
        let others = others.iter().map(|score| score.assumption);
        let under = under(self.assumptions.len(), best.assumption, others);
        format!(
            "Verdict{under}: {} of {} rows agree within {:.0} %, {} go the same way, {} disagree, {} \
             are too noisy. Predictions typically miss by {:.0} %.",
            best.agrees,
            self.rows.len(),
            100.0 * TOLERANCE,
            best.same_direction,
            best.disagrees,
            best.noisy,
            100.0 * best.typical_error
        )
    }

    /// The rows and the summary as lines of JSON.
    pub fn json_lines(&self) -> String {
        #[derive(Serialize)]
        struct Summary<'a> {
            overall: Vec<Score>,
            closest: Vec<&'static str>,
            processor: &'a str,
            is_virtual: bool,
            machine: &'a str,
            clock_ghz: Option<f64>,
            notes: &'a [String],
            version: &'static str,
        }
        let summary = Summary {
            overall: self.scores(),
            closest: self.closest().iter().map(|score| score.assumption).collect(),
            processor: &self.processor.name,
            is_virtual: self.processor.is_virtual,
            machine: &self.machine.name,
            clock_ghz: self.clock_ghz,
            notes: &self.notes,
            version: env!("CARGO_PKG_VERSION"),
        };
        let mut lines: Vec<_> = self.rows.iter().map(serde_json::to_string).collect();
        lines.push(serde_json::to_string(&summary));
        lines.into_iter().map(|line| line.expect("outcomes are plain data") + "\n").collect()
    }

    /// Adds remarks on possible reasons of differences.
    pub(super) fn add_notes(&mut self) {
        let mut notes = Vec::new();
        if self.processor.is_virtual {
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
        if self.rows.iter().all(|row| row.tlb_misses.is_none()) {
            notes.push(
                "no hardware counters: perf_event_open is refused or there are none in this \
                 machine, so that TLB misses could not be counted"
                    .into(),
            );
        }
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

    /// Chases in 2MB pages hardly translate. If one that fits into the last-level cache of the machine
    /// file takes much longer than predicted, this machine does not have that cache to itself.
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
        let coalesces = self.machine.tlb.l2_coalescing.is_some();
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

/// The assumption that fits best of so many, in words, and others that fit as well; nothing if there is
/// only one.
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
    use crate::validate::predict::Prediction;
    use crate::validate::spread::Spread;

    const ASSUMPTIONS: [Assumption; 2] = [
        Assumption { name: "one", schemes: ["4k", "thp"] },
        Assumption { name: "two", schemes: ["4k", "thp"] },
    ];

    /// A row with these measured ratios, predicted under both assumptions.
    fn row(measured: &[f64], predicted: [f64; 2]) -> RowOutcome {
        let ratio = Spread::of(measured);
        let predict =
            |assumption, small| Prediction::new(assumption, [small, 1.0], true, ratio.as_ref());
        RowOutcome {
            name: "chase 1M".into(),
            ratio,
            small_ns: ratio,
            large_ns: Spread::of(&[3.0]),
            predicted: vec![
                predict(ASSUMPTIONS[0], predicted[0]),
                predict(ASSUMPTIONS[1], predicted[1]),
            ],
            large_share: Some(1.0),
            grouped_share: Some(0.5),
            tlb_misses: None,
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
        let found = outcome(vec![row(&[2.0], [1.0, 2.1]), row(&[1.0], [1.0, 1.3])]);
        let scores = found.scores();
        assert_eq!((scores[0].agrees, scores[0].disagrees), (1, 1));
        assert_eq!((scores[1].agrees, scores[1].disagrees), (1, 1));
        // √2 − 1 = 41 % against √(1.05 × 1.3) − 1 = 17 %.
        assert!((scores[0].typical_error - (2.0_f64.sqrt() - 1.0)).abs() < 1e-12);
        assert!((scores[1].typical_error - (1.365_f64.sqrt() - 1.0)).abs() < 1e-12);
        assert_eq!(names(&found.closest()), ["two"]);
        let summary = found.summary();
        assert!(summary.contains("1 of 2 rows agree within 10 %"), "{summary}");
        assert!(summary.contains("\"two\", which fits best"), "{summary}");
        assert!(summary.contains("miss by 17 %"), "{summary}");
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
        assert!(found.summary().contains("nothing could be judged"));
        assert_eq!(found.scores()[0].noisy, 1);
    }

    #[test]
    fn remarks_and_lines_of_json() {
        let mut found = outcome(vec![row(&[2.0], [2.0, 2.0])]);
        found.processor.is_virtual = true;
        found.clock_ghz = Some(3.5);
        found.add_notes();
        let all = found.notes.join("\n");
        for expected in [
            "virtual machine",
            "takes 3 ns an access, 1 by",
            "3.50 GHz",
            "no hardware counters",
            "as few as 50 %",
            "30 % more",
        ] {
            assert!(all.contains(expected), "{expected}: {all}");
        }
        let lines = found.json_lines();
        assert_eq!(lines.lines().count(), 2);
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(first["predicted"][0]["verdict"], "agrees");
        assert_eq!(first["predicted"][1]["assumption"], "two");
        assert_eq!(first["measured_ratio"]["median"], 2.0);
    }
}
