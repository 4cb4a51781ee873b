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

impl From<u64> for CounterValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// A quotient; 0 where the denominator is 0.
impl From<(f64, f64)> for CounterValue {
    fn from((numerator, denominator): (f64, f64)) -> Self {
        Self::Ratio(if denominator == 0.0 { 0.0 } else { numerator / denominator })
    }
}

impl From<(u64, u64)> for CounterValue {
    fn from((numerator, denominator): (u64, u64)) -> Self {
        Self::from((numerator as f64, denominator as f64))
    }
}

/// Figures of one run by name, units in the names (`walk_cycles`, `mapped_bytes`). What they are is
/// registered where they are counted: [`crate::figures`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(BTreeMap<String, CounterValue>);

impl Counters {
    /// Sets a figure.
    ///
    /// # Panics
    /// If there is a figure of that name: each has one source.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<CounterValue>) {
        let name = name.into();
        let before = self.0.insert(name.clone(), value.into());
        assert!(before.is_none(), "two sources set the counter {name}");
    }

    /// Sets every figure to the larger of the two values that it has here and in `others`.
    pub fn raise(&mut self, others: &Self) {
        for (name, value) in others.iter() {
            let own = self.0.entry(name.to_owned()).or_insert(value);
            if value.as_f64() > own.as_f64() {
                *own = value;
            }
        }
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

impl FromIterator<(String, CounterValue)> for Counters {
    /// Of figures with one name the last counts.
    fn from_iter<T: IntoIterator<Item = (String, CounterValue)>>(figures: T) -> Self {
        Self(figures.into_iter().collect())
    }
}
