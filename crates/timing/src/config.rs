//! The timing part of a machine file, section by section.

use serde::{Deserialize, Serialize};

/// Machine parameters that the timing model needs.
///
/// Deserialises from the sections `[core]`, `[branch_predictor]`, `[cache.l1i]`, `[cache.l1d]`, `[cache.l2]`,
/// `[cache.llc]` (optional), `[dram]` and `[walker]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimingConfig {
    /// Out-of-order core: widths, queue sizes, latencies.
    pub core: CoreConfig,
    /// Branch predictor: table sizes and misprediction penalty.
    pub branch_predictor: BranchPredictorConfig,
    /// Caches: sizes, latencies, MSHRs, prefetchers.
    pub cache: CachesConfig,
    /// Main memory: geometry and timing.
    pub dram: DramConfig,
    /// Page walkers and translation latencies.
    pub walker: WalkerConfig,
}

/// Parameters of the out-of-order core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreConfig {
    /// Clock frequency, in GHz; turns the nanoseconds of `[dram]` into cycles.
    pub frequency_ghz: f64,
    /// Instructions fetched and dispatched per cycle.
    pub width: u32,
    /// Instructions retired per cycle.
    pub retire_width: u32,
    /// Reorder-buffer entries; an instruction holds one from dispatch to retirement.
    pub reorder_buffer_entries: u32,
    /// Load-queue entries; a load holds one from dispatch to retirement.
    pub load_queue_entries: u32,
    /// Scheduler entries; an instruction holds one from dispatch until all its operands are ready. Unlimited
    /// if the key is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_entries: Option<u32>,
    /// Store-queue entries; a store holds one from dispatch until its data are in the L1D.
    pub store_queue_entries: u32,
    /// Fetch-queue entries: instructions that the front end may run ahead of dispatch, which hides short L1I
    /// misses.
    pub fetch_queue_entries: u32,
    /// Latency of integer operations, in cycles.
    pub integer_cycles: u32,
    /// Latency of integer multiplications, in cycles.
    pub multiply_cycles: u32,
    /// Latency of divisions and square roots, in cycles.
    pub divide_cycles: u32,
    /// Latency of floating-point and vector arithmetic, in cycles.
    pub float_cycles: u32,
}

/// Branch predictor: a bimodal and a gshare table with a chooser for conditional branches, a last-target
/// table for indirect ones, a return-address stack. Direct targets are always predicted correctly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchPredictorConfig {
    /// Two-bit counters in each of the three tables; a power of two.
    pub table_entries: u32,
    /// Length of the global history: number of conditional-branch outcomes.
    pub history_bits: u32,
    /// Entries of the last-target table; a power of two.
    pub indirect_entries: u32,
    /// Entries of the return-address stack.
    pub return_stack_entries: u32,
    /// Cycles from the resolution of a mispredicted branch to the dispatch of the right path.
    pub mispredict_penalty_cycles: u32,
    /// Every branch is predicted correctly. This is an upper bound for predictors, and for what
    /// [`Self::follows_wrong_path`] can gain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub perfect: bool,
    /// Loads on wrong paths are simulated: while a mispredicted branch waits for a load, the accesses of the following
    /// instructions of the trace are issued if their addresses are known. A trace contains the right path only, so
    /// this assumes that the wrong path soon joins it (Eyerman et al., ISPASS 2023: "convergence exploitation").
    /// Without it, nothing is fetched until the branch is resolved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follows_wrong_path: bool,
}

/// Parameters of the caches. All have 64-byte lines, are physically indexed, write-back and write-allocate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachesConfig {
    /// First-level instruction cache.
    pub l1i: CacheConfig,
    /// First-level data cache.
    pub l1d: CacheConfig,
    /// Second-level cache, unified.
    pub l2: CacheConfig,
    /// Last-level cache, shared by all cores; none if the section is missing, so that the second level is the
    /// last. Its MSHRs are those of one core's slice: each core adds as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc: Option<CacheConfig>,
    /// Cache that only the page walkers use, before the cache that `walker.attach` names; none if the section
    /// is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walker: Option<CacheConfig>,
}

