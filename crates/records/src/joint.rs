//! Records of joint readings: all claims of a paper, judged under the same values of everything that the
//! paper leaves open.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ClaimRecord;
use crate::lenient::or_default;

/// Numbers and thresholds of one paper, each judged in every reading of what the paper leaves open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JointRecord {
    /// Prefix of the ids of the paper's claims, such as `P`.
    pub paper: String,
    /// True if `--quick` reduced the precision of the simulations.
    #[serde(default, deserialize_with = "or_default")]
    pub quick: bool,
    /// Choices that the paper leaves open, in the order of its experiments.
    #[serde(default, deserialize_with = "or_default")]
    pub choices: Vec<JointChoice>,
    /// Value of each choice that differs from its default, by the choice's name, for each reading. The first
    /// reading is the default, in which nothing differs.
    #[serde(default, deserialize_with = "or_default")]
    pub readings: Vec<BTreeMap<String, String>>,
    /// Claims of the paper, from all of its experiments.
    #[serde(default, deserialize_with = "or_default")]
    pub claims: Vec<JointClaim>,
}

/// Choice that a paper leaves open. It has the same value in all experiments of a reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JointChoice {
    /// Name of the choice.
    pub name: String,
    /// Reason why the alternative values are plausible.
    #[serde(default, deserialize_with = "or_default")]
    pub reason: String,
    /// Alternative values, without the default.
    #[serde(default, deserialize_with = "or_default")]
    pub values: Vec<String>,
}

/// Claim with our value and the verdict in each reading.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JointClaim {
    /// Claim as judged at the default, with the first seed.
    #[serde(flatten)]
    pub claim: ClaimRecord,
    /// Our value in each reading; `None` if it is unknown.
    #[serde(default, deserialize_with = "or_default")]
    pub ours_in: Vec<Option<f64>>,
    /// For each reading, true if the claim is reproduced.
    #[serde(default, deserialize_with = "or_default")]
    pub holds_in: Vec<bool>,
}

/// Two claims that each hold in some reading, but never in the same one.
#[derive(Clone, Copy, Debug)]
pub struct ExcludingPair<'r> {
    /// The two claims, in the order of the record.
    pub claims: [&'r JointClaim; 2],
    /// Number of readings in which each of the claims holds.
    pub held: [usize; 2],
}

/// Numbers of claims that hold in the readings with one value of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueEffect<'r> {
    /// Value of the choice; `None` for its default.
    pub value: Option<&'r str>,
    /// Number of readings with this value.
    pub readings: usize,
    /// Mean number of claims that hold in these readings.
    pub mean: f64,
    /// Smallest number of claims that hold in one of these readings.
    pub least: usize,
    /// Greatest number of claims that hold in one of these readings.
    pub most: usize,
    /// Squared standard error of the mean.
    error_squared: f64,
}

/// Effect of a choice on the number of claims that hold.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceEffect<'r> {
    /// Choice, of which at least two values occur in the readings.
    pub choice: &'r JointChoice,
    /// Values of the choice that some reading has, the one with the most claims on average first.
    pub values: Vec<ValueEffect<'r>>,
    /// Difference between the means of the best and of the worst value.
    pub difference: f64,
    /// True if the difference is more than twice its standard error.
    pub is_clear: bool,
}

impl JointClaim {
    /// True if the claim is reproduced in the reading with this number.
    pub fn holds(&self, reading: usize) -> bool {
        self.holds_in.get(reading) == Some(&true)
    }

    /// Returns the number of readings in which the claim is reproduced.
    pub fn held(&self) -> usize {
        self.holds_in.iter().filter(|&&holds| holds).count()
    }
}

impl JointRecord {
    /// Returns the number of claims that hold in the reading with this number.
    pub fn held(&self, reading: usize) -> usize {
        self.claims.iter().filter(|claim| claim.holds(reading)).count()
    }

    /// Returns the number of claims that hold in at least one reading.
    pub fn held_alone(&self) -> usize {
        self.claims.iter().filter(|claim| claim.held() > 0).count()
    }

    /// Returns the number of the reading in which most claims hold. Of several, it is the one with the fewest
    /// values that differ from the default.
    pub fn best(&self) -> usize {
        let merit = |reading: &usize| {
            let changed = self.readings[*reading].len();
            (self.held(*reading), std::cmp::Reverse((changed, *reading)))
        };
        (0..self.readings.len()).max_by_key(merit).unwrap_or(0)
    }

