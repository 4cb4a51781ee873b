//! States (named settings) and curves (formulas over the axis).

use perforate_records::Show;
use serde::{Deserialize, Serialize};

use super::{Texts, texts::texts};

/// Named settings that override the settings common to all states of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Name of the state, which formulas use after `@`.
    pub name: String,
    /// Settings of the state by key; an empty text removes a setting common to all states.
    #[serde(flatten, deserialize_with = "texts")]
    pub settings: Texts,
}

/// A curve of an experiment: a formula that is evaluated at every place of the axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Name by which charts and claims refer to the curve.
    pub name: String,
    /// Label of the curve in reports; by default its name.
    pub label: Option<String>,
    /// Formula of the curve's values.
    pub value: String,
    /// Notation in which reports print the values, such as a percentage.
    #[serde(default)]
    pub show: Show,
    /// Formula of the Monte Carlo estimate, if `value` is a closed form.
    pub drawn: Option<String>,
    /// Formula of the half-width of the Monte Carlo estimate's 95 % confidence interval.
    pub drawn_half_width_95: Option<String>,
    /// Formula of the number of random draws in the Monte Carlo estimate.
    pub draws: Option<String>,
}

impl Curve {
    /// Returns all formulas of the curve.
    pub fn formulas(&self) -> impl Iterator<Item = &String> {
        let drawn = [&self.drawn, &self.drawn_half_width_95, &self.draws];
        std::iter::once(&self.value).chain(drawn.into_iter().flatten())
    }
}
