//! Sentences that answer a comparison: the cost of translation, the gain of available and of
//! proposed schemes, and the bottleneck. Terminal output and pages begin with them.

mod bottleneck;
mod cost;
mod gain;
mod headline;

use maud::{Markup, html};
use perforate_records::Interval;

use crate::comparison::Comparison;
use crate::format;
use crate::ids;
use crate::metric::{ipc_of_whole_run, per_kilo_instruction};
use cost::{Cost, beyond_free, cold_misses, cost_end, cost_sentence, few_windows, left};
use gain::Gain;
pub(crate) use headline::{headline, subject};

/// Part of a sentence: plain or emphasised text.
enum Piece {
    Plain(String),
    /// Emphasised text, such as a number or a name.
    Strong(String),
}

/// A sentence of an answer, with emphasised parts.
#[derive(Default)]
pub(crate) struct Sentence(Vec<Piece>);

impl Sentence {
    fn plain(mut self, text: impl Into<String>) -> Self {
        self.0.push(Piece::Plain(text.into()));
        self
    }

    fn strong(mut self, text: impl Into<String>) -> Self {
        self.0.push(Piece::Strong(text.into()));
        self
    }

    /// Capitalises the first letter of the sentence, unless it begins with a name.
    fn capital(mut self) -> Self {
        if let Some(Piece::Plain(text)) = self.0.first_mut() {
            *text = format::capital(text);
        }
        self
    }

    /// Returns the sentence as plain text.
    pub(crate) fn text(&self) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Plain(text) | Piece::Strong(text) => text.clone(),
        };
        self.0.iter().map(text).collect()
    }

    /// Returns the sentence as HTML.
    pub(crate) fn markup(&self) -> Markup {
        html! {
            @for piece in &self.0 {
                @match piece {
                    Piece::Plain(text) => (text),
                    // Keeps a figure and its interval on one line.
                    Piece::Strong(text) => strong class=[text.contains('±').then_some("whole")] { (text) },
                }
            }
        }
    }
}

/// Least share of time, 0–1, at which the cost of translation matters to a user.
const WORTH_A_LOOK: f64 = 0.01;

/// Returns the sentences of the answer to a comparison, most important first.
pub(crate) fn answer(comparison: &Comparison<'_>) -> Vec<Sentence> {
    if !comparison.is_timed() {
        let known = [too_little(comparison, None), counted(comparison)];
        return known.into_iter().flatten().collect();
    }
    let (today, proposed) = (today(comparison), proposed(comparison));
    let gains = [today.as_ref(), proposed.as_ref()];
    let cost = Cost::of(comparison, comparison.reference);
    if let Some(sentence) = too_little(comparison, cost) {
        let share = cost.map(|cost| cost_sentence(comparison, cost).plain("."));
        let known = [Some(sentence), share, cold_misses(comparison, cost)];
        return known.into_iter().flatten().collect();
    }
    let found = [
        swapping(comparison),
        cost.map(|cost| cost_sentence(comparison, cost).plain(cost_end(cost, gains))),
        cold_misses(comparison, cost),
        few_windows(comparison),
        today.as_ref().map(|gain| gain.today(comparison)),
        proposed.as_ref().map(|gain| gain.proposed(comparison, today.as_ref())),
        beyond_free(comparison, gains),
        left(comparison, today.as_ref()),
        work(comparison, today.as_ref()),
        bottleneck::bottleneck(comparison),
    ];
    let found: Vec<Sentence> = found.into_iter().flatten().collect();
    if found.is_empty() { vec![speed_of_one(comparison)] } else { found }
}

/// Returns the sentence on a run with too little translation work; `None` for other runs, and if translation costs
/// nothing anyhow.
fn too_little(comparison: &Comparison<'_>, cost: Option<Cost>) -> Option<Sentence> {
    let is_told = comparison.has_too_little_work() && cost.is_none_or(Cost::is_worth_a_look);
    is_told.then(|| {
        let sentence = Sentence::default().strong("Too little to tell");
        sentence.plain(": a note below says why this run cannot tell schemes apart.")
    })
}

/// Share of the time, 0–1, from which on swapping decides how fast a program is.
const MOST_OF_THE_TIME: f64 = 0.5;

/// Returns the sentence on memory that is too small, so that the program waits for swap most of the time; `None` for
/// other runs.
fn swapping(comparison: &Comparison<'_>) -> Option<Sentence> {
    let scheme = &comparison.schemes[comparison.reference];
    let all = scheme.counter(ids::CYCLES_WITH_OPERATING_SYSTEM).filter(|&all| all > 0.0)?;
    let share = scheme.counter(ids::OPERATING_SYSTEM_CYCLES_SWAPPING)? / all;
    (share > MOST_OF_THE_TIME).then(|| {
        let sentence =
            Sentence::default().strong(format!("Swapping takes {}", format::percent(share)));
        sentence.plain(format!(
            " of the time with {}, as memory is too small. It is not in the figures that follow.",
            scheme.name
        ))
    })
}

/// Returns the gain of the best scheme that users can enable today; `None` without such a scheme.
fn today(comparison: &Comparison<'_>) -> Option<Gain> {
    best(comparison, &|index| comparison.is_available(index))
}

