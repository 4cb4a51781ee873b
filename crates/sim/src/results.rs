//! What a run leaves behind: one JSON object per run.

use std::collections::BTreeMap;

use perforate_mmu::L2Contents;
use perforate_schemes::perforated::PerforatedPage;
use perforate_types::{Counters, HoleSet};
use serde::Serialize;

use crate::sampled::Sampled;
use crate::warmup::Warmup;

/// Result of one scheme on one workload with one seed.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Scheme.
    pub scheme: String,
    /// Scheme of the guest; absent without virtualization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// Scheme of the host; absent without virtualization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Workload with its parameters, or the trace's name.
    pub workload: String,
    /// Machine.
    pub machine: String,
    /// Seed of workload and memory.
    pub seed: u64,
    /// Instructions measured, warm-up apart.
    pub instructions: u64,
    /// Instructions of the program that they stand for; absent unless the trace is a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions_represented: Option<u64>,
    /// What the windows of a sampled trace say of the whole program; absent likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Instructions before measuring, and whether they were enough.
    pub warmup: Warmup,
    /// Cycles they took; absent in functional mode.
    pub cycles: Option<u64>,
    /// Instructions per cycle; absent in functional mode.
    pub ipc: Option<f64>,
    /// All figures, units in the names.
    pub counters: Counters,
    /// Figures over time.
    pub series: Series,
    /// The first few perforated pages with their holes.
    pub regions: Vec<RegionPicture>,
    /// What physical memory held at a few moments.
    pub memory_maps: Vec<MemoryMapPicture>,
    /// Modes of virtualized direct segments that came and went, a line each (D Table III).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mode_transitions: Vec<String>,
    /// What a reader must know to judge the figures.
    pub notes: Vec<String>,
    /// Everything the run was made from.
    pub config: serde_json::Value,
    /// Version of the program.
    pub version: &'static str,
}

/// Figures over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Entries of the second-level TLB by kind.
    pub l2_tlb_contents: Vec<SeriesPoint>,
    /// Physical memory as a whole.
    pub memory: Vec<MemoryPoint>,
}

/// Physical memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryPoint {
    /// Instructions since the start of the run, warm-up included.
    pub instruction: u64,
    /// Share of free memory that lies in blocks smaller than 2MB
    /// ([`perforate_os::FreeMemory::unusable_thousandths`]).
    pub unusable_index_2m: f64,
    /// Why a 2MB allocation would fail; absent where it would not
    /// ([`perforate_os::FreeMemory::fragmentation_thousandths`]).
    pub fragmentation_index_2m: Option<f64>,
    /// Free memory.
    pub free_bytes: u64,
    /// Memory mapped, a frame once for every page that maps it.
    pub mapped_bytes: u64,
    /// Distinct 4KB pages of data accessed so far.
    pub touched_bytes: u64,
}

/// What physical memory held, 2MB block by 2MB block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryMapPicture {
    /// Whose memory it is, `guest` or `host`; absent natively.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<&'static str>,
    /// After how many instructions it looked like this, warm-up included.
    pub instructions: Vec<u64>,
    /// Blocks of the whole memory.
    pub blocks: u64,
    /// Blocks of a cell; the last cell may have less.
    pub blocks_per_cell: u64,
    /// Frames by class, in the whole memory; classes that do not occur are left out.
    pub frames: BTreeMap<&'static str, u64>,
    /// Blocks by class, likewise.
    pub block_classes: BTreeMap<&'static str, u64>,
    /// Names of the classes that cells have.
    pub classes: Vec<&'static str>,
    /// Runs of like cells, lowest addresses first: number of cells, place of their class in
    /// `classes`, and of each cell free frames, holes of perforated pages, frames that stay where
    /// they are (unmovable or retired).
    pub cells: Vec<(u64, usize, u64, u64, u64)>,
}

/// One point of a series.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesPoint {
    /// Instructions since the start of the run, warm-up included.
    pub instruction: u64,
    /// What the second-level TLB held then.
    #[serde(flatten)]
    pub contents: L2Contents,
}

/// One perforated page, for its picture.
#[derive(Clone, Debug, Serialize)]
pub struct RegionPicture {
    /// Virtual address.
    pub page: String,
    /// The eight filter bits.
    pub filter: String,
    /// Holes: eight hexadecimal words of 64 sub-pages each.
    pub holes: [String; 8],
    /// Holes that are mapped somewhere.
    pub allocated: [String; 8],
}

impl From<&PerforatedPage> for RegionPicture {
    fn from(page: &PerforatedPage) -> Self {
        let words = |set: &HoleSet| set.words().map(|word| format!("{word:#018x}"));
        Self {
            page: format!("{:#x}", page.page.address()),
            filter: format!("{:#04x}", page.filter),
            holes: words(&page.holes),
            allocated: words(&page.allocated),
        }
    }
}
