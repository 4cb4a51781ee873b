//! Charts: which curves are drawn together, and how.

use serde::{Deserialize, Serialize};

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// How.
    #[serde(default)]
    pub form: ChartForm,
    /// What the values are.
    pub value_label: String,
    /// Names of the curves in order; `*` at the end stands for anything.
    pub curves: Vec<String>,
}

/// How curves are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartForm {
    /// Lines over numbers.
    #[default]
    Lines,
    /// Bars side by side.
    Bars,
    /// Bars on top of each other.
    Stacked,
}
