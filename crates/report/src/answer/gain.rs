//! Sentences about the speedup of a scheme.

use perforate_records::Interval;
use perforate_types::noun;

use super::{Difference, Sentence, difference};
use crate::comparison::Comparison;
use crate::format;
use crate::ids;

/// A scheme and its speed relative to the reference scheme.
pub(super) struct Gain {
    pub(super) scheme: usize,
    pub(super) speed: Interval,
    /// Speed relative to the reference with the kernel's work included; `None` if unknown.
    pub(super) with_work: Option<f64>,
    /// True if the scheme's translation counters equal those of the reference, so that a difference in speed has another
    /// cause.
    pub(super) is_alike: bool,
    /// Indices in the comparison of other schemes whose speed cannot be distinguished from this scheme's.
    pub(super) as_fast: Vec<usize>,
}

/// Least difference between the relative speeds with and without the kernel's work that the answer mentions.
const CHANGED_BY_WORK: f64 = 0.02;

/// Wording for a speed that does not differ significantly from the reference's.
const NO_DIFFERENCE: &str = "makes no difference that this run can show";
const A_DIFFERENCE: &str = "makes a difference that this run can show";

impl Gain {
    pub(super) fn is_faster(&self) -> bool {
        self.difference() == Difference::Faster
    }

    /// Difference that translation makes to the speed.
    fn difference(&self) -> Difference {
        if self.is_alike { Difference::None } else { difference(self.speed) }
    }

