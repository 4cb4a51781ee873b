//! One sentence and a few numbers that say what the comparison found.

use crate::RunResult;
use crate::comparison::{Comparison, Spread};
use crate::format::{bytes, escape, percent, ratio, times};
use crate::metric::{self, per_kilo_instruction};

/// The finding as a sentence (HTML).
pub(crate) fn sentence(comparison: &Comparison<'_>) -> String {
    let Some(subject) = comparison.subject() else {
        let scheme = &comparison.schemes[comparison.reference];
        let ipc = scheme
            .spread(|run| run.ipc)
            .map(|ipc| format!(" at an IPC of {}", strong(&ratio(ipc.median))));
        return format!(
            "{} runs {}{}.",
            strong(scheme.name),
            strong(comparison.workload),
            ipc.unwrap_or_default()
        );
    };
    timed(comparison, subject).or_else(|| counted(comparison, subject)).unwrap_or_else(|| {
        let schemes = comparison.schemes.len();
        format!("{schemes} schemes on {}.", strong(comparison.workload))
    })
}

/// What IPC says.
fn timed(comparison: &Comparison<'_>, subject: usize) -> Option<String> {
    let median = |scheme, reference| {
        comparison.relative_ipc(scheme, reference).map(|spread: Spread| spread.median)
    };
    let gain = median(subject, comparison.reference)?;
    let name = comparison.schemes[subject].name;
    let base = pages(comparison);
    let mut text = format!("On {}, {} runs ", strong(comparison.workload), strong(name));
    if let Some(part) = comparison.ideal.and_then(|ideal| median(subject, ideal)) {
        text.push_str(&format!("at {} of ideal and ", strong(&percent(part))));
    }
    text.push_str(&format!("at {} the speed of {base}", strong(&times(gain))));
    let conventional = (0..comparison.schemes.len()).find(|&index| {
        let name = comparison.schemes[index].name.to_lowercase();
        name == "thp" || name == "conventional"
    });
    let other = conventional.filter(|&index| index != subject && index != comparison.reference);
    if let Some((index, gain)) =
        other.and_then(|index| Some((index, median(index, comparison.reference)?)))
    {
        let name = escape(comparison.schemes[index].name);
        text.push_str(&format!("; {name} reaches {}", strong(&times(gain))));
    }
    text.push('.');
    Some(text)
}

/// What misses say, for runs without cycles.
fn counted(comparison: &Comparison<'_>, subject: usize) -> Option<String> {
    let misses = |scheme: usize| {
        let runs = &comparison.schemes[scheme];
        runs.spread(|run| per_kilo_instruction(run, "l2_tlb_misses").or(run.counter("l2_tlb_mpki")))
    };
    let (ours, base) = (misses(subject)?.median, misses(comparison.reference)?.median);
    let name = comparison.schemes[subject].name;
    let mut text = format!(
        "On {}, {} misses the L2 TLB {} times per 1,000 instructions",
        strong(comparison.workload),
        strong(name),
        strong(&ratio(ours))
    );
    if base > 0.0 {
        let change = ours / base - 1.0;
        let word = if change <= 0.0 { "less often" } else { "more often" };
        text.push_str(&format!(
            ", {} {word} than {}",
            strong(&percent(change.abs())),
            pages(comparison)
        ));
    }
    text.push('.');
    Some(text)
}

fn pages(comparison: &Comparison<'_>) -> String {
    match comparison.reference_name() {
        "4KB" => "4KB pages".to_string(),
        other => escape(other),
    }
}

fn strong(text: &str) -> String {
    format!("<strong>{}</strong>", escape(text))
}

type Figure = fn(&RunResult) -> Option<f64>;
/// Label, figure, how it is written.
type Tile = (&'static str, Figure, fn(f64) -> String);

/// The subject's main numbers beside those of the reference.
pub(crate) fn tiles(comparison: &Comparison<'_>) -> String {
    let Some(subject) = comparison.subject() else { return String::new() };
    let spread = |scheme: usize, figure: Figure| {
        comparison.schemes[scheme].spread(figure).map(|spread| spread.median)
    };
    let figures: [Tile; 6] = [
        ("IPC, steady state", |run| run.ipc, ratio),
        ("IPC, including OS work", metric::ipc_with_operating_system, ratio),
        // L2 TLB misses would not compare: a perforated page is found while its hole is walked to.
        ("page walks per 1,000 instructions", |run| per_kilo_instruction(run, "walks"), ratio),
        ("references per walk", metric::references_per_walk, ratio),
        ("translation cycles per 1,000 instructions", metric::translation_cycles, ratio),
        ("page tables", |run| run.counter("page_table_bytes"), bytes),
    ];
    let tile = |&(label, figure, format): &Tile| {
        let value = spread(subject, figure)?;
        let base = spread(comparison.reference, figure).map(|base| {
            format!(
                "<span>{}: {}</span>",
                escape(comparison.reference_name()),
                escape(&format(base))
            )
        });
        Some(format!(
            "<div class=\"tile\"><b>{}</b><span>{label}</span>{}</div>",
            escape(&format(value)),
            base.unwrap_or_default()
        ))
    };
    let tiles: String = figures.iter().filter_map(tile).collect();
    if tiles.is_empty() {
        return tiles;
    }
    format!(
        "<div class=\"tiles\" role=\"group\" aria-label=\"Main numbers of {}\">{tiles}</div>",
        escape(comparison.schemes[subject].name)
    )
}
