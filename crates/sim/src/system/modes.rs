//! Mode switches of a system with direct segments: creating segments while the program runs.

use std::mem;

use perforate_os::SelfBalloonConfig;

use super::System;
use crate::SimError;
use perforate_schemes::segment::{DirectSegments, ModePolicy, Side};

impl System {
    /// Lets the guest's balloon driver exchange scattered frames for whole 2MB blocks. The frames
    /// that it gives up go back to the host, unless the host's segment covers them. No effect in a
    /// native system.
    ///
    /// # Errors
    /// As [`Self::change_host`].
    pub(crate) fn self_balloon_blocks(
        &mut self,
        config: SelfBalloonConfig,
    ) -> Result<(), SimError> {
        let Some(hypervisor) = &self.hypervisor else { return Ok(()) };
        let has_segment = hypervisor.kernel().segment(hypervisor.space()).is_some();
        let mut given = Vec::new();
        self.change_in_background(|kernel| {
            given = kernel.self_balloon_blocks(config).unwrap_or_default();
            Ok(())
        })?;
        if given.is_empty() || has_segment {
            return Ok(());
        }
        self.change_host_in_background(|host| host.take_back(&given))
    }

    /// Makes one attempt to create segments of guest and host (D Table III). Memory that the
    /// balloon gave up goes back to the host, unless the host's segment covers it: the segment
    /// would end if a part were returned.
    ///
    /// # Errors
    /// As [`Self::change_host`].
    pub(crate) fn step_modes(
        &mut self,
        policy: &mut ModePolicy,
        instruction: u64,
    ) -> Result<(), SimError> {
        let hypervisor = self.hypervisor.as_mut().expect("the system is virtualized");
        let (space, virtual_machine) = (self.kernel.current(), hypervisor.space());
        let before = (self.kernel.work(), hypervisor.kernel().work());
        let mut guest = Side { kernel: &mut self.kernel, space };
        let kernel = hypervisor.kernel_mut();
        let mut host = Side { kernel, space: virtual_machine };
        let outcome = policy.step(instruction, &mut guest, &mut host);
        // Drivers and daemons do this work on other processors.
        let work = self.kernel.work() - before.0;
        let host_work = hypervisor.kernel().work() - before.1;
        let has_segment = hypervisor.kernel().segment(virtual_machine).is_some();
        let host_updates = mem::take(hypervisor.kernel_mut().updates());
        self.background += self.apart_from_sent(work);
        self.host.background += self.apart_from_sent(host_work);
        self.in_background(|system| -> Result<(), SimError> {
            system.updates = mem::take(system.kernel.updates());
            system.publish()?;
            system.send_shootdowns(before.0, false);
            system.updates = host_updates;
            system.publish_host()?;
            system.send_shootdowns(before.1, true);
            Ok(())
        })?;
        let given = outcome.map_err(|source| SimError::Os {
            scheme: self.scheme.clone(),
            instruction: self.instruction,
            source,
        })?;
        if given.is_empty() || has_segment {
            return Ok(());
        }
        self.change_host_in_background(|host| host.take_back(&given))
    }
}

#[cfg(test)]
mod tests {
    use perforate_os::Work;

    use super::*;
    use crate::{Composition, Machine, MemoryOptions, SystemOptions};

    /// In aged memory, few free frames are in whole blocks. The balloon exchanges others for blocks of added
    /// memory, in the background, and they go back to the host, if no segment of the host has them.
    #[test]
    fn frames_that_the_balloon_gives_up_go_back_to_the_host() {
        let options = [
            ("memory", "256M"),
            ("age", "weeks,free=25%,unusable=90%"),
            ("hot-add", "64M"),
            ("self-balloon", "every=1M"),
            ("host-memory", "1G"),
            ("host-segment", "min=64M"),
        ];
        let options = MemoryOptions::read(options.into_iter().collect()).unwrap();
        let memory = options.resolve(&crate::MemorySnapshot::load).unwrap();
        for (scheme, is_returned) in [("4k+4k", true), ("4k+segment", false), ("4k", false)] {
            let machine = Machine::load(Machine::DEFAULT).unwrap();
            let options = SystemOptions { check: true, implicit_maps: false, counts_only: true };
            let composition = Composition::find(scheme).unwrap();
            let mut system = System::new(&machine, composition, &memory, 1, options).unwrap();
            let is_virtual = system.hypervisor().is_some();
            if is_virtual {
                system.change_host(|host| host.back(0..(256 << 20) / 4096)).unwrap();
            }
            system.start_measuring();
            let blocks = |system: &System| {
                system.kernel().free_memory().blocks[9..]
                    .iter()
                    .zip(0..)
                    .fold(0, |sum, (count, order)| sum + (count << order))
            };
            let before = blocks(&system);
            system.self_balloon_blocks(SelfBalloonConfig::default()).unwrap();
            let made = blocks(&system) - before;
            let measured = system.measured_work();
            assert_eq!(measured.background, measured.work.apart_from_shootdowns(), "{scheme}");
            let Some(host) = measured.host else {
                assert_eq!((made, measured.work), (0, Work::default()), "{scheme}");
                continue;
            };
            assert!(before < 16 && before + made == 16, "{scheme}: {before} and {made} more");
            let returned = if is_returned { made * 512 } else { 0 };
            assert_eq!(host.work.pages_unmapped, returned, "{scheme}");
            assert_eq!(host.background, host.work.apart_from_shootdowns(), "{scheme}");
        }
    }
}
