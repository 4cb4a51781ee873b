//! Shootdowns that reach other hardware threads: who sends them, and who is interrupted.

use perforate_os::Work;
use perforate_timing::Topology;
use perforate_types::{ProgramEvent, SpaceId, Update};

use super::System;
use crate::hardware_threads::Placement;
use crate::{ProcessorOptions, SimError};

/// Shootdowns of one operation that go to other hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The hardware thread that waits for the answers; none where a kernel thread on a processor of its
    /// own does.
    pub(crate) sender: Option<usize>,
    /// Those that are interrupted, a bit each.
    pub(crate) targets: u64,
    /// How often: all of one step of the operation go out together.
    pub(crate) batches: u64,
    /// TLB entries that each invalidates, and address spaces that it flushes, all batches together.
    pub(crate) entries: u64,
    pub(crate) flushes: u64,
    /// Of the host, for which virtual processors leave the guest.
    pub(crate) is_of_host: bool,
}

/// The hardware threads of a system, and what they do to each other.
#[derive(Default)]
pub(super) struct Hardware {
    /// None where there is but one.
    placement: Option<Placement>,
    /// The one at work.
    thread: usize,
    /// Whose translations the operation under way takes away.
    spaces: Vec<SpaceId>,
    /// A kernel thread is at work.
    pub(super) is_background: bool,
    sent: Vec<Sent>,
    /// Interrupts since measuring started.
    pub(super) interrupts: u64,
}

impl Hardware {
    /// Notes whose translations an update takes away.
    #[inline]
    pub(super) fn hear(&mut self, update: &Update) {
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
    /// Programs run on these hardware threads. To be said before anything runs.
    ///
    /// # Errors
    /// [`SimError::Config`] if there are too many.
    pub fn set_processors(&mut self, options: &ProcessorOptions) -> Result<(), SimError> {
        options.check()?;
        if options.are_several() {
            let topology = options.topology();
            self.mmu.set_cores(topology.cores);
            self.hardware.placement = Some(Placement::new(topology));
        }
        Ok(())
    }

    /// Another hardware thread is at work if an event says that another thread of the programs runs.
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

    /// The hardware threads, where there are several.
    pub(crate) fn topology(&self) -> Option<Topology> {
        self.hardware.placement.as_ref().map(Placement::topology)
    }

    /// The hardware thread at work.
    pub(crate) fn hardware_thread(&self) -> usize {
        self.hardware.thread
    }

    /// An operation is over, before which this had been done: its shootdowns go out to whoever runs
    /// what they are of. A processor that runs something else forgets when it comes back to it.
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
        let runs_it = |thread: usize| {
            let running = self.kernel.running(thread);
            running.is_some_and(|space| is_of_host || spaces.contains(&space))
        };
        let others = (0..placement.topology().threads()).filter(|&thread| Some(thread) != sender);
        let targets = others.filter(|&thread| runs_it(thread)).fold(0_u64, |set, it| set | 1 << it);
        if targets == 0 {
            return;
        }
        let batches = work.shootdown_batches;
        self.hardware.interrupts += batches * u64::from(targets.count_ones());
        let (entries, flushes) = (work.entries_invalidated, work.spaces_flushed);
        self.hardware.sent.push(Sent { sender, targets, batches, entries, flushes, is_of_host });
    }

    /// Whether anything was sent to other hardware threads since this was last taken.
    #[inline]
    pub(crate) fn has_sent_shootdowns(&self) -> bool {
        !self.hardware.sent.is_empty()
    }

    /// What was sent to other hardware threads since this was last taken.
    pub(crate) fn take_shootdowns(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.hardware.sent)
    }

    /// Interrupts of hardware threads for shootdowns since measuring started; none where there is but
    /// one thread.
    pub(crate) fn shootdown_interrupts(&self) -> Option<u64> {
        self.hardware.are_several().then_some(self.hardware.interrupts)
    }
}
