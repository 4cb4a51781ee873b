//! Validation of an experiment file before any measurement.

use perforate_config::suggestion;

use super::{Axis, Claim, Experiment, Measure, Place, Quick};
use crate::kind::check_key;
use crate::plan::Formulas;

/// Maximum number of definitions in an experiment file. The limit protects against hostile files.
const MOST_DEFINITIONS: usize = 200;
/// Maximum number of values of all curves and definitions at all places of the axis. The limit protects
/// against hostile files.
const MOST_VALUES: usize = 200_000;

fn check_seeds(seeds: u64) -> Result<(), String> {
    let most = Experiment::MOST_SEEDS;
    if (1..=most).contains(&seeds) {
        return Ok(());
    }
    Err(format!("seeds is {seeds}, not 1 to {most}"))
}

impl Quick {
    /// Checks the number of seeds, and the distance of points on an axis.
    fn check(&self, axis: &Axis) -> Result<(), String> {
        self.seeds.map_or(Ok(()), check_seeds)?;
        self.step.map_or(Ok(()), |step| {
            let mut axis = axis.clone();
            axis.coarsen(step);
            axis.check()
        })
    }
}

impl Experiment {
    /// Validates the experiment, except for the values of its settings.
    ///
    /// # Errors
    /// The first problem, with its place in the file.
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_texts()?;
        check_seeds(self.seeds)?;
        self.axis.check()?;
        self.quick.check(&self.axis).map_err(|problem| format!("quick: {problem}"))?;
        let kind = self.kind()?;
        let settings = std::iter::once(&self.settings).chain([&self.quick.settings]);
        let known = (kind.settings)();
        for (key, _) in settings.chain(self.states.iter().map(|state| &state.settings)).flatten() {
            check_key(key, &known)
                .map_err(|error| format!("settings of {}: {error}", kind.name))?;
        }
        if self.curves.is_empty() {
            return Err("there is no [[curve]]".into());
        }
        distinct("state", self.states.iter().map(|state| state.name.as_str()))?;
        distinct("curve", self.curves.iter().map(|curve| curve.name.as_str()))?;
        self.claims.iter().try_for_each(|claim| self.check_claim(claim))?;
        self.check_choices()?;
        self.check_formulas()
    }

    /// Checks that all texts that reports show are single lines without control characters.
    fn check_texts(&self) -> Result<(), String> {
        let claims = self.claims.iter().flat_map(|claim| {
            let always = [&claim.id, &claim.statement, &claim.source];
            always.into_iter().chain(&claim.note).chain(&claim.explanation)
        });
        let labels = self.curves.iter().flat_map(|curve| [Some(&curve.name), curve.label.as_ref()]);
        let charts = self.charts.iter().flat_map(|chart| [&chart.title, &chart.value_label]);
        let texts = [&self.name, &self.title, &self.source, &self.axis.label];
        let open = self.plausible.iter().flat_map(|plausible| [&plausible.name, &plausible.reason]);
        let texts = texts.into_iter().chain(&self.notes).chain(claims).chain(charts).chain(open);
        for text in texts.chain(labels.flatten()) {
            if text.chars().any(char::is_control) {
                return Err(format!("{text:?}: texts must be plain and in one line"));
            }
        }
        Ok(())
    }

    /// Checks that every choice (a value that the paper leaves open) has alternative values in
    /// `[[plausible]]`, and that every alternative value belongs to a choice.
    fn check_choices(&self) -> Result<(), String> {
        if let Some(name) = self.inputs.keys().find(|name| self.choices.contains_key(*name)) {
            return Err(format!("{name} is both an input and a choice"));
        }
        let mut changed = std::collections::BTreeSet::new();
        for plausible in &self.plausible {
            let wrong = |problem: String| format!("plausible {:?}: {problem}", plausible.name);
            let no_table = toml::Table::new();
            for alternative in plausible.alternatives(&no_table).map_err(wrong)? {
                for (name, text) in alternative.changes {
                    let Some(default) = self.choices.get(&name) else {
                        let known: Vec<&str> = self.choices.keys().map(String::as_str).collect();
                        let near = suggestion(&name, &known);
                        return Err(wrong(format!("no choice {name:?}; {near}")));
                    };
                    if default.0 == text {
                        return Err(wrong(format!("{name} = {text} is the choice itself")));
                    }
                    changed.insert(name);
                }
            }
        }
        match self.choices.keys().find(|name| !changed.contains(*name)) {
            Some(name) => Err(format!("choices: {name} has no other [[plausible]] value")),
            None => Ok(()),
        }
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), String> {
        let wrong = |problem: String| Err(format!("claim {:?}: {problem}", claim.id));
        let measure = claim.measure();
        let other = match &measure {
            Measure::LeadOver(other) => Some(other),
            _ => None,
        };
        for name in other.into_iter().chain([&claim.curve]) {
            if !self.curves.iter().any(|curve| curve.name == *name) {
                let known: Vec<&str> =
                    self.curves.iter().map(|curve| curve.name.as_str()).collect();
                return wrong(format!("no curve {name:?}; {}", suggestion(name, &known)));
            }
        }
        let named = measure.places();
        match named.iter().find(|place| !self.axis.contains(place)) {
            Some(place) => wrong(format!("{place} is no place of the axis{}", known(&self.axis))),
            None => Ok(()),
        }
    }

    /// Parses all formulas of the experiment at every place of the axis; returns the first problem.
    fn check_formulas(&self) -> Result<(), String> {
        if self.definitions.len() > MOST_DEFINITIONS {
            return Err(format!("more than {MOST_DEFINITIONS} definitions"));
        }
        let places = self.places();
        let formulas = self.curves.len() + self.definitions.len();
        if places.len().saturating_mul(formulas) > MOST_VALUES {
            let places = places.len();
            return Err(format!("{formulas} formulas at {places} places are too many"));
        }
        for place in places {
            for reference in Formulas::at(self, &place)?.references {
                self.settings(reference.state.as_deref(), &self.values(&place))?;
            }
        }
        Ok(())
    }

    /// Returns all points to be measured: those of the axis, and points in between that claims need.
    pub fn places(&self) -> Vec<Place> {
        let mut places = self.axis.points();
        let wanted = self.claims.iter().filter_map(Claim::point);
        for place in wanted.filter(|place| self.axis.contains(place)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        if places.iter().all(|place| place.number().is_some()) {
            let number = |place: &Place| place.number().unwrap_or(0.0);
            places.sort_by(|one, other| number(one).total_cmp(&number(other)));
        }
        places
    }
}

fn known(axis: &Axis) -> String {
    let labels = axis.labels();
    if labels.is_empty() {
        return String::new();
    }
    let names: Vec<String> = labels.into_iter().map(|(name, _)| name).collect();
    format!("; there are {}", names.join(", "))
}

fn distinct<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("{what} {name:?} is there twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_steps_are_checked_like_those_of_the_axis() {
        let axis: Axis =
            toml::from_str("label = \"x\"\nfrom = 0.0\nto = 1.0\nstep = 0.25").unwrap();
        let check = |step| Quick { step: Some(step), ..Quick::default() }.check(&axis);
        assert_eq!(check(0.5), Ok(()));
        for step in [0.0, -0.25, 1e-6, f64::NAN] {
            let problem = check(step).unwrap_err();
            assert!(problem.starts_with("axis.step is"), "{problem}");
        }
    }
}
