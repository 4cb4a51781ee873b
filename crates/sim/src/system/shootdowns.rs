//! Shootdowns that interrupt other hardware threads.

use perforate_os::Work;
use perforate_timing::Topology;
use perforate_types::{ProgramEvent, SpaceId, Update};

use super::System;
use crate::hardware_threads::Placement;
use crate::{ProcessorOptions, SimError};

/// Shootdowns of one operation, sent to other hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentShootdowns {
    /// Hardware thread that waits for the answers. `None` if a kernel thread waits, which has a
    /// separate processor.
    pub(crate) sender: Option<usize>,
    /// Bit set of the interrupted hardware threads.
    pub(crate) targets: u64,
    /// Number of interrupts per target. All shootdowns of one step of the operation form a batch,
    /// with one interrupt.
    pub(crate) batches: u64,
    /// Number of TLB entries that each target invalidates, and of address spaces that it flushes,
    /// in all batches together.
    pub(crate) entries: u64,
    pub(crate) flushes: u64,
    /// True for shootdowns of the host's kernel, which cause exits of virtual processors.
    pub(crate) is_of_host: bool,
}

/// Hardware threads of a system, and pending shootdowns between them.
#[derive(Default)]
pub(super) struct Hardware {
    /// Placement of program threads; `None` with a single hardware thread.
    placement: Option<Placement>,
    /// Number of the hardware thread that runs now, from 0.
    thread: usize,
    /// Address spaces from which the current operation removes translations.
    spaces: Vec<SpaceId>,
    /// True while a kernel thread runs.
    pub(super) is_background: bool,
    sent: Vec<SentShootdowns>,
    /// Number of interrupts for shootdowns since measuring started.
    pub(super) interrupts: u64,
}

impl Hardware {
    /// Records the address space of the shootdown in `update`, if it is one.
    #[inline]
    pub(super) fn note_shootdown(&mut self, update: &Update) {
        if self.placement.is_some()
            && let Update::Shootdown(shootdown) = update
            && !self.spaces.contains(&shootdown.space())
        {
            self.spaces.push(shootdown.space());
        }
    }

    pub(super) fn are_several(&self) -> bool {
        self.placement.is_some()
    }
}

impl System {
    /// Runs the programs on several hardware threads. Call before the first instruction runs.
    ///
    /// # Errors
    /// [`SimError::Config`] for more than 64 hardware threads.
    pub fn set_processors(&mut self, options: &ProcessorOptions) -> Result<(), SimError> {
        options.check()?;
        if options.are_several() {
            let topology = options.topology();
            self.mmu.set_cores(topology.cores);
            self.hardware.placement = Some(Placement::new(topology));
        }
        Ok(())
    }

    /// Changes the current hardware thread if an event switches to a program thread on another one.
    pub(super) fn turn_to_thread(&mut self, event: &ProgramEvent) {
        let Some(placement) = &mut self.hardware.placement else { return };
        let each = placement.topology().threads_per_core;
        if let Some(thread) = placement.after(event) {
            self.hardware.thread = thread;
            self.kernel.run_on(thread);
            self.mmu.run_on(thread / each);
            self.mmu.resume(self.kernel.current());
        }
    }

    /// Returns the topology of hardware threads; `None` with a single one.
    pub(crate) fn topology(&self) -> Option<Topology> {
        self.hardware.placement.as_ref().map(Placement::topology)
    }

    /// Returns the number of the current hardware thread, from 0.
    pub(crate) fn hardware_thread(&self) -> usize {
        self.hardware.thread
    }

    /// Sends the shootdowns of a finished operation. `before` is the work counted before it. Only
    /// hardware threads that run an affected address space are interrupted. Others would flush when they switch back
    /// to that space; here they lose its entries at once, which takes them no time.
    pub(super) fn send_shootdowns(&mut self, before: Work, is_of_host: bool) {
        let spaces = std::mem::take(&mut self.hardware.spaces);
        let Some(placement) = &self.hardware.placement else { return };
        let kernel = match &self.hypervisor {
            Some(host) if is_of_host => host.kernel(),
            _ => &self.kernel,
        };
        let work = kernel.work() - before;
        if work.shootdown_batches == 0 {
            return;
        }
        let sender = (!self.hardware.is_background).then_some(self.hardware.thread);
        let is_affected = |thread: usize| {
            let running = self.kernel.running(thread);
            running.is_some_and(|space| is_of_host || spaces.contains(&space))
        };
        let others = (0..placement.topology().threads()).filter(|&thread| Some(thread) != sender);
        let targets =
            others.filter(|&thread| is_affected(thread)).fold(0_u64, |set, it| set | 1 << it);
        if targets == 0 {
            return;
        }
        let batches = work.shootdown_batches;
        self.hardware.interrupts += batches * u64::from(targets.count_ones());
        let (entries, flushes) = (work.entries_invalidated, work.spaces_flushed);
        self.hardware.sent.push(SentShootdowns {
            sender,
            targets,
            batches,
            entries,
            flushes,
            is_of_host,
        });
    }

    /// True if [`Self::take_shootdowns`] has shootdowns to return.
    #[inline]
    pub(crate) fn has_sent_shootdowns(&self) -> bool {
        !self.hardware.sent.is_empty()
    }

    /// Returns the shootdowns sent since the last call.
    pub(crate) fn take_shootdowns(&mut self) -> Vec<SentShootdowns> {
        std::mem::take(&mut self.hardware.sent)
    }

    /// Returns the number of interrupts of hardware threads for shootdowns since measuring started;
    /// `None` with a single hardware thread.
    pub(crate) fn shootdown_interrupts(&self) -> Option<u64> {
        self.hardware.are_several().then_some(self.hardware.interrupts)
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Shootdown, VirtualPage};

    use super::*;

    /// One operation may take translations from several address spaces, as the merging of equal pages does.
    #[test]
    fn each_address_space_of_an_operation_is_noted_once() {
        let topology = Topology { cores: 2, threads_per_core: 1, lead: 0 };
        let mut hardware =
            Hardware { placement: Some(Placement::new(topology)), ..Hardware::default() };
        let flush = |space| {
            Update::Shootdown(Shootdown::Page { space: SpaceId(space), page: VirtualPage::new(7) })
        };
        for space in [3, 1, 3, 2] {
            hardware.note_shootdown(&flush(space));
        }
        assert_eq!(hardware.spaces, [3, 1, 2].map(SpaceId));
        let mut alone = Hardware::default();
        alone.note_shootdown(&flush(3));
        assert_eq!(alone.spaces, []);
    }
}
