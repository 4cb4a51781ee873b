//! Charts: groups of curves that are drawn together.

use perforate_records::ChartForm;
use serde::{Deserialize, Serialize};

/// A chart that shows one or more curves of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// Form of the chart: lines, bars or stacked bars.
    #[serde(default)]
    pub form: ChartForm,
    /// Label of the vertical axis (the values).
    pub value_label: String,
    /// Names of the curves in the chart, in order; a trailing `*` matches any suffix.
    pub curves: Vec<String>,
}
