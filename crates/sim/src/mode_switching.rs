//! Direct segments that are created while the program runs (D §IV, Table III).

use perforate_config::Count;
use perforate_schemes::segment::{
    self, Application, Fragmented, ModePlan, ModePolicy, SegmentRule,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Composition, MemoryState, SimError, System};

/// Default interval between two attempts to create a segment, in instructions.
const EVERY: u64 = 1_000_000;

/// Default number of frames that compaction of the host moves per attempt: 64MB. D publishes no
/// rate.
const FRAMES: u64 = 16_384;

/// Policy for creating direct segments while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "ModeOptions")]
pub struct ModeSwitching {
    /// True if the guest runs a big-memory program, for which a guest's segment pays.
    pub big_memory: bool,
    /// Number of instructions between two attempts to create a segment; more after failures.
    pub every: Count<1>,
    /// Frames that compaction of the host moves in each attempt.
    pub frames: Count<1>,
}

/// Options of [`ModeSwitching`]: `big-memory`, `compute,every=5M`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModeOptions {
    /// Kind of the guest's program.
    #[serde(alias = "big-memory", alias = "compute")]
    application: ApplicationKind,
    /// Instructions between two attempts at a segment.
    every: Option<Count<1>>,
    /// Frames that compaction of the host moves in each attempt.
    frames: Option<Count<1>>,
}

#[derive(PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ApplicationKind {
    BigMemory,
    Compute,
}

impl From<ModeOptions> for ModeSwitching {
    fn from(ModeOptions { application, every, frames }: ModeOptions) -> Self {
        let big_memory = application == ApplicationKind::BigMemory;
        let every = every.unwrap_or(Count::new(EVERY));
        Self { big_memory, every, frames: frames.unwrap_or(Count::new(FRAMES)) }
    }
}

impl ModeSwitching {
    /// True if the schemes of guest and host have the direct segments that this policy creates: in
    /// guest and host for a big-memory program, only in the host for other programs.
    pub(crate) fn suits(&self, composition: &Composition) -> bool {
        let host = composition.host.is_some_and(segment::is_used_by);
        host && (!self.big_memory || segment::is_used_by(composition.own))
    }
}

/// State of the policy that creates direct segments for one running virtual machine (D Table III).
pub(crate) struct ModeSwitcher {
    policy: ModePolicy,
    every: u64,
    next: u64,
}

impl ModeSwitcher {
    /// Creates the state of the policy for a run of these schemes; `None` if the policy was not
    /// requested, or if the schemes lack the direct segments that it creates.
    pub(crate) fn new(composition: &Composition, memory: &MemoryState) -> Option<Self> {
        let switching = memory.modes.filter(|switching| switching.suits(composition))?;
        let application =
            if switching.big_memory { Application::BigMemory } else { Application::Compute };
        let is_fragmented = |memory: &MemoryState| {
            memory.kernel.fragmentation.is_some() || memory.kernel.age.is_some()
        };
        let fragmented =
            Fragmented { guest: is_fragmented(memory), host: is_fragmented(&memory.host()) };
        let plan = ModePlan::new(application, fragmented);
        let (every, frames) = (switching.every.get(), switching.frames.get());
        let policy = ModePolicy::new(plan, SegmentRule::default(), every, frames);
        Some(Self { policy, every: switching.every.get(), next: 0 })
    }

    /// Returns the number of the instruction before which the next attempt to create a segment is
    /// due.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Attempts to create a segment, if an attempt is due.
    ///
    /// # Errors
    /// An update that the oracle refuses.
    pub(crate) fn ring(&mut self, now: u64, system: &mut System) -> Result<(), SimError> {
        if now < self.next {
            return Ok(());
        }
        self.next = now.saturating_add(self.every);
        system.step_modes(&mut self.policy, now)
    }

    /// Returns the mode transitions so far, one line each.
    pub(crate) fn log(&self) -> Vec<String> {
        let lines = self.policy.log().iter().map(|transition| {
            let (from, to) = (transition.from, transition.to);
            format!(
                "{from} → {to} before instruction {}: {}",
                transition.instruction, transition.why
            )
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_suit_pairs_with_segments() {
        let big = perforate_config::read("big-memory").unwrap();
        let compute = perforate_config::read("compute,every=5000").unwrap();
        let suits = |switching: ModeSwitching, name: &str| {
            switching.suits(&Composition::find(name).unwrap())
        };
        assert!(suits(big, "segment+segment") && !suits(big, "4k+segment"));
        assert!(suits(compute, "4k+segment") && !suits(compute, "segment+4k"));
        assert!(!suits(compute, "segment"));
    }

    /// A big-memory program has a segment at once if there is room; attempts come in their periods.
    #[test]
    fn attempts_come_in_their_periods() {
        use crate::{Machine, SystemOptions};
        use perforate_schemes::segment::DirectSegments;
        use perforate_types::{AccessKind, Backing, Permissions, ProgramEvent, VirtualAddress};
        let composition = Composition::find("segment+segment").unwrap();
        let mut memory = MemoryState::of(512 << 20);
        assert!(ModeSwitcher::new(&composition, &memory).is_none(), "it is not asked for");
        memory.modes = Some(perforate_config::read("big-memory,every=500").unwrap());
        let native = Composition::find("segment").unwrap();
        assert!(ModeSwitcher::new(&native, &memory).is_none(), "no host has a segment");
        let mut switcher = ModeSwitcher::new(&composition, &memory).unwrap();
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let options = SystemOptions { check: true, implicit_maps: false, counts_only: true };
        let mut system = System::new(&machine, composition, &memory, 1, options).unwrap();
        let start = VirtualAddress::new(0x4000_0000);
        let map = ProgramEvent::Map {
            start,
            length: 128 << 20,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        };
        system.event(&map).unwrap();
        system.translate(AccessKind::Write, start).unwrap().unwrap();
        // Both segments end; the policy makes them anew.
        let space = system.kernel().current();
        system.change(|kernel| kernel.dissolve_segment(space)).unwrap();
        let of_host = system.hypervisor().unwrap().space();
        system.change_host(|host| host.kernel_mut().dissolve_segment(of_host)).unwrap();
        system.start_measuring();
        for (now, next) in [(0, 500), (499, 500), (500, 1_000), (1_200, 1_700), (1_699, 1_700)] {
            switcher.ring(now, &mut system).unwrap();
            assert_eq!(switcher.next(), next, "at {now}");
        }
        // Drivers and daemons do all of it on other processors.
        let work = system.measured_work();
        let host = work.host.unwrap();
        assert_eq!(work.work.segments_switched, 1, "{:?}", switcher.log());
        assert_eq!(work.background, work.work.apart_from_shootdowns());
        assert_eq!(host.work.segments_switched, 1);
        assert_eq!(host.background, host.work.apart_from_shootdowns());
        for line in switcher.log() {
            assert!(line.contains(" → ") && line.contains(" before instruction "), "{line}");
        }
    }
}
