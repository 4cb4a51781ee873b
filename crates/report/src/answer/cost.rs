//! The cost of translation: the share of a run's time that free translation would save.

use perforate_results::Interval;
use perforate_types::counted;

use super::gain::Gain;
use super::{Sentence, WORTH_A_LOOK};
use crate::comparison::Comparison;
use crate::format;
use crate::ids;

/// Below this share of the L2 TLB's misses, compulsory ones are not worth a warning.
const MANY_COMPULSORY: f64 = 0.5;

/// Share of a run's time that address translation costs.
#[derive(Clone, Copy)]
pub(super) enum Cost {
    /// Saved in a second simulation; the flag says that this one waits for translation itself (ideal
    /// large pages do), so that free translation would save more.
    Saved(Interval, bool),
    /// Charged to translation by the cycle stack, where no such scheme was simulated.
    Charged(Interval),
}

impl Cost {
    pub(super) fn of(comparison: &Comparison<'_>, scheme: usize) -> Option<Self> {
        let Some(saved) = comparison.saving(scheme) else {
            return comparison.translation_share(scheme).map(Self::Charged);
        };
        let waits = comparison.bound.and_then(|bound| comparison.translation_share(bound));
        Some(Self::Saved(saved, waits.is_some_and(|share| share.mean >= WORTH_A_LOOK)))
    }

    fn share(self) -> Interval {
        let (Self::Saved(share, _) | Self::Charged(share)) = self;
        share
    }

    /// True if translation may take a share of the time that is worth a user's while.
    pub(super) fn is_worth_a_look(self) -> bool {
        let share = self.share();
        share.mean + share.half_width_95.unwrap_or(0.0) >= WORTH_A_LOOK
    }

    /// True if the interval of the share excludes 0.
    fn is_sure(self) -> bool {
        let share = self.share();
        share.mean > 0.0 && !share.holds(0.0)
    }
}

/// The reference's pages in a sentence.
pub(super) fn pages(comparison: &Comparison<'_>) -> String {
    match comparison.reference_name() {
        "4KB" => "with 4KB pages".into(),
        name => format!("under {name}"),
    }
}

/// The reference's cost, up to the sentence's end.
pub(super) fn cost(comparison: &Comparison<'_>) -> Option<Sentence> {
    let cost = Cost::of(comparison, comparison.reference)?;
    let pages = pages(comparison);
    let place = match part_of_program(comparison) {
        Some(part) => format!("{part} {pages}, "),
        None => format!("{pages}, "),
    };
    let sentence = Sentence::default().plain(place).capital();
    let only = if cost.is_worth_a_look() { "" } else { "only " };
    Some(match cost {
        Cost::Charged(share) => sentence
            .strong(comparison.workload)
            .plain(format!(" spends {only}"))
            .strong(format::share(share))
            .plain(" of its time waiting for address translation"),
        Cost::Saved(share, is_least) => {
            let sentence =
                sentence.plain("free address translation would save ").strong(comparison.workload);
            if !cost.is_sure() {
                let half = share.half_width_95.map_or(String::new(), |half| {
                    format!(" ({} %)", format::plus_minus(half * 100.0, 1))
                });
                return Some(sentence.plain(format!(" nothing that this run can show{half}")));
            }
            let only = if is_least && only.is_empty() { "at least " } else { only };
            sentence.plain(format!(" {only}")).strong(format::share(share)).plain(" of its time")
        }
    })
}

/// The end of that sentence: with little to save there is little to gain, unless a scheme gained it
/// otherwise.
pub(super) fn cost_end(comparison: &Comparison<'_>, gains: [Option<&Gain>; 2]) -> &'static str {
    let gains_much = gains.into_iter().flatten().any(|gain| gain.speed.mean >= 1.0 + WORTH_A_LOOK);
    match Cost::of(comparison, comparison.reference) {
        Some(cost) if !cost.is_worth_a_look() && !gains_much => ": no scheme can gain much.",
        _ => ".",
    }
}

/// Free translation's saving beyond the best that can be had today.
pub(super) fn left(comparison: &Comparison<'_>, today: Option<&Gain>) -> Option<Sentence> {
    let today = today.filter(|gain| gain.is_faster())?;
    let cost = Cost::of(comparison, today.scheme)?;
    let sentence = Sentence::default().plain("With ").strong(comparison.schemes[today.scheme].name);
    let (sentence, share) = match cost {
        Cost::Saved(share, is_least) => {
            let least = if is_least { "at least " } else { "" };
            (sentence.plain(format!(", free translation would still save {least}")), share)
        }
        Cost::Charged(share) => (sentence.plain(", translation still takes "), share),
    };
    (share.mean >= WORTH_A_LOOK && cost.is_sure())
        .then(|| sentence.strong(format::share(share)).plain(" of its time."))
}

/// The best scheme, where it is faster than free translation: a part of its gain comes from the frames in
/// which its data lie, or from the order in which misses are served.
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

/// A warning where most misses of the L2 TLB are first accesses to pages: the recording is too short to
/// tell capacity from cold start.
pub(super) fn cold_misses(comparison: &Comparison<'_>) -> Option<Sentence> {
    let reference = &comparison.schemes[comparison.reference];
    let misses = reference.counter(ids::L2_TLB_MISSES)?;
    let share = reference.counter(ids::L2_TLB_COMPULSORY_SHARE)?;
    let matters = Cost::of(comparison, comparison.reference).is_some_and(Cost::is_worth_a_look);
    (matters && misses > 0.0 && share >= MANY_COMPULSORY).then(|| {
        Sentence::default().plain("Caution: ").strong(format::percent(share)).plain(
            " of its L2 TLB misses are the first access to a page in this run. A TLB of any size \
                 has these, and a longer recording has fewer of them.",
        )
    })
}

/// A warning where a sample has too few windows for its intervals.
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

/// The part of a program that a recording has which was ended before its program.
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
    Some(match count(recording, "instructions_skipped").saturating_add(passed_over) {
        0 => format!("in its first {instructions} instructions"),
        skipped => format!("in {instructions} instructions after its first {}", rounded(skipped)),
    })
}

/// A count in short, without decimals that are 0.
fn rounded(instructions: u64) -> String {
    let text = format::compact(instructions as f64);
    let Some((whole, decimals)) = text.split_once('.') else { return text };
    let suffix = decimals.trim_start_matches('0');
    match suffix.starts_with(|first: char| first.is_ascii_digit()) {
        true => text,
        false => format!("{whole}{suffix}"),
    }
}
