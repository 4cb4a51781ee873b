//! Horizontal stacked bars with their sums.

use serde_json::{Value, json};

use super::{Axis, Mark, NAMES, Series, colour, filled, labels, legend, names, number, tooltip};

/// A chart of stacked bars.
pub(crate) struct Stacks<'a> {
    pub series: Vec<Series>,
    pub places: Vec<String>,
    /// Values are in the unit of the axis.
    pub marks: Vec<Mark>,
    pub value: Axis<'a>,
    /// Heading of the places.
    pub place: &'a str,
}

impl Stacks<'_> {
    pub fn spec(&self) -> Value {
        // Neighbours are told apart without their colours.
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
