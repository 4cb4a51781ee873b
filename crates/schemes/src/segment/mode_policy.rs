//! Choice of the virtualized mode of a guest when memory is fragmented, and the steps towards a
//! better mode (D Table III).
//!
//! A [`ModePolicy`] takes a step after a number of executed instructions. It creates the missing
//! segments. Memory for the guest's segment comes from free memory or from self-ballooning, at
//! once. Memory for the host's segment comes from free memory at once, or slowly from compaction in
//! the background. The mode is determined by the segments that the two kernels have at the moment,
//! so it falls back after a segment is lost. Every transition is logged.

use std::fmt;

use perforate_os::{Approach, Kernel, OsError};
use perforate_types::{Frame, SpaceId};

use super::{DirectSegments, SegmentError, SegmentRule};

/// Number of failed attempts to create a segment after which the pause stops growing. The longest
/// pause is 2⁶ times the first.
const MOST_DOUBLINGS: u32 = 6;

/// A virtualized mode, defined by the segments whose registers are set (D §III).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VirtualizedMode {
    /// No active segment: nested paging for all pages.
    BaseVirtualized,
    /// Only the host's segment is active.
    VmmDirect,
    /// Only the guest's segment is active.
    GuestDirect,
    /// The segments of guest and host are active.
    DualDirect,
}

impl VirtualizedMode {
    /// Mode in which the guest, the host, both or neither have an active segment.
    pub const fn of(guest_segment: bool, host_segment: bool) -> Self {
        match (guest_segment, host_segment) {
            (false, false) => Self::BaseVirtualized,
            (false, true) => Self::VmmDirect,
            (true, false) => Self::GuestDirect,
            (true, true) => Self::DualDirect,
        }
    }

    /// Number of active segments in this mode: 0, 1 or 2.
    const fn segments(self) -> u32 {
        match self {
            Self::BaseVirtualized => 0,
            Self::VmmDirect | Self::GuestDirect => 1,
            Self::DualDirect => 2,
        }
    }

    /// Name of the mode in results files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BaseVirtualized => "base-virtualized",
            Self::VmmDirect => "vmm-direct",
            Self::GuestDirect => "guest-direct",
            Self::DualDirect => "dual-direct",
        }
    }
}

impl fmt::Display for VirtualizedMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Kind of program that the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Application {
    /// A program with one large area of memory, for which a guest segment is worthwhile.
    BigMemory,
    /// A program with small or scattered memory areas, which gets no guest segment.
    Compute,
}

/// Fragmentation of physical memory, in guest and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Fragmented {
    /// True if the guest's memory is fragmented.
    pub guest: bool,
    /// True if the host's memory is fragmented.
    pub host: bool,
}

/// Plan for a guest's virtualized mode: a row of D Table III, or the plan without fragmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModePlan {
    /// Virtualized mode in which the guest starts.
    pub start: VirtualizedMode,
    /// Mode that the policy tries to reach by creating segments.
    pub goal: VirtualizedMode,
    /// True if self-ballooning provides memory for the guest segment: the guest gives scattered
    /// free frames to the hypervisor, and gets contiguous memory in exchange.
    pub self_balloons: bool,
    /// True if compaction in small steps provides memory for the host's segment.
    pub compacts_host: bool,
}

impl ModePlan {
    /// Selects the plan for an application and the fragmentation of guest and host memory.
    pub const fn new(application: Application, fragmented: Fragmented) -> Self {
        let wants_guest = matches!(application, Application::BigMemory);
        Self {
            start: VirtualizedMode::of(wants_guest, !fragmented.host),
            goal: VirtualizedMode::of(wants_guest, true),
            self_balloons: wants_guest && fragmented.guest,
            compacts_host: fragmented.host,
        }
    }

    fn wants_guest_segment(&self) -> bool {
        self.goal == VirtualizedMode::DualDirect
    }
}

/// A change of the virtualized mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeTransition {
    /// Number of instructions that the program had executed before the change.
    pub instruction: u64,
    /// Virtualized mode before the change.
    pub from: VirtualizedMode,
    /// Virtualized mode after the change.
    pub to: VirtualizedMode,
    /// Cause of the change, as a text for results.
    pub why: &'static str,
}

/// Guest or host of a virtualized system: its kernel, and the address space that gets a direct
/// segment.
pub struct Side<'a> {
    /// Kernel of the guest, or of the host if this is the host's side.
    pub kernel: &'a mut Kernel,
    /// Address space in that kernel: the guest's process, or the virtual machine in the host.
    pub space: SpaceId,
}

