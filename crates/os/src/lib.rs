//! Physical memory, address spaces and the policies that map them: one simulated operating
//! system.
//!
//! A [`Kernel`] hears what a program asks for ([`perforate_types::ProgramEvent`]) and which of
//! its pages fault. It decides frames, also those of page-table nodes, and says what changed as
//! [`perforate_types::Update`]s. It never sees a TLB and never writes a table entry. Which page
//! size backs a first touch is the choice of a [`Policy`], one object per kernel.
//!
//! Layers, lowest first: `memory` (buddy allocator, reference counts), `space` (one address
//! space: areas, mappings, table nodes), `kernel` (events and faults), `policy`.

mod ageing;
mod content;
mod error;
mod fault_map;
mod fragmentation;
mod free_memory;
mod hypervisor;
mod kernel;
pub mod mechanism;
mod memory;
mod memory_map;
mod occupancy;
mod policy;
mod random;
mod shadow;
mod space;

pub use ageing::{Ageing, AgeingOutcome, AgeingPreset};
pub use content::{ContentDistribution, ZERO_PAGE};
pub use error::{MechanismError, OsError};
pub use fault_map::FaultMap;
pub use fragmentation::{Distribution, Fragmentation};
pub use free_memory::FreeMemory;
pub use hypervisor::Hypervisor;
pub use kernel::{
    Approach, CompactionCounts, Defrag, FaultOutcome, HardFault, HoleContent, Kernel, KernelConfig,
    KhugepagedConfig, KhugepagedPass, KsmConfig, KsmPass, SelfBalloonConfig, SharedPlace, Span,
    TableFormat, Work, counters, layout_counters,
};
pub use memory::{
    Buddy, IoGap, IoGapPreset, MigrateType, OtherUse, Pressure, Zone, ZoneLayout, Zones,
};
pub use memory_map::{BlockClass, BlockFrames, BlockRun, CellRun, FrameClass, MapCells, MemoryMap};
pub use occupancy::{
    FrameState, HostSnapshot, Occupancy, OccupancyBuilder, SnapshotAbout, ZoneRange,
};
pub use policy::{
    BasePages, BlockUse, HoleAllocation, HoleRule, Huge1G, HugePageRule, LaidOut, OrderPurpose,
    OrderRequest, Orders, PageLayout, Policy, Promotion, PromotionChoices, PromotionPrice,
    PromotionRule, SmallPages, Thp, Victim, described,
};
pub use random::Random;
pub use shadow::{ShadowLeaf, ShadowTables};
