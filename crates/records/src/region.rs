//! Holes of one perforated 2MB page, for the picture in reports.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::lenient::or_default;

/// One perforated 2MB page with its bitmap of holes. Bit masks are written in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Region {
    /// Virtual address of the 2MB page in hexadecimal.
    #[serde(deserialize_with = "or_default")]
    pub page: String,
    /// Name of the kind of perforated page, for schemes that have several kinds; empty if there is only one.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub scheme_kind: String,
    /// Filter bits of the page: if bit *r* is set, its 256KB region *r* may have holes.
    #[serde(serialize_with = "byte", deserialize_with = "word")]
    pub filter: u64,
    /// Bitmap of holes: bit *i* of word *w* is set if the 4KB sub-page 64 *w* + *i* is a hole.
    /// There are up to eight words.
    #[serde(serialize_with = "hexadecimal", deserialize_with = "words")]
    pub holes: Vec<u64>,
    /// Bitmap of mapped holes: bit *i* of word *w* is set if sub-page 64 *w* + *i* is a hole that
    /// is mapped to another frame. There are up to eight words.
    #[serde(serialize_with = "hexadecimal", deserialize_with = "words")]
    pub allocated: Vec<u64>,
}

impl Region {
    /// True if 4KB sub-page `index` (0–511) is a hole.
    pub fn is_hole(&self, index: usize) -> bool {
        bit(&self.holes, index)
    }

    /// True if 4KB sub-page `index` (0–511) is a hole that is mapped to another frame.
    pub fn is_allocated_hole(&self, index: usize) -> bool {
        self.is_hole(index) && bit(&self.allocated, index)
    }
}

fn bit(words: &[u64], index: usize) -> bool {
    words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

fn byte<S: Serializer>(filter: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{filter:#04x}"))
}

fn hexadecimal<S: Serializer>(words: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(words.iter().map(|word| format!("{word:#018x}")))
}

fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_word(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let values: Option<Vec<Value>> = Option::deserialize(deserializer)?;
    let values = values.unwrap_or_default();
    values.iter().map(|value| parse_word(value).map_err(serde::de::Error::custom)).collect()
}

/// Parses a 64-bit word from hexadecimal text, with or without `0x`, or from a number.
fn parse_word(value: &Value) -> Result<u64, String> {
    let parsed = match value {
        Value::Null => Some(0),
        Value::Number(number) => number.as_u64(),
        Value::String(text) => {
            u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
        }
        _ => None,
    };
    parsed.ok_or_else(|| format!("{value} is not a 64-bit word in hexadecimal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_words_are_little_endian_by_sub_page() {
        let text = r#"{"filter":"0x0f","holes":["0x1","8000000000000000"],"allocated":["0x3"]}"#;
        let region: Region = serde_json::from_str(text).unwrap();
        assert_eq!(region.filter, 15);
        // Bit 0 of word 0 and bit 63 of word 1 (sub-page 127); only the first is allocated. Bit 1 is
        // allocated, but no hole.
        let holes: Vec<usize> = (0..512).filter(|&index| region.is_hole(index)).collect();
        assert_eq!(holes, [0, 127]);
        let allocated: Vec<usize> = (0..512).filter(|&at| region.is_allocated_hole(at)).collect();
        assert_eq!(allocated, [0]);
        assert!(serde_json::from_str::<Region>(r#"{"holes":["xyz"]}"#).is_err());
        let written = serde_json::to_string(&region).unwrap();
        assert!(written.contains(r#""filter":"0x0f","holes":["0x0000000000000001","#), "{written}");
    }

    #[test]
    fn words_are_hexadecimal_or_numbers() {
        let region = |text: &str| serde_json::from_str::<Region>(text);
        let of =
            region(r#"{"page":null,"filter":null,"holes":null,"allocated":[7,"0xff","F0",null]}"#)
                .unwrap();
        assert_eq!(
            (of.page.as_str(), of.filter, of.holes.len(), of.allocated),
            ("", 0, 0, vec![7, 255, 240, 0])
        );
        for wrong in [
            r#"{"filter":-1}"#,
            r#"{"filter":true}"#,
            r#"{"holes":[1.5]}"#,
            r#"{"holes":["0x10000000000000000"]}"#,
        ] {
            assert!(region(wrong).is_err(), "{wrong}");
        }
        let error = region(r#"{"holes":["xyz"]}"#).unwrap_err().to_string();
        assert!(error.starts_with("\"xyz\" is not a 64-bit word in hexadecimal"), "{error}");
        let full = Region { holes: vec![u64::MAX; 8], allocated: vec![1], ..Region::default() };
        assert!(
            full.is_hole(511)
                && !full.is_hole(512)
                && full.is_allocated_hole(0)
                && !full.is_allocated_hole(64)
        );
        let written =
            serde_json::to_string(&Region { filter: 0x1ff, ..Region::default() }).unwrap();
        assert_eq!(written, r#"{"page":"","filter":"0x1ff","holes":[],"allocated":[]}"#);
    }
}
