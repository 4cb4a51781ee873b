//! Readings of counters, and rates per unit of work.

use serde::{Deserialize, Serialize};

use super::Event;

/// A number for each hardware event. Events that were not counted are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerEvent<T> {
    /// Cycles of the processor core.
    pub cycles: Option<T>,
    /// Instructions that the core retired.
    pub instructions: Option<T>,
    /// Loads that missed all data TLBs; in a prediction, page walks.
    pub tlb_misses: Option<T>,
    /// Cycles of page walks for loads, counted once per busy walker; in a prediction, cycles of all page walks.
    pub walk_cycles: Option<T>,
}

/// Counts of hardware events in one or several runs.
pub type Readings = PerEvent<u64>;
/// Counts of hardware events per unit of work (such as an operation of a benchmark), measured or predicted.
pub type Rates = PerEvent<f64>;

impl<T> PerEvent<T> {
    /// The numbers that `change` makes of these, where it makes one.
    pub(crate) fn and_then<U>(self, change: impl Fn(T) -> Option<U>) -> PerEvent<U> {
        PerEvent {
            cycles: self.cycles.and_then(&change),
            instructions: self.instructions.and_then(&change),
            tlb_misses: self.tlb_misses.and_then(&change),
            walk_cycles: self.walk_cycles.and_then(&change),
        }
    }
}

impl Readings {
    pub(super) fn set(&mut self, event: Event, count: Option<u64>) {
        *match event {
            Event::Cycles => &mut self.cycles,
            Event::Instructions => &mut self.instructions,
            Event::TlbMisses => &mut self.tlb_misses,
            Event::WalkCycles => &mut self.walk_cycles,
        } = count;
    }

    /// True if no event was counted in the run.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts since the earlier reading `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// Sum of two readings, for each event that both readings have.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        let both = |one: Option<u64>, other: Option<u64>| Some(combine(one?, other?));
        Self {
            cycles: both(self.cycles, other.cycles),
            instructions: both(self.instructions, other.instructions),
            tlb_misses: both(self.tlb_misses, other.tlb_misses),
            walk_cycles: both(self.walk_cycles, other.walk_cycles),
        }
    }

    /// Divides the counts by a number of units of work, such as operations; all rates are absent if `units`
    /// is 0.
    pub fn per(&self, units: f64) -> Rates {
        self.and_then(|count| (units > 0.0).then_some(count as f64 / units))
    }
}

/// Estimates a count for the whole time that its counter was enabled. `enabled` and `running` are
/// nanoseconds; a counter that shares the hardware with other counters runs for only a part of the
/// enabled time. `None` if the counter was enabled and never ran.
pub(super) fn scaled(count: u64, enabled: u64, running: u64) -> Option<u64> {
    match (enabled, running) {
        // The counter was never enabled, so its count is exact.
        (0, _) => Some(count),
        (_, 0) => None,
        _ if enabled == running => Some(count),
        _ => Some((count as f64 * enabled as f64 / running as f64) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_took_turns_are_scaled() {
        assert_eq!(scaled(100, 10, 10), Some(100));
        assert_eq!(scaled(100, 10, 4), Some(250));
        assert_eq!(scaled(0, 10, 0), None, "it never had its turn");
        assert_eq!(scaled(0, 0, 0), Some(0));
    }

    #[test]
    fn readings_are_added_and_divided() {
        let one = Readings { cycles: Some(500), instructions: Some(100), ..Readings::default() };
        let other = Readings { cycles: Some(700), tlb_misses: Some(3), ..Readings::default() };
        assert_eq!(other.since(one).cycles, Some(200));
        assert_eq!(one.plus(other), Readings { cycles: Some(1200), ..Readings::default() });
        let rates = one.per(50.0);
        assert_eq!((rates.cycles, rates.instructions), (Some(10.0), Some(2.0)));
        assert_eq!((rates.tlb_misses, one.per(0.0)), (None, Rates::default()));
        assert!(Readings::default().is_empty() && !one.is_empty());
    }
}
