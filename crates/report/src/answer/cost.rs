//! The cost of translation: the share of a run's time that free translation would save.

use perforate_records::Interval;
use perforate_types::counted;

use super::gain::Gain;
use super::{Sentence, WORTH_A_LOOK, WORTH_THE_NAME};
use crate::comparison::Comparison;
use crate::format;
use crate::ids;

/// Least share of compulsory misses among L2 TLB misses at which the answer warns of cold misses.
const MANY_COMPULSORY: f64 = 0.5;

/// Share of a run's time that address translation costs, with its evidence.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    share: Interval,
    basis: Basis,
}

/// Evidence for the cost of address translation.
#[derive(Clone, Copy)]
enum Basis {
    /// A second simulation, in which translation is free.
    Saved,
    /// A second simulation that still waits for some translation, such as one with ideal large pages. The
    /// true cost is therefore at least the difference.
    AtLeastSaved,
    /// Translation stalls in the cycle stack of the run, if there is no second simulation.
    Charged,
}

impl Cost {
    pub(super) fn of(comparison: &Comparison<'_>, scheme: usize) -> Option<Self> {
        let Some(share) = comparison.saving(scheme) else {
            let share = comparison.translation_share(scheme)?;
            return Some(Self { share, basis: Basis::Charged });
        };
        let waits = comparison.bound.and_then(|bound| comparison.translation_share(bound));
        let basis = match waits {
            Some(waits) if waits.mean >= WORTH_A_LOOK => Basis::AtLeastSaved,
            _ => Basis::Saved,
        };
        Some(Self { share, basis })
    }

    /// True if the share, or the upper end of its interval, is large enough to matter to a user.
    pub(super) fn is_worth_a_look(self) -> bool {
        self.share.mean + self.share.half_width_95.unwrap_or(0.0) >= WORTH_A_LOOK
    }

    /// True if the confidence interval of the share excludes 0.
    fn is_sure(self) -> bool {
        self.share.mean > 0.0 && !self.share.holds(0.0)
    }
}

/// Returns a phrase for the page sizes of the reference scheme, such as "with 4KB pages".
pub(super) fn pages(comparison: &Comparison<'_>) -> String {
    match comparison.reference_name() {
        "4KB" => "with 4KB pages".into(),
        name => format!("under {name}"),
    }
}

/// Returns the sentence on the translation cost of the reference scheme, without its end, which [`cost_end`]
/// returns.
pub(super) fn cost_sentence(comparison: &Comparison<'_>, cost: Cost) -> Sentence {
    let Cost { share, basis } = cost;
    let pages = pages(comparison);
    let place = match part_of_program(comparison) {
        Some(part) => format!("{part} {pages}, "),
        None => format!("{pages}, "),
    };
    let sentence = Sentence::default().plain(place).capital();
    let bound = match basis {
        _ if !cost.is_worth_a_look() => "only ",
        Basis::AtLeastSaved => "at least ",
        Basis::Saved | Basis::Charged => "",
    };
    let figure = format::share(share);
    if let Basis::Charged = basis {
        let sentence = sentence.strong(comparison.workload).plain(format!(" spends {bound}"));
        return sentence.strong(figure).plain(" of its time waiting for address translation");
    }
    let sentence =
        sentence.plain("free address translation would save ").strong(comparison.workload);
    if cost.is_sure() {
        return sentence.plain(format!(" {bound}")).strong(figure).plain(" of its time");
    }
    if share.mean <= -WORTH_THE_NAME && !share.holds(0.0) {
        let longer = format::share(Interval { mean: -share.mean, ..share });
        return sentence.plain(" nothing: this run takes ").strong(longer).plain(" longer with it");
    }
    let half = share
        .half_width_95
        .map_or(String::new(), |half| format!(" ({} %)", format::plus_minus(half * 100.0, 1)));
    sentence.plain(format!(" nothing that this run can show{half}"))
}

/// Returns the end of the cost sentence. It says that no scheme can gain much if the cost and both `gains`
/// (of the best available and the best proposed scheme) are small; otherwise, it is a full stop.
pub(super) fn cost_end(cost: Cost, gains: [Option<&Gain>; 2]) -> &'static str {
    let gains_much = gains.into_iter().flatten().any(|gain| gain.speed.mean >= 1.0 + WORTH_A_LOOK);
    if cost.is_worth_a_look() || gains_much { "." } else { ": no scheme can gain much." }
}

/// Returns the sentence on the time that free translation would save beyond the best available scheme. `None`
/// if it is negligible, or if that scheme is not faster than the reference.
pub(super) fn left(comparison: &Comparison<'_>, today: Option<&Gain>) -> Option<Sentence> {
    let today = today.filter(|gain| gain.is_faster())?;
    let cost = Cost::of(comparison, today.scheme)?;
    if cost.share.mean < WORTH_A_LOOK || !cost.is_sure() {
        return None;
    }
    let takes = match cost.basis {
        Basis::Saved => ", free translation would still save ",
        Basis::AtLeastSaved => ", free translation would still save at least ",
        Basis::Charged => ", translation still takes ",
    };
    let sentence = Sentence::default().plain("With ").strong(comparison.schemes[today.scheme].name);
    Some(sentence.plain(takes).strong(format::share(cost.share)).plain(" of its time."))
}

