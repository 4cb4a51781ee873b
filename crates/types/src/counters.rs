//! Named counters of one run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Value of a counter: a count or a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CounterValue {
    /// A number of events or objects.
    Count(u64),
    /// A quotient or an average, in the counter's unit.
    Ratio(f64),
}

impl CounterValue {
    /// The value as a floating-point number.
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

/// Converts a numerator and a denominator to their quotient, a [`CounterValue::Ratio`]; 0 if the
/// denominator is 0.
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

/// Counters of one run by name, with units in the names (`walk_cycles`, `mapped_bytes`). The crate
/// that counts an event registers the counter's meaning with [`crate::figures`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(BTreeMap<String, CounterValue>);

impl Counters {
    /// Sets the counter `name`.
    ///
    /// # Panics
    /// If a counter of that name is set already: each counter has one source.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<CounterValue>) {
        let name = name.into();
        let before = self.0.insert(name.clone(), value.into());
        assert!(before.is_none(), "two sources set the counter {name}");
    }

    /// Merges `others` into these counters: a counter in both keeps its larger value, and a counter
    /// only in `others` is added.
    pub fn raise(&mut self, others: &Self) {
        for (name, value) in others.iter() {
            let own = self.0.entry(name.to_owned()).or_insert(value);
            if value.as_f64() > own.as_f64() {
                *own = value;
            }
        }
    }

    /// The value of the counter `name`; `None` if it is not set.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(|value| value.as_f64())
    }

    /// All counters, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, CounterValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl FromIterator<(String, CounterValue)> for Counters {
    /// Collects counters from names and values. If a name occurs more than once, its last value is
    /// used.
    fn from_iter<T: IntoIterator<Item = (String, CounterValue)>>(figures: T) -> Self {
        Self(figures.into_iter().collect())
    }
}
