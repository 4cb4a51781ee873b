//! One row: measurements, predictions and verdicts.

use serde::Serialize;

use super::measure::Measurement;
use super::plan::{Assumption, Row};
use super::predict::{Origin, Prediction, Times};
use super::program::ProgramMeasurement;
use super::spread::Spread;
use crate::benchmark::Benchmark;

/// One row: a benchmark or a program. Serialized as a line of JSON.
#[derive(Clone, Debug, Serialize)]
pub struct RowOutcome {
    /// Its name in tables.
    #[serde(rename = "row")]
    pub name: String,
    /// Measured time with 4KB pages ÷ time with large pages.
    #[serde(rename = "measured_ratio")]
    pub ratio: Option<Spread>,
    /// The same of elapsed time; only of programs.
    #[serde(rename = "measured_wall_ratio")]
    pub wall_ratio: Option<Spread>,
    /// Measured nanoseconds per operation with 4KB pages; absent for programs.
    #[serde(rename = "measured_small_pages_ns")]
    pub small_ns: Option<Spread>,
    /// Measured nanoseconds per operation with large pages; absent for programs.
    #[serde(rename = "measured_large_pages_ns")]
    pub large_ns: Option<Spread>,
    /// Share of the memory in 2MB pages where large pages were wanted.
    pub large_share: Option<f64>,
    /// Share of groups of four small pages in consecutive frames.
    pub grouped_share: Option<f64>,
    /// Misses in the data TLB per operation, with 4KB and with large pages.
    #[serde(rename = "tlb_misses_per_operation")]
    pub tlb_misses: Option<[f64; 2]>,
    /// Elapsed time ÷ processor time.
    #[serde(rename = "wall_per_processor_time")]
    pub waiting: Option<f64>,
    /// Source of the simulated instructions.
    #[serde(rename = "instructions_from")]
    pub origin: Origin,
    /// One for each assumption.
    pub predicted: Vec<Prediction>,
    /// Remarks.
    pub notes: Vec<String>,
    /// True if each operation depends on the one before, so that times are latencies.
    #[serde(skip)]
    pub is_chase: bool,
    /// Memory of a benchmark; 0 for programs.
    #[serde(skip)]
    pub bytes: u64,
}

impl RowOutcome {
    pub(super) fn of_benchmark(
        row: &Row,
        measured: Measurement,
        assumptions: &[Assumption],
        times: Vec<Times>,
        origin: Origin,
    ) -> Self {
        let ratio = Spread::of(&measured.ratios);
        let [small, large] = &measured.nanoseconds;
        Self {
            name: row.name(),
            ratio,
            wall_ratio: None,
            small_ns: Spread::of(small),
            large_ns: Spread::of(large),
            large_share: measured.large_share,
            grouped_share: measured.grouped_share,
            tlb_misses: measured.misses_per_operation(),
            waiting: Some(measured.waiting()),
            origin,
            predicted: predictions(assumptions, times, true, ratio),
            notes: Vec::new(),
            is_chase: row.benchmark == Benchmark::Chase,
            bytes: row.bytes,
        }
    }

    pub(super) fn of_program(
        name: String,
        measured: ProgramMeasurement,
        assumptions: &[Assumption],
        times: Vec<Times>,
    ) -> Self {
        let ratio = Spread::of(&measured.user_ratios);
        let mut notes = measured.notes;
        notes.push(format!(
            "the program: {:.2} s in user mode, {} MB; its ratio is of time in user mode, and the \
             prediction is for the recorded part, without the operating system's work",
            measured.user_seconds,
            measured.resident_bytes >> 20
        ));
        Self {
            name,
            ratio,
            wall_ratio: Spread::of(&measured.wall_ratios),
            small_ns: None,
            large_ns: None,
            large_share: Some(measured.large_share),
            grouped_share: None,
            tlb_misses: None,
            waiting: None,
            origin: Origin::Recorded,
            predicted: predictions(assumptions, times, false, ratio),
            notes,
            is_chase: false,
            bytes: 0,
        }
    }
}

fn predictions(
    assumptions: &[Assumption],
    times: Vec<Times>,
    has_operations: bool,
    measured: Option<Spread>,
) -> Vec<Prediction> {
    let pairs = assumptions.iter().zip(times);
    let predict = |(assumption, times): (&Assumption, Times)| {
        Prediction::new(*assumption, times, has_operations, measured.as_ref())
    };
    pairs.map(predict).collect()
}
