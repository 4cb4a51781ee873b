//! What came out over all rows: which assumption fits, and what may lie behind differences.

use perforate_capture::native::Processor;
use perforate_sim::Machine;
use serde_json::{Value, json};

use super::plan::Assumption;
use super::predict::Origin;
use super::row::RowOutcome;
use super::verdict::{TOLERANCE, Verdict, typical_miss};

/// A share of memory in large pages below which large pages were not measured.
const MOSTLY_LARGE: f64 = 0.95;

/// A time this many times as long as predicted is told.
const SLOW: f64 = 2.0;
/// Assumptions whose typical misses differ by no more than this cannot be told apart.
const ALIKE: f64 = 0.02;

/// One assumption, over all rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    pub agrees: usize,
    pub same_direction: usize,
    pub disagrees: usize,
    pub noisy: usize,
    /// Typical miss of the rows that are not too noisy, as a share.
    pub miss: f64,
}

/// All of it.
pub struct Outcome {
    pub processor: Processor,
    pub machine: String,
    pub machine_ghz: f64,
    pub coalesces: bool,
    /// Size of its last-level cache.
    pub largest_cache_bytes: u64,
    /// Clock measured.
    pub clock_ghz: Option<f64>,
    pub assumptions: Vec<Assumption>,
    pub rows: Vec<RowOutcome>,
    pub notes: Vec<String>,
}

impl Outcome {
    pub fn new(
        processor: &Processor,
        machine: &Machine,
        assumptions: &[Assumption],
        notes: Vec<String>,
    ) -> Self {
        Self {
            processor: processor.clone(),
            machine: machine.name.clone(),
            machine_ghz: machine.core.frequency_ghz,
            largest_cache_bytes: machine.cache.llc.as_ref().unwrap_or(&machine.cache.l2).size_bytes,
            coalesces: machine.tlb.l2_coalescing.is_some(),
            clock_ghz: None,
            assumptions: assumptions.to_vec(),
            rows: Vec::new(),
            notes,
        }
    }

    /// How each assumption did.
    pub fn scores(&self) -> Vec<Score> {
        let score = |index: usize| {
            let mut score =
                Score { agrees: 0, same_direction: 0, disagrees: 0, noisy: 0, miss: 0.0 };
            let mut pairs = Vec::new();
            for row in &self.rows {
                let (Some(ratio), Some(verdict)) = (row.ratio, row.verdicts()[index]) else {
                    continue;
                };
                match verdict {
                    Verdict::Agrees => score.agrees += 1,
                    Verdict::SameDirection => score.same_direction += 1,
                    Verdict::Disagrees => score.disagrees += 1,
                    Verdict::Noisy => score.noisy += 1,
                }
                if verdict != Verdict::Noisy {
                    pairs.push((ratio.median, row.predicted[index].ratio()));
                }
            }
            score.miss = typical_miss(&pairs);
            score
        };
        (0..self.assumptions.len()).map(score).collect()
    }

    /// The assumptions that miss least, and those that miss hardly more, best first; none where no
    /// row could be judged.
    pub fn closest(&self) -> Vec<usize> {
        let scores = self.scores();
        let judged = |score: &Score| score.agrees + score.same_direction + score.disagrees > 0;
        let mut found: Vec<usize> = (0..scores.len()).filter(|n| judged(&scores[*n])).collect();
        found.sort_by(|a, b| scores[*a].miss.total_cmp(&scores[*b].miss));
        let limit = found.first().map_or(0.0, |best| scores[*best].miss + ALIKE);
        found.retain(|index| scores[*index].miss <= limit);
        found
    }