    /// True if the readings are all combinations of the values, and not a sample.
    pub fn is_exhaustive(&self) -> bool {
        let sizes = self.choices.iter().map(|choice| choice.values.len() + 1);
        sizes.fold(1, usize::saturating_mul) == self.readings.len()
    }

    /// Returns all pairs of claims that exclude each other in these readings. Those that would most often hold
    /// together if they were independent come first.
    pub fn excluding(&self) -> Vec<ExcludingPair<'_>> {
        let mut pairs = Vec::new();
        for (number, one) in self.claims.iter().enumerate().filter(|(_, one)| one.held() > 0) {
            for other in self.claims[number + 1..].iter().filter(|other| other.held() > 0) {
                let together = (0..self.readings.len())
                    .any(|reading| one.holds(reading) && other.holds(reading));
                if !together {
                    let held = [one.held(), other.held()];
                    pairs.push(ExcludingPair { claims: [one, other], held });
                }
            }
        }
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.held[0] * pair.held[1]));
        pairs
    }

    /// Returns the effect of each choice on the number of claims that hold, greatest effect first.
    pub fn effects(&self) -> Vec<ChoiceEffect<'_>> {
        let held: Vec<usize> = (0..self.readings.len()).map(|reading| self.held(reading)).collect();
        let mut effects: Vec<_> =
            self.choices.iter().filter_map(|choice| self.effect(choice, &held)).collect();
        effects.sort_by(|one, other| other.difference.total_cmp(&one.difference));
        effects
    }

    /// Returns the effect of a choice; `None` if it has one value in all readings. `held` is the number of claims
    /// that hold in each reading.
    fn effect<'r>(&'r self, choice: &'r JointChoice, held: &[usize]) -> Option<ChoiceEffect<'r>> {
        let values = std::iter::once(None).chain(choice.values.iter().map(|text| Some(&**text)));
        let effect = |value: Option<&'r str>| {
            let readings = self.readings.iter().zip(held);
            let own = readings
                .filter(|(reading, _)| reading.get(&choice.name).map(String::as_str) == value);
            ValueEffect::of(value, &own.map(|(_, held)| *held).collect::<Vec<_>>())
        };
        let mut values: Vec<ValueEffect<'_>> = values.filter_map(effect).collect();
        values.sort_by(|one, other| other.mean.total_cmp(&one.mean));
        let [best, .., worst] = &values[..] else { return None };
        let difference = best.mean - worst.mean;
        let is_clear = difference > 2.0 * (best.error_squared + worst.error_squared).sqrt();
        Some(ChoiceEffect { choice, difference, is_clear, values })
    }
}

