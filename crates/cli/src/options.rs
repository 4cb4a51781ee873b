//! Options that several commands share.

use clap::Args;
use perforate_sim::{
    BackgroundOptions, Comparison, Composition, HostMemoryOptions, Machine, MeasuringOptions,
    MemoryOptions, MemoryState, PastOptions, SimError, Workload,
};

use perforate_trace::bundled;

/// Fragmentation where none is named: the point that P §VII.B and §VII.C take for the real machine
/// of §III.C.
const DEFAULT_FRAGMENTATION: &str = "portion=50%,holes=25%,clustered";

/// What runs where: machine, memory, and which part of the workload.
#[derive(Args, Clone)]
pub struct PlacementOptions {
    /// Machine: a name from `perforate list machines` or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = Machine::DEFAULT)]
    pub machine: String,
    /// Physical memory [default: 16G]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    pub memory: Option<String>,
    /// Begin with the memory of a real machine, as `perforate snapshot host -o FILE` found it: its
    /// size, its zones, which frames are free, movable, page cache, unmovable
    #[arg(long, value_name = "FILE", help_heading = "Memory")]
    pub memory_from: Option<String>,
    /// Swap space, for example 2G; memory of the program is swapped out when physical memory is
    /// short [default: none]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    pub swap: Option<String>,
    /// Injected fragmentation, or none: portion=P%,holes=H%,clustered|dispersed
    /// and if wanted ,unallocated or ,unusable=U%
    /// [default: portion=50%,holes=25%,clustered; none with --age or --memory-from]
    #[arg(long, value_name = "SPEC", help_heading = "Memory")]
    pub fragmentation: Option<String>,
    /// Age memory by a simulated system uptime: PRESET[,unusable=U%][,free=F%]
    /// (see `perforate list ageing`)
    #[arg(long, value_name = "SPEC", help_heading = "Memory")]
    pub age: Option<String>,
    /// Faulty frames: uniform=S%, clustered=S%, or a file with one frame number a line
    #[arg(long, value_name = "SPEC|FILE", help_heading = "Memory")]
    pub faulty: Option<String>,
    /// Compaction before the run: none or background [default: none]
    #[arg(long, value_name = "WHEN", help_heading = "Operating system")]
    pub compaction: Option<String>,
    /// Compaction in page faults, as Linux's transparent_hugepage/defrag: always, defer,
    /// defer+madvise, madvise or never [default: never]
    #[arg(long, value_name = "MODE", help_heading = "Operating system")]
    pub defrag: Option<String>,
    /// Zones of memory: single, x86 (DMA, DMA32, Normal) or sizes such as dma=16M,dma32=2G
    #[arg(long, value_name = "LAYOUT", help_heading = "Memory")]
    pub zones: Option<String>,
    /// Background promotion while the program runs: default, or
    /// every=INSTRUCTIONS,pages-to-scan=4096,max-ptes-none=511,… with Linux's knobs
    #[arg(long, value_name = "SPEC", help_heading = "Operating system")]
    pub khugepaged: Option<String>,
    /// Same-page merging while the program runs: default, or every=INSTRUCTIONS,
    /// pages-to-scan=100,max-page-sharing=256; needs --contents
    #[arg(long, value_name = "SPEC", help_heading = "Operating system")]
    pub ksm: Option<String>,
    /// What is on the pages: zero=5%,duplicate=20%,distinct=64[,regions=40%][,run=8]
    #[arg(long, value_name = "SPEC", help_heading = "Operating system")]
    pub contents: Option<String>,
    /// Policy for perforated pages, for example max-hole-share=25%,max-filter-bits=4; it
    /// overrides a perforated scheme's own options (see `perforate list perforation`)
    #[arg(long, value_name = "SPEC", help_heading = "Operating system")]
    pub perforation: Option<String>,
    /// Policy for direct segments, for example min=16M,escapes=4 or base=0x…,limit=0x…; it overrides
    /// a segment scheme's own options (see `perforate list segment`)
    #[arg(long, value_name = "SPEC", help_heading = "Operating system")]
    pub segment: Option<String>,
    /// Policy for gap-tolerant superpages, for example least-blocks=33 or from=4G,to=8G (see
    /// `perforate list superpages`)
    #[arg(long, value_name = "SPEC", help_heading = "Operating system")]
    pub superpages: Option<String>,
    /// Physical addresses from 3GB to 4GB without memory: none, pc, or reclaimed (256M stays below,
    /// the rest lies above) [default: none]
    #[arg(long, value_name = "GAP", help_heading = "Virtualization")]
    pub io_gap: Option<String>,
    /// Room above memory for what self-ballooning adds [default: none]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Virtualization")]
    pub hot_add: Option<String>,
    /// Make missing direct segments while the program runs, by self-ballooning and host compaction
    /// (D Table III): big-memory or compute, and if wanted ,every=INSTRUCTIONS
    #[arg(long, value_name = "SPEC", help_heading = "Virtualization")]
    pub modes: Option<String>,
    /// Host memory under a virtual machine [default: a quarter more than --memory, and 512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Virtualization")]
    pub host_memory: Option<String>,
    /// Begin with the memory of a real machine for the host, as --memory-from
    #[arg(long, value_name = "FILE", help_heading = "Virtualization")]
    pub host_memory_from: Option<String>,
    /// Fragmentation injected into host memory, as --fragmentation [default: none]
    #[arg(long, value_name = "SPEC", help_heading = "Virtualization")]
    pub host_fragmentation: Option<String>,
    /// Age host memory, as --age
    #[arg(long, value_name = "SPEC", help_heading = "Virtualization")]
    pub host_age: Option<String>,
    /// Faulty host frames, as --faulty
    #[arg(long, value_name = "SPEC|FILE", help_heading = "Virtualization")]
    pub host_faulty: Option<String>,
    /// Swap space of the host, as --swap; with it, host memory may be smaller than the guest's
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Virtualization")]
    pub host_swap: Option<String>,
    /// Background promotion in the host, as --khugepaged
    #[arg(long, value_name = "SPEC", help_heading = "Virtualization")]
    pub host_khugepaged: Option<String>,
    /// Policy for perforated pages of the host, as --perforation
    #[arg(long, value_name = "SPEC", help_heading = "Virtualization")]
    pub host_perforation: Option<String>,
    /// Policy for direct segments of the host, as --segment
    #[arg(long, value_name = "SPEC", help_heading = "Virtualization")]
    pub host_segment: Option<String>,
    /// Policy for gap-tolerant superpages of the host, as --superpages
    #[arg(long, value_name = "SPEC", help_heading = "Virtualization")]
    pub host_superpages: Option<String>,
    /// Seed of workload and memory; the same seed gives the same results
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Instructions to pass over first; what they map stays mapped
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: u64,
    /// Instructions to run, warm-up included [default: the whole trace, 20 M of a workload]
    #[arg(long, value_name = "N")]
    pub instructions: Option<u64>,
}

