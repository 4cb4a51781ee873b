//! Expansion of parameters. A state, definition, curve or chart that names a parameter is repeated for each
//! of its values. If it names several, it is repeated for each combination.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Chart, Experiment};
use crate::template::{Values, placeholders};

/// Maximum number of states, definitions, curves or charts of an experiment after its parameters are
/// expanded.
const MOST: usize = 10_000;

/// Returns the experiment with its parameters expanded: states, definitions, curves and charts that name a
/// parameter are repeated for each of its values.
pub fn expand(file: Experiment) -> Result<Experiment, String> {
    let parameters: Parameters = file
        .parameters
        .iter()
        .map(|(name, values)| (name.clone(), values.iter().map(|text| text.0.clone()).collect()))
        .collect();
    let mut expanded = Experiment {
        states: all(&parameters, &file.states)?,
        definitions: all(&parameters, &Vec::from_iter(file.definitions.clone()))?
            .into_iter()
            .collect(),
        curves: all(&parameters, &file.curves)?,
        charts: all(&parameters, &file.charts)?,
        claims: all(&parameters, &file.claims)?,
        ..file
    };
    let names: Vec<String> = expanded.curves.iter().map(|curve| curve.name.clone()).collect();
    if expanded.charts.is_empty() {
        expanded.charts.push(Chart {
            title: expanded.title.clone(),
            form: perforate_records::ChartForm::default(),
            value_label: String::new(),
            curves: vec!["*".into()],
        });
    }
    let charts = expanded.charts.iter_mut();
    for chart in charts.filter(|_| !names.is_empty()) {
        chart.curves = matching(&chart.curves, &names)?;
    }
    Ok(expanded)
}

type Parameters = BTreeMap<String, Vec<String>>;

/// Returns the names in `names` that match a pattern; a trailing `*` in a pattern matches any suffix.
fn matching(patterns: &[String], names: &[String]) -> Result<Vec<String>, String> {
    let mut found: Vec<String> = Vec::new();
    for pattern in patterns {
        let before = found.len();
        let matches = |name: &&String| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => *name == pattern,
        };
        found.extend(names.iter().filter(matches).cloned());
        if found.len() == before {
            let known = names.join(", ");
            return Err(format!("chart: no curve {pattern:?}; there are {known}"));
        }
    }
    Ok(found)
}

/// Repeats each template (a state, definition, curve or chart) for all combinations of values of the
/// parameters that it names.
fn all<T: Serialize + DeserializeOwned>(
    parameters: &Parameters,
    templates: &[T],
) -> Result<Vec<T>, String> {
    let mut expanded = Vec::new();
    for template in templates {
        let tree = serde_json::to_value(template).map_err(|error| error.to_string())?;
        let text = tree.to_string();
        let named = |name: &&String| placeholders(&text).any(|found| found == name.as_str());
        let names: Vec<&String> = parameters.keys().filter(named).collect();
        for values in combinations(parameters, &names)? {
            let tree = filled(&values, tree.clone());
            expanded.push(serde_json::from_value(tree).map_err(|error| error.to_string())?);
        }
        if expanded.len() > MOST {
            return Err(format!("parameters make more than {MOST} of one thing"));
        }
    }
    Ok(expanded)
}

/// Returns all combinations of values of the named parameters. The last parameter varies fastest.
fn combinations(parameters: &Parameters, names: &[&String]) -> Result<Vec<Values>, String> {
    let mut combinations = vec![Values::default()];
    for name in names {
        let longer = |values: &Values| {
            let extend = |value: &String| values.clone().with(name, value);
            parameters[*name].iter().map(extend).collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(longer).collect();
        if combinations.len() > MOST {
            return Err(format!("parameters make more than {MOST} of one thing"));
        }
    }
    Ok(combinations)
}

/// Replaces the placeholders in all texts of a JSON value by `values`.
fn filled(values: &Values, tree: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match tree {
        Value::String(text) => Value::String(values.fill(&text)),
        Value::Array(items) => items.into_iter().map(|item| filled(values, item)).collect(),
        Value::Object(items) => {
            items.into_iter().map(|(key, item)| (values.fill(&key), filled(values, item))).collect()
        }
        other => other,
    }
}
