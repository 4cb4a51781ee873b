//! One row of a validation: measurements, predictions and verdicts.

use serde::Serialize;

use super::measure::Measurement;
use super::plan::{Assumption, Row};
use super::predict::{Both, Observed, Origin, Prediction};
use super::program::{ProgramMeasurement, ProgramPrediction};
use super::spread::Spread;
use crate::benchmark::Benchmark;
use crate::counters::Rates;

/// Measurement and predictions of a benchmark or a program. Serialized as a line of JSON.
#[derive(Clone, Debug, Serialize)]
pub struct RowOutcome {
    /// Name of the benchmark and its size, or of the program, in tables.
    #[serde(rename = "row")]
    pub name: String,
    /// Measured time with 4KB pages ÷ time with 2MB pages.
    #[serde(rename = "measured_ratio")]
    pub ratio: Option<Spread>,
    /// Measured elapsed time with 4KB pages ÷ elapsed time with 2MB pages; only for programs.
    #[serde(rename = "measured_wall_ratio")]
    pub wall_ratio: Option<Spread>,
    /// Measured nanoseconds per operation with 4KB pages; absent for programs.
    #[serde(rename = "measured_small_pages_ns")]
    pub small_ns: Option<Spread>,
    /// Measured nanoseconds per operation with 2MB pages; absent for programs.
    #[serde(rename = "measured_large_pages_ns")]
    pub large_ns: Option<Spread>,
    /// Measured user time of a program in seconds, with 4KB and with 2MB pages.
    #[serde(rename = "measured_seconds", skip_serializing_if = "Option::is_none")]
    pub seconds: Option<[Spread; 2]>,
    /// Share of the memory that is in 2MB pages in runs that request 2MB pages, 0–1.
    pub large_share: Option<f64>,
    /// Share of the aligned groups of four 4KB pages that lie in four consecutive frames, which one TLB entry
    /// of AMD's processors can map, 0–1.
    pub grouped_share: Option<f64>,
    /// Readings of hardware counters with 4KB and with 2MB pages: per operation for benchmarks, per
    /// 1,000 instructions for programs.
    #[serde(rename = "measured_counters")]
    pub counters: Option<[Rates; 2]>,
    /// Elapsed time ÷ processor time; above 1 if other programs used the processor during the runs.
    #[serde(rename = "wall_per_processor_time")]
    pub waiting: Option<f64>,
    /// Source of the simulated instructions.
    #[serde(rename = "instructions_from")]
    pub origin: Origin,
    /// Predictions of ratio and times, one per assumption about the host's page tables.
    pub predicted: Vec<Prediction>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// True if each operation depends on the previous one, so that times are latencies.
    #[serde(skip)]
    pub is_chase: bool,
    /// Size of a benchmark's memory in bytes; 0 for programs.
    #[serde(skip)]
    pub bytes: u64,
}

impl RowOutcome {
    pub(super) fn of_benchmark(
        row: &Row,
        measured: Measurement,
        assumptions: &[Assumption],
        both: Vec<Both>,
        origin: Origin,
    ) -> Self {
        let ratio = Spread::of(&measured.ratios);
        let [small_ns, large_ns] = measured.nanoseconds.each_ref().map(|ns| Spread::of(ns));
        let ns = small_ns.zip(large_ns).map(|(small, large)| [small, large]);
        Self {
            name: row.name(),
            ratio,
            wall_ratio: None,
            small_ns,
            large_ns,
            seconds: None,
            large_share: measured.large_share,
            grouped_share: measured.grouped_share,
            counters: measured.rates(),
            waiting: Some(measured.waiting()),
            origin,
            predicted: predictions(assumptions, both, &Observed::Operations { ratio, ns }),
            notes: Vec::new(),
            is_chase: row.benchmark == Benchmark::Chase,
            bytes: row.bytes,
        }
    }

    pub(super) fn of_program(
        name: String,
        measured: ProgramMeasurement,
        assumptions: &[Assumption],
        predicted: ProgramPrediction,
    ) -> Self {
        let ratio = Spread::of(&measured.user_ratios);
        let (seconds, counters) = (measured.seconds(), measured.rates());
        let recorded = predicted.instructions.map(|all| [all as f64; 2]);
        let instructions = measured.instructions().or(recorded);
        // If the program had few 2MB pages, their effect was not measured.
        let ratio_of_pages = ratio.filter(|_| measured.has_large_pages());
        let observed = Observed::Program { ratio: ratio_of_pages, seconds, instructions };
        let mut notes = measured.notes;
        let user_seconds = seconds.map_or(0.0, |[_, large]| large.median);
        notes.push(format!(
            "the program: {user_seconds:.2} s in user mode, {} MB; its ratio is of time in user mode, \
             and the prediction is for the recorded part, without the operating system's work",
            measured.resident_bytes >> 20
        ));
        if instructions.is_none() {
            notes.push(
                "the time of the whole program is not predicted: the recording is a part of it, and \
                 without hardware counters the number of its instructions is not known"
                    .into(),
            );
        }
        Self {
            name,
            ratio,
            wall_ratio: Spread::of(&measured.wall_ratios),
            small_ns: None,
            large_ns: None,
            seconds,
            large_share: Some(measured.large_share),
            grouped_share: None,
            counters,
            waiting: None,
            origin: Origin::Recorded,
            predicted: predictions(assumptions, predicted.both, &observed),
            notes,
            is_chase: false,
            bytes: 0,
        }
    }
}

fn predictions(
    assumptions: &[Assumption],
    both: Vec<Both>,
    observed: &Observed,
) -> Vec<Prediction> {
    let pairs = assumptions.iter().zip(both);
    pairs.map(|(assumption, both)| Prediction::new(*assumption, both, observed)).collect()
}
