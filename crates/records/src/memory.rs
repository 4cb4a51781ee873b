//! Physical memory: figures over time, and maps at a few moments.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::lenient::{counts, name, or_default, some_whole, whole, whole_of_value, wholes};

/// Physical memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryPoint {
    /// Instructions since the start of the run, warm-up included.
    #[serde(deserialize_with = "whole")]
    pub instruction: u64,
    /// Share of free memory that lies in blocks smaller than 2MB (Linux: unusable index).
    pub unusable_index_2m: Option<f64>,
    /// Why a 2MB allocation would fail, 0 (little memory) to 1 (small pieces); none where it would
    /// not (Linux: fragmentation index).
    pub fragmentation_index_2m: Option<f64>,
    /// Free memory.
    #[serde(deserialize_with = "some_whole")]
    pub free_bytes: Option<u64>,
    /// Memory mapped, a frame once for every page that maps it.
    #[serde(deserialize_with = "some_whole")]
    pub mapped_bytes: Option<u64>,
    /// Distinct 4KB pages of data accessed so far.
    #[serde(deserialize_with = "some_whole")]
    pub touched_bytes: Option<u64>,
}

/// What physical memory held, 2MB block by 2MB block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryMap {
    /// Whose memory it is, `guest` or `host`; none natively.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub of: Option<String>,
    /// After how many instructions it looked like this, warm-up included.
    #[serde(deserialize_with = "wholes")]
    pub instructions: Vec<u64>,
    /// Blocks of the whole memory.
    #[serde(deserialize_with = "whole")]
    pub blocks: u64,
    /// Blocks of a cell; the last cell may have less. 0 where nothing is said.
    #[serde(deserialize_with = "whole")]
    pub blocks_per_cell: u64,
    /// Frames by class, in the whole memory; classes that do not occur are left out.
    #[serde(deserialize_with = "counts")]
    pub frames: BTreeMap<String, u64>,
    /// Blocks by class, likewise.
    #[serde(deserialize_with = "counts")]
    pub block_classes: BTreeMap<String, u64>,
    /// Names of the classes that cells have.
    #[serde(deserialize_with = "or_default")]
    pub classes: Vec<String>,
    /// Runs of like cells, lowest addresses first.
    #[serde(deserialize_with = "or_default")]
    pub cells: Vec<CellRun>,
}

/// A run of like cells, written as a list of five numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellRun {
    /// Number of cells.
    pub cells: u64,
    /// Place of their class among the names; none where nothing is said.
    pub class: Option<usize>,
    /// Free frames of each.
    pub free_frames: u64,
    /// Holes of perforated pages of each.
    pub hole_frames: u64,
    /// Frames of each that stay where they are (unmovable or retired).
    pub kept_frames: u64,
}

impl Serialize for CellRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { cells, class, free_frames, hole_frames, kept_frames } = self;
        (cells, class, free_frames, hole_frames, kept_frames).serialize(serializer)
    }
}

/// Numbers that are missing are 0.
impl<'de> Deserialize<'de> for CellRun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = Vec::<Value>::deserialize(deserializer)?;
        let number = |place: usize| list.get(place).map_or(0, whole_of_value);
        Ok(Self {
            cells: number(0),
            class: list.get(1).map(|place| whole_of_value(place) as usize),
            free_frames: number(2),
            hole_frames: number(3),
            kept_frames: number(4),
        })
    }
}
