//! Direct segments that come while the program runs (D §IV, Table III).

use std::str::FromStr;

use perforate_os::{Application, Fragmented, ModePlan, ModePolicy, SegmentRule};
use serde::Serialize;

use crate::{Composition, MemoryState, SimError, System};

/// Instructions between two attempts where none are named.
const EVERY: u64 = 1_000_000;

/// What `--modes` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModeSwitching {
    /// Whether the guest's program is one for which a guest segment pays.
    pub big_memory: bool,
    /// Instructions between two attempts at a segment; more after failures.
    pub every: u64,
}

impl FromStr for ModeSwitching {
    type Err = SimError;

    /// `big-memory` or `compute`, with `,every=INSTRUCTIONS` if wanted.
    fn from_str(text: &str) -> Result<Self, SimError> {
        let wrong = || {
            let forms = "big-memory or compute, if wanted with ,every=INSTRUCTIONS";
            SimError::Past(format!("--modes is {forms}, not \"{text}\""))
        };
        let (kind, rest) = text.split_once(',').unwrap_or((text, ""));
        let big_memory = match kind {
            "big-memory" => true,
            "compute" => false,
            _ => return Err(wrong()),
        };
        let every = match rest {
            "" => EVERY,
            _ => {
                let every = rest.strip_prefix("every=").and_then(|number| number.parse().ok());
                every.filter(|&every| every > 0).ok_or_else(wrong)?
            }
        };
        Ok(Self { big_memory, every })
    }
}

impl ModeSwitching {
    /// Whether a composition can have the segments: both sides for a big-memory program, else the
    /// host.
    pub(crate) fn suits(&self, composition: &Composition) -> bool {
        let host = composition.host.is_some_and(|host| host.has_segments());
        host && (!self.big_memory || composition.own.has_segments())
    }
}

/// The policy of D Table III at work on one virtual machine.
pub(crate) struct ModeSwitcher {
    policy: ModePolicy,
    every: u64,
    next: u64,
}

impl ModeSwitcher {
    /// The policy that was asked for, if the composition can have it.
    pub(crate) fn new(composition: &Composition, memory: &MemoryState) -> Option<Self> {
        let switching = memory.modes.filter(|switching| switching.suits(composition))?;
        let application =
            if switching.big_memory { Application::BigMemory } else { Application::Compute };
        let is_fragmented =
            |memory: &MemoryState| memory.fragmentation.is_some() || memory.past.ageing.is_some();
        let fragmented =
            Fragmented { guest: is_fragmented(memory), host: is_fragmented(&memory.host()) };
        let plan = ModePlan::new(application, fragmented);
        let policy = ModePolicy::new(plan, SegmentRule::default(), switching.every);
        Some(Self { policy, every: switching.every, next: 0 })
    }

    /// The instruction before which it looks again.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Looks whether a segment can be made, if it is time.
    ///
    /// # Errors
    /// A change that the oracle refuses.
    pub(crate) fn ring(&mut self, now: u64, system: &mut System) -> Result<(), SimError> {
        if now < self.next {
            return Ok(());
        }
        self.next = now.saturating_add(self.every);
        system.step_modes(&mut self.policy, now)
    }

    /// What happened, a line each.
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
    fn options_and_which_pairs_they_suit() {
        let big: ModeSwitching = "big-memory".parse().unwrap();
        assert_eq!(big, ModeSwitching { big_memory: true, every: EVERY });
        let compute: ModeSwitching = "compute,every=5000".parse().unwrap();
        assert_eq!(compute, ModeSwitching { big_memory: false, every: 5000 });
        for wrong in ["", "large", "compute,every=0", "compute,5000"] {
            let message = wrong.parse::<ModeSwitching>().unwrap_err().to_string();
            assert!(message.contains("--modes is big-memory or compute"), "{message}");
        }
        let suits = |switching: ModeSwitching, name: &str| {
            switching.suits(&Composition::find(name).unwrap())
        };
        assert!(suits(big, "segment+segment") && !suits(big, "4k+segment"));
        assert!(suits(compute, "4k+segment") && !suits(compute, "segment+4k"));
        assert!(!suits(compute, "segment"));
    }
}
