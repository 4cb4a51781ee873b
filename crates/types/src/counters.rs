//! Named figures of one run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A count or a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CounterValue {
    /// A whole count.
    Count(u64),
    /// A quotient or an average.
    Ratio(f64),
}

impl CounterValue {
    /// The value as a number to compute with.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Ratio(ratio) => ratio,
        }
    }
}

/// Figures of one run by name, units in the names (`walk_cycles`, `mapped_bytes`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(BTreeMap<String, CounterValue>);

impl Counters {
    /// Sets a count.
    ///
    /// # Panics
    /// If there is a figure of that name: each has one source.
    pub fn count(&mut self, name: impl Into<String>, value: u64) {
        self.insert(name.into(), CounterValue::Count(value));
    }

    /// Sets `numerator / denominator`; 0 where the denominator is 0.
    ///
    /// # Panics
    /// If there is a figure of that name.
    pub fn ratio(&mut self, name: impl Into<String>, numerator: f64, denominator: f64) {
        let value = if denominator == 0.0 { 0.0 } else { numerator / denominator };
        self.insert(name.into(), CounterValue::Ratio(value));
    }

    fn insert(&mut self, name: String, value: CounterValue) {
        let before = self.0.insert(name.clone(), value);
        assert!(before.is_none(), "two sources set the counter {name}");
    }

    /// The figure of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(|value| value.as_f64())
    }

    /// All figures in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, CounterValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}
