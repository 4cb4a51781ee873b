//! One run as it is written in a results file.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use crate::ReportError;
use crate::clean::read_json;

/// One run: one scheme, one workload, one machine, one seed.
///
/// Only `scheme` and `workload` must be there. Unknown fields are ignored.
#[derive(Clone, Debug, Deserialize)]
pub struct RunResult {
    /// Name of the translation scheme.
    pub scheme: String,
    /// Scheme of the guest; none for a native run.
    #[serde(default, deserialize_with = "name")]
    pub guest: Option<String>,
    /// Scheme of the host; none for a native run.
    #[serde(default, deserialize_with = "name")]
    pub host: Option<String>,
    /// Name of the workload or trace.
    pub workload: String,
    /// Name of the machine.
    #[serde(default, deserialize_with = "or_default")]
    pub machine: String,
    /// Seed of everything random in the run.
    #[serde(default, deserialize_with = "or_default")]
    pub seed: u64,
    /// Instructions counted (without warm-up).
    #[serde(default)]
    pub instructions: Option<f64>,
    /// What the windows of a sampled trace say of the whole program.
    #[serde(default)]
    pub sampled: Option<Sampled>,
    /// Cycles taken; none in functional mode.
    #[serde(default)]
    pub cycles: Option<f64>,
    /// Instructions per cycle; none in functional mode.
    #[serde(default)]
    pub ipc: Option<f64>,
    /// Version of the program that wrote the result.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
    /// Resolved configuration.
    #[serde(default)]
    pub config: Value,
    /// Figures by name, units in the names. Values that are not numbers are left out.
    #[serde(default, deserialize_with = "numbers")]
    pub counters: BTreeMap<String, Number>,
    /// Figures over time.
    #[serde(default, deserialize_with = "or_default")]
    pub series: Series,
    /// Holes of some perforated pages, for a picture.
    #[serde(default, deserialize_with = "or_default")]
    pub regions: Vec<Region>,
    /// What physical memory held at some moments.
    #[serde(default, deserialize_with = "or_default")]
    pub memory_maps: Vec<MemoryMap>,
    /// What a reader must know to judge the figures.
    #[serde(default, deserialize_with = "or_default")]
    pub notes: Vec<String>,
}

impl RunResult {
    /// The counter of this name.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.counters.get(name).and_then(Number::as_f64).filter(|value| value.is_finite())
    }
}

/// Estimates for the program of which windows were recorded.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Sampled {
    /// Windows measured.
    #[serde(default)]
    pub windows: u64,
    /// Instructions counted in them.
    #[serde(default)]
    pub instructions_counted: f64,
    /// Instructions of the program that they stand for.
    #[serde(default)]
    pub instructions_represented: f64,
    /// Mean figures, units in the names.
    #[serde(default)]
    pub figures: BTreeMap<String, SampledFigure>,
    /// Counts of the represented instructions.
    #[serde(default)]
    pub extrapolated: BTreeMap<String, SampledFigure>,
}

/// A mean over windows.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SampledFigure {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; none of a single window.
    #[serde(default)]
    pub half_width_95: Option<f64>,
}

/// Figures over time.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Series {
    /// What the second-level TLB held.
    #[serde(default, deserialize_with = "or_default")]
    pub l2_tlb_contents: Vec<ContentsSample>,
    /// Physical memory as a whole.
    #[serde(default, deserialize_with = "or_default")]
    pub memory: Vec<MemorySample>,
}

/// Physical memory at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct MemorySample {
    /// Instructions done when the sample was taken.
    #[serde(default, deserialize_with = "or_default")]
    pub instruction: f64,
    /// Share of free memory in blocks smaller than 2MB.
    #[serde(default)]
    pub unusable_index_2m: Option<f64>,
    /// Why a 2MB allocation would fail, 0 (little memory) to 1 (small pieces); none where it
    /// would not.
    #[serde(default)]
    pub fragmentation_index_2m: Option<f64>,
    /// Memory mapped, in bytes.
    #[serde(default)]
    pub mapped_bytes: Option<f64>,
    /// Memory touched by the program so far, in bytes.
    #[serde(default)]
    pub touched_bytes: Option<f64>,
}

/// What physical memory held, in cells of one or more 2MB blocks.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct MemoryMap {
    /// Whose memory it is, `guest` or `host`; none for a native run.
    #[serde(default, deserialize_with = "name")]
    pub of: Option<String>,
    /// After how many instructions it looked like this.
    #[serde(default, deserialize_with = "or_default")]
    pub instructions: Vec<f64>,
    /// Blocks of a cell.
    #[serde(default)]
    pub blocks_per_cell: Option<f64>,
    /// Frames of the whole memory by class.
    #[serde(default, deserialize_with = "numbers")]
    pub frames: BTreeMap<String, Number>,
    /// Blocks of the whole memory by class.
    #[serde(default, deserialize_with = "numbers")]
    pub block_classes: BTreeMap<String, Number>,
    /// Names of the cells' classes.
    #[serde(default, deserialize_with = "or_default")]
    pub classes: Vec<String>,
    /// Runs of like cells: their number, the place of their class in `classes`, and of each cell
    /// free frames, holes, frames that stay where they are.
    #[serde(default, deserialize_with = "or_default")]
    pub cells: Vec<Vec<f64>>,
}

