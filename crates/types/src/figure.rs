//! Tables of counters. Each counter has one line, in the module that counts it, with its name,
//! unit, meaning and value.
//!
//! Results are recorded from these tables ([`Counters::record`]), and lists, reports and
//! documentation read the same tables. So a run cannot write a counter that is not registered.

use std::borrow::Cow;

use crate::{CounterValue, Counters};

/// Unit of a counter or ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    /// Number of events or objects.
    Count,
    /// Cycles of the core clock.
    Cycles,
    /// Number of bytes of memory.
    Bytes,
    /// Energy in nanojoules (10⁻⁹ J).
    Nanojoules,
    /// A fraction between 0 and 1.
    Share,
    /// A quotient of two counts.
    Ratio,
    /// Events per 1,000 instructions.
    PerKiloInstruction,
}

impl CounterUnit {
    /// Name of the unit, as lists of counters show it.
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

/// Tables of a report in which a counter appears, in addition to the list of all counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prominence {
    /// Shown in the list of all counters only.
    Listed,
    /// Shown in the report's full table of counters.
    Table,
    /// Shown in the report's full table of counters and in its short table of the main ones.
    Main,
}

/// Membership in a stacked chart: the counter is one part of a total, such as one level of the page
/// table in all reads of walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the total, such as `walk_references`. All parts of a total have the same `whole`.
    pub whole: &'static str,
    /// Name of this part among the parts of the total, such as `level4`.
    pub key: Cow<'static, str>,
    /// Label of this part in the chart's legend.
    pub label: Cow<'static, str>,
    /// Name of the part's colour in the palette of reports; it states a meaning, such as `level1`.
    pub colour: Cow<'static, str>,
}

/// Description of a registered counter, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Name of the counter in results files.
    pub id: Cow<'static, str>,
    /// Label of the counter in tables and charts.
    pub label: Cow<'static, str>,
    /// Unit of the counter's value.
    pub unit: CounterUnit,
    /// Heading under which lists of counters show this one.
    pub group: &'static str,
    /// Meaning of the counter, in a line or two.
    pub meaning: Cow<'static, str>,
    /// Tables of a report that show the counter.
    pub prominence: Prominence,
    /// Membership in a stacked chart; `None` if no chart contains the counter.
    pub part: Option<Part>,
}

/// A counter's default label: its name with spaces for underscores.
pub fn spaced(id: &str) -> String {
    id.replace('_', " ")
}

/// One line of a table of counters: the description of a counter, and a function that reads its
/// value from a source of type `S`.
pub struct Figure<S> {
    /// Name of the counter in results files.
    pub id: &'static str,
    /// Label of the counter in tables; if `None`, its name with spaces for underscores.
    pub label: Option<&'static str>,
    /// Unit of the counter's value.
    pub unit: CounterUnit,
    /// Heading under which lists of counters show this one.
    pub group: &'static str,
    /// Meaning of the counter: the lines of its doc comment.
    pub meaning: &'static [&'static str],
    /// Tables of a report that show the counter.
    pub prominence: Prominence,
    /// Membership in a stacked chart: name of the total, label of the part, and colour of the part.
    /// `None` if no chart contains the counter.
    pub part: Option<(&'static str, &'static str, &'static str)>,
    /// Function that reads the counter's value from the source.
    pub value: fn(&S) -> CounterValue,
}

impl<S> Figure<S> {
    /// Description of the counter, without its value.
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

/// Descriptions of all counters of a table.
pub fn registered<S>(figures: &[Figure<S>]) -> Vec<Counter> {
    figures.iter().map(Figure::counter).collect()
}

impl Counters {
    /// Sets every counter of a table to its value in `source`.
    ///
    /// # Panics
    /// If one of these counters is already set, because each counter has exactly one source.
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
/// A line has the counter's name, a label for tables (by default the name with spaces), a
/// [`CounterUnit`] and a [`Prominence`]. A part of a stacked chart adds `part(whole, label,
/// colour)`. The doc comment is the meaning. The value is a number, or a pair of numerator and
/// denominator.
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
            /// Cycles divided by walks.
            cycles_per_walk, Ratio, Table: |&[walks, cycles]| (cycles, walks);
        }
    }

    #[test]
    fn a_line_registers_label_meaning_and_value() {
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