impl<'r> ValueEffect<'r> {
    /// Summarises the numbers of claims that hold in the readings with a value; `None` without readings.
    fn of(value: Option<&'r str>, held: &[usize]) -> Option<Self> {
        let (least, most) = (*held.iter().min()?, *held.iter().max()?);
        let count = held.len() as f64;
        let mean = held.iter().sum::<usize>() as f64 / count;
        let squares: f64 = held.iter().map(|&one| (one as f64 - mean).powi(2)).sum();
        // A single reading has no known spread.
        let error_squared =
            if held.len() < 2 { f64::INFINITY } else { squares / (count - 1.0) / count };
        Some(Self { value, readings: held.len(), mean, least, most, error_squared })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Record with choices `a` (default or `1`) and `b` (default, `1` or `2`) in all combinations.
    fn record(claims: &[(&str, [u8; 6])]) -> JointRecord {
        let choice = |name: &str, values: &[&str]| JointChoice {
            name: name.into(),
            reason: String::new(),
            values: values.iter().map(|&value| value.into()).collect(),
        };
        let readings = (0..6).map(|number| {
            let values = [("a", number / 3), ("b", number % 3)];
            let changed = values.into_iter().filter(|(_, value)| *value > 0);
            changed.map(|(name, value)| (name.to_owned(), value.to_string())).collect()
        });
        let claim = |(id, holds): &(&str, [u8; 6])| {
            let text = format!(
                r#"{{"id":"{id}","statement":"s","verdict":"reproduced","ours_in":[1.0,null],
                    "holds_in":{:?}}}"#,
                holds.map(|holds| holds == 1)
            );
            serde_json::from_str(&text).unwrap()
        };
        JointRecord {
            paper: "P".into(),
            quick: false,
            choices: vec![choice("a", &["1"]), choice("b", &["1", "2"])],
            readings: readings.collect(),
            claims: claims.iter().map(claim).collect(),
        }
    }

    #[test]
    fn the_best_reading_is_the_nearest_of_those_with_most_claims() {
        let record = record(&[
            ("P-C1", [1, 1, 0, 0, 0, 0]),
            ("P-C2", [0, 1, 0, 0, 1, 1]),
            ("P-C3", [0, 0, 0, 0, 1, 0]),
            ("P-C4", [0, 0, 0, 0, 0, 0]),
        ]);
        assert_eq!((record.held(0), record.held_alone()), (1, 3));
        // Readings 1 and 4 both hold two; reading 4 changes both choices.
        assert_eq!((record.best(), record.held(4)), (1, 2));
        assert!(record.is_exhaustive());
        let best = |readings| self::record(&[("P-C1", readings)]).best();
        assert_eq!(best([0, 0, 0, 0, 0, 1]), 5, "the last one");
        assert_eq!(best([0, 0, 0, 1, 0, 1]), 3, "one change rather than two");
        assert_eq!(best([0, 0, 1, 1, 0, 0]), 2, "the first of equals");
        assert_eq!(best([1; 6]), 0, "the default");
        let sample = JointRecord { readings: record.readings[..4].to_vec(), ..record };
        assert!(!sample.is_exhaustive());
    }

    #[test]
    fn pairs_that_would_meet_most_often_come_first() {
        let record = record(&[
            ("P-C0", [0, 0, 0, 0, 0, 0]),
            ("P-C1", [1, 0, 0, 0, 0, 0]),
            ("P-C2", [0, 1, 1, 1, 0, 0]),
            ("P-C3", [0, 0, 0, 0, 1, 1]),
            ("P-C4", [1, 1, 1, 1, 1, 1]),
            ("P-C5", [0, 0, 0, 0, 0, 0]),
        ]);
        let pairs: Vec<_> = record
            .excluding()
            .iter()
            .map(|pair| (pair.claims.map(|claim| claim.claim.id.clone()), pair.held))
            .map(|([one, other], held)| format!("{one} {other} {held:?}"))
            .collect();
        assert_eq!(pairs, ["P-C2 P-C3 [3, 2]", "P-C1 P-C2 [1, 3]", "P-C1 P-C3 [1, 2]"]);
        let record = self::record(&[
            ("P-C1", [1, 0, 0, 0, 0, 0]),
            ("P-C2", [0, 1, 1, 0, 0, 1]),
            ("P-C3", [0, 1, 1, 1, 1, 0]),
            ("P-C4", [1, 0, 0, 0, 0, 0]),
        ]);
        let held: Vec<_> = record.excluding().iter().map(|pair| pair.held).collect();
        assert_eq!(held, [[1, 4], [4, 1], [1, 3], [3, 1]], "by the product");
    }

    #[test]
    fn the_choice_that_decides_comes_first() {
        // Both claims follow choice a; choice b adds little.
        let record = record(&[
            ("P-C1", [0, 0, 0, 1, 1, 1]),
            ("P-C2", [0, 0, 0, 1, 1, 1]),
            ("P-C3", [0, 0, 1, 0, 0, 0]),
        ]);
        let effects = record.effects();
        let [first, second] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!((first.choice.name.as_str(), first.is_clear), ("a", true));
        assert!((first.difference - 5.0 / 3.0).abs() < 1e-12);
        let best = &first.values[0];
        assert_eq!((best.value, best.readings, best.least, best.most), (Some("1"), 3, 2, 2));
        assert_eq!((second.choice.name.as_str(), second.is_clear), ("b", false));
        assert_eq!(second.values[0].value, Some("2"));
        assert_eq!(second.values.len(), 3, "with the default");
        assert_eq!((second.values[0].least, second.values[0].most), (1, 2));
        assert_eq!((second.values[1].least, second.values[1].most), (0, 2));
    }

    /// Both claims follow choice b, whose values have two readings each.
    #[test]
    fn effects_are_in_order_of_their_size_and_two_readings_have_a_spread() {
        let record = record(&[("P-C1", [0, 0, 1, 0, 0, 1]), ("P-C2", [0, 0, 1, 0, 1, 1])]);
        let effects = record.effects();
        let names: Vec<_> = effects.iter().map(|effect| &*effect.choice.name).collect();
        assert_eq!((names, effects[0].is_clear), (vec!["b", "a"], true));
        let values: Vec<_> = effects[0]
            .values
            .iter()
            .map(|value| (value.value, value.mean, value.least, value.most, value.error_squared))
            .collect();
        // Squares of 0 and 1 around their mean: 1/2 in all, for 1 degree of freedom and 2 readings.
        let expected =
            [(Some("2"), 2.0, 2, 2, 0.0), (Some("1"), 0.5, 0, 1, 0.25), (None, 0.0, 0, 0, 0.0)];
        assert_eq!(values, expected);
    }

    /// Numbers of claims that hold in the three readings with each value of choice a. Squared standard errors
    /// are 1/9 for `0, 0, 1` and 1/3 for `0, 1, 2`.
    #[test]
    fn an_effect_is_clear_if_it_exceeds_twice_the_error_of_both_values() {
        for (default, other, is_clear) in [
            ([0, 0, 1], [1, 1, 2], true),  // 1 > 2 √(2/9) = 0.94
            ([0, 1, 2], [2, 2, 2], false), // 1 < 2 √(1/3) = 1.15
            ([1, 1, 1], [1, 2, 3], false),
            ([1, 2, 3], [1, 1, 1], false),
            ([0, 1, 2], [3, 3, 2], true), // 5/3 > 2 √(4/9) = 1.33
            ([1, 1, 1], [2, 2, 3], true), // 4/3 > 2/3
            ([0, 0, 0], [0, 0, 1], false),
        ] {
            let counts = [default, other].concat();
            let claims: Vec<_> = (0..3)
                .map(|claim| ("P-C", std::array::from_fn(|at| u8::from(counts[at] > claim))))
                .collect();
            let record = record(&claims);
            let effects = record.effects();
            let of_a = effects.iter().find(|effect| effect.choice.name == "a").unwrap();
            assert_eq!(of_a.is_clear, is_clear, "{default:?} {other:?}");
        }
    }

    #[test]
    fn records_of_other_programs_may_lack_anything() {
        let read = |text: &str| serde_json::from_str::<JointRecord>(text).unwrap();
        let record = read(
            r#"{"paper":"P","readings":[{},{"a":"1"}],"claims":[
            {"id":"x","statement":"s","verdict":"reproduced","holds_in":[true]},
            {"id":"y","statement":"s","verdict":"reproduced","holds_in":null}]}"#,
        );
        assert_eq!((record.best(), record.held(1), record.effects().len()), (0, 0, 0));
        let empty = read(r#"{"paper":""}"#);
        assert_eq!((empty.best(), empty.held_alone(), empty.excluding().len()), (0, 0, 0));
    }

    /// Several readings with as many claims: the one with fewest changes, then the first. Values that some reading
    /// has, with the means of their readings.
    #[test]
    fn ties_go_to_the_first_reading_that_changes_least() {
        let claims = [("P-C1", [0, 1, 1, 1, 0, 1])];
        assert_eq!(record(&claims).best(), 1);
        let claims = [("P-C1", [0, 0, 1, 1, 1, 1])];
        assert_eq!(record(&claims).best(), 2);
        let claims = [("P-C1", [1, 1, 1, 1, 1, 1])];
        let all = record(&claims);
        assert_eq!((all.best(), all.claims[0].held(), all.held_alone()), (0, 6, 1));
        assert!(all.claims[0].holds(5) && !all.claims[0].holds(6));
        let one = JointRecord { readings: all.readings[..3].to_vec(), ..all.clone() };
        let effects = one.effects();
        assert_eq!(effects.len(), 1, "choice a has one value in these readings");
        let values: Vec<_> =
            effects[0].values.iter().map(|value| (value.value, value.readings)).collect();
        assert_eq!(values, [(None, 1), (Some("1"), 1), (Some("2"), 1)]);
        assert!(!effects[0].is_clear, "single readings have no known spread");
        let none = JointRecord { choices: Vec::new(), ..all };
        assert!(!none.is_exhaustive() && none.effects().is_empty());
    }
}