/// Parameters of one cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Capacity, in bytes.
    pub size_bytes: u64,
    /// Associativity; replacement is least recently used.
    pub ways: u32,
    /// Cycles of a look-up: an L2 hit takes
    /// `l1d.latency_cycles + l2.latency_cycles + l1d.response_cycles`.
    pub latency_cycles: u32,
    /// Cycles from the arrival of a missing line to its use, on top of what the levels below take.
    #[serde(default)]
    pub response_cycles: u32,
    /// Miss status holding registers: lines that may be in flight into this cache at once.
    pub mshrs: u32,
    /// Request that is given the next free MSHR.
    #[serde(default, skip_serializing_if = "MshrOrder::is_default")]
    pub mshr_order: MshrOrder,
    /// Hardware prefetcher into this cache.
    #[serde(default)]
    pub prefetcher: Prefetcher,
}

/// Order in which requests that wait for an MSHR are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MshrOrder {
    /// In order of arrival, as in the queues of gem5 (`InstructionQueue::blockedMemInsts`) and ChampSim.
    #[default]
    Arrival,
    /// In program order: the oldest that waits is first, as if all that wait tried again whenever an MSHR becomes free.
    OldestFirst,
}

impl MshrOrder {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Hardware prefetcher. No prefetcher crosses a 4KB page, as all see physical addresses only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefetcher {
    /// No prefetching.
    #[default]
    None,
    /// Prefetches the next line, on a miss and on the first hit of a prefetched line.
    NextLine,
    /// Prefetches four lines ahead along a stride seen twice in a row inside a page.
    Stride,
    /// As [`Stride`](Self::Stride), and the other line of the aligned 128 bytes, on a miss and on the first hit of a
    /// prefetched line.
    StrideAndPair,
}

/// Main memory: channels of open-row banks behind one controller.
///
/// From the low end a line number holds channel, column, bank (ranks included), row; the row is
/// added to the bank number so that power-of-two strides spread over the banks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramConfig {
    /// Independent channels, interleaved by line.
    pub channels: u32,
    /// Ranks on each channel.
    pub ranks_per_channel: u32,
    /// Banks in each rank.
    pub banks_per_rank: u32,
    /// Bytes a row buffer holds, over all devices of the rank.
    pub row_bytes: u32,
    /// Round trip through controller and interconnect, in nanoseconds.
    pub controller_ns: f64,
    /// Precharge: closing a row (tRP), in nanoseconds.
    pub precharge_ns: f64,
    /// Activation: opening a row (tRCD), in nanoseconds.
    pub activate_ns: f64,
    /// Column access to first data (tCL), in nanoseconds.
    pub column_ns: f64,
    /// Shortest time from activation to precharge (tRAS), in nanoseconds.
    pub row_open_ns: f64,
    /// Data-bus time of one 64-byte line (tBURST), in nanoseconds.
    pub burst_ns: f64,
}

/// Parameters of page walkers, TLB and walk-cache latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkerConfig {
    /// Number of page walkers: walks that can be under way at once.
    pub walkers: u32,
    /// Unit that reads the bitmaps of perforated pages.
    #[serde(default)]
    pub bitmap_reader: BitmapReader,
    /// Cache that the page walkers read through.
    pub attach: WalkerAttachment,
    /// One look-up of the second-level TLB, in cycles.
    pub l2_tlb_cycles: u32,
    /// One look-up of the page-walk caches, in cycles.
    pub walk_cache_cycles: u32,
    /// A look-up of the page-walk caches that misses, in cycles; `walk_cache_cycles` if the key is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk_cache_miss_cycles: Option<u32>,
    /// Walker logic per entry read, besides the time of the read itself, in cycles.
    #[serde(default)]
    pub read_overhead_cycles: u32,
    /// One look-up of a nested TLB that is a separate structure, in cycles.
    #[serde(default = "one_cycle")]
    pub nested_tlb_cycles: u32,
    /// One check of a direct segment's BASE and LIMIT and its escape filter, in cycles; one in D §VII.
    #[serde(default = "one_cycle")]
    pub segment_check_cycles: u32,
    /// Finding a B-block (64th of a slice) in the selection bitmap of a gap-tolerant entry, read or cached,
    /// in cycles; three in G §3.7.
    #[serde(default = "three_cycles")]
    pub selection_cycles: u32,
}

fn three_cycles() -> u32 {
    3
}

fn one_cycle() -> u32 {
    1
}

/// Unit that reads the bitmap of a perforated page on a miss in the second-level TLB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BitmapReader {
    /// A page walker, which is occupied meanwhile.
    #[default]
    Walker,
    /// The controller of the second-level TLB, which occupies no page walker (P §IV.E).
    L2Tlb,
}

/// The cache that page walkers read through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WalkerAttachment {
    /// First-level data cache.
    L1d,
    /// Second-level cache.
    L2,
    /// Last-level cache.
    Llc,
}
