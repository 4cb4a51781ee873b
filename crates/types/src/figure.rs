//! Tables of counters: everything that is known of a counter stands in one line of the part that
//! counts it, and with it the place where its value comes from.
//!
//! Recording goes through these tables ([`Counters::record`]), and so does whoever lists counters,
//! shows them or documents them: nothing is written that is not registered.

use std::borrow::Cow;

use crate::{CounterValue, Counters};

/// What a counter counts, or what a quotient is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    /// Events or things.
    Count,
    /// Cycles of the core clock.
    Cycles,
    /// Bytes.
    Bytes,
    /// Nanojoules.
    Nanojoules,
    /// A part of 1.
    Share,
    /// A quotient of two counts.
    Ratio,
    /// Events per 1,000 instructions.
    PerKiloInstruction,
}

impl CounterUnit {
    /// Its name in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Cycles => "cycles",
            Self::Bytes => "bytes",
            Self::Nanojoules => "nJ",
            Self::Share => "share",
            Self::Ratio => "ratio",
            Self::PerKiloInstruction => "per 1000",
        }
    }
}

/// Where reports show a counter, besides the list of all counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prominence {
    /// Nowhere else.
    Listed,
    /// In the table of figures.
    Table,
    /// In the short table as well.
    Main,
}

/// A part of a whole that charts show as a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the whole, the same for all its parts.
    pub whole: &'static str,
    /// Name among the parts.
    pub key: Cow<'static, str>,
    /// What it is called beside the other parts.
    pub label: Cow<'static, str>,
    /// Its colour in reports, by what the colour stands for.
    pub colour: Cow<'static, str>,
}

/// A counter as it is registered: all that is known of it whatever its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Name in results.
    pub id: Cow<'static, str>,
    /// What tables call it.
    pub label: Cow<'static, str>,
    /// What it counts.
    pub unit: CounterUnit,
    /// Heading that it stands under.
    pub group: &'static str,
    /// What it is, in a line or two.
    pub meaning: Cow<'static, str>,
    /// Where reports show it.
    pub prominence: Prominence,
    /// The whole that it is a part of.
    pub part: Option<Part>,
}

/// A name without its underscores: what a counter is called that nothing more is known of.
pub fn spaced(id: &str) -> String {
    id.replace('_', " ")
}

/// One line of a table: a counter, and its value in a source of type `S`.
pub struct Figure<S> {
    /// Name in results.
    pub id: &'static str,
    /// What tables call it; its name with spaces where nothing is said.
    pub label: Option<&'static str>,
    /// What it counts.
    pub unit: CounterUnit,
    /// Heading that it stands under.
    pub group: &'static str,
    /// What it is: a doc comment, line by line.
    pub meaning: &'static [&'static str],
    /// Where reports show it.
    pub prominence: Prominence,
    /// The whole that it is a part of, what it is called there, and its colour.
    pub part: Option<(&'static str, &'static str, &'static str)>,
    /// Its value.
    pub value: fn(&S) -> CounterValue,
}

impl<S> Figure<S> {
    /// What is known of it.
    pub fn counter(&self) -> Counter {
        let lines: Vec<&str> = self.meaning.iter().map(|line| line.trim()).collect();
        let part = |(whole, label, colour): (&'static str, &'static str, &'static str)| {
            let rest = self.id.strip_prefix(whole).and_then(|rest| rest.strip_prefix('_'));
            let key = rest.unwrap_or(self.id).into();
            Part { whole, key, label: label.into(), colour: colour.into() }
        };
        Counter {
            id: self.id.into(),
            label: self.label.map_or_else(|| spaced(self.id).into(), Cow::from),
            unit: self.unit,
            group: self.group,
            meaning: lines.join(" ").into(),
            prominence: self.prominence,
            part: self.part.map(part),
        }
    }
}

/// What is known of the counters of a table.
pub fn registered<S>(figures: &[Figure<S>]) -> Vec<Counter> {
    figures.iter().map(Figure::counter).collect()
}

