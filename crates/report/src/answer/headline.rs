//! One sentence that answers a comparison of schemes.

use super::cost::{Cost, cost_end, cost_sentence};
use super::gain::Gain;
use super::{Sentence, answer, proposed, today, too_little};
use crate::comparison::Comparison;
use crate::format;

/// Returns one sentence on the cost of translation, the gain of the best available scheme, and the gain of
/// the best proposed scheme.
pub(crate) fn headline(comparison: &Comparison<'_>) -> Sentence {
    let gains = [today(comparison), proposed(comparison)];
    let cost = Cost::of(comparison, comparison.reference);
    if let Some(sentence) = too_little(comparison, cost) {
        return sentence;
    }
    let has_others = gains.iter().any(Option::is_some);
    let [today, proposed] = gains.map(|gain| gain.filter(Gain::is_faster));
    let has_gain =
        cost.is_none_or(Cost::is_worth_a_look) && (today.is_some() || proposed.is_some());
    let name = |gain: &Gain| comparison.schemes[gain.scheme].name;
    let speed = |gain: &Gain| format::speed(gain.speed);
    let start = match cost {
        Some(cost) => {
            let sentence = cost_sentence(comparison, cost);
            if has_gain {
                sentence.plain("; ")
            } else if cost.is_worth_a_look() && has_others {
                return sentence
                    .plain("; no scheme makes it faster by more than this run can show.");
            } else {
                return sentence.plain(cost_end(cost, [today.as_ref(), proposed.as_ref()]));
            }
        }
        None => Sentence::default(),
    };
    let program = if start.0.is_empty() { comparison.workload } else { "it" };
    let gains = match (&today, &proposed) {
        (None, None) => return answer(comparison).into_iter().next().unwrap_or_default(),
        (Some(gain), other) => {
            let first = start.strong(name(gain)).plain(format!(" would make {program} "));
            let first = first.strong(speed(gain)).plain(" as fast today");
            match other {
                Some(gain) => first
                    .plain(", and the proposal ")
                    .strong(name(gain))
                    .plain(" ")
                    .strong(speed(gain)),
                None => first,
            }
        }
        (None, Some(gain)) => {
            let first = start.plain("the proposal ").strong(name(gain));
            first.plain(format!(" would make {program} ")).strong(speed(gain)).plain(" as fast")
        }
    };
    gains.plain(".").capital()
}

/// Returns the index of the scheme that the answer is about: the fastest one that is faster than the
/// reference, otherwise any other scheme. `None` if there is no other scheme.
pub(crate) fn subject(comparison: &Comparison<'_>) -> Option<usize> {
    let gains = [proposed(comparison), today(comparison)].into_iter().flatten();
    let faster = gains.filter(Gain::is_faster);
    let best = faster.reduce(|best, next| if next.is_better_than(&best) { next } else { best });
    let other = || (0..comparison.schemes.len()).find(|&index| index != comparison.reference);
    best.map(|gain| gain.scheme).or_else(|| comparison.subject()).or_else(other)
}
