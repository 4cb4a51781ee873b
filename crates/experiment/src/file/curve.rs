//! States (named settings) and curves (formulas over the axis).

use perforate_records::Show;
use serde::{Deserialize, Serialize};

use super::{Texts, texts::texts};

/// Named settings that override the settings common to all states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Name that formulas use after `@`.
    pub name: String,
    /// Settings by key; an empty text removes a setting common to all states.
    #[serde(flatten, deserialize_with = "texts")]
    pub settings: Texts,
}

/// A formula over the axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Name that charts and claims use.
    pub name: String,
    /// Label for readers. Default: the name.
    pub label: Option<String>,
    /// Formula of the value.
    pub value: String,
    /// Format in which values are displayed.
    #[serde(default)]
    pub show: Show,
    /// Formula of the Monte Carlo estimate of a value that is a closed form.
    pub drawn: Option<String>,
    /// Formula of the half-width of the estimate's 95 % confidence interval.
    pub drawn_half_width_95: Option<String>,
    /// Formula of the number of random draws.
    pub draws: Option<String>,
}

impl Curve {
    /// Returns all formulas of the curve.
    pub fn formulas(&self) -> impl Iterator<Item = &String> {
        let drawn = [&self.drawn, &self.drawn_half_width_95, &self.draws];
        std::iter::once(&self.value).chain(drawn.into_iter().flatten())
    }
}