/// A placement and how it is simulated.
#[derive(Args, Clone)]
pub struct SimulationOptions {
    #[command(flatten)]
    pub placement: PlacementOptions,
    /// Instructions before measuring starts, or auto: as many as every scheme takes to settle
    /// (MSER-5), found by running twice [default: a fifth of the run]
    #[arg(long, value_name = "N|auto", value_parser = warmup)]
    pub warmup: Option<WarmupChoice>,
    /// Instructions at the beginning of each window of a sampled trace that are left out of the
    /// figures with ± [default: 0]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub window_warmup: u64,
    /// Count events only, without a clock: faster, no IPC
    #[arg(long)]
    pub functional: bool,
    /// Compare every translation with the oracle
    #[arg(long)]
    pub check: bool,
}

/// How long the warm-up is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmupChoice {
    /// As long as said.
    Instructions(u64),
    /// As long as detected.
    Detected,
}

fn warmup(text: &str) -> Result<WarmupChoice, String> {
    match text {
        "auto" => Ok(WarmupChoice::Detected),
        _ => text
            .parse()
            .map(WarmupChoice::Instructions)
            .map_err(|error| format!("{error}; expected a number of instructions, or auto")),
    }
}

impl PlacementOptions {
    /// The memory asked for.
    pub fn memory(&self) -> Result<MemoryState, SimError> {
        let has_past = self.age.is_some() || self.memory_from.is_some();
        let default = if has_past { "none" } else { DEFAULT_FRAGMENTATION };
        let fragmentation = self.fragmentation.as_deref().unwrap_or(default);
        let options = MemoryOptions {
            memory: self.memory.as_deref(),
            memory_from: self.memory_from.as_deref(),
            fragmentation: Some(fragmentation),
            perforation: self.perforation.as_deref(),
            segment: self.segment.as_deref(),
            superpages: self.superpages.as_deref(),
            past: PastOptions {
                age: self.age.as_deref(),
                faulty: self.faulty.as_deref(),
                compaction: self.compaction.as_deref(),
                defrag: self.defrag.as_deref(),
                swap: self.swap.as_deref(),
                zones: self.zones.as_deref(),
                io_gap: self.io_gap.as_deref(),
                hot_add: self.hot_add.as_deref(),
            },
            background: BackgroundOptions {
                khugepaged: self.khugepaged.as_deref(),
                ksm: self.ksm.as_deref(),
                contents: self.contents.as_deref(),
            },
            modes: self.modes.as_deref(),
            host: self.host_memory(),
        };
        options.read()
    }

    /// What is said of the host's memory.
    fn host_memory(&self) -> HostMemoryOptions<'_> {
        HostMemoryOptions {
            memory: self.host_memory.as_deref(),
            memory_from: self.host_memory_from.as_deref(),
            fragmentation: self.host_fragmentation.as_deref(),
            age: self.host_age.as_deref(),
            faulty: self.host_faulty.as_deref(),
            swap: self.host_swap.as_deref(),
            khugepaged: self.host_khugepaged.as_deref(),
            perforation: self.host_perforation.as_deref(),
            segment: self.host_segment.as_deref(),
            superpages: self.host_superpages.as_deref(),
        }
    }

    /// The part of the workload asked for; the default trace where none is named.
    pub fn workload(&self, name: Option<&str>) -> Workload {
        Workload {
            name: bundled::resolve(name.unwrap_or(bundled::DEFAULT)),
            skip: self.skip,
            instructions: self.instructions,
        }
    }
}

impl SimulationOptions {
    /// The comparison asked for.
    pub fn comparison(
        &self,
        workload: Option<&str>,
        schemes: Vec<Composition>,
        seed: u64,
    ) -> Result<Comparison, SimError> {
        Ok(Comparison {
            workload: self.placement.workload(workload),
            machine: Machine::load(&self.placement.machine)?,
            schemes,
            memory: self.placement.memory()?,
            seed,
            functional: self.functional,
            check: self.check,
            warmup: match self.warmup {
                Some(WarmupChoice::Instructions(instructions)) => Some(instructions),
                Some(WarmupChoice::Detected) | None => None,
            },
        })
    }

    /// What is done besides for sound statistics.
    pub fn measuring(&self) -> MeasuringOptions {
        MeasuringOptions {
            window_warmup: self.window_warmup,
            detect_warmup: self.warmup == Some(WarmupChoice::Detected),
        }
    }
}
