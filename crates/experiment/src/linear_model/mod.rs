//! Linear models of page-walk cycles (D §VII, Table IV). They predict the cost of direct segments
//! from the misses and walk cycles of a native and a virtualized run.
//!
//! The runs are measured on hardware (`perf stat -x,` output, [`read_perf`]) or simulated (results
//! files, [`read_results`]). The paper uses the same models for its results, so they also check the
//! simulated designs. A model ignores every effect that is not linear in the number of misses.
//!
//! Table IV leaves some points open. The models interpret them as follows:
//! - It multiplies every design by M_n, the misses of the *native* run, though nested entries that share the
//!   TLB cause more (D §IX.A: 1.29–1.62×). So a design without misses in segments has C_v × M_n walk cycles,
//!   which is less than was measured in the virtualized run.
//! - F_VD and F_GD in the rows of VMM Direct and Guest Direct are misses in one segment, inside or outside
//!   the other. In the row of Dual Direct they are misses in that segment *only*.
//! - Dual Direct has no term for misses in both segments: they cost nothing.

mod error;
mod measured;
mod perf;
mod prediction;
mod results;
mod shares;

pub use error::ModelError;
pub use measured::{Measured, Runs};
pub use perf::{ACCEPTED_EVENTS, PerfFiles, read_perf};
pub use prediction::{Prediction, Row, predict};
pub use results::{ResultSchemes, SimulatedRuns, read_results};
pub use shares::Shares;

/// Cycles of the base-bound checks in a VMM Direct walk. There are five checks of one cycle each: one for
/// each level of the guest's page table, and one for the page (D §VII).
pub const VMM_DIRECT_CHECK_CYCLES: f64 = 5.0;
/// Cycles of the single base-bound check in a Guest Direct walk (D §VII).
pub const GUEST_DIRECT_CHECK_CYCLES: f64 = 1.0;

/// Inputs of the models: costs and number of TLB misses in the measured runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissCosts {
    /// Walk cycles per miss in the native run (C_n).
    pub native_cycles: f64,
    /// Walk cycles per miss in the virtualized run (C_v).
    pub virtualized_cycles: f64,
    /// Number of misses in the native run (M_n).
    pub native_misses: f64,
}

/// A design with direct segments of D Table IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// A direct segment in a native run, without virtualization.
    DirectSegment,
    /// Direct segments in both guest and host.
    DualDirect,
    /// A direct segment in the host only, between guest-physical and host-physical addresses.
    VmmDirect,
    /// A direct segment in the guest only, between guest-virtual and guest-physical addresses.
    GuestDirect,
}

impl Design {
    /// All designs, in the order of D Table IV.
    pub const ALL: [Self; 4] =
        [Self::DirectSegment, Self::DualDirect, Self::VmmDirect, Self::GuestDirect];

    /// Returns the name of the design with its label in D Fig. 11.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DirectSegment => "Direct Segment (DS)",
            Self::DualDirect => "Dual Direct (DD)",
            Self::VmmDirect => "VMM Direct (4K+VD)",
            Self::GuestDirect => "Guest Direct (4K+GD)",
        }
    }

    /// Returns the predicted number of cycles in page walks (D Table IV).
    pub fn walk_cycles(self, costs: &MissCosts, shares: &Shares) -> f64 {
        let MissCosts { native_cycles, virtualized_cycles, native_misses } = *costs;
        let through_host_segment = native_cycles + VMM_DIRECT_CHECK_CYCLES;
        let through_guest_segment = native_cycles + GUEST_DIRECT_CHECK_CYCLES;
        let cycles_per_miss = match self {
            Self::DirectSegment => native_cycles * (1.0 - shares.segment()),
            Self::DualDirect => {
                through_host_segment * shares.vmm_only()
                    + through_guest_segment * shares.guest_only()
                    + virtualized_cycles * shares.neither()
            }
            Self::VmmDirect => {
                through_host_segment * shares.vmm() + virtualized_cycles * (1.0 - shares.vmm())
            }
            Self::GuestDirect => {
                through_guest_segment * shares.guest() + virtualized_cycles * (1.0 - shares.guest())
            }
        };
        cycles_per_miss * native_misses
    }
}

/// Returns the address-translation overhead of an execution (D §VIII): (T_E − T_2Mideal) / T_2Mideal, where
/// T_E is `cycles`.
pub fn overhead(cycles: f64, ideal_cycles: f64) -> f64 {
    (cycles - ideal_cycles) / ideal_cycles
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: MissCosts =
        MissCosts { native_cycles: 40.0, virtualized_cycles: 100.0, native_misses: 1000.0 };

    fn shares(segment: f64, vmm: f64, guest: f64, both: f64) -> Shares {
        Shares::new(segment, Some(vmm), Some(guest), Some(both)).unwrap()
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn worked_by_hand() {
        let shares = shares(0.9, 0.8, 0.9, 0.75);
        // 40 × 0.1
        close(Design::DirectSegment.walk_cycles(&COSTS, &shares), 4_000.0);
        // 45 × 0.8 + 100 × 0.2
        close(Design::VmmDirect.walk_cycles(&COSTS, &shares), 56_000.0);
        // 41 × 0.9 + 100 × 0.1
        close(Design::GuestDirect.walk_cycles(&COSTS, &shares), 46_900.0);
        // Only VMM 0.05, only guest 0.15, neither 0.05: 45 × 0.05 + 41 × 0.15 + 100 × 0.05
        close(Design::DualDirect.walk_cycles(&COSTS, &shares), 13_400.0);
    }

    /// Without segments, the native prediction equals the native run. Virtualized predictions have a 2D walk
    /// for each native miss.
    #[test]
    fn no_share_gives_the_base() {
        let none = shares(0.0, 0.0, 0.0, 0.0);
        close(Design::DirectSegment.walk_cycles(&COSTS, &none), 40_000.0);
        for design in [Design::DualDirect, Design::VmmDirect, Design::GuestDirect] {
            close(design.walk_cycles(&COSTS, &none), 100_000.0);
        }
    }

    #[test]
    fn all_in_the_segments_gives_the_best() {
        let all = shares(1.0, 1.0, 1.0, 1.0);
        close(Design::DirectSegment.walk_cycles(&COSTS, &all), 0.0);
        close(Design::DualDirect.walk_cycles(&COSTS, &all), 0.0);
        close(Design::VmmDirect.walk_cycles(&COSTS, &all), 45_000.0);
        close(Design::GuestDirect.walk_cycles(&COSTS, &all), 41_000.0);
    }

    /// If one segment is empty, Dual Direct equals the design with only the other segment.
    #[test]
    fn dual_direct_contains_the_single_ones() {
        let host = shares(0.0, 0.7, 0.0, 0.0);
        let vmm_direct = Design::VmmDirect.walk_cycles(&COSTS, &host);
        close(Design::DualDirect.walk_cycles(&COSTS, &host), vmm_direct);
        let guest = shares(0.6, 0.0, 0.6, 0.0);
        let guest_direct = Design::GuestDirect.walk_cycles(&COSTS, &guest);
        close(Design::DualDirect.walk_cycles(&COSTS, &guest), guest_direct);
    }

    /// D §VIII: with an overhead of 28 %, graph500 takes 1.28 times as long as without walks.
    #[test]
    fn overhead_is_relative_to_the_ideal() {
        close(overhead(128.0, 100.0), 0.28);
        close(overhead(100.0, 100.0), 0.0);
    }
}