impl Counters {
    /// Sets all figures of a table.
    ///
    /// # Panics
    /// If there is a figure of one of these names: each has one source.
    pub fn record<S>(&mut self, figures: &[Figure<S>], source: &S) {
        for figure in figures {
            self.set(figure.id, (figure.value)(source));
        }
    }
}

/// Declares tables of counters:
///
/// ```
/// use perforate_types::{Counters, figures};
///
/// struct Buffer {
///     hits: u64,
///     misses: u64,
/// }
///
/// figures! {
///     /// Figures of a prefetch buffer.
///     pub static BUFFER: Buffer, "Prefetch buffer" {
///         /// Look-ups that found the page.
///         prefetch_hits, "hits of the prefetch buffer", Count, Table: |buffer| buffer.hits;
///         /// Share of look-ups that found the page.
///         prefetch_hit_share, Share, Listed: |buffer| (buffer.hits, buffer.hits + buffer.misses);
///     }
/// }
///
/// let mut counters = Counters::default();
/// counters.record(BUFFER, &Buffer { hits: 3, misses: 1 });
/// assert_eq!(counters.get("prefetch_hit_share"), Some(0.75));
/// assert_eq!(BUFFER[1].counter().label, "prefetch hit share");
/// ```
///
/// A line has the counter's name, what tables call it (its name with spaces if left out), a
/// [`CounterUnit`], a [`Prominence`], and where it is a part of a whole that charts show as a stack
/// `part(whole, label, colour)`. The doc comment says what it is. The value is a number, or a pair:
/// numerator and denominator.
#[macro_export]
macro_rules! figures {
    ($(
        $(#[doc = $about:literal])*
        $visibility:vis static $table:ident: $source:ty, $group:literal {
            $(
                $(#[doc = $meaning:literal])+
                $id:ident, $($label:literal,)? $unit:ident, $prominence:ident
                    $(, part($whole:literal, $part:literal, $colour:literal))?
                    : |$it:pat_param| $value:expr;
            )*
        }
    )*) => {$(
        $(#[doc = $about])*
        $visibility static $table: &[$crate::Figure<$source>] = &[$(
            $crate::Figure {
                id: stringify!($id),
                label: $crate::figures!(@first $(Some($label),)? None),
                unit: $crate::CounterUnit::$unit,
                group: $group,
                meaning: &[$($meaning),+],
                prominence: $crate::Prominence::$prominence,
                part: $crate::figures!(@first $(Some(($whole, $part, $colour)),)? None),
                value: |$it: &$source| $crate::CounterValue::from($value),
            },
        )*];
    )*};
    (@first $first:expr $(, $others:expr)*) => { $first };
}

#[cfg(test)]
mod tests {
    use super::*;

    figures! {
        static WALKS: [u64; 2], "Page walks" {
            /// Walks: the doc comment
            /// has two lines.
            walks, Count, Main: |it| it[0];
            /// Cycles.
            walk_cycles_of_reads, "reads", Cycles, Listed, part("walk_cycles", "read", "level1"):
                |it| it[1];
            /// Their quotient.
            cycles_per_walk, Ratio, Table: |&[walks, cycles]| (cycles, walks);
        }
    }

    #[test]
    fn a_line_says_all_there_is_to_know() {
        let [walks, reads, quotient] = &registered(WALKS)[..] else { panic!("three lines") };
        assert_eq!((&*walks.id, &*walks.label), ("walks", "walks"));
        assert_eq!(walks.meaning, "Walks: the doc comment has two lines.");
        assert_eq!((reads.unit, reads.prominence), (CounterUnit::Cycles, Prominence::Listed));
        let part = reads.part.as_ref().unwrap();
        assert_eq!((part.whole, &*part.key, &*part.label), ("walk_cycles", "of_reads", "read"));
        assert_eq!((quotient.group, &*quotient.label), ("Page walks", "cycles per walk"));
        let mut counters = Counters::default();
        counters.record(WALKS, &[4, 10]);
        assert_eq!(counters.get("cycles_per_walk"), Some(2.5));
        let mut none = Counters::default();
        none.record(WALKS, &[0, 10]);
        assert_eq!(none.get("cycles_per_walk"), Some(0.0), "nothing was divided");
    }
}
