//! Estimates from sampled traces and sampled timing with their confidence intervals, for terminal output and
//! pages. With several seeds, the estimates of the first run are shown.

use crate::comparison::{Comparison, SchemeRuns};
use crate::format;
use perforate_records::{Interval, Sampled};
use perforate_types::counted;

/// One figure, estimated from sampled traces, for all schemes of a comparison.
pub(crate) struct SampledRow {
    pub label: &'static str,
    /// Estimate for each scheme, in the order of the comparison; `None` if unknown.
    pub values: Vec<Option<Interval>>,
    /// True if the figure is a total, extrapolated to the whole program.
    is_count: bool,
}

impl SampledRow {
    /// Writes an estimate with its interval as text.
    pub fn text(&self, figure: Interval) -> String {
        let decimals = format::decimals(figure.mean) + 1;
        let write = |value| match self.is_count {
            true => format::compact(value),
            false => format::ratio_with(value, decimals),
        };
        let half = figure.half_width_95.map(|half| format!(" ± {}", write(half)));
        write(figure.mean) + &half.unwrap_or_default()
    }
}

const FIGURES: [(&str, &str); 4] = [
    ("cycles_per_instruction", "CPI"),
    ("l2_tlb_mpki", "L2 TLB MPKI"),
    ("walks_per_kilo_instruction", "walks PKI"),
    ("translation_cycles_per_kilo_instruction", "translation cycles PKI"),
];
const EXTRAPOLATED: [(&str, &str); 2] =
    [("cycles", "cycles, whole program"), ("walks", "walks, whole program")];
/// Counters that are extrapolated with sampled timing: only the cycles. All other counters are exact, because
/// they cover every instruction, not only those in windows.
const EXTRAPOLATED_TIMING: [(&str, &str); 1] = [("cycles", "cycles, measured part")];

fn sampled<'a>(scheme: &SchemeRuns<'a>) -> Option<&'a Sampled> {
    scheme.first().sampled.as_ref()
}

/// Returns a row for each estimated figure; empty if no run is sampled.
pub(crate) fn rows(comparison: &Comparison<'_>) -> Vec<SampledRow> {
    let row = |is_count: bool, name: &str, label: &'static str| {
        let figure = |scheme: &SchemeRuns<'_>| {
            let sampled = sampled(scheme)?;
            let figures = if is_count { &sampled.extrapolated } else { &sampled.figures };
            figures.get(name).copied()
        };
        let values = comparison.schemes.iter().map(figure).collect();
        SampledRow { label, values, is_count }
    };
    let figures = FIGURES.iter().map(|(name, label)| row(false, name, label));
    let only_timing = comparison.schemes.iter().find_map(sampled).is_some_and(|it| it.only_timing);
    let counts: &[_] = if only_timing { &EXTRAPOLATED_TIMING } else { &EXTRAPOLATED };
    let counts = counts.iter().map(|(name, label)| row(true, name, label));
    figures.chain(counts).filter(|row| row.values.iter().any(Option::is_some)).collect()
}

/// Returns a one-line caption for the estimates; `None` if no run is sampled.
pub(crate) fn caption(comparison: &Comparison<'_>) -> Option<String> {
    let sampled = comparison.schemes.iter().find_map(sampled)?;
    let interval = match sampled.windows {
        1 => "one window has no confidence interval",
        _ => "± half of the 95% confidence interval",
    };
    let whole = if sampled.only_timing { "Measured part, timed in" } else { "Whole program from" };
    Some(format!("{whole} {}, {interval}", windows(sampled)))
}

/// Returns a phrase for the share of the program that was simulated or timed; `None` if no run is sampled.
pub(crate) fn seen(comparison: &Comparison<'_>) -> Option<String> {
    comparison.schemes.iter().find_map(sampled).map(|sampled| match sampled.only_timing {
        true => format!("timed in {}", windows(sampled)),
        false => format!("a sample: {}", windows(sampled)),
    })
}

fn windows(sampled: &Sampled) -> String {
    format!(
        "{} ({} of {} instructions)",
        counted(sampled.windows, "window"),
        format::compact(sampled.instructions_counted as f64),
        format::compact(sampled.instructions_represented as f64),
    )
}
