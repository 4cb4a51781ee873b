//! From windows to the whole program: the ratio estimator of survey sampling (Cochran, Sampling
//! Techniques, 3rd edition 1977, chapter 6).

use std::collections::BTreeMap;

use perforate_results::{Sampled, SampledFigure};

use crate::stretches::Tally;
use crate::student::deviations_95;

/// A figure: its name and that of its count, the count, per how many instructions, whether it wants
/// a clock.
type Figure = (&'static str, &'static str, fn(&Tally) -> u64, f64, bool);

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

/// Estimates from windows; none without a counted instruction.
pub(crate) fn estimate(
    windows: &[Tally],
    timed: bool,
    window_warmup_instructions: u64,
    instructions_represented: u64,
) -> Option<Sampled> {
    let instructions_counted = windows.iter().map(|window| window.instructions).sum();
    if instructions_counted == 0 {
        return None;
    }
    let (mut figures, mut extrapolated) = (BTreeMap::new(), BTreeMap::new());
    for (name, count_name, count, per, _) in FIGURES.iter().filter(|row| timed || !row.4) {
        let pairs = windows.iter().map(|window| (window.instructions, count(window)));
        let figure = ratio(&pairs.collect::<Vec<_>>());
        figures.insert((*name).into(), figure.times(*per));
        extrapolated.insert((*count_name).into(), figure.times(instructions_represented as f64));
    }
    Some(Sampled {
        windows: windows.len() as u64,
        window_warmup_instructions,
        instructions_counted,
        instructions_represented,
        figures,
        extrapolated,
    })
}

/// Count ÷ instructions, from windows with so many instructions and counts. Residuals are computed
/// in whole numbers, so that equal windows have none.
fn ratio(windows: &[(u64, u64)]) -> SampledFigure {
    let instructions: u64 = windows.iter().map(|window| window.0).sum();
    let count: u64 = windows.iter().map(|window| window.1).sum();
    let mean = count as f64 / instructions as f64;
    if windows.len() < 2 {
        return SampledFigure { mean, half_width_95: None };
    }
    let residual = |&(own_instructions, own_count): &(u64, u64)| {
        let product = |one: u64, other: u64| i128::from(one) * i128::from(other);
        let scaled = product(own_count, instructions) - product(count, own_instructions);
        scaled as f64 / instructions as f64
    };
    let squares: f64 = windows.iter().map(|window| residual(window).powi(2)).sum();
    let windows = windows.len() as f64;
    let error = (squares / (windows - 1.0) * windows).sqrt() / instructions as f64;
    let half = deviations_95(windows as usize - 1) * error;
    SampledFigure { mean, half_width_95: Some(half) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1200 cycles in 400 instructions: 3. Residuals from 3 cycles an instruction: −100, 0, +100;
    /// their variance is 20000 ÷ 2; that of the mean 10000 ÷ 3 ÷ (400 ÷ 3)² = 0.1875. Two degrees of
    /// freedom: 4.3027 × √0.1875.
    #[test]
    fn windows_of_unequal_length() {
        let found = ratio(&[(100, 200), (100, 300), (200, 700)]);
        assert_eq!(found.mean, 3.0);
        assert!((found.half_width_95.unwrap() - 4.3027 * 0.1875f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn equal_windows_have_no_width_and_one_window_no_interval() {
        // One third is no binary fraction: rounding would leave a width.
        let found = ratio(&[(300_000_001, 100_000_003); 7]);
        assert_eq!(found.half_width_95, Some(0.0));
        assert_eq!(ratio(&[(3, 1), (300, 100)]).half_width_95, Some(0.0), "the same ratio");
        assert_eq!(ratio(&[(4, 10)]), SampledFigure { mean: 2.5, half_width_95: None });
    }

    #[test]
    fn figures_are_per_instruction_and_for_the_whole_program() {
        let window = Tally {
            instructions: 2000,
            cycles: 5000,
            translation_cycles: 300,
            l2_tlb_misses: 8,
            walks: 6,
        };
        let found = estimate(&[window, window], true, 10, 1_000_000).unwrap();
        let exact = |mean| SampledFigure { mean, half_width_95: Some(0.0) };
        assert_eq!(found.figures["cycles_per_instruction"], exact(2.5));
        assert_eq!(found.figures["l2_tlb_mpki"], exact(4.0));
        assert_eq!(found.figures["walks_per_kilo_instruction"], exact(3.0));
        assert_eq!(found.figures["translation_cycles_per_kilo_instruction"], exact(150.0));
        assert_eq!(found.extrapolated["cycles"], exact(2_500_000.0));
        assert_eq!(found.extrapolated["l2_tlb_misses"], exact(4000.0));
        assert_eq!((found.windows, found.instructions_counted), (2, 4000));
        let functional = estimate(&[window], false, 0, 1_000_000).unwrap();
        let names: Vec<&str> = functional.figures.keys().map(String::as_str).collect();
        assert_eq!(names, ["l2_tlb_mpki", "walks_per_kilo_instruction"]);
        assert_eq!(estimate(&[], true, 0, 1_000_000), None);
    }
}