    /// True if this speedup is larger than that of `other`. If neither is significant, compares speeds that
    /// include the kernel's work.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        let gain = |one: &Self| match one.difference() {
            Difference::None => 1.0,
            _ => one.speed.mean,
        };
        let key = |one: &Self| (gain(one), one.with_work.unwrap_or(1.0));
        key(self) > key(other)
    }

    /// Returns a clause with the speed that includes the kernel's work; empty if it hardly differs from the
    /// speed without.
    fn in_all(&self) -> String {
        let differs = |speed: &f64| (speed - self.speed.mean).abs() > CHANGED_BY_WORK;
        let speed = self.with_work.filter(differs).map(format::times);
        speed.map_or(String::new(), |speed| format!(", {speed} with the kernel's work"))
    }

    /// Returns the sentence on the best scheme that users can have today.
    pub(super) fn today(&self, comparison: &Comparison<'_>) -> Sentence {
        let name = comparison.schemes[self.scheme].name;
        if let Some(elsewhere) = self.elsewhere(comparison) {
            return Sentence::default().plain("Today, ").strong(name).plain(elsewhere);
        }
        if self.difference() == Difference::None && !self.as_fast.is_empty() {
            let names = std::iter::once(name).chain(self.names_as_fast(comparison));
            let names = names.collect::<Vec<_>>().join(", ");
            return Sentence::default().plain("Today, none of ").strong(names).plain(format!(
                " {A_DIFFERENCE}{}{}.",
                around(self.speed),
                self.in_all() + &forbidden(comparison)
            ));
        }
        let set = comparison.setting(name).map_or(String::new(), |setting| format!(" ({setting})"));
        let sentence = Sentence::default().plain("Today, ").strong(name).plain(set);
        let sentence = match self.difference() {
            Difference::None => sentence.plain(format!(" {NO_DIFFERENCE}{}", around(self.speed))),
            Difference::Faster => sentence
                .plain(" would make it ")
                .strong(format::speed(self.speed))
                .plain(" as fast")
                .plain(self.others(comparison)),
            Difference::Slower => sentence
                .plain(", the best that there is, would be slower: ")
                .strong(format::speed(self.speed))
                .plain(" the speed"),
        };
        let asked = match self.is_faster() {
            true => never_asked(comparison).to_owned(),
            false => forbidden(comparison),
        };
        sentence.plain(self.in_all()).plain(asked).plain(".")
    }

    /// Returns the sentence on the best proposed scheme, compared with the best available one
    /// (`today`) as well.
    pub(super) fn proposed(&self, comparison: &Comparison<'_>, today: Option<&Self>) -> Sentence {
        let name = comparison.schemes[self.scheme].name;
        let sentence = Sentence::default();
        if let Some(elsewhere) = self.elsewhere(comparison) {
            let start = sentence.plain("No proposal gains anything; ");
            return start.strong(name).plain(", the best,").plain(elsewhere);
        }
        let sentence = match self.difference() {
            Difference::None => {
                let none = format!("; {name}, the best, {NO_DIFFERENCE}{}", around(self.speed));
                let sentence = sentence.plain("No proposal gains anything").plain(none);
                return sentence.plain(self.in_all()).plain(forbidden(comparison)).plain(".");
            }
            Difference::Slower => {
                return sentence
                    .plain("The proposals would be slower: ")
                    .strong(name)
                    .plain(", the best of them, ")
                    .strong(format::speed(self.speed))
                    .plain(" the speed.");
            }
            Difference::Faster => sentence
                .plain("Of the proposals, ")
                .strong(name)
                .plain(" gains the most: ")
                .strong(format::speed(self.speed))
                .plain(self.others(comparison)),
        };
        let over = today.and_then(|today| {
            let speed = comparison.speed(self.scheme, today.scheme)?;
            let other = comparison.schemes[today.scheme].name;
            today.is_faster().then(|| match difference(speed) {
                Difference::None => format!("; against {other}, it {NO_DIFFERENCE}"),
                _ => format!(" ({} as fast as {other})", format::speed(speed)),
            })
        });
        sentence.plain(self.in_all()).plain(over.unwrap_or_default()).plain(".")
    }

    /// Returns the end of the sentence on a scheme that translates as the reference does, but has another speed;
    /// otherwise `None`.
    fn elsewhere(&self, comparison: &Comparison<'_>) -> Option<String> {
        let differs = self.is_alike && difference(self.speed) != Difference::None;
        differs.then(|| {
            let seeds = if comparison.seeds() > 1 { "" } else { " (--seeds 5)" };
            format!(
                " walks and reads page tables as often as {}: its speed, {}, differs by where memory lies in caches and \
                 DRAM, which other seeds change{seeds}.",
                comparison.schemes[comparison.reference].name,
                format::speed(self.speed)
            )
        })
    }

    fn names_as_fast<'a>(
        &'a self,
        comparison: &'a Comparison<'a>,
    ) -> impl Iterator<Item = &'a str> {
        self.as_fast.iter().map(|&other| comparison.schemes[other].name)
    }

    /// Returns the clause that names the schemes as fast as this one; empty if there are none.
    fn others(&self, comparison: &Comparison<'_>) -> String {
        let names: Vec<&str> = self.names_as_fast(comparison).collect();
        if names.is_empty() {
            return String::new();
        }
        format!(" (no difference from {} that this run can show)", names.join(", "))
    }
}

/// Returns the interval of a speed that is not significantly different from 1, in parentheses.
fn around(speed: Interval) -> String {
    speed.half_width_95.map_or(String::new(), |half| format!(" ({})", format::plus_minus(half, 2)))
}

/// Returns a clause on the program's calls of MADV_NOHUGEPAGE; empty if there are none.
fn forbidden(comparison: &Comparison<'_>) -> String {
    let refusals = comparison.schemes[comparison.reference].counter(ids::HUGE_PAGE_REFUSALS);
    match refusals.filter(|&calls| calls > 0.0) {
        Some(calls) => format!(
            "; the program forbids large pages for memory of its own (MADV_NOHUGEPAGE, {} {})",
            format::compact(calls),
            noun(calls as u64, "call")
        ),
        None => String::new(),
    }
}

/// Returns a clause that `enabled=madvise` would have no effect, if the program never calls MADV_HUGEPAGE;
/// otherwise an empty text.
fn never_asked(comparison: &Comparison<'_>) -> &'static str {
    match comparison.schemes[comparison.reference].counter(ids::HUGE_PAGE_ADVICES) {
        Some(0.0) => {
            "; enabled=madvise gains nothing, as the program never asks for large pages \
             (MADV_HUGEPAGE)"
        }
        _ => "",
    }
}
