//! Advice on large pages for one program: the JSON object that `perforate advise --json` prints.

use serde::{Deserialize, Serialize};

use crate::{Verification, Worth};

/// Answer to the question whether a program should use large pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceVerdict {
    /// Large pages make the program faster by more than the error of the prediction.
    Worth,
    /// The program has large pages where they gain anything.
    AlreadyOn,
    /// Large pages that the program has now gain nothing and cost memory.
    CostsMemory,
    /// The predicted gain is worth an effort, but the error of the prediction is larger than the gain, or a longer run
    /// would gain too little.
    Unclear,
    /// The gain is too small.
    NotWorth,
    /// The trace has fewer data accesses than [`LEAST_ACCESSES`].
    TooLittle,
    /// The evidence ranks areas of memory, and says nothing about time.
    #[default]
    Ranking,
}

impl AdviceVerdict {
    /// True if the verdict recommends pages, even if their gain is not certain.
    pub const fn recommends(self) -> bool {
        matches!(self, Self::Worth | Self::Unclear)
    }
}

/// Least number of data accesses of a trace on which a verdict rests. With fewer, each of some 2,000 entries of a
/// second-level TLB serves less than 50 accesses, and most of what is timed is the program's start.
pub const LEAST_ACCESSES: u64 = 100_000;

/// Least relative change of the speed that is worth an effort.
pub const WORTH_EFFORT: f64 = 0.01;

/// Kind of evidence on which advice rests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// A recorded trace: every access of the program, or of sampled windows.
    #[default]
    Trace,
    /// Addresses sampled by the processor: PEBS, IBS, SPE.
    Samples,
    /// Accessed bits of a running process's pages.
    AccessedBits,
}

impl EvidenceKind {
    /// Letter that every output of advice shows.
    pub const fn letter(self) -> char {
        match self {
            Self::Trace => 'A',
            Self::Samples => 'B',
            Self::AccessedBits => 'C',
        }
    }

    /// Name of the evidence as outputs show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "recorded accesses",
            Self::Samples => "samples of the processor",
            Self::AccessedBits => "accessed bits of pages",
        }
    }

    /// Limits of the conclusions that the evidence allows, in one sentence. Empty for a trace: a prediction
    /// from a trace has an interval instead.
    pub const fn limits(self) -> &'static str {
        match self {
            Self::Trace => "",
            Self::Samples => {
                "Samples say where accesses missed the TLB with the pages of that run, not how much time \
                 other pages save."
            }
            Self::AccessedBits => {
                "Accessed bits say which memory is used, once or a million times alike: no TLB misses \
                 and no time follow from them."
            }
        }
    }
}

/// Evidence on which advice rests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceEvidence {
    /// Kind of the evidence.
    pub kind: EvidenceKind,
    /// Extent of the evidence, such as the number of instructions.
    pub description: String,
    /// Number of data accesses of a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<u64>,
    /// Number of samples of user memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Number of samples of the kernel's memory, which are not ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_samples: Option<u64>,
    /// Number of samples without an address, which are not ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_without_address: Option<u64>,
}

/// Least speed-up, where the error of a prediction would allow one of 0 or less.
const LEAST_SPEED: f64 = 0.001;

/// A predicted speed-up with the range of the real one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedRecord {
    /// Predicted speed-up: cycles before ÷ cycles after.
    pub speed: f64,
    /// Half the width of its 95 % interval from sampling.
    pub sampling_half_width: f64,
    /// Least speed-up within the error of the prediction.
    pub low: f64,
    /// Largest speed-up within the error of the prediction.
    pub high: f64,
}

impl SpeedRecord {
    /// Speed of a run over itself, which has no error.
    pub const SAME: Self = Self { speed: 1.0, sampling_half_width: 0.0, low: 1.0, high: 1.0 };

