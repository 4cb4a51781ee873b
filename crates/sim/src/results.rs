//! What a run leaves behind: one JSON object per run.

use perforate_mmu::{L2Contents, PerforatedPage};
use perforate_types::{Counters, HoleSet};
use serde::Serialize;

/// Result of one scheme on one workload with one seed.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Scheme.
    pub scheme: String,
    /// Workload with its parameters, or the trace's name.
    pub workload: String,
    /// Machine.
    pub machine: String,
    /// Seed of workload and memory.
    pub seed: u64,
    /// Instructions measured, warm-up apart.
    pub instructions: u64,
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