/// Returns the sentence on the best scheme if it is faster than free translation, otherwise `None`. Such a
/// gain comes partly from the physical placement of data, or from the order in which misses are served.
pub(super) fn beyond_free(
    comparison: &Comparison<'_>,
    gains: [Option<&Gain>; 2],
) -> Option<Sentence> {
    let best = gains.into_iter().flatten().filter(|gain| gain.is_faster());
    let best = best.reduce(|best, next| if next.is_better_than(best) { next } else { best })?;
    let over = comparison.speed(best.scheme, comparison.bound?)?;
    let is_beyond = over.mean >= 1.0 + WORTH_A_LOOK && !over.holds(1.0);
    is_beyond.then(|| {
        let name = comparison.schemes[best.scheme].name;
        Sentence::default().strong(name).plain(" is ").strong(format::speed(over)).plain(format!(
            " as fast as free translation {} is: that part of its gain is not translation, but where data \
             lie in caches and memory, and the order in which misses are served.",
            pages(comparison)
        ))
    })
}

/// Returns a warning if most L2 TLB misses are compulsory, because the recording is then too short to tell
/// capacity misses from a cold start. `cost` is the translation cost of the reference scheme.
pub(super) fn cold_misses(comparison: &Comparison<'_>, cost: Option<Cost>) -> Option<Sentence> {
    let reference = &comparison.schemes[comparison.reference];
    let misses = reference.counter(ids::L2_TLB_MISSES)?;
    let share = reference.counter(ids::L2_TLB_COMPULSORY_SHARE)?;
    let matters = cost.is_some_and(Cost::is_worth_a_look);
    (matters && misses > 0.0 && share >= MANY_COMPULSORY).then(|| {
        Sentence::default().plain("Caution: ").strong(format::percent(share)).plain(
            " of its L2 TLB misses are the first access to a page in this run. A TLB of any size \
                 has these, and a longer recording has fewer of them.",
        )
    })
}

/// Returns a warning if a sampled run has too few windows for confidence intervals.
pub(super) fn few_windows(comparison: &Comparison<'_>) -> Option<Sentence> {
    let runs = comparison.schemes.iter().flat_map(|scheme| &scheme.runs);
    let few = runs.filter(|run| run.has_few_windows());
    let windows =
        few.filter_map(|run| run.sampled.as_ref()).map(|sampled| sampled.windows).min()?;
    Some(Sentence::default().plain("Caution: this sample has ").strong(counted(windows, "window")).plain(
        ", too few to tell how sure its figures are: a longer run, or more and shorter windows, has \
         intervals.",
    ))
}

/// Returns a phrase for the executed section of a program, or of several that run at the same time, whose
/// recording was cut off; `None` for complete recordings.
fn part_of_program(comparison: &Comparison<'_>) -> Option<String> {
    let run = comparison.schemes[comparison.reference].first();
    let recording = run.config.get("workload")?;
    let is_cut_off = recording.get("is_cut_off").and_then(serde_json::Value::as_bool)?;
    if !is_cut_off {
        return None;
    }
    let measured = run.instructions_represented.unwrap_or(run.instructions);
    let instructions = rounded(measured + run.warmup.instructions);
    let count = |place: &serde_json::Value, key| {
        place.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0)
    };
    let passed_over = count(&run.config, "skipped_instructions");
    let skipped = count(recording, "instructions_skipped").saturating_add(passed_over);
    // Programs that run at the same time are counted together.
    let of_programs = match count(recording, "programs_beside") {
        0 => None,
        1 => Some("of both programs".to_owned()),
        others => Some(format!("of all {} programs", others.saturating_add(1))),
    };
    Some(match (of_programs, skipped) {
        (None, 0) => format!("in its first {instructions} instructions"),
        (None, _) => {
            format!("in {instructions} instructions after its first {}", rounded(skipped))
        }
        (Some(programs), 0) => format!("in the first {instructions} instructions {programs}"),
        (Some(programs), _) => {
            let skipped = rounded(skipped);
            format!("in {instructions} instructions {programs} after their first {skipped}")
        }
    })
}

/// Abbreviates a number of instructions, without trailing zeros.
fn rounded(instructions: u64) -> String {
    let text = format::compact(instructions as f64);
    let Some((whole, decimals)) = text.split_once('.') else { return text };
    let suffix = decimals.trim_start_matches('0');
    match suffix.starts_with(|first: char| first.is_ascii_digit()) {
        true => text,
        false => format!("{whole}{suffix}"),
    }
}