    /// Speed-up of the first run over the second, from that of the second over the first: `1 ÷ speed`, and the
    /// ends of its range likewise.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let inverse = |speed: f64| 1.0 / speed.max(LEAST_SPEED);
        Self {
            speed: inverse(self.speed),
            sampling_half_width: self.sampling_half_width * inverse(self.speed).powi(2),
            low: inverse(self.high),
            high: inverse(self.low),
        }
    }

    /// Speed-up of a program that goes on for long: without the share (0–1) of the gain that first accesses to pages
    /// bring, since each page has one, however long the program runs.
    #[must_use]
    pub fn of_long_run(&self, first_touch_share: f64) -> Self {
        let repeated = 1.0 - first_touch_share;
        let of_long_run = |speed: f64| 1.0 + (speed - 1.0) * repeated;
        Self {
            speed: of_long_run(self.speed),
            sampling_half_width: self.sampling_half_width * repeated,
            low: of_long_run(self.low),
            high: of_long_run(self.high),
        }
    }

    /// True if the speed has no error.
    pub fn is_exact(&self) -> bool {
        self.low == self.high
    }
}

/// A simulated run of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceRun {
    /// Name for readers: `as it is`, `4KB pages`, `64KB pages`, `recommended`, `best parts`,
    /// `sizes by area`, `parts in 2MB`, `with 1GB pages`, `all large`, `if all can be had`, `1GB pages`, `free`.
    pub name: String,
    /// Size of the pages in bytes that all memory has where it can; `None` for runs with pages for parts of
    /// memory, and without translation.
    pub page_bytes: Option<u64>,
    /// Schemes that were simulated: one, or one for each assumption about the host's pages.
    pub schemes: Vec<String>,
    /// Speed over the program as it is now.
    pub speed: Option<SpeedRecord>,
    /// Speed under each of the schemes over the program as it is under the same assumption about the host.
    pub scheme_speeds: Vec<f64>,
    /// Speed over the program as it is, with the kernel's work (page faults, clearing, page tables) over the
    /// whole run; `None` if unknown.
    pub speed_with_kernel: Option<f64>,
    /// Cycles of the measured instructions, the mean of the schemes.
    pub cycles: f64,
    /// Page walks of the measured instructions, the mean of the schemes.
    pub walks: f64,
    /// Large pages at their peak, the mean of the schemes.
    pub large_pages: f64,
    /// Memory of the program at the end of the run in bytes, the mean of the schemes.
    pub mapped_bytes: f64,
}

/// Memory that the program mapped together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceArea {
    /// Name as in `/proc/PID/maps`; empty for an anonymous mapping without a name.
    pub name: String,
    /// Kind: `heap`, `anonymous`, `stack`, `file`, `shared`.
    pub kind: String,
    /// Number of the process.
    pub process: u16,
    /// Address of the first byte, hexadecimal.
    pub start: String,
    /// Length of the address range in bytes.
    pub bytes: u64,
    /// Memory in 4KB pages that the program touched, in bytes.
    pub touched_bytes: u64,
    /// Share of the touched 2MB blocks that is touched in 4KB pages, 0–1; `None` if nothing is touched.
    pub density: Option<f64>,
    /// Share of all page walks with 4KB pages, 0–1, not counting first touches of pages.
    pub walk_share: f64,
    /// Share of all page walks that the recommended pages save here, 0–1.
    pub saved_share: f64,
    /// Memory that the recommended pages cost here, in bytes.
    pub additional_bytes: u64,
    /// Memory of the area for which large pages are recommended, in bytes.
    pub advised_bytes: u64,
    /// Pages that were written after a fork while shared, each a copy.
    pub pages_copied: u64,
    /// Effects of page sizes for the whole area, the smallest first; empty for an area with few page walks.
    pub sizes: Vec<AdviceSize>,
}

