//! Charts: groups of curves that are drawn together.

use perforate_records::ChartForm;
use serde::{Deserialize, Serialize};

/// A chart of one or more curves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// Title for readers.
    pub title: String,
    /// Form of the drawing.
    #[serde(default)]
    pub form: ChartForm,
    /// Label of the value axis.
    pub value_label: String,
    /// Names of the curves in order; a trailing `*` matches any suffix.
    pub curves: Vec<String>,
}
