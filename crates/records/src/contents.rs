//! Contents of the second-level TLB over time.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::lenient::{whole, whole_of_value};

/// Contents of the second-level TLB at one moment of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentsPoint {
    /// Instructions executed since the start of the run, warm-up included.
    #[serde(default, deserialize_with = "whole")]
    pub instruction: u64,
    /// Number of TLB entries by kind, such as `page_4k` or `empty`.
    #[serde(flatten)]
    pub entries: EntryCounts,
}

/// Number of TLB entries by kind, in the order in which kinds are written to files. After reading a file,
/// kinds are sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts(pub Vec<(String, u64)>);

impl EntryCounts {
    /// Returns the number of TLB entries of a kind; `None` if the kind is absent.
    pub fn get(&self, kind: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| known == kind).map(|&(_, entries)| entries)
    }

    /// Returns the total number of TLB entries of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, entries)| sum.saturating_add(*entries))
    }
}

impl Serialize for EntryCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(kind, entries)| (kind, entries)))
    }
}

/// Deserializes a map from kinds to numbers of TLB entries; leaves out values that are not numbers.
impl<'de> Deserialize<'de> for EntryCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = BTreeMap::<String, Value>::deserialize(deserializer)?.into_iter();
        let numbers = found.filter(|(_, value)| value.is_number());
        Ok(Self(numbers.map(|(kind, value)| (kind, whole_of_value(&value))).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_entries_is_left_out() {
        let text = r#"{"instruction": 5, "bitmap": "many", "empty": 2, "hole": null}"#;
        let point: ContentsPoint = serde_json::from_str(text).unwrap();
        assert_eq!(point.instruction, 5);
        assert_eq!(point.entries, EntryCounts(vec![("empty".into(), 2)]));
        let counts = |values: &[u64]| {
            EntryCounts(values.iter().map(|&value| (format!("of {value}"), value)).collect())
        };
        let totals = [&[][..], &[3, 4, 9], &[u64::MAX, 1]].map(|values| counts(values).total());
        assert_eq!(totals, [0, 16, u64::MAX]);
        assert_eq!((counts(&[3, 4]).get("of 4"), counts(&[3, 4]).get("of 5")), (Some(4), None));
    }
}