/// Effect of one page size for a whole area, with 2MB pages elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceSize {
    /// Size of the pages in bytes.
    pub page_bytes: u64,
    /// Page walks saved by these pages, compared with 4KB pages for the area, as a share of the page walks with 4KB
    /// pages for all memory.
    pub saved_share: f64,
    /// Memory beyond that with 4KB pages, in bytes.
    pub additional_bytes: u64,
    /// Memory of the area for which these pages are recommended, in bytes.
    pub advised_bytes: u64,
}

/// Part of an area, on the address map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdvicePiece {
    /// Index of the area.
    pub area: usize,
    /// Offset of the first byte within the area.
    pub offset: u64,
    /// Length of the address range in bytes.
    pub bytes: u64,
    /// Share of all page walks with 4KB pages, 0–1.
    pub walk_share: f64,
    /// Share of the touched 2MB blocks that is touched in 4KB pages, 0–1; `None` if nothing is touched.
    pub density: Option<f64>,
    /// Size of the recommended pages in bytes.
    pub page_bytes: u64,
}

/// Point of the curve of gain over memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdvicePoint {
    /// Number of parts of memory with larger pages, the best first.
    pub choices: usize,
    /// Memory beyond that with 4KB pages, in bytes.
    pub additional_bytes: u64,
    /// Memory with larger pages, in bytes.
    pub advised_bytes: u64,
    /// Share of the page walks with 4KB pages that are saved, 0–1.
    pub saved_share: f64,
    /// True for the recommended point.
    pub is_recommended: bool,
}

/// Range of addresses for which large pages are recommended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceRange {
    /// Number of the process.
    pub process: u16,
    /// Name of the area.
    pub area: String,
    /// Offset within the area in bytes.
    pub offset: u64,
    /// Address of the first byte, hexadecimal.
    pub start: String,
    /// Length of the address range in bytes.
    pub bytes: u64,
    /// Size of the recommended pages in bytes.
    pub page_bytes: u64,
}

/// A switch that leads to the recommended pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceStep {
    /// Name of the switch.
    pub title: String,
    /// Lines of a shell, of C or of a boot configuration.
    pub lines: Vec<String>,
    /// Effect, reach and conditions.
    pub effect: String,
    /// Documentation that says so.
    pub source: String,
}

/// A risk of the recommended pages, with its evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceRisk {
    /// Name of the risk.
    pub title: String,
    /// Figures of this program and this machine that speak for it or against it.
    pub evidence: String,
}

/// Error of the prediction, from pairs of predicted and measured effects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceError {
    /// Number of pairs of predicted and measured effects.
    pub pairs: usize,
    /// Least measured effect ÷ predicted effect of the central 80 % of the pairs.
    pub least_factor: f64,
    /// Largest measured effect ÷ predicted effect of the central 80 % of the pairs.
    pub largest_factor: f64,
    /// Least measured effect − predicted effect of the central 80 % of the pairs with effects below 5 %.
    pub least_difference: f64,
    /// Largest measured effect − predicted effect of these pairs.
    pub largest_difference: f64,
    /// Descriptions of the sources.
    pub sources: Vec<String>,
}

/// Memory that evidence without a trace ranks. Samples of the processor have `samples`, accessed bits have
/// `resident_bytes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankedMemory {
    /// Name as in `/proc/PID/maps`; empty for an anonymous mapping without a name.
    pub name: String,
    /// Kind: `heap`, `anonymous`, `stack`, `file`, `shared`.
    pub kind: String,
    /// ID of the process.
    pub process: u32,
    /// Address of the first byte, hexadecimal.
    pub start: String,
    /// Length of the address range in bytes.
    pub bytes: u64,
    /// False if no 2MB page fits, or the memory takes no advice on page sizes.
    pub is_candidate: bool,
    /// Number of samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Number of samples that missed the TLB; `None` if no sample says whether it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// Mean latency of samples in cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_cycles: Option<f64>,
    /// Resident memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Resident memory in pages of 2MB or more, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_bytes: Option<u64>,
    /// Memory in bytes that was accessed in each round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accessed_bytes: Vec<u64>,
}

