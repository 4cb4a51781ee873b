//! Physical memory: fragmentation over time, and maps at a few moments.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::lenient::{counts, name, or_default, some_whole, whole, whole_of_value, wholes};

/// State of physical memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryPoint {
    /// Instructions executed since the start of the run, warm-up included.
    #[serde(deserialize_with = "whole")]
    pub instruction: u64,
    /// Share of free memory, 0–1, that is in blocks smaller than 2MB (Linux: unusable index). `None` if
    /// unknown.
    pub unusable_index_2m: Option<f64>,
    /// Reason why a 2MB allocation fails, from 0 (too little free memory) to 1 (free memory is fragmented).
    /// `None` if it would succeed (Linux: fragmentation index).
    pub fragmentation_index_2m: Option<f64>,
    /// Free memory in bytes.
    #[serde(deserialize_with = "some_whole")]
    pub free_bytes: Option<u64>,
    /// Mapped memory in bytes; a frame that several pages map counts several times.
    #[serde(deserialize_with = "some_whole")]
    pub mapped_bytes: Option<u64>,
    /// Memory that the program has accessed so far, in bytes: distinct 4KB data pages.
    #[serde(deserialize_with = "some_whole")]
    pub touched_bytes: Option<u64>,
}

/// Map of physical memory in 2MB blocks, at one or more moments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryMap {
    /// Address space of the memory in a virtualized run: `guest` or `host`. `None` for native runs.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub of: Option<String>,
    /// Moments of the run at which memory was in this state, in instructions since its start, warm-up
    /// included.
    #[serde(deserialize_with = "wholes")]
    pub instructions: Vec<u64>,
    /// Number of 2MB blocks in the whole memory.
    #[serde(deserialize_with = "whole")]
    pub blocks: u64,
    /// Number of 2MB blocks that a cell, one element of the drawn map, summarises (fewer in the last cell). 0
    /// if unknown.
    #[serde(deserialize_with = "whole")]
    pub blocks_per_cell: u64,
    /// Number of 4KB frames by class (such as `free`), in the whole memory. Classes without frames are left
    /// out.
    #[serde(deserialize_with = "counts")]
    pub frames: BTreeMap<String, u64>,
    /// Number of 2MB blocks by class (such as `free`), in the whole memory. Classes without blocks are left
    /// out.
    #[serde(deserialize_with = "counts")]
    pub block_classes: BTreeMap<String, u64>,
    /// Names of the classes of map cells, such as `free`; [`CellRun::class`] is an index into this list.
    #[serde(deserialize_with = "or_default")]
    pub classes: Vec<String>,
    /// Runs of equal map cells of [`Self::blocks_per_cell`] blocks, lowest addresses first.
    #[serde(deserialize_with = "or_default")]
    pub cells: Vec<CellRun>,
}

/// A run of equal cells of a memory map, each of one or more 2MB blocks. In files it is a list of five
/// numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellRun {
    /// Number of map cells in the run.
    pub cells: u64,
    /// Index of the cells' class in [`MemoryMap::classes`]; `None` if the record lacks it.
    pub class: Option<usize>,
    /// Number of free 4KB frames in each cell.
    pub free_frames: u64,
    /// Number of 4KB frames in each cell that are holes of perforated pages.
    pub hole_frames: u64,
    /// Number of 4KB frames in each cell that cannot be moved (unmovable or retired).
    pub kept_frames: u64,
}

impl Serialize for CellRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { cells, class, free_frames, hole_frames, kept_frames } = self;
        (cells, class, free_frames, hole_frames, kept_frames).serialize(serializer)
    }
}

/// Deserializes a run of cells from a list of five numbers; missing numbers are read as 0.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_lists_of_five_numbers() {
        let run = |text: &str| serde_json::from_str::<CellRun>(text).unwrap();
        let whole =
            CellRun { cells: 1, class: Some(2), free_frames: 3, hole_frames: 4, kept_frames: 5 };
        assert_eq!(run("[1,2,3,4,5]"), whole);
        assert_eq!(serde_json::to_string(&whole).unwrap(), "[1,2,3,4,5]");
        assert_eq!(run("[1,2,3,4,5,6]"), whole);
        assert_eq!(run("[]"), CellRun::default());
        assert_eq!(run(r#"[7,"x"]"#), CellRun { cells: 7, class: Some(0), ..CellRun::default() });
        let map: MemoryMap =
            serde_json::from_str(r#"{"of":"host","frames":{"free":2,"x":null},"classes":null}"#)
                .unwrap();
        assert_eq!(
            (map.of.as_deref(), map.frames.len(), map.classes.len(), map.blocks_per_cell),
            (Some("host"), 1, 0, 0)
        );
        let point: MemoryPoint =
            serde_json::from_str(r#"{"instruction":2.5,"free_bytes":-1,"mapped_bytes":4096}"#)
                .unwrap();
        assert_eq!(
            (point.instruction, point.free_bytes, point.mapped_bytes, point.touched_bytes),
            (2, None, Some(4096), None)
        );
    }
}
