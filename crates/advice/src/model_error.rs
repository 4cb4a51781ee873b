//! Error of predicted speed-ups, from pairs of predicted and measured ones.
//!
//! The pairs are data (`experiments/measured/effects.toml`), each with its source. What is compared is the
//! *effect*, a speed-up less 1: speed-ups near 1 are all alike, effects are not.

use serde::Deserialize;

/// Pairs of predicted and measured effects, as they come with the program.
const PAIRS: &str = include_str!("../../../experiments/measured/effects.toml");

/// Share of the pairs whose error is inside the range, 0–1.
const CENTRAL: f64 = 0.8;
/// Least predicted effect of which the error is a factor. Of smaller effects it is a difference: a factor
/// of nearly nothing says nothing.
const LEAST_FACTOR: f64 = 0.05;

/// Reason why the pairs of predicted and measured effects cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("experiments/measured/effects.toml: {0}")]
pub struct PairsError(pub String);

/// Effect of large pages that was predicted and measured for one program on one machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectPair {
    /// Program, machine and page size.
    pub what: String,
    /// Measured speed-up less 1.
    pub measured: f64,
    /// Predicted speed-up less 1.
    pub predicted: f64,
}

/// Pairs of one publication or one kind of measurement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectSource {
    /// Description of the measurements for readers.
    pub name: String,
    /// File of the documentation that explains the pairs.
    pub place: String,
    /// True if the measurements were made in virtual machines.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
    /// Predicted and measured effects.
    pub pairs: Vec<EffectPair>,
}

/// Range of the errors of predicted effects, which holds the central 80 % of the known pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    /// Least and largest measured effect ÷ predicted effect, of effects of at least 5 %.
    pub factor: (f64, f64),
    /// Least and largest measured effect − predicted effect, of smaller effects: at most 0, at least 0.
    pub difference: (f64, f64),
    /// Number of pairs of predicted and measured effects.
    pub pairs: usize,
    /// Descriptions of the sources.
    pub sources: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: Vec<EffectSource>,
}

/// Returns all known pairs by source.
///
/// # Errors
/// The file of pairs is not as expected.
pub fn effect_sources() -> Result<Vec<EffectSource>, PairsError> {
    read(PAIRS)
}

fn read(text: &str) -> Result<Vec<EffectSource>, PairsError> {
    let file: File =
        toml::from_str(text).map_err(|error| PairsError(error.message().to_owned()))?;
    Ok(file.source)
}

impl ModelError {
    /// Derives the range from these pairs. Predictions for a virtual machine also have the errors of pairs
    /// from virtual machines, whose hosts and neighbours no prediction sees.
    ///
    /// # Errors
    /// There is no pair of large effects, or none of small ones.
    pub fn of(sources: &[EffectSource], is_virtual: bool) -> Result<Self, PairsError> {
        let used: Vec<&EffectSource> =
            sources.iter().filter(|source| is_virtual || !source.is_virtual).collect();
        let pairs = || used.iter().flat_map(|source| &source.pairs);
        let is_large = |pair: &&EffectPair| pair.predicted >= LEAST_FACTOR;
        let factors = pairs().filter(is_large).map(|pair| pair.measured / pair.predicted);
        let small = pairs().filter(|pair| !is_large(pair));
        let differences = small.map(|pair| pair.measured - pair.predicted);
        let none = |what: &str| PairsError(format!("there is no pair with a {what} effect"));
        let (low, high) = central(differences.collect()).ok_or_else(|| none("small"))?;
        Ok(Self {
            factor: central(factors.collect()).ok_or_else(|| none("large"))?,
            difference: (low.min(0.0), high.max(0.0)),
            pairs: pairs().count(),
            sources: used.iter().map(|one| format!("{} ({})", one.name, one.place)).collect(),
        })
    }

    /// Returns the range of the real speed-up, if the predicted one is `mean` with `half_width` of its
    /// interval from sampling.
    pub fn range(&self, mean: f64, half_width: f64) -> (f64, f64) {
        let (least, most) = (mean - 1.0 - half_width, mean - 1.0 + half_width);
        // A slow-down is as uncertain as a speed-up of the same size.
        let ends = |effect: f64, (low, high): (f64, f64)| {
            if effect >= 0.0 {
                (effect * low, effect * high)
            } else {
                (effect * high, effect * low)
            }
        };
        let low = ends(least, self.factor).0.min(least + self.difference.0);
        let high = ends(most, self.factor).1.max(most + self.difference.1);
        (1.0 + low, 1.0 + high)
    }
}

/// Returns the range of the central share of the values; `None` without values.
fn central(values: Vec<f64>) -> Option<(f64, f64)> {
    let low = quantile(values.clone(), (1.0 - CENTRAL) / 2.0)?;
    Some((low, quantile(values, (1.0 + CENTRAL) / 2.0)?))
}

