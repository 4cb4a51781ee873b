//! Hardware events, and their encodings on different processors.

use perf_event::Builder;
use perf_event::events::{Cache, CacheOp, CacheResult, Hardware, WhichCache};

use crate::machine::Processor;

/// Type of an event that is given by the processor's own encoding, not by one of Linux's names
/// (Linux: include/uapi/linux/perf_event.h).
const PERF_TYPE_RAW: u32 = 4;

/// Hardware event that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Cycles of the processor core.
    Cycles,
    /// Instructions that the core retired.
    Instructions,
    /// Loads that missed all data TLBs: Linux's `dTLB-load-misses`, which is
    /// DTLB_LOAD_MISSES.MISS_CAUSES_A_WALK or WALK_COMPLETED on Intel's processors and 0xf045, misses
    /// of the L2 data TLB, on AMD's since family 17H (arch/x86/events/{intel,amd}/core.c).
    TlbMisses,
    /// Cycles of page walks for loads, counted once per busy walker.
    WalkCycles,
}

impl Event {
    /// All events, in the order in which they are opened.
    pub const ALL: [Self; 4] =
        [Self::Cycles, Self::Instructions, Self::TlbMisses, Self::WalkCycles];

    /// Builds a counter of this event; `None` if no such event is known for this processor.
    pub(super) fn builder(self, processor: &Processor) -> Option<Builder<'static>> {
        let mut builder = Builder::new();
        Some(match self {
            Self::Cycles => builder.kind(Hardware::CPU_CYCLES),
            Self::Instructions => builder.kind(Hardware::INSTRUCTIONS),
            Self::TlbMisses => builder.kind(Cache {
                which: WhichCache::DTLB,
                operation: CacheOp::READ,
                result: CacheResult::MISS,
            }),
            Self::WalkCycles => {
                let attributes = builder.attrs_mut();
                attributes.type_ = PERF_TYPE_RAW;
                attributes.config = walk_cycles(processor)?;
                builder
            }
        })
    }
}

/// Event number and unit mask of the cycles of page walks, by model of Intel's family 6. Source: Linux,
/// tools/perf/pmu-events/arch/x86/*/virtual-memory.json (WALK_DURATION before Skylake, WALK_PENDING
/// since). Counts 1 for each busy walker and cycle.
const WALK_CYCLES: &[(&[u32], u64, u64)] = &[
    // Sandy Bridge: sandybridge, jaketown.
    (&[0x2a, 0x2d], 0x08, 0x04),
    // Ivy Bridge: ivybridge, ivytown.
    (&[0x3a, 0x3e], 0x08, 0x84),
    // Haswell and Broadwell.
    (&[0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56], 0x08, 0x10),
    // Skylake, Cascade Lake and their successors. The event excludes walks of the host's tables.
    (&[0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6], 0x08, 0x10),
    // Ice Lake, Tiger Lake, Rocket Lake.
    (&[0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7], 0x08, 0x10),
    // Sapphire Rapids, Emerald Rapids, which have other event numbers.
    (&[0x8f, 0xcf], 0x12, 0x10),
];

/// Encoding of the event for cycles of page walks; `None` if unknown. AMD documents no such event
/// (PPR for family 19H, "Load/store events"). Hybrid processors are left out, because event numbers
/// differ between their cores.
fn walk_cycles(processor: &Processor) -> Option<u64> {
    let Processor { vendor, family, model, .. } = processor;
    if vendor != "GenuineIntel" || *family != 6 {
        return None;
    }
    let known = WALK_CYCLES.iter().find(|(models, ..)| models.contains(model));
    known.map(|(_, event, mask)| event | mask << 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_cycles_by_processor() {
        let event = |vendor: &str, family, model| {
            let vendor = vendor.to_owned();
            walk_cycles(&Processor { vendor, family, model, ..Processor::default() })
        };
        assert_eq!(event("GenuineIntel", 6, 0x2d), Some(0x0408), "Sandy Bridge");
        assert_eq!(event("GenuineIntel", 6, 106), Some(0x1008), "Ice Lake");
        assert_eq!(event("GenuineIntel", 6, 143), Some(0x1012), "Sapphire Rapids");
        assert_eq!(event("GenuineIntel", 6, 0x97), None, "two kinds of cores");
        assert_eq!(event("AuthenticAMD", 25, 17), None);
        assert_eq!(event("", 0, 0), None);
        let mut models: Vec<u32> =
            WALK_CYCLES.iter().flat_map(|(models, ..)| *models).copied().collect();
        let count = models.len();
        models.sort_unstable();
        models.dedup();
        assert_eq!(models.len(), count, "each model once");
    }
}
