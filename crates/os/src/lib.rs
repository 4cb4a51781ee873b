//! Physical memory, address spaces and the policies that map them: one simulated operating
//! system.
//!
//! A [`Kernel`] receives the requests of a program ([`perforate_types::ProgramEvent`]) and its page
//! faults. It allocates frames, including those of page-table nodes, and reports every change as an
//! [`perforate_types::Update`]. It never sees a TLB and never writes a page-table entry itself.
//! Each kernel has one [`Policy`], which chooses the page size at a first touch.
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
    Approach, CompactionCounts, Daemon, Defrag, EarlyCompaction, FaultOutcome, HardFault,
    HardFaultConfig, HoleContent, Kernel, KernelConfig, KhugepagedConfig, KhugepagedPass,
    KsmConfig, KsmPass, SelfBalloonConfig, Setting, SharedPlace, Span, TableFormat, Work, counters,
    in_words, layout_counters,
};
pub use memory::{Buddy, IoGap, MigrateType, OtherUse, Pressure, Zone, ZoneLayout, Zones};
pub use memory_map::{BlockClass, BlockFrames, BlockRun, FrameClass, MemoryMap};
pub use occupancy::{
    FrameState, HostSnapshot, Occupancy, OccupancyBuilder, SnapshotAbout, ZoneRange,
};
pub use policy::{
    BasePages, BlockUse, FolioSizes, FolioUse, HoleAllocation, HoleRule, Huge1G, HugePageRule,
    LaidOut, Mthp, OrderPurpose, OrderRequest, Orders, PageLayout, Policy, Promotion,
    PromotionChoices, PromotionPrice, PromotionRule, SmallPages, Thp, Victim, described,
};
pub use shadow::{ShadowLeaf, ShadowTables};