/// Returns the value below which this share of the values lies, by linear interpolation between neighbours;
/// `None` without values.
fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let place = share * last as f64;
    let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(is_virtual: bool, pairs: &[(f64, f64)]) -> EffectSource {
        let pair = |&(measured, predicted)| EffectPair { what: "x".into(), measured, predicted };
        EffectSource {
            name: "s".into(),
            place: "p".into(),
            is_virtual,
            pairs: pairs.iter().map(pair).collect(),
        }
    }

    #[test]
    fn the_range_holds_the_central_pairs() {
        // Factors 0.5, 0.6, …, 1.5 of effects of 10 %, differences of -2, -1, …, 8 % of effects of 1 %.
        let large = (5..=15).map(|tenth| (f64::from(tenth) / 100.0, 0.1));
        let small = (-1..=9).map(|percent| (f64::from(percent) / 100.0, 0.01));
        let all: Vec<_> = large.chain(small).collect();
        let error = ModelError::of(&[pairs(false, &all)], false).unwrap();
        let is_near = |found: (f64, f64), low: f64, high: f64| {
            assert!((found.0 - low).abs() < 1e-9 && (found.1 - high).abs() < 1e-9, "{found:?}");
        };
        is_near(error.factor, 0.6, 1.4);
        is_near(error.difference, -0.01, 0.07);
        is_near(error.range(1.2, 0.0), 1.12, 1.28);
        is_near(error.range(1.2, 0.05), 1.09, 1.35);
        // The error of a small effect is a difference, which has a sign.
        is_near(error.range(1.004, 0.0), 0.994, 1.074);
        is_near(error.range(0.9, 0.0), 0.86, 0.97);
    }

    /// If all known predictions were too low, the range still begins at the prediction.
    #[test]
    fn the_range_holds_the_prediction() {
        let error = ModelError::of(&[pairs(false, &[(0.1, 0.1), (0.2, 0.01)])], false).unwrap();
        assert_eq!(error.difference.0, 0.0);
        assert!((error.difference.1 - 0.19).abs() < 1e-9);
        assert_eq!(error.range(1.02, 0.0).0, 1.02);
    }

    #[test]
    fn pairs_of_virtual_machines_count_for_virtual_machines_only() {
        let sources = [pairs(false, &[(0.1, 0.1), (0.0, 0.0)]), pairs(true, &[(0.9, 0.1)])];
        let of = |is_virtual| ModelError::of(&sources, is_virtual).unwrap();
        assert_eq!((of(false).factor, of(false).pairs), ((1.0, 1.0), 2));
        assert!(of(true).factor.1 > 8.0 && of(true).pairs == 3);
        assert!(ModelError::of(&[pairs(true, &[(0.1, 0.1)])], false).is_err());
    }

    /// Pairs from published measurements have the values of the tables in docs/measured.md.
    #[test]
    fn the_published_pairs_are_those_of_the_documentation() {
        let document = include_str!("../../../docs/measured.md");
        let mut documented = std::collections::HashMap::new();
        let mut columns = Vec::new();
        for line in document.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            if cells.contains(&"ours") {
                columns = cells;
            } else if let Some(ours) = columns.iter().position(|&heading| heading == "ours") {
                let effect = |at: usize| cells.get(at)?.strip_suffix('×')?.parse::<f64>().ok();
                if let (Some(measured), Some(predicted)) = (effect(2), effect(ours)) {
                    documented.insert(cells[1], (measured - 1.0, predicted - 1.0));
                }
            }
        }
        let sources = effect_sources().unwrap();
        let published = sources.iter().filter(|source| source.place == "docs/measured.md");
        let pairs: Vec<_> = published.flat_map(|source| &source.pairs).collect();
        assert_eq!(pairs.len(), documented.len(), "{documented:?}");
        for EffectPair { what, measured, predicted } in pairs {
            let (of, found) = documented[what.as_str()];
            assert!((of - measured).abs() < 1e-9 && (found - predicted).abs() < 1e-9, "{what}");
        }
    }

    /// Each pair of docs/verify.md is a row of a table there.
    #[test]
    fn the_pairs_of_programs_are_those_of_the_documentation() {
        let document = include_str!("../../../docs/verify.md");
        let sources = effect_sources().unwrap();
        let of_programs = sources.iter().filter(|source| source.place == "docs/verify.md");
        for EffectPair { what, measured, predicted } in of_programs.flat_map(|source| &source.pairs)
        {
            let [measured, predicted] =
                [measured, predicted].map(|effect| format!(" {:.3} ", 1.0 + effect));
            let mut rows = document.lines().filter(|line| line.starts_with('|'));
            assert!(rows.any(|row| row.contains(&measured) && row.contains(&predicted)), "{what}");
        }
    }

    /// Bundled pairs are those of the documentation: central 80 % of 9 and of 4 pairs.
    #[test]
    fn the_bundled_pairs_can_be_read() {
        let sources = effect_sources().unwrap();
        let error = ModelError::of(&sources, false).unwrap();
        assert_eq!(error.pairs, 13);
        let (low, high) = error.factor;
        assert!(low > 0.5 && low < 0.7 && high > 1.3 && high < 1.6, "{low} {high}");
        let (virtual_low, virtual_high) = ModelError::of(&sources, true).unwrap().factor;
        assert!(virtual_low >= low && virtual_high > high, "{virtual_low} {virtual_high}");
        assert!(read("source = 1").is_err());
    }
}