/// Returns the gain of the best proposed scheme; `None` without such a scheme.
fn proposed(comparison: &Comparison<'_>) -> Option<Gain> {
    best(comparison, &|index| !comparison.is_available(index))
}

/// Returns the gain of the fastest scheme for which `is_one` is true, together with equally fast ones. The
/// reference and ideal bounds are not candidates.
fn best(comparison: &Comparison<'_>, is_one: &dyn Fn(usize) -> bool) -> Option<Gain> {
    let candidates = || {
        (0..comparison.schemes.len()).filter(|&index| {
            let is_bound = comparison.schemes[index].roles.is_bound();
            index != comparison.reference && !is_bound && is_one(index)
        })
    };
    let gains = candidates().filter_map(|scheme| {
        let speed = comparison.speed(scheme, comparison.reference)?;
        let with_work = comparison.relative(scheme, comparison.reference, ipc_of_whole_run);
        let with_work = with_work.map(|speed| speed.median);
        let is_alike = comparison.translates_alike(scheme, comparison.reference);
        Some(Gain { scheme, speed, with_work, is_alike, as_fast: Vec::new() })
    });
    // Of equally fast schemes, the first one wins.
    let best = gains.reduce(|best, next| if next.is_better_than(&best) { next } else { best })?;
    let is_as_fast = |&other: &usize| {
        let speed = comparison.speed(best.scheme, other);
        other != best.scheme && speed.is_some_and(|speed| difference(speed) == Difference::None)
    };
    let as_fast = candidates().filter(is_as_fast).collect();
    Some(Gain { as_fast, ..best })
}

/// Returns the sentence on the kernel's share of the cycles of the whole run, under the reference and the
/// best available scheme (`today`). `None` if this share is negligible.
fn work(comparison: &Comparison<'_>, today: Option<&Gain>) -> Option<Sentence> {
    let share = |index: usize| {
        let scheme = &comparison.schemes[index];
        let all = scheme.counter(ids::WHOLE_RUN_CYCLES).filter(|&all| all > 0.0)?;
        Some(scheme.counter(ids::WHOLE_RUN_OPERATING_SYSTEM_CYCLES)? / all)
    };
    let own = share(comparison.reference).filter(|&share| share >= WORTH_A_LOOK)?;
    let sentence = Sentence::default()
        .plain("The kernel's work (page faults, clearing, page tables) is not in these figures. It takes ")
        .strong(format::percent(own))
        .plain(" of the whole run's time");
    let other = today.and_then(|today| Some((today, share(today.scheme)?)));
    Some(match other.filter(|(_, share)| (own - share).abs() >= WORTH_A_LOOK) {
        Some((today, share)) => {
            let name = comparison.schemes[today.scheme].name;
            sentence.plain(format!(", and {} with {name}.", format::percent(share)))
        }
        None => sentence.plain("."),
    })
}

/// Returns the sentence on the instructions per cycle of the only scheme in a comparison.
fn speed_of_one(comparison: &Comparison<'_>) -> Sentence {
    let scheme = &comparison.schemes[comparison.reference];
    let start = Sentence::default().strong(scheme.name).plain(" runs ").strong(comparison.workload);
    match scheme.spread(|run| run.ipc) {
        Some(ipc) => start.plain(" at an IPC of ").strong(format::ratio(ipc.median)).plain("."),
        None => start.plain("."),
    }
}

/// Returns the sentence on the rate of page walks under the reference scheme and, if the run can tell schemes apart,
/// the scheme of the headline, for runs without timing.
fn counted(comparison: &Comparison<'_>) -> Option<Sentence> {
    let walks = |scheme: usize| {
        let figure = comparison.schemes[scheme].spread(|run| per_kilo_instruction(run, ids::WALKS));
        figure.map(|spread| spread.median)
    };
    let base = walks(comparison.reference)?;
    let sentence = Sentence::default()
        .plain(format!("{}, ", cost::pages(comparison)))
        .capital()
        .strong(comparison.workload)
        .plain(" needs ")
        .strong(format::ratio(base))
        .plain(" page walks per 1,000 instructions");
    let subject = comparison.subject().and_then(|subject| Some((subject, walks(subject)?)));
    Some(match subject.filter(|_| base > 0.0 && !comparison.has_too_little_work()) {
        Some((subject, ours)) => {
            let change = ours / base - 1.0;
            sentence
                .plain("; with ")
                .strong(comparison.schemes[subject].name)
                .plain(" ")
                .strong(format::percent(change.abs()))
                .plain(if change <= 0.0 { " fewer." } else { " more." })
        }
        None => sentence.plain("."),
    })
}

/// Least difference of a speed from 1 that counts as a difference, even if a smaller one is significant.
const WORTH_THE_NAME: f64 = 0.005;

/// Result of comparing a relative speed with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    Faster,
    Slower,
    /// No difference, or no significant one.
    None,
}

/// Compares a relative speed with 1, taking its confidence interval into account.
pub(crate) fn difference(speed: Interval) -> Difference {
    match speed.mean - 1.0 {
        change if change.abs() < WORTH_THE_NAME || speed.holds(1.0) => Difference::None,
        change if change > 0.0 => Difference::Faster,
        _ => Difference::Slower,
    }
}
