//! One row: what was measured and predicted, and the verdicts.

use perforate_capture::native::Benchmark;
use serde_json::{Value, json};

use super::measure::Measurement;
use super::plan::{Assumption, Row};
use super::predict::{Origin, Predicted};
use super::program::ProgramMeasurement;
use super::spread::Spread;
use super::verdict::Verdict;

/// One row: a benchmark or a program.
pub struct RowOutcome {
    pub name: String,
    /// Time with 4KB pages ÷ time with large pages, measured.
    pub ratio: Option<Spread>,
    /// Nanoseconds per operation, measured; absent for programs.
    pub small_ns: Option<Spread>,
    pub large_ns: Option<Spread>,
    /// One for each assumption.
    pub predicted: Vec<Predicted>,
    pub large_share: Option<f64>,
    pub grouped_share: Option<f64>,
    pub tlb_misses: Option<(f64, f64)>,
    /// Time that passed ÷ processor time.
    pub waiting: Option<f64>,
    /// Time that passed, 4KB ÷ large; of programs.
    pub wall_ratio: Option<Spread>,
    pub origin: Origin,
    /// Whether each operation waits for the one before, so that times are latencies.
    pub is_chase: bool,
    /// Memory of a benchmark; 0 of programs.
    pub bytes: u64,
    pub notes: Vec<String>,
}

impl RowOutcome {
    pub fn of_benchmark(
        row: &Row,
        measured: Measurement,
        predicted: Vec<Predicted>,
        origin: Origin,
    ) -> Self {
        Self {
            name: row.name(),
            ratio: measured.ratio(),
            small_ns: Spread::of(&measured.small_ns),
            large_ns: Spread::of(&measured.large_ns),
            predicted,
            large_share: measured.large_share,
            grouped_share: measured.grouped_share,
            tlb_misses: measured.tlb_misses,
            waiting: Some(measured.waiting),
            wall_ratio: None,
            origin,
            is_chase: row.benchmark == Benchmark::Chase,
            bytes: row.bytes,
            notes: Vec::new(),
        }
    }

    pub fn of_program(name: &str, measured: ProgramMeasurement, predicted: Vec<Predicted>) -> Self {
        let plain: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
        let mut notes = measured.notes;
        notes.push(format!(
            "the program: {:.2} s in user mode, {} MB; its ratio is of time in user mode, and the \
             prediction is for the recorded part, without the operating system's work",
            measured.user_seconds,
            measured.resident_bytes >> 20
        ));
        Self {
            name: plain,
            ratio: Spread::of(&measured.user_ratios),
            small_ns: None,
            large_ns: None,
            predicted,
            large_share: Some(measured.large_share),
            grouped_share: None,
            tlb_misses: None,
            waiting: None,
            wall_ratio: Spread::of(&measured.wall_ratios),
            origin: Origin::Recorded,
            is_chase: false,
            bytes: 0,
            notes,
        }
    }

    /// The verdict on the prediction under each assumption.
    pub fn verdicts(&self) -> Vec<Option<Verdict>> {
        let verdict = |predicted: &Predicted| {
            let ratio = predicted.ratio();
            self.ratio.filter(|_| ratio.is_finite()).map(|measured| Verdict::of(&measured, ratio))
        };
        self.predicted.iter().map(verdict).collect()
    }

    pub fn json(&self, assumptions: &[Assumption]) -> Value {
        let columns = assumptions.iter().zip(&self.predicted).zip(self.verdicts());
        let predicted: Vec<Value> = columns
            .map(|((assumption, predicted), verdict)| {
                json!({
                    "assumption": assumption.name,
                    "schemes": [assumption.small, assumption.large],
                    "ratio": predicted.ratio(),
                    "small_pages_ns": self.small_ns.map(|_| predicted.small_ns),
                    "large_pages_ns": self.small_ns.map(|_| predicted.large_ns),
                    "verdict": verdict.map(Verdict::key),
                })
            })
            .collect();
        json!({
            "row": self.name,
            "measured_ratio": self.ratio.as_ref().map(Spread::json),
            "measured_wall_ratio": self.wall_ratio.as_ref().map(Spread::json),
            "measured_small_pages_ns": self.small_ns.as_ref().map(Spread::json),
            "measured_large_pages_ns": self.large_ns.as_ref().map(Spread::json),
            "large_share": self.large_share,
            "grouped_share": self.grouped_share,
            "tlb_misses_per_operation": self.tlb_misses.map(|(small, large)| [small, large]),
            "wall_per_processor_time": self.waiting,
            "instructions_from": self.origin.key(),
            "predicted": predicted,
            "notes": self.notes,
        })
    }
}