impl Side<'_> {
    fn has_segment(&self) -> bool {
        self.kernel.segment(self.space).is_some_and(|segment| segment.is_active)
    }

    /// Creates a segment in the address space or, if one exists, writes its registers again.
    /// Returns true if the segment is active.
    fn make_segment(&mut self, rule: SegmentRule) -> Result<bool, OsError> {
        if self.kernel.segment(self.space).is_some() {
            return self.kernel.enable_segment(self.space).map(|()| true);
        }
        match self.kernel.create_segment(self.space, Some(rule)) {
            Ok(_) => Ok(true),
            Err(OsError::NoContiguousMemory { .. } | OsError::OutOfMemory { .. }) => Ok(false),
            Err(OsError::Mechanism(error))
                if matches!(error.downcast_ref(), Some(SegmentError::NoArea { .. })) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Schedule of the attempts to create a segment. The pause between attempts doubles after each failure in a
/// row.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    next: u64,
    failures: u32,
}

impl Attempts {
    const fn from(instruction: u64) -> Self {
        Self { next: instruction, failures: 0 }
    }

    fn note(&mut self, succeeded: bool, instruction: u64, interval: u64) {
        self.failures = if succeeded { 0 } else { (self.failures + 1).min(MOST_DOUBLINGS) };
        let pause = interval.saturating_mul(1 << self.failures.saturating_sub(1));
        self.next = instruction.saturating_add(pause);
    }
}

/// Policy that moves a guest towards the virtualized mode of its plan.
#[derive(Clone, Debug)]
pub struct ModePolicy {
    plan: ModePlan,
    rule: SegmentRule,
    interval: u64,
    /// Number of frames that the host's compaction moves in each attempt.
    frames: u64,
    mode: VirtualizedMode,
    guest: Attempts,
    host: Attempts,
    /// True if memory was added by ballooning and the guest's segment still could not be created.
    /// No more memory is added in this case.
    ballooned_in_vain: bool,
    log: Vec<ModeTransition>,
}

impl ModePolicy {
    /// Creates the policy in Base Virtualized mode. `interval` is the number of instructions
    /// between two attempts to create a segment; the pause grows after failures. `frames` is the
    /// number of frames that host compaction moves in each attempt. A small number makes the
    /// conversion slow.
    pub const fn new(plan: ModePlan, rule: SegmentRule, interval: u64, frames: u64) -> Self {
        // Compaction is slow, so the first attempt for the host's segment comes after an interval.
        let host = Attempts::from(if plan.compacts_host { interval } else { 0 });
        let (mode, guest) = (VirtualizedMode::BaseVirtualized, Attempts::from(0));
        Self {
            plan,
            rule,
            interval,
            frames,
            mode,
            guest,
            host,
            ballooned_in_vain: false,
            log: Vec::new(),
        }
    }

    /// Plan that the policy follows: first mode, goal, and sources of memory for segments.
    pub const fn plan(&self) -> ModePlan {
        self.plan
    }

    /// Virtualized mode since the last attempts to create segments.
    pub const fn mode(&self) -> VirtualizedMode {
        self.mode
    }

    /// All changes of the virtualized mode so far, in order.
    pub fn log(&self) -> &[ModeTransition] {
        &self.log
    }

    /// Makes the attempts to create segments that are due. Returns the frames that the guest's
    /// balloon took, which the hypervisor may remove from the guest's memory.
    ///
    /// # Errors
    /// If an address space does not exist.
    pub fn step(
        &mut self,
        instruction: u64,
        guest: &mut Side<'_>,
        host: &mut Side<'_>,
    ) -> Result<Vec<Frame>, OsError> {
        let now = VirtualizedMode::of(guest.has_segment(), host.has_segment());
        let lost = now.segments() < self.mode.segments();
        let why = if lost { "a segment was lost" } else { "made at a first touch" };
        self.observe(instruction, guest, host, why);
        let mut given = Vec::new();
        let misses_guest = self.plan.wants_guest_segment() && !guest.has_segment();
        if misses_guest && instruction >= self.guest.next {
            let (made, why) = self.make_guest_segment(guest, &mut given)?;
            self.guest.note(made, instruction, self.interval);
            self.observe(instruction, guest, host, why);
        }
        if !host.has_segment() && instruction >= self.host.next {
            self.make_host_segment(instruction, host)?;
            let compacts = self.plan.compacts_host;
            let why = if compacts { "host compaction" } else { "free host memory" };
            self.observe(instruction, guest, host, why);
        }
        Ok(given)
    }

    /// Tries to create the host's segment from free memory, or from a run of memory that compaction
    /// empties over several attempts.
    fn make_host_segment(&mut self, instruction: u64, host: &mut Side<'_>) -> Result<(), OsError> {
        let rule = SegmentRule { compacts: false, ..self.rule };
        let mut outcome = host.make_segment(rule)?;
        let mut is_nearer = false;
        if !outcome
            && self.plan.compacts_host
            && let Some(run) = host.kernel.segment_frames_wanted(host.space, &rule)
        {
            match host.kernel.approach_run(run, self.frames) {
                Approach::Free => outcome = host.make_segment(rule)?,
                Approach::Nearer => is_nearer = true,
                Approach::Impossible => {}
            }
        }
        self.host.note(outcome || is_nearer, instruction, self.interval);
        Ok(())
    }

    /// Tries to create the guest's segment without copying data, from free memory or from memory
    /// added by self-ballooning. Returns true if a segment was created, and the source of the
    /// memory.
    fn make_guest_segment(
        &mut self,
        guest: &mut Side<'_>,
        given: &mut Vec<Frame>,
    ) -> Result<(bool, &'static str), OsError> {
        let rule = SegmentRule { compacts: false, ..self.rule };
        if guest.make_segment(rule)? {
            return Ok((true, "free guest memory"));
        }
        let why = "self-ballooning";
        let wanted = guest.kernel.segment_frames_wanted(guest.space, &rule);
        let may_balloon = self.plan.self_balloons && !self.ballooned_in_vain;
        let Some(frames) = wanted.filter(|_| may_balloon) else {
            return Ok((false, why));
        };
        match guest.kernel.self_balloon(frames) {
            Ok(frames) => given.extend(frames),
            Err(OsError::NoRoomToAdd { .. } | OsError::OutOfMemory { .. }) => {
                return Ok((false, why));
            }
            Err(error) => return Err(error),
        }
        let is_made = guest.make_segment(rule)?;
        self.ballooned_in_vain = !is_made;
        Ok((is_made, why))
    }

    fn observe(&mut self, instruction: u64, guest: &Side<'_>, host: &Side<'_>, why: &'static str) {
        let to = VirtualizedMode::of(guest.has_segment(), host.has_segment());
        if to != self.mode {
            self.log.push(ModeTransition { instruction, from: self.mode, to, why });
            self.mode = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use VirtualizedMode::{BaseVirtualized, DualDirect, GuestDirect, VmmDirect};

    #[test]
    fn every_row_of_the_table() {
        let (host, guest) = (true, true);
        let rows = [
            // Columns: application, fragmentation (guest, host), start, goal, self-ballooning,
            // compaction.
            (Application::BigMemory, (!guest, !host), DualDirect, DualDirect, false, false),
            (Application::BigMemory, (!guest, host), GuestDirect, DualDirect, false, true),
            (Application::BigMemory, (guest, !host), DualDirect, DualDirect, true, false),
            (Application::BigMemory, (guest, host), GuestDirect, DualDirect, true, true),
            (Application::Compute, (!guest, !host), VmmDirect, VmmDirect, false, false),
            (Application::Compute, (!guest, host), BaseVirtualized, VmmDirect, false, true),
            (Application::Compute, (guest, !host), VmmDirect, VmmDirect, false, false),
            (Application::Compute, (guest, host), BaseVirtualized, VmmDirect, false, true),
        ];
        for (application, (guest, host), start, goal, self_balloons, compacts_host) in rows {
            let plan = ModePlan { start, goal, self_balloons, compacts_host };
            assert_eq!(ModePlan::new(application, Fragmented { guest, host }), plan);
        }
    }

    #[test]
    fn attempts_become_rare() {
        let mut attempts = Attempts::from(0);
        let mut times = Vec::new();
        for _ in 0..9 {
            times.push(attempts.next);
            attempts.note(false, attempts.next, 10);
        }
        assert_eq!(times, [0, 10, 30, 70, 150, 310, 630, 950, 1270]);
        attempts.note(true, 2000, 10);
        assert_eq!(attempts.next, 2010);
        attempts.note(false, 2000, u64::MAX);
        assert_eq!(attempts.next, u64::MAX, "never again");
    }

    /// Neither kernel has an area. An attempt that fails for this reason is no error.
    #[test]
    fn without_an_area_the_mode_stays() {
        use perforate_os::{BasePages, KernelConfig};
        let mut kernels = [(); 2]
            .map(|()| Kernel::new(KernelConfig::new(32 << 20), Box::new(BasePages)).unwrap());
        let plan = ModePlan::new(Application::BigMemory, Fragmented::default());
        let mut policy = ModePolicy::new(plan, SegmentRule::default(), 1000, 10);
        for instruction in [0, 999, 1000, 5000] {
            let [guest, host] = kernels.each_mut().map(|kernel| {
                let space = kernel.current();
                Side { kernel, space }
            });
            let (mut guest, mut host) = (guest, host);
            assert_eq!(policy.step(instruction, &mut guest, &mut host), Ok(Vec::new()));
            assert_eq!((policy.mode(), policy.log()), (BaseVirtualized, &[][..]));
        }
        assert_eq!((policy.guest.failures, policy.guest.next), (3, 9000));
        assert_eq!((policy.host.failures, policy.host.next), (3, 9000));
    }

    #[test]
    fn modes_have_their_names_and_segments() {
        for (mode, name, segments) in [
            (BaseVirtualized, "base-virtualized", 0),
            (VmmDirect, "vmm-direct", 1),
            (GuestDirect, "guest-direct", 1),
            (DualDirect, "dual-direct", 2),
        ] {
            assert_eq!((mode.to_string().as_str(), mode.name()), (name, name));
            assert_eq!(mode.segments(), segments);
        }
    }
}
