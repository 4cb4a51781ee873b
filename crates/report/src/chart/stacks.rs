//! Stacked horizontal bars, labelled with their totals.

use serde_json::{Value, json};

use super::{Axis, Mark, NAMES, Series, colour, filled, labels, legend, names, number, tooltip};

/// A chart of stacked horizontal bars.
pub(crate) struct Stacks<'a> {
    pub series: Vec<Series>,
    pub places: Vec<String>,
    /// Data points of the bars; the values are in the unit of the axis.
    pub marks: Vec<Mark>,
    pub value: Axis<'a>,
    /// Title of the tooltips' line with the name of a bar's place, such as `scheme`.
    pub place: &'a str,
}

impl Stacks<'_> {
    pub fn spec(&self) -> Value {
        // Gaps separate neighbouring segments, so that they are distinguishable without colour.
        filled(
            include_str!("spec/stacks.json"),
            &[
                ("$legend", legend(&self.series, |_| Value::Null)),
                ("$marks", json!(self.marks)),
                ("$labels", json!(labels(&self.series))),
                ("$height", (28 * self.places.len()).into()),
                ("$names", names(&self.places, 0.3)),
                ("$title", self.value.title()),
                ("$axis", self.value.spec(NAMES)),
                ("$colour", colour(&self.series)),
                ("$tooltip", tooltip(self.place, "place")),
                ("$sum", number("datum.sum", self.value.suffix).into()),
            ],
        )
    }
}
