//! The axis of an experiment: numeric points or named places.

use std::collections::BTreeMap;

use perforate_records::AxisForm;
use serde::{Deserialize, Deserializer, Serialize};

use super::Text;
use crate::template::Values;

/// Maximum number of points on an axis.
const MOST_POINTS: usize = 10_000;
/// Points are rounded to multiples of 1 / `RESOLUTION`, so that 0.1 and 20 × 0.005 are equal.
const RESOLUTION: f64 = 1e9;

/// Points at which an experiment is measured: an equally spaced range, listed numbers, or named places.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Axis title: quantity of the numbers, or kind of the places.
    #[serde(default)]
    pub label: String,
    /// First point of an equally spaced range; requires `to` and `step`.
    pub from: Option<f64>,
    /// Last point of an equally spaced range, inclusive.
    pub to: Option<f64>,
    /// Distance between neighbouring points of an equally spaced range; greater than 0.
    pub step: Option<f64>,
    /// Listed points of a numeric axis, instead of an equally spaced range.
    #[serde(default)]
    pub values: Vec<f64>,
    /// True if the points are plain numbers; false if they are shares from 0 to 1.
    #[serde(default)]
    pub plain: bool,
    /// Named places of the axis, instead of numbers.
    #[serde(default, rename = "place")]
    pub places: Vec<NamedPlace>,
}

/// A named position on an axis. Each key of its table in the experiment file is a placeholder `{key}`, whose
/// value replaces it in the file's texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedPlace {
    /// Unique name of the place, which replaces the placeholder `{x}`.
    pub name: String,
    /// Label of the place in reports; by default its name.
    pub label: Option<String>,
    /// Values of further placeholders at this place, by name of the placeholder.
    #[serde(flatten)]
    pub values: BTreeMap<String, Text>,
}

/// Position on the axis of an experiment: a number or a named place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// Point of a numeric axis: a share or a plain number.
    Number(#[serde(deserialize_with = "rounded_number")] f64),
    /// Name of a place on an axis of named places.
    Name(String),
}

fn rounded_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    f64::deserialize(deserializer).map(rounded)
}

/// Name of the only place of an experiment whose file declares no axis.
const ONLY: &str = "all";

impl Axis {
    /// Returns the form of the axis: named places, plain numbers or shares.
    pub fn form(&self) -> AxisForm {
        let numbers = self.from.is_some() || !self.values.is_empty();
        match (numbers, self.plain) {
            (false, _) => AxisForm::Places,
            (true, true) => AxisForm::Number,
            (true, false) => AxisForm::Share,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let Self { from, to, step, values, places, .. } = self;
        let stepped = from.is_some() || to.is_some() || step.is_some();
        if [stepped, !values.is_empty(), !places.is_empty()].iter().filter(|&&is| is).count() > 1 {
            return Err("axis: expected one of from/to/step, values, place".into());
        }
        if stepped {
            let (Some(from), Some(to), Some(step)) = (from, to, step) else {
                return Err("axis: from, to and step belong together".into());
            };
            if from > to || !(from.is_finite() && to.is_finite()) {
                return Err(format!("axis.from is {from}, beyond axis.to, which is {to}"));
            }
            if !(step.is_finite() && *step > 0.0 && (to - from) / step <= MOST_POINTS as f64) {
                return Err(format!("axis.step is {step}; expected at most {MOST_POINTS} steps"));
            }
        }
        if values.len().max(places.len()) > MOST_POINTS {
            return Err(format!("axis: at most {MOST_POINTS} points"));
        }
        let numbers = from.iter().chain(to).chain(values);
        if let Some(number) = numbers.clone().find(|number| !number.is_finite()) {
            return Err(format!("axis: {number} is no place"));
        }
        if self.form() == AxisForm::Share {
            let outside = |number: &&f64| !(0.0..=1.0).contains(*number);
            if let Some(number) = numbers.into_iter().find(outside) {
                return Err(format!("axis: {number} is no share from 0 to 1 (see plain = true)"));
            }
        }
        for (index, place) in places.iter().enumerate() {
            if places[..index].iter().any(|other| other.name == place.name) {
                return Err(format!("axis: place {:?} is there twice", place.name));
            }
        }
        Ok(())
    }

    /// Returns the points of the axis in order; the single place `all` if the file declares no axis.
    pub fn points(&self) -> Vec<Place> {
        if let (Some(from), Some(to), Some(step)) = (self.from, self.to, self.step) {
            let steps = ((to - from) / step + 1e-6).floor() as u32;
            let point = |number: u32| rounded(from + f64::from(number) * step);
            return (0..=steps).map(|number| Place::Number(point(number))).collect();
        }
        if !self.values.is_empty() {
            return self.values.iter().map(|&value| Place::Number(rounded(value))).collect();
        }
        if self.places.is_empty() {
            return vec![Place::Name(ONLY.into())];
        }
        self.places.iter().map(|place| Place::Name(place.name.clone())).collect()
    }

    /// Replaces the points of the axis by those in `wanted`.
    pub(crate) fn keep(&mut self, wanted: &[Place]) {
        if self.form() == AxisForm::Places {
            self.places.retain(|place| wanted.contains(&Place::Name(place.name.clone())));
            return;
        }
        self.values = wanted.iter().filter_map(Place::number).collect();
        self.values.sort_by(f64::total_cmp);
        self.values.dedup();
        (self.from, self.to, self.step) = (None, None, None);
    }

    /// Returns the names and labels of the named places; empty for a numeric axis.
    pub fn labels(&self) -> Vec<(String, String)> {
        if self.form() != AxisForm::Places {
            return Vec::new();
        }
        if self.places.is_empty() {
            return vec![(ONLY.into(), String::new())];
        }
        let label = |place: &NamedPlace| place.label.clone().unwrap_or_else(|| place.name.clone());
        self.places.iter().map(|place| (place.name.clone(), label(place))).collect()
    }

    /// Adds the values of a place's placeholders to `values`: `{x}` is the number or name of the place,
    /// `{x%}` is the number in percent, and every key of a named place is a placeholder, too.
    pub fn add_values(&self, values: Values, place: &Place) -> Values {
        match place {
            Place::Number(number) => values
                .with("x", &number.to_string())
                .with("x%", &format!("{}%", rounded(number * 100.0))),
            Place::Name(name) => {
                let named = self.places.iter().find(|place| place.name == *name);
                let own = named.iter().flat_map(|place| &place.values);
                let values = values.with("x", name);
                // Texts of a place may contain placeholders for choices.
                own.fold(values, |values, (key, text)| {
                    let text = values.fill(&text.0);
                    values.with(key, &text)
                })
            }
        }
    }

    /// True if the axis covers the place. A number may lie between points; a share axis covers 0 to 1.
    pub fn contains(&self, place: &Place) -> bool {
        match place {
            Place::Number(number) => {
                let numbers = self.points().into_iter().filter_map(|point| point.number());
                let (least, greatest) =
                    numbers.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
                (least..=greatest).contains(number)
                    || self.form() == AxisForm::Share && (0.0..=1.0).contains(number)
            }
            Place::Name(_) => self.points().contains(place),
        }
    }

    /// Replaces the distance between points of an equally spaced range; other axes are unchanged.
    pub(super) fn coarsen(&mut self, step: f64) {
        if self.step.is_some() {
            self.step = Some(step);
        }
    }
}

impl Place {
    /// Returns the number of a numeric point; `None` for a named place.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Name(_) => None,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Name(name) => formatter.write_str(name),
        }
    }
}