impl RankedMemory {
    /// Memory that was accessed in a round, the mean of all rounds in bytes; `None` without rounds.
    pub fn mean_accessed_bytes(&self) -> Option<f64> {
        let sum: f64 = self.accessed_bytes.iter().map(|bytes| *bytes as f64).sum();
        (!self.accessed_bytes.is_empty()).then(|| sum / self.accessed_bytes.len() as f64)
    }
}

/// Advice on large pages for one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdviceRecord {
    /// Answer in a word: by the measurement if there is one, otherwise by the simulation.
    pub verdict: AdviceVerdict,
    /// Answer by the simulation, if [`Self::verdict`] is by the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_verdict: Option<AdviceVerdict>,
    /// Evidence on which the advice rests.
    pub evidence: AdviceEvidence,
    /// Name of the program, trace or workload.
    pub workload: String,
    /// End of the recorded program, as a clause, unless it exited with code 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Name of the simulated machine.
    pub machine: String,
    /// Setting of transparent large pages that the program has as it is: `always`, `madvise`, `never`.
    pub now: String,
    /// Speed as recommended over the speed as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<SpeedRecord>,
    /// Speed as it is over the speed with 4KB pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gained: Option<SpeedRecord>,
    /// Share of all page walks with 4KB pages that are the first access to a page, 0–1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_touch_share: Option<f64>,
    /// Share of the gain of large pages for all memory that the recommended ones have; `None` if that is no
    /// gain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain_share: Option<f64>,
    /// Memory that the recommended pages cost, in bytes, beyond the memory as it is; negative if they save some.
    pub additional_bytes: i64,
    /// Memory for which large pages are recommended, in bytes.
    pub advised_bytes: u64,
    /// Memory that can have large pages, in bytes.
    pub eligible_bytes: u64,
    /// Simulated runs, the program as it is first.
    pub runs: Vec<AdviceRun>,
    /// Areas of memory, those with most page walks first.
    pub areas: Vec<AdviceArea>,
    /// Areas of memory as evidence without a trace ranks them, the most promising first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<RankedMemory>,
    /// Parts of areas in order of address.
    pub pieces: Vec<AdvicePiece>,
    /// Curve of page walks saved over additional memory. Its last point has large pages for all memory if these are
    /// recommended.
    pub curve: Vec<AdvicePoint>,
    /// Ranges of addresses for which large pages are recommended.
    pub ranges: Vec<AdviceRange>,
    /// Switches that lead there.
    pub steps: Vec<AdviceStep>,
    /// Risks, each with its evidence.
    pub risks: Vec<AdviceRisk>,
    /// True if `advise --verify` can measure the program.
    pub is_measurable: bool,
    /// Measurement of the program as it is and with the recommended pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Reason why the measurement failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_failure: Option<String>,
    /// Error of the prediction.
    pub error: AdviceError,
    /// Notes that a reader needs.
    pub notes: Vec<String>,
    /// Version of the program that wrote the record.
    pub version: String,
}

impl AdviceRecord {
    /// Name of the run of the program as it is.
    pub const AS_IT_IS: &str = "as it is";
    /// Name of the run with 4KB pages.
    pub const SMALL: &str = "4KB pages";
    /// Name of the run with the pages of the plan that is recommended, if the plan is for parts of memory.
    pub const RECOMMENDED: &str = "recommended";
    /// Name of the run with 2MB pages for all memory.
    pub const ALL_LARGE: &str = "all large";
    /// Name of the run with the pages of the recommended plan in memory that nothing has fragmented.
    pub const ALL_HAD: &str = "if all can be had";
    /// Name of the run whose translation costs nothing.
    pub const FREE: &str = "free";

    /// Run with the pages of the recommended plan: that of a plan for parts of memory, or the run with large pages
    /// for all memory if no such plan is recommended.
    pub fn planned_run(&self) -> Option<&AdviceRun> {
        self.run(Self::RECOMMENDED).or_else(|| self.run(Self::ALL_LARGE))
    }