    /// The verdict in one sentence.
    pub fn summary(&self) -> String {
        let closest = self.closest();
        let Some(best) = closest.first() else {
            return "Verdict: nothing could be judged; the measurements are too noisy.".into();
        };
        let score = self.scores()[*best];
        let rows = self.rows.len();
        let name = |index: &usize| format!("\"{}\"", self.assumptions[*index].name);
        let under = match (self.assumptions.len(), &closest[1..]) {
            (1, _) => String::new(),
            (_, []) => format!(" under {}, which fits best", name(best)),
            (_, others) => {
                let others: Vec<String> = others.iter().map(name).collect();
                format!(" under {} ({} fits as well)", name(best), others.join(", "))
            }
        };
        format!(
            "Verdict{under}: {} of {rows} rows agree within {:.0} %, {} go the same way, {} \
             disagree, {} are too noisy. Predictions typically miss by {:.0} %.",
            score.agrees,
            100.0 * TOLERANCE,
            score.same_direction,
            score.disagrees,
            score.noisy,
            100.0 * score.miss
        )
    }

    /// Adds what may lie behind differences, as far as it can be seen.
    pub fn explain(&mut self) {
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
            let file = self.machine_ghz;
            notes.push(format!(
                "the clock runs at {clock:.2} GHz as measured; {} says {file} GHz, by which \
                 predicted times are computed (their ratios hardly depend on it)",
                self.machine
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
        notes.extend(self.remark_on_pages());
        notes.extend(self.remark_on_waiting());
        if self.rows.iter().any(|row| row.origin == Origin::Synthetic) {
            notes.push(
                "recording needs qemu-x86_64 (apt-get install qemu-user); synthetic workloads of \
                 the same pattern stand in, with other instructions around their accesses"
                    .into(),
            );
        }
        for row in &self.rows {
            notes.extend(row.notes.iter().cloned());
        }
        self.notes.extend(notes);
    }

    /// Chases in 2MB pages hardly translate: where one that the last-level cache of the machine file
    /// holds takes much longer than predicted, this machine does not have that cache to itself.
    fn remark_on_caches(&self) -> Option<String> {
        let slow = |row: &&RowOutcome| {
            let held = row.is_chase && row.bytes <= self.largest_cache_bytes;
            let times = row.large_ns.zip(row.predicted.first());
            held && times.is_some_and(|(large, predicted)| large.median > SLOW * predicted.large_ns)
        };
        let row = self.rows.iter().find(slow)?;
        let (measured, predicted) = (row.large_ns?.median, row.predicted.first()?.large_ns);
        Some(format!(
            "{} in 2MB pages takes {measured:.0} ns an access, {predicted:.0} by the caches of {}: \
             others are likely to use the shared cache too. Page tables that it would hold are read \
             from memory then, and 4KB pages cost more than predicted",
            row.name, self.machine
        ))
    }

    fn remark_on_pages(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for row in self.rows.iter().filter(|row| row.small_ns.is_some()) {
            if let Some(share) = row.large_share.filter(|share| *share < MOSTLY_LARGE) {
                remarks.push(format!(
                    "{}: only {:.0} % of the memory came in 2MB pages, the prediction is for all",
                    row.name,
                    100.0 * share
                ));
            }
        }
        let grouped = self.rows.iter().filter_map(|row| row.grouped_share);
        let least = grouped.reduce(f64::min);
        if let Some(least) = least.filter(|least| self.coalesces && *least < MOSTLY_LARGE) {
            remarks.push(format!(
                "frames of 4KB pages are scattered here: as few as {:.0} % of a row's groups of four \
                 follow each other, which {} joins in one TLB entry; where memory was not aged \
                 (--age), all simulated ones do, and page tables of the host are read in order",
                100.0 * least,
                self.machine
            ));
        }
        remarks
    }

    fn remark_on_waiting(&self) -> Option<String> {
        let most = self.rows.iter().filter_map(|row| row.waiting).reduce(f64::max)?;
        (most > 1.1).then(|| {
            format!(
                "others had the processor: up to {:.0} % more time passed than was used; times are \
                 of the processor, but caches were shared",
                100.0 * (most - 1.0)
            )
        })
    }

    pub fn json_lines(&self) -> String {
        let mut lines: Vec<String> =
            self.rows.iter().map(|row| row.json(&self.assumptions).to_string()).collect();
        let scores = self.assumptions.iter().zip(self.scores());
        let scores: Vec<Value> = scores
            .map(|(assumption, score)| {
                json!({
                    "assumption": assumption.name,
                    "agrees": score.agrees,
                    "same_direction": score.same_direction,
                    "disagrees": score.disagrees,
                    "noisy": score.noisy,
                    "typical_miss": score.miss,
                })
            })
            .collect();
        let closest = self.closest().into_iter().map(|index| self.assumptions[index].name);
        let closest: Vec<&str> = closest.collect();
        lines.push(
            json!({
                "overall": scores,
                "closest": closest,
                "processor": self.processor.name,
                "is_virtual": self.processor.is_virtual,
                "machine": self.machine,
                "clock_ghz": self.clock_ghz,
                "notes": self.notes,
                "version": env!("CARGO_PKG_VERSION"),
            })
            .to_string(),
        );
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::super::predict::Predicted;
    use super::super::spread::Spread;
    use super::*;

    fn row(measured: f64, predicted: [f64; 2]) -> RowOutcome {
        RowOutcome {
            name: "chase 1M".into(),
            ratio: Spread::of(&[measured]),
            small_ns: Spread::of(&[measured]),
            large_ns: Spread::of(&[3.0]),
            predicted: predicted.map(|small_ns| Predicted { small_ns, large_ns: 1.0 }).to_vec(),
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
        let assumption = |name| Assumption { name, small: "4k", large: "thp" };
        let machine = Machine::load("zen4-genoa").unwrap();
        let assumptions = [assumption("one"), assumption("two")];
        Outcome { rows, ..Outcome::new(&Processor::default(), &machine, &assumptions, Vec::new()) }
    }

    #[test]
    fn the_closest_assumption_is_named() {
        let found = outcome(vec![row(2.0, [1.0, 2.1]), row(1.0, [1.0, 1.3])]);
        let scores = found.scores();
        assert_eq!((scores[0].agrees, scores[0].disagrees), (1, 1));
        assert_eq!((scores[1].agrees, scores[1].disagrees), (1, 1));
        // √2 − 1 = 41 % against √(1.05 × 1.3) − 1 = 17 %.
        assert!((scores[0].miss - (2.0_f64.sqrt() - 1.0)).abs() < 1e-12);
        assert!((scores[1].miss - (1.365_f64.sqrt() - 1.0)).abs() < 1e-12);
        assert_eq!(found.closest(), [1]);
        let summary = found.summary();
        assert!(summary.contains("1 of 2 rows agree within 10 %"), "{summary}");
        assert!(summary.contains("\"two\", which fits best"), "{summary}");
        assert!(summary.contains("miss by 17 %"), "{summary}");
    }

    #[test]
    fn assumptions_that_miss_alike_are_both_named() {
        let found = outcome(vec![row(2.0, [2.01, 2.0])]);
        assert_eq!(found.closest(), [1, 0]);
        let summary = found.summary();
        assert!(summary.contains("under \"two\" (\"one\" fits as well)"), "{summary}");
    }

    #[test]
    fn noise_is_no_verdict() {
        let mut noisy = row(2.0, [2.0, 2.0]);
        noisy.ratio = Spread::of(&[1.0, 2.0, 3.0]);
        let found = outcome(vec![noisy]);
        assert!(found.closest().is_empty());
        assert!(found.summary().contains("nothing could be judged"));
        assert_eq!(found.scores()[0].noisy, 1);
    }

    #[test]
    fn what_can_be_seen_is_told() {
        let mut found = outcome(vec![row(2.0, [2.0, 2.0])]);
        found.processor.is_virtual = true;
        found.clock_ghz = Some(3.5);
        found.explain();
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
        let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(first["predicted"][0]["verdict"], "agrees");
        assert_eq!(first["measured_ratio"]["median"], 2.0);
    }
}
