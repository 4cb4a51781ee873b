//! Statistical estimates for a whole program from windows.

use std::collections::BTreeMap;

use perforate_records::{Interval, Sampled};

use crate::stretches::PartCounts;

/// A statistic, as a tuple: name, name of its count, function that returns the count, instructions
/// per unit of the statistic, and true if only runs with a timing model have the statistic.
type Figure = (&'static str, &'static str, fn(&PartCounts) -> u64, f64, bool);

const FIGURES: [Figure; 4] = [
    ("cycles_per_instruction", "cycles", |tally| tally.cycles, 1.0, true),
    ("l2_tlb_mpki", "l2_tlb_misses", |tally| tally.l2_tlb_misses, 1000.0, false),
    ("walks_per_kilo_instruction", "walks", |tally| tally.walks, 1000.0, false),
    (
        "translation_cycles_per_kilo_instruction",
        "translation_cycles",
        |tally| tally.translation_cycles,
        1000.0,
        true,
    ),
];

/// Population from which the windows are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Population {
    /// The whole program, of which the trace contains only windows. The run has a timing model.
    Program,
    /// The whole program, of which the trace contains only windows. The run counts events only,
    /// without a timing model.
    Events,
    /// The cycles of all instructions, of which only windows were timed (sampled timing). Events
    /// need no estimate, because they were counted in every instruction.
    Clock,
}

/// Estimates ratios and totals from windows; `None` if no instruction was counted.
pub(crate) fn estimate(
    windows: &[PartCounts],
    population: Population,
    window_warmup_instructions: u64,
    instructions_represented: u64,
) -> Option<Sampled> {
    let instructions: Vec<u64> = windows.iter().map(|window| window.instructions).collect();
    let instructions_counted = instructions.iter().sum();
    let (mut figures, mut extrapolated) = (BTreeMap::new(), BTreeMap::new());
    let is_sampled = |wants_clock: bool| match population {
        Population::Program => true,
        Population::Events => !wants_clock,
        Population::Clock => wants_clock,
    };
    for (name, count_name, count, per, _) in FIGURES.iter().filter(|row| is_sampled(row.4)) {
        let counts: Vec<u64> = windows.iter().map(count).collect();
        let figure = Interval::of_quotient(&counts, &instructions)?;
        figures.insert((*name).into(), figure.times(*per));
        extrapolated.insert((*count_name).into(), figure.times(instructions_represented as f64));
    }
    Some(Sampled {
        windows: windows.len() as u64,
        only_timing: population == Population::Clock,
        window_warmup_instructions,
        instructions_counted,
        instructions_represented,
        figures,
        extrapolated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_per_instruction_and_for_the_whole_program() {
        let window = PartCounts {
            instructions: 2000,
            cycles: 5000,
            translation_cycles: 300,
            translation_stall_cycles: 200,
            l2_tlb_misses: 8,
            walks: 6,
        };
        let found = estimate(&[window, window], Population::Program, 10, 1_000_000).unwrap();
        let exact = |mean| Interval { mean, half_width_95: Some(0.0) };
        assert_eq!(found.figures["cycles_per_instruction"], exact(2.5));
        assert_eq!(found.figures["l2_tlb_mpki"], exact(4.0));
        assert_eq!(found.figures["walks_per_kilo_instruction"], exact(3.0));
        assert_eq!(found.figures["translation_cycles_per_kilo_instruction"], exact(150.0));
        assert_eq!(found.extrapolated["cycles"], exact(2_500_000.0));
        assert_eq!(found.extrapolated["l2_tlb_misses"], exact(4000.0));
        assert_eq!((found.windows, found.instructions_counted), (2, 4000));
        let functional = estimate(&[window], Population::Events, 0, 1_000_000).unwrap();
        let names: Vec<&str> = functional.figures.keys().map(String::as_str).collect();
        assert_eq!(names, ["l2_tlb_mpki", "walks_per_kilo_instruction"]);
        let clock = estimate(&[window], Population::Clock, 0, 1_000_000).unwrap();
        let names: Vec<&str> = clock.figures.keys().map(String::as_str).collect();
        assert_eq!(names, ["cycles_per_instruction", "translation_cycles_per_kilo_instruction"]);
        assert!(clock.only_timing && !functional.only_timing);
        assert_eq!(estimate(&[], Population::Program, 0, 1_000_000), None);
    }
}