    /// Run of this name, if it was simulated.
    pub fn run(&self, name: &str) -> Option<&AdviceRun> {
        self.runs.iter().find(|run| run.name == name)
    }

    /// Speed of the run of this name over the program as it is, if it was timed.
    pub fn speed_of(&self, name: &str) -> Option<f64> {
        Some(self.run(name)?.speed?.speed)
    }

    /// Adds a measurement. Its verdict replaces that of the simulation, unless it says nothing about the advice.
    pub fn add_verification(&mut self, found: Verification) {
        if found.unmeasured.is_none() {
            self.simulated_verdict = Some(self.verdict);
            self.verdict = match (found.measured.worth(), self.verdict) {
                (Worth::Gain, _) => AdviceVerdict::Worth,
                (Worth::Unclear, _) => AdviceVerdict::Unclear,
                (_, now @ (AdviceVerdict::AlreadyOn | AdviceVerdict::CostsMemory)) => now,
                (Worth::Loss | Worth::Nothing, _) => AdviceVerdict::NotWorth,
            };
        }
        self.verification = Some(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GainRatio;

    #[test]
    fn a_measurement_decides_the_verdict_unless_it_says_nothing() {
        use AdviceVerdict::{AlreadyOn, CostsMemory, NotWorth, TooLittle, Unclear, Worth};
        let found = |ratio, half, unmeasured: Option<&str>| Verification {
            measured: GainRatio { ratio, low: ratio - half, high: ratio + half },
            unmeasured: unmeasured.map(Into::into),
            ..Verification::default()
        };
        let verdict = |simulated, found: Verification| {
            let mut record = AdviceRecord { verdict: simulated, ..AdviceRecord::default() };
            record.add_verification(found.clone());
            assert_eq!(record.verification, Some(found), "kept in any case");
            (record.verdict, record.simulated_verdict)
        };
        for (simulated, ratio, half, measured) in [
            (Unclear, 1.1, 0.05, Worth),
            (Worth, 1.0, 0.01, NotWorth),
            (Worth, 0.9, 0.05, NotWorth),
            (NotWorth, 1.1, 0.2, Unclear),
            (AlreadyOn, 1.0, 0.01, AlreadyOn),
            (AlreadyOn, 1.1, 0.05, Worth),
            (CostsMemory, 1.0, 0.01, CostsMemory),
            (CostsMemory, 0.9, 0.05, CostsMemory),
            (AlreadyOn, 0.9, 0.05, AlreadyOn),
            (CostsMemory, 1.1, 0.05, Worth),
            (AlreadyOn, 1.0, 0.3, Unclear),
            (Unclear, 1.0, 0.01, NotWorth),
            (TooLittle, 0.9, 0.05, NotWorth),
        ] {
            assert_eq!(
                verdict(simulated, found(ratio, half, None)),
                (measured, Some(simulated)),
                "{ratio}"
            );
        }
        assert_eq!(verdict(Unclear, found(1.1, 0.05, Some("no large page"))), (Unclear, None));
    }

    #[test]
    fn a_long_run_keeps_the_gain_that_is_not_of_first_accesses() {
        let gain = SpeedRecord { speed: 1.08, sampling_half_width: 0.04, low: 0.96, high: 1.2 };
        assert_eq!(gain.of_long_run(0.0), gain);
        assert_eq!(gain.of_long_run(1.0), SpeedRecord::SAME);
        let half = SpeedRecord { speed: 1.04, sampling_half_width: 0.02, low: 0.98, high: 1.1 };
        assert_eq!(gain.of_long_run(0.5), half);
    }

    #[test]
    fn records_are_read_as_they_are_written_and_may_lack_fields() {
        let record = AdviceRecord {
            verdict: AdviceVerdict::Worth,
            gain: Some(SpeedRecord { speed: 1.25, sampling_half_width: 0.5, low: 1.0, high: 1.5 }),
            areas: vec![AdviceArea { name: "[heap]".into(), ..AdviceArea::default() }],
            ..AdviceRecord::default()
        };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<AdviceRecord>(&text).unwrap(), record);
        let older: AdviceRecord = serde_json::from_str(r#"{"verdict":"already-on"}"#).unwrap();
        assert_eq!((older.verdict, older.evidence.kind.letter()), (AdviceVerdict::AlreadyOn, 'A'));
        let accessed = |bytes: &[u64]| {
            let ranked = RankedMemory { accessed_bytes: bytes.into(), ..RankedMemory::default() };
            ranked.mean_accessed_bytes()
        };
        assert_eq!((accessed(&[4, 0, 5]), accessed(&[])), (Some(3.0), None));
    }

    #[test]
    fn evidence_has_letters_names_and_limits() {
        let kinds = [EvidenceKind::Trace, EvidenceKind::Samples, EvidenceKind::AccessedBits];
        assert_eq!(kinds.map(EvidenceKind::letter), ['A', 'B', 'C']);
        assert_eq!(
            kinds.map(EvidenceKind::name),
            ["recorded accesses", "samples of the processor", "accessed bits of pages"]
        );
        assert_eq!(kinds.map(|kind| kind.limits().len() > 50), [false, true, true]);
        assert_eq!(EvidenceKind::Trace.limits(), "");
        assert!(EvidenceKind::Samples.limits().starts_with("Samples say where accesses missed"));
        assert!(
            EvidenceKind::AccessedBits
                .limits()
                .starts_with("Accessed bits say which memory is used")
        );
        use AdviceVerdict::*;
        let all = [Worth, AlreadyOn, CostsMemory, Unclear, NotWorth, TooLittle, Ranking];
        assert_eq!(
            all.map(AdviceVerdict::recommends),
            [true, false, false, true, false, false, false]
        );
        let names = all.map(|verdict| serde_json::to_string(&verdict).unwrap());
        assert_eq!(
            names,
            [
                "worth",
                "already-on",
                "costs-memory",
                "unclear",
                "not-worth",
                "too-little",
                "ranking"
            ]
            .map(|name| format!("\"{name}\""))
        );
        assert_eq!(
            (AdviceVerdict::default(), EvidenceKind::default()),
            (Ranking, EvidenceKind::Trace)
        );
        let exact = |low, high| SpeedRecord { low, high, ..SpeedRecord::SAME }.is_exact();
        assert_eq!((exact(1.0, 1.0), exact(0.9, 1.1), SpeedRecord::SAME.speed), (true, false, 1.0));
        assert_eq!(LEAST_ACCESSES, 100_000);
    }

    #[test]
    fn an_inverse_exchanges_the_ends() {
        let gain = SpeedRecord { speed: 1.25, sampling_half_width: 0.1, low: 1.0, high: 1.6 };
        let SpeedRecord { speed, sampling_half_width, low, high } = gain.inverse();
        assert_eq!((speed, low, high), (0.8, 0.625, 1.0));
        assert!((sampling_half_width - 0.064).abs() < 1e-9, "{sampling_half_width}");
        assert_eq!(SpeedRecord { low: -0.1, ..gain }.inverse().high, 1000.0);
    }

    #[test]
    fn the_planned_run_is_that_of_parts_or_of_all_memory() {
        let planned = |names: &[&str]| {
            let run = |name: &&str| AdviceRun { name: (*name).into(), ..AdviceRun::default() };
            let record =
                AdviceRecord { runs: names.iter().map(run).collect(), ..AdviceRecord::default() };
            record.planned_run().map(|run| run.name.clone())
        };
        assert_eq!(
            planned(&["as it is", "all large", "recommended"]).as_deref(),
            Some("recommended")
        );
        assert_eq!(planned(&["as it is", "all large", "free"]).as_deref(), Some("all large"));
        assert_eq!(planned(&["as it is", "free"]), None);
    }
}
