//! Points that an experiment needs, and evaluation of its formulas.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use perforate_config::nearest;
use serde::Serialize;

use crate::file::{Experiment, Place, filled};
use crate::formula::{Formula, Reference};
use crate::kind::Settings;

/// Parsed formulas of an experiment at one place of the axis.
pub struct Formulas {
    /// Formulas of the curves, in the order of the experiment file.
    pub curves: Vec<CurveFormulas>,
    /// All measured figures that the curves need, directly or through definitions.
    pub references: BTreeSet<Reference>,
    definitions: BTreeMap<String, Formula>,
}

/// Parsed formulas of a curve at one place of the axis.
pub struct CurveFormulas {
    /// Formula of the curve's value.
    pub value: Formula,
    /// Formulas of the Monte Carlo mean, half the width of its interval, and the number of draws.
    pub drawn: [Option<Formula>; 3],
}

impl Formulas {
    /// Parses the formulas of all curves, with the placeholders replaced by their values at `place`.
    ///
    /// # Errors
    /// An invalid formula, an unknown name, or a placeholder without a value.
    pub fn at(experiment: &Experiment, place: &Place) -> Result<Self, String> {
        let values = experiment.values(place);
        let parse = |text: &String| Formula::parse(&filled(&values, text)?);
        let optional = |text: &Option<String>| text.as_ref().map(parse).transpose();
        let mut curves = Vec::new();
        for curve in &experiment.curves {
            let wrong = |problem| format!("curve {:?}: {problem}", curve.name);
            let drawn = [&curve.drawn, &curve.drawn_half_width_95, &curve.draws];
            let [drawn, half_width, draws] = drawn.map(optional);
            let drawn = [drawn.map_err(wrong)?, half_width.map_err(wrong)?, draws.map_err(wrong)?];
            curves.push(CurveFormulas { value: parse(&curve.value).map_err(wrong)?, drawn });
        }
        let mut definitions = BTreeMap::new();
        for (name, text) in &experiment.definitions {
            let formula =
                parse(text).map_err(|problem| format!("definition {name:?}: {problem}"))?;
            definitions.insert(filled(&values, name)?, formula);
        }
        let (mut references, mut sound) = (BTreeSet::new(), BTreeSet::new());
        for CurveFormulas { value, drawn } in &curves {
            for formula in std::iter::once(value).chain(drawn.iter().flatten()) {
                follow(formula, &definitions, &mut Vec::new(), &mut sound, &mut references)?;
            }
        }
        Ok(Self { curves, references, definitions })
    }

    /// Returns a function that evaluates formulas; `figure` returns the value of a measured figure.
    /// Definitions are evaluated once.
    pub fn evaluator<'a>(
        &'a self,
        figure: impl Fn(&Reference) -> Option<f64> + 'a,
    ) -> impl Fn(&Formula) -> Option<f64> + 'a {
        let known: RefCell<BTreeMap<String, Option<f64>>> = RefCell::default();
        move |formula| {
            fn value(
                formulas: &Formulas,
                figure: &dyn Fn(&Reference) -> Option<f64>,
                known: &RefCell<BTreeMap<String, Option<f64>>>,
                formula: &Formula,
            ) -> Option<f64> {
                formula.value(figure, &|name| {
                    if let Some(value) = known.borrow().get(name) {
                        return *value;
                    }
                    let definition = formulas.definitions.get(name)?;
                    let found = value(formulas, figure, known, definition);
                    known.borrow_mut().insert(name.to_owned(), found);
                    found
                })
            }
            value(self, &figure, &known, formula)
        }
    }
}

/// Adds the figures that a formula needs, also by definitions, to `references`. Rejects unknown names and
/// cyclic definitions. `above` are the definitions that led to this formula, `sound` those already checked.
fn follow(
    formula: &Formula,
    definitions: &BTreeMap<String, Formula>,
    above: &mut Vec<String>,
    sound: &mut BTreeSet<String>,
    references: &mut BTreeSet<Reference>,
) -> Result<(), String> {
    let mut names = Vec::new();
    formula.visit(
        &mut |reference| {
            references.insert(reference.clone());
        },
        &mut |name| names.push(name.to_owned()),
    );
    for name in names {
        if sound.contains(&name) {
            continue;
        }
        let Some(next) = definitions.get(&name) else {
            let known: Vec<&str> = definitions.keys().map(String::as_str).collect();
            let near = nearest(&name, &known);
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            return Err(format!("{name:?} is no definition; figures are figure(subject){near}"));
        };
        if above.contains(&name) {
            return Err(format!("definition {name:?} needs itself"));
        }
        above.push(name.clone());
        follow(next, definitions, above, sound, references)?;
        above.pop();
        sound.insert(name);
    }
    Ok(())
}

/// One measurement of an experiment: a subject under some settings, with a seed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Point {
    /// Name of the kind of measurement.
    pub kind: &'static str,
    /// Settings of the measurement, with placeholders replaced.
    pub settings: Settings,
    /// Seed of the measurement.
    pub seed: u64,
    /// Subject of the measurement: a scheme, or a design for large mappings.
    pub subject: String,
}

/// Returns all points that an experiment needs, without duplicates.
///
/// # Errors
/// Errors of [`Formulas::at`].
pub fn points(experiment: &Experiment) -> Result<BTreeSet<Point>, String> {
    let kind = experiment.kind()?.name;
    let mut points = BTreeSet::new();
    for place in experiment.places() {
        let values = experiment.values(&place);
        for reference in Formulas::at(experiment, &place)?.references {
            let settings = experiment.settings(reference.state.as_deref(), &values)?;
            for seed in seeds(experiment) {
                let (settings, subject) = (settings.clone(), reference.subject.clone());
                points.insert(Point { kind, settings, seed, subject });
            }
        }
    }
    Ok(points)
}

/// Returns the seeds with which each point of the experiment is measured.
pub fn seeds(experiment: &Experiment) -> impl Iterator<Item = u64> + use<> {
    let first = experiment.seed;
    (0..experiment.seeds).map(move |number| first.wrapping_add(number))
}
