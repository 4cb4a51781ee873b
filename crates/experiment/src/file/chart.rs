//! Charts: which curves are drawn together, and how.

use perforate_records::ChartForm;
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
