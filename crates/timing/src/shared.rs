//! What all hardware threads of a machine have in common.

use crate::agenda::{Agenda, Thread, Waiters};
use crate::config::TimingConfig;
use crate::hierarchy::Hierarchy;

/// Time, those who wait for something, caches and memory. Whoever is at work has it
/// ([`Core`](crate::Core)); it knows which thread that is.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) agenda: Agenda,
    pub(crate) waiters: Waiters,
    pub(crate) memory: Hierarchy,
}

impl Shared {
    /// Of a machine with so many cores, at rest.
    pub(crate) fn new(config: &TimingConfig, cores: usize) -> Self {
        Self {
            agenda: Agenda::default(),
            waiters: Waiters::default(),
            memory: Hierarchy::new(config, cores),
        }
    }

    /// What a thread has that is not at work. It knows latencies, and holds nothing.
    pub(crate) fn without_caches(&self) -> Self {
        Self {
            agenda: Agenda::default(),
            waiters: Waiters::default(),
            memory: self.memory.without_lines(),
        }
    }

    /// This thread is at work from now on.
    #[inline]
    pub(crate) fn turn_to(&mut self, thread: Thread) {
        (self.agenda.thread, self.waiters.thread) = (thread, thread);
    }
}