/// How many second-level TLB entries were of which kind at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ContentsSample {
    /// Instructions done when the sample was taken.
    #[serde(default, deserialize_with = "or_default")]
    pub instruction: f64,
    /// Entries by kind (`empty`, `page_4k`, `page_2m`, `page_1g`, `perforated`, `hole`,
    /// `bitmap`; others are shown too).
    #[serde(flatten, deserialize_with = "numbers")]
    pub entries: BTreeMap<String, Number>,
}

/// The holes of one 2MB page.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Region {
    /// Virtual address of the page, as text.
    #[serde(default, deserialize_with = "or_default")]
    pub page: String,
    /// How the scheme maps the page.
    #[serde(default, deserialize_with = "or_default")]
    pub scheme_kind: String,
    /// Bit *r* set: 256KB region *r* may have holes.
    #[serde(default, deserialize_with = "word")]
    pub filter: u64,
    /// Bit *i* of word *w* set: 4KB sub-page 64 *w* + *i* is a hole. Up to eight words.
    #[serde(default, deserialize_with = "words")]
    pub holes: Vec<u64>,
    /// The same for holes that are mapped to another frame.
    #[serde(default, deserialize_with = "words")]
    pub allocated: Vec<u64>,
}

impl Region {
    /// Whether 4KB sub-page `index` (0–511) is a hole.
    pub fn is_hole(&self, index: usize) -> bool {
        bit(&self.holes, index)
    }

    /// Whether sub-page `index` is a hole that is mapped to another frame.
    pub fn is_allocated_hole(&self, index: usize) -> bool {
        self.is_hole(index) && bit(&self.allocated, index)
    }
}

/// Reads a results file: one JSON object per line, empty lines allowed.
///
/// # Errors
/// [`ReportError::Line`] where a line is not a result, [`ReportError::Empty`] without any run.
pub fn read_results(text: &str) -> Result<Vec<RunResult>, ReportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut results = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let run = read_json(line).map_err(|cause| ReportError::Line { line: index + 1, cause })?;
        results.push(run);
    }
    if results.is_empty() { Err(ReportError::Empty) } else { Ok(results) }
}

fn bit(words: &[u64], index: usize) -> bool {
    words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

/// A value that may be null or absent.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A name that may be absent; anything but text with characters in it is none.
fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        _ => Ok(None),
    }
}

fn numbers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Number>, D::Error> {
    let all: Option<BTreeMap<String, Value>> = Option::deserialize(deserializer)?;
    let number = |(name, value)| match value {
        Value::Number(number) => Some((name, number)),
        _ => None,
    };
    Ok(all.unwrap_or_default().into_iter().filter_map(number).collect())
}

fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_word(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let values: Option<Vec<Value>> = Option::deserialize(deserializer)?;
    values
        .unwrap_or_default()
        .iter()
        .map(|value| parse_word(value).map_err(serde::de::Error::custom))
        .collect()
}

/// A 64-bit word as hexadecimal text, with or without `0x`, or as a number.
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
    fn unknown_missing_and_null_fields_are_tolerated() {
        let line = r#"{"scheme":"4k","workload":"w","seed":null,"cycles":null,"new":[1],
            "counters":{"walks":3,"odd":"text"},"series":null,"regions":null}"#
            .replace('\n', " ");
        let results = read_results(&format!("\n{line}\n\n")).unwrap();
        assert_eq!(results.len(), 1);
        assert_eq!(results[0].counter("walks"), Some(3.0));
        assert_eq!(results[0].counter("odd"), None);
        assert_eq!(results[0].cycles, None);
    }

    #[test]
    fn errors_name_the_line() {
        let text = "{\"scheme\":\"4k\",\"workload\":\"w\"}\n{\"scheme\":\"4k\",\n";
        let error = read_results(text).unwrap_err().to_string();
        assert!(error.starts_with("line 2: "), "{error}");
        assert!(read_results("{\"scheme\":\"4k\"}").unwrap_err().to_string().contains("workload"));
        assert!(matches!(read_results("  \n"), Err(ReportError::Empty)));
    }

    #[test]
    fn hole_words_are_little_endian_by_sub_page() {
        let region: Region = serde_json::from_str(
            r#"{"filter":"0x0f","holes":["0x1","8000000000000000"],"allocated":["0x1"]}"#,
        )
        .unwrap();
        assert_eq!(region.filter, 15);
        // Bit 0 of word 0 and bit 63 of word 1 (sub-page 127); only the first is allocated.
        let holes: Vec<usize> = (0..512).filter(|&index| region.is_hole(index)).collect();
        assert_eq!(holes, [0, 127]);
        assert!(region.is_allocated_hole(0) && !region.is_allocated_hole(127));
        assert!(serde_json::from_str::<Region>(r#"{"holes":["xyz"]}"#).is_err());
    }
}