/// Rounds `x` to 9 decimal places, which removes floating-point summation error.
pub fn rounded(x: f64) -> f64 {
    (x * RESOLUTION).round() / RESOLUTION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(text: &str) -> Axis {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn points_are_those_one_would_write() {
        let axis = axis("from = 0.0\nto = 0.1\nstep = 0.005");
        let points = axis.points();
        assert_eq!(points.len(), 21);
        assert_eq!((&points[3], &points[20]), (&Place::Number(0.015), &Place::Number(0.1)));
        assert_eq!(axis.form(), AxisForm::Share);
        assert!(axis.contains(&Place::Number(0.055)) && !axis.contains(&Place::Number(1.1)));
        let values = axis.add_values(Values::default(), &points[3]);
        assert_eq!((values.get("x"), values.get("x%")), (Some("0.015"), Some("1.5%")));
    }

    #[test]
    fn places_have_placeholders() {
        let axis = axis("place = [{ name = \"a\", size = 3 }, { name = \"b\", label = \"B\" }]");
        assert_eq!(axis.points(), [Place::Name("a".into()), Place::Name("b".into())]);
        assert_eq!(axis.labels()[1], ("b".into(), "B".into()));
        let values = axis.add_values(Values::default(), &Place::Name("a".into()));
        assert_eq!((values.get("x"), values.get("size")), (Some("a"), Some("3")));
        assert_eq!(Axis::default().points(), [Place::Name("all".into())]);
    }

    #[test]
    fn mistakes() {
        for (text, problem) in [
            ("from = 0.0\nto = 1.0", "belong together"),
            ("from = 1.0\nto = 0.0\nstep = 0.1", "beyond axis.to"),
            ("from = 0.0\nto = 1.0\nstep = 1e-9", "expected at most"),
            ("from = 0.0\nto = 2.0\nstep = 1.0", "2 is no share"),
            ("values = [nan]", "is no place"),
            ("values = [0.1]\nplace = [{ name = \"a\" }]", "expected one of"),
            ("place = [{ name = \"a\" }, { name = \"a\" }]", "\"a\" is there twice"),
        ] {
            let message = axis(text).check().unwrap_err();
            assert!(message.contains(problem), "{text}: {message}");
        }
    }
}
