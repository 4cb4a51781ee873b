//! Parts that all hardware threads of a machine share.

use crate::agenda::Agenda;
use crate::config::TimingConfig;
use crate::hierarchy::Hierarchy;
use crate::shortcuts::Shortcuts;

/// Agenda, caches and memory. The thread at work ([`Core`](crate::Core)) has them.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) agenda: Agenda,
    pub(crate) memory: Hierarchy,
}

impl Shared {
    /// Shared parts of so many cores, each with so many threads, at rest.
    pub(crate) fn new(
        config: &TimingConfig,
        (cores, threads): (usize, usize),
        shortcuts: Shortcuts,
    ) -> Self {
        let memory = Hierarchy::new(config, (cores, threads), shortcuts);
        Self { agenda: Agenda::default(), memory }
    }

    /// Stand-in for threads that are not at work.
    pub(crate) fn without_caches(&self) -> Self {
        Self { agenda: Agenda::default(), memory: self.memory.without_lines() }
    }
}
